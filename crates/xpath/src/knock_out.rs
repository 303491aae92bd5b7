//! Taking one feature of the recommendations out, to see which cases notice: docs/conformance.md.
//!
//! Wherever an engine recognises something it asks [`is_out`] by the name that the inventories of the cases
//! have. What was taken out makes nothing: a step selects no node, and an operator or a function answers the
//! empty node-set, so that a case notices only if it depends on what the feature does.
//!
//! Architecture invariant: without the cargo feature `knock-out`, which only tests have, the answer is a
//! constant, and nothing of this is in the program.

use crate::axis::Axis;
use crate::lexer::Operator;
use crate::plan::{Expr, Path, Segment, Start, Step, Test};

#[cfg(feature = "knock-out")]
pub use taking::{is_out, without};

/// Whether the feature of that name, which is given in parts, was taken out.
#[cfg(not(feature = "knock-out"))]
#[inline(always)]
pub(crate) const fn is_out(_: &[&str]) -> bool {
    false
}

#[cfg(feature = "knock-out")]
mod taking {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    struct Taken {
        feature: String,
        asked: BTreeSet<String>,
    }

    thread_local! {
        static TAKEN: RefCell<Option<Taken>> = const { RefCell::new(None) };
    }

    /// Whether the feature of that name, which is given in parts, was taken out on this thread.
    #[must_use]
    pub fn is_out(name: &[&str]) -> bool {
        TAKEN.with_borrow_mut(|taken| {
            let Some(taken) = taken else { return false };
            let name = name.concat();
            let out = name == taken.feature;
            taken.asked.insert(name);
            out
        })
    }

    /// What `work` answers without the feature, and the names of all features that were asked for.
    pub fn without<T>(feature: &str, work: impl FnOnce() -> T) -> (T, BTreeSet<String>) {
        let taken = Taken { feature: feature.to_owned(), asked: BTreeSet::new() };
        TAKEN.set(Some(taken));
        let answer = work();
        (answer, TAKEN.take().map(|taken| taken.asked).unwrap_or_default())
    }
}

/// Selects nothing, and is an empty string, NaN and false.
pub(crate) fn nothing() -> Expr {
    let step = Step { axis: Axis::Itself, test: no_node(), predicates: Vec::new() };
    Expr::Path(Box::new(Path { start: Start::Context, segments: vec![Segment::Step(step)] }))
}

/// No name can have this namespace.
pub(crate) fn no_node() -> Test {
    Test::Namespace("\0".into())
}

impl Expr {
    pub(crate) fn unless_out(self, feature: &[&str]) -> Self {
        if is_out(feature) { nothing() } else { self }
    }
}

impl Step {
    pub(crate) fn unless_out(self, feature: &[&str]) -> Self {
        if is_out(feature) { Self { test: no_node(), ..self } } else { self }
    }
}

impl Test {
    pub(crate) fn unless_out(self) -> Self {
        let name = match &self {
            Self::Node => "node()",
            Self::Principal => "*",
            Self::Namespace(_) => "p:*",
            Self::Name(_) => "name",
            Self::Text => "text()",
            Self::Comment => "comment()",
            Self::Instruction(None) => "processing-instruction()",
            Self::Instruction(Some(_)) => "processing-instruction('target')",
        };
        if is_out(&["node test ", name]) { no_node() } else { self }
    }
}

impl Operator {
    pub(crate) const fn spelled(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Mod => "mod",
            Self::Div => "div",
            Self::Multiply => "*",
            Self::Slash => "/",
            Self::DoubleSlash => "//",
            Self::Union => "|",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}
