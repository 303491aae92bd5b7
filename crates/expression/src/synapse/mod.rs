//! Synapse expressions, `${...}`, as WSO2's Micro Integrator 4.4 has them.
//!
//! Two quirks of its grammar are kept by [`Mode::Compatible`]: `and` and `or` bind tighter than comparisons, are
//! one precedence and group to the right, so that `a > 1 and b < 2` needs parentheses; and whatever goes wrong in
//! an evaluation makes the answer the empty string. [`Mode::Strict`] has neither.

mod dates;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation takes one or two kinds of value and refuses all others alike"
)]
mod evaluate;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation takes one or two kinds of value and refuses all others alike"
)]
mod functions;
mod parse;

use std::fmt;

use crate::budget::Budget;
use crate::cursor::{Compiled, Cursor};
use crate::jsonpath::Path;
use crate::scope::{BodyUse, ParameterKind, PropertyScope, Scope};
use crate::{CompileError, EvalError, Value};

/// How faithful to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// As Micro Integrator does it.
    #[default]
    Compatible,
    /// Comparison binds tighter than `and`, which binds tighter than `or`; failures are errors.
    Strict,
}

/// A compiled expression.
#[derive(Clone)]
pub struct SynapseExpression {
    source: Box<str>,
    node: Node,
    mode: Mode,
    body: BodyUse,
}

#[derive(Clone)]
enum Node {
    Literal(Value<'static>),
    Array(Vec<Self>),
    Access(Box<Access>),
    Call(functions::Function, Vec<Self>),
    Binary(Box<Self>, Operator, Box<Self>),
    Choice(Box<(Self, Self, Self)>),
}

/// A root, the path after it, and the expressions inside that path.
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
    /// The answer of a function.
    Answer(Node),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

impl SynapseExpression {
    /// Compiles `source`, with or without the `${` and `}` around it.
    ///
    /// # Errors
    /// What the grammar doesn't allow, with its place.
    pub fn compile(source: &str, mode: Mode) -> Result<Self, CompileError> {
        let mut cursor = Cursor::new(source)?;
        cursor.space();
        let wrapped = cursor.eat("${");
        let expression = Self::at(&mut cursor, mode)?;
        if wrapped {
            cursor.expect("}")?;
        }
        cursor.end()?;
        Ok(Self { source: source.into(), ..expression })
    }

    /// The expression at the cursor, as far as it goes.
    pub(crate) fn at(cursor: &mut Cursor<'_>, mode: Mode) -> Compiled<Self> {
        let start = cursor.at;
        let (node, body) = parse::expression(cursor, mode)?;
        let source = cursor.source().get(start..cursor.at).unwrap_or_default();
        Ok(Self { source: source.into(), node, mode, body })
    }

    /// What it needs of the body.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        self.body
    }

    /// Evaluates the expression.
    ///
    /// # Errors
    /// [`EvalError::Limit`] past `EXPRESSION_VISITS_MAX` or `MADE_BYTES_MAX`; [`Mode::Strict`]: any failure.
    pub fn evaluate<'s>(&'s self, scope: &'s dyn Scope) -> Result<Value<'s>, EvalError> {
        match (evaluate::node(&self.node, scope, &Budget::new()), self.mode) {
            (Ok(value), _) => Ok(value),
            (Err(EvalError::Limit(what)), _) => Err(EvalError::Limit(what)),
            (Err(_), Mode::Compatible) => Ok(Value::Text("".into())),
            (Err(error), Mode::Strict) => Err(error),
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
