//! Synapse expressions, `${...}`, as in WSO2 Micro Integrator 4.4.
//!
//! Two of its quirks are kept: `and` and `or` bind tighter than comparisons, have one precedence and are
//! right-associative, so that `a > 1 and b < 2` needs parentheses; and every failure evaluates to the empty string.

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation accepts one or two kinds of value and rejects all others alike"
)]
mod evaluate;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation accepts one or two kinds of value and rejects all others alike"
)]
mod functions;
mod parse;

use std::fmt;
use std::sync::Arc;

use xpath::Budget;
use xpath::synapse::SynapseXPath;

use crate::context::{BodyUse, EvalContext, ParameterKind, PropertyScope};
use crate::cursor::{Compiled, Cursor, Operator};
use crate::error::Error;
use crate::jsonpath::Path;
use crate::value::Value;

/// A compiled expression.
#[derive(Clone)]
pub struct SynapseExpression {
    source: Box<str>,
    node: Node,
    body: BodyUse,
}

#[derive(Clone)]
enum Node {
    Literal(Value<'static>),
    Array(Vec<Self>),
    Access(Box<Access>),
    Call(functions::Function, Vec<Self>),
    Xpath(Box<Xpath>),
    Binary(Box<Self>, Operator, Box<Self>),
    Choice(Box<(Self, Self, Self)>),
}

/// `xpath(path)`, or `xpath(path, variable)`.
#[derive(Clone)]
struct Xpath {
    path: XpathSource,
    variable: Option<Node>,
}

#[derive(Clone)]
enum XpathSource {
    /// A literal, compiled at load.
    Compiled(Arc<SynapseXPath>),
    /// Compiled by each evaluation, with the namespaces in scope.
    Computed(Node, Box<[(String, String)]>),
}

/// A root, the path after it, and the expressions inside the path.
#[derive(Clone)]
struct Access {
    root: Root,
    path: Path,
    slots: Vec<Node>,
}

#[derive(Clone)]
enum Root {
    Payload,
    Variable(Box<str>),
    Header(Box<str>),
    Property(PropertyScope, Box<str>),
    Parameter(ParameterKind, Box<str>),
    Config(Box<str>),
    /// The result of a function.
    Result(Node),
}

impl SynapseExpression {
    /// Compiles `source`, with or without the surrounding `${` and `}`.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the position.
    pub fn compile(source: &str) -> Result<Self, Error> {
        Ok(Self::parse(source, &[])?)
    }

    /// Whether it is `xpath('...')`, and nothing else.
    pub(crate) fn is_xpath(&self) -> bool {
        let Node::Xpath(xpath) = &self.node else { return false };
        matches!(xpath.path, XpathSource::Compiled(_))
    }

    /// The nodes that it selects, if it is `xpath('...')` and that selects nodes.
    pub(crate) fn nodes<'c>(
        &'c self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Option<xpath::NodeSet<'c>>, Error> {
        evaluate::nodes(&self.node, context, budget)
    }

    /// Compiles `source`, and the XPaths in it with the (prefix, URI) pairs in scope.
    pub(crate) fn parse(source: &str, namespaces: &[(String, String)]) -> Compiled<Self> {
        let mut cursor = Cursor::new(source)?;
        cursor.space();
        let wrapped = cursor.eat("${");
        let expression = Self::at(&mut cursor, namespaces)?;
        if wrapped {
            cursor.expect("}")?;
        }
        cursor.end()?;
        Ok(Self { source: source.into(), ..expression })
    }

    /// Compiles the expression at the cursor up to the first character that is not part of it.
    pub(crate) fn at(cursor: &mut Cursor<'_>, namespaces: &[(String, String)]) -> Compiled<Self> {
        let start = cursor.at;
        let (node, body) = parse::expression(cursor, namespaces)?;
        let source = cursor.source().get(start..cursor.at).unwrap_or_default();
        Ok(Self { source: source.into(), node, body })
    }

    /// Body use of the expression.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        self.body
    }

    /// Evaluates the expression with [`Budget::default`].
    ///
    /// # Errors
    /// [`Error::Budget`].
    pub fn evaluate<'c>(&'c self, context: &'c dyn EvalContext) -> Result<Value<'c>, Error> {
        self.evaluate_within(context, &Budget::default())
    }

    /// Evaluates the expression within the host's budget.
    ///
    /// # Errors
    /// As [`SynapseExpression::evaluate`].
    pub fn evaluate_within<'c>(
        &'c self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Value<'c>, Error> {
        match evaluate::node(&self.node, context, budget) {
            Ok(value) => Ok(value),
            Err(Error::Budget(exceeded)) => Err(exceeded.into()),
            Err(_) => Ok(Value::Text("".into())),
        }
    }
}

impl fmt::Display for SynapseExpression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}

impl fmt::Debug for SynapseExpression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}
