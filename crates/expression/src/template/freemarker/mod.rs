//! The FreeMarker subset of payload templates: interpolations, `if`, `list`, `assign`, comments, `noparse`, and the
//! built-ins in use. What is outside of it is refused at load, with its place.
//!
//! Where we differ: numbers print as `?c` prints them whatever the locale, booleans print as `true` and `false`,
//! arrays and objects print as JSON. Nothing is escaped by itself, as in FreeMarker: use `?json_string`, `?xml`.

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation takes one or two kinds of value and refuses all others alike"
)]
mod built_ins;
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "an operation takes one or two kinds of value and refuses all others alike"
)]
mod evaluate;
mod lines;
mod parse;

use crate::limits;

use crate::{BodyUse, CompileError, EvalError, Expression, Scope};

/// A compiled template with its arguments.
#[derive(Clone, Debug)]
pub struct FreeMarker {
    source: Box<str>,
    nodes: Vec<Node>,
    arguments: Vec<Expression>,
    reads_body: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Text(Box<str>),
    Print(Expr),
    If(Vec<(Option<Expr>, Vec<Self>)>),
    List(Box<List>),
    /// The part of a list's body that the last turn leaves out.
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

/// An expression and where it begins.
#[derive(Clone, Debug)]
struct Expr {
    at: usize,
    kind: Box<Kind>,
}

#[derive(Clone, Debug)]
enum Kind {
    Literal(crate::Value<'static>),
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
    /// `x?index` and its like, of the loop variable `x`.
    Turn(Box<str>, Turn),
    Default(Expr, Option<Expr>),
    Exists(Expr),
    /// In parentheses, `!` and `??` forgive what is missing on the way, too.
    Group(Expr),
    Not(Expr),
    Negative(Expr),
    Binary(Expr, Operator, Expr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Index,
    Counter,
    HasNext,
    IsFirst,
    IsLast,
    IsOdd,
    IsEven,
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

impl FreeMarker {
    /// Compiles `source`; `arguments` are `args.arg1`, `args.arg2` and so on.
    ///
    /// # Errors
    /// Whatever the subset doesn't know, with its place.
    pub fn compile(source: &str, arguments: Vec<Expression>) -> Result<Self, CompileError> {
        let most = limits::PAYLOAD_TEMPLATE_BYTES_MAX;
        if source.len() > most {
            return Err(CompileError::new(source, most, format!("longer than {most} bytes")));
        }
        let (nodes, names_body) = parse::template(source)?;
        let reads = |argument: &Expression| argument.body_use() > BodyUse::Untouched;
        let reads_body = names_body || arguments.iter().any(reads);
        Ok(Self { source: source.into(), nodes, arguments, reads_body })
    }

    /// What filling it reads of the body.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        if self.reads_body { BodyUse::Read } else { BodyUse::Untouched }
    }

    /// Appends what the template makes of `scope`.
    ///
    /// # Errors
    /// [`EvalError::Template`] with line and column; [`EvalError::Limit`] past `TEMPLATE_INSTRUCTIONS_MAX` or
    /// `MADE_BYTES_MAX`.
    pub fn render(&self, scope: &dyn Scope, into: &mut Vec<u8>) -> Result<(), EvalError> {
        evaluate::run(self, scope, into)
    }
}
