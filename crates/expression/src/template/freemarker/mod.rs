//! A subset of FreeMarker for payload templates: interpolations, `if`, `list`, `assign`, comments, `noparse`, and
//! common built-ins. Everything else is rejected at load with its position.
//!
//! A payload that is XML is read as [`nodes`], any other as JSON.
//!
//! Differences: numbers print as by `?c`, booleans as `true` and `false`, arrays and objects as JSON. As in FreeMarker
//! nothing is escaped automatically: use `?json_string` and `?xml`.

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation accepts one or two kinds of value and rejects all others alike"
)]
mod built_ins;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation accepts one or two kinds of value and rejects all others alike"
)]
mod evaluate;
mod nodes;
mod parse;
mod whitespace;

use xpath::Budget;

use crate::context::{BodyUse, EvalContext};
use crate::cursor::Operator;
use crate::error::{Error, SyntaxError};
use crate::expression::Expression;
use crate::limits;

/// A compiled template with its arguments.
#[derive(Clone, Debug)]
pub struct FreeMarker {
    source: Box<str>,
    nodes: Vec<Node>,
    arguments: Vec<Expression>,
    namespaces: Vec<(Box<str>, Box<str>)>,
    reads_body: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Text(Box<str>),
    Print(Expr),
    If(Vec<(Option<Expr>, Vec<Self>)>),
    List(Box<List>),
    /// A part of a list's body that the last iteration leaves out.
    Separator(Vec<Self>),
    Assign(Box<str>, Expr),
    /// `<#assign x>...</#assign>`
    Capture(Box<str>, Vec<Self>),
}

#[derive(Clone, Debug)]
struct List {
    over: Expr,
    name: Box<str>,
    /// `<#list hash as key, value>`
    value: Option<Box<str>>,
    body: Vec<Node>,
    otherwise: Vec<Node>,
}

/// An expression and its offset in the source.
#[derive(Clone, Debug)]
struct Expr {
    at: usize,
    kind: Box<Kind>,
}

#[derive(Clone, Debug)]
enum Kind {
    Literal(crate::value::Value<'static>),
    Sequence(Vec<Expr>),
    Hash(Vec<(Expr, Expr)>),
    Range {
        from: Expr,
        to: Expr,
        exclusive: bool,
    },
    Name(Box<str>),
    Member(Expr, Box<str>),
    Index(Expr, Expr),
    Slice(Expr, Expr, Option<Expr>),
    BuiltIn(Expr, built_ins::BuiltIn, Vec<Expr>),
    /// `x?filter(name -> body)` and `x?map(name -> body)`.
    Each {
        of: Expr,
        is_filter: bool,
        name: Box<str>,
        body: Expr,
    },
    /// `x?index` and the like, of the loop variable `x`.
    Loop(Box<str>, LoopProperty),
    Default(Expr, Option<Expr>),
    Exists(Expr),
    /// In parentheses, `!` and `??` also accept missing values before the last step.
    Group(Expr),
    Not(Expr),
    Negative(Expr),
    Binary(Expr, Operator, Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopProperty {
    Index,
    Counter,
    HasNext,
    IsFirst,
    IsLast,
    IsOdd,
    IsEven,
}

impl FreeMarker {
    /// Compiles `source`; `arguments` are `args.arg1`, `args.arg2` and so on.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the position, for all syntax outside the subset.
    pub fn compile(source: &str, arguments: Vec<Expression>) -> Result<Self, Error> {
        let most = limits::PAYLOAD_TEMPLATE_BYTES_MAX;
        if source.len() > most {
            let message = format!("template longer than {most} bytes");
            return Err(SyntaxError::new(source, most, message).into());
        }
        let parse::Parsed { nodes, namespaces, names_body } = parse::template(source)?;
        let reads = |argument: &Expression| argument.body_use() > BodyUse::Untouched;
        let reads_body = names_body || arguments.iter().any(reads);
        Ok(Self { source: source.into(), nodes, arguments, namespaces, reads_body })
    }

    /// Body use of rendering.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        if self.reads_body { BodyUse::Read } else { BodyUse::Untouched }
    }

    /// Appends the rendered text to `into`, within [`Budget::default`].
    ///
    /// # Errors
    /// [`Error::Template`] with line and column, or [`Error::Budget`].
    pub fn render(&self, context: &dyn EvalContext, into: &mut Vec<u8>) -> Result<(), Error> {
        self.render_within(context, &Budget::default(), into)
    }

    /// Renders within the host's budget.
    ///
    /// # Errors
    /// As [`FreeMarker::render`].
    pub fn render_within(
        &self,
        context: &dyn EvalContext,
        budget: &Budget,
        into: &mut Vec<u8>,
    ) -> Result<(), Error> {
        evaluate::run(self, context, budget, into)
    }
}
