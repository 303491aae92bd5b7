//! Disables one feature of the recommendations at a time, to find the test cases that cover it:
//! docs/conformance.md.
//!
//! The engines call [`is_out`] with the name of each feature that they meet. A disabled feature has no effect:
//! a step selects no node, and an operator or a function returns the empty node-set. So a case fails only if it
//! depends on the feature.
//!
//! Architecture invariant: without the Cargo feature `knock-out`, which only tests enable, `is_out` is constant, and
//! none of this module is compiled in.

use crate::axis::Axis;
use crate::lexer::Operator;
use crate::plan::{Expr, Path, PathStart, Segment, Step, Test};

#[cfg(feature = "knock-out")]
pub use disabled::{is_out, without};

/// Whether the feature is disabled. The name is passed in parts.
#[cfg(not(feature = "knock-out"))]
#[inline(always)]
pub(crate) const fn is_out(_: &[&str]) -> bool {
    false
}

#[cfg(feature = "knock-out")]
mod disabled {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    struct Disabled {
        feature: String,
        met: BTreeSet<String>,
    }

    thread_local! {
        static DISABLED: RefCell<Option<Disabled>> = const { RefCell::new(None) };
    }

    /// Whether the feature is disabled on this thread. The name is passed in parts.
    #[must_use]
    pub fn is_out(name: &[&str]) -> bool {
        DISABLED.with_borrow_mut(|disabled| {
            let Some(disabled) = disabled else { return false };
            let name = name.concat();
            let out = name == disabled.feature;
            disabled.met.insert(name);
            out
        })
    }

    /// The result of `work` with the feature disabled, and the names of all features that it met.
    pub fn without<T>(feature: &str, work: impl FnOnce() -> T) -> (T, BTreeSet<String>) {
        let disabled = Disabled { feature: feature.to_owned(), met: BTreeSet::new() };
        DISABLED.set(Some(disabled));
        let result = work();
        (result, DISABLED.take().map(|disabled| disabled.met).unwrap_or_default())
    }
}

/// An expression whose value is the empty node-set.
pub(crate) fn empty_node_set() -> Expr {
    let step = Step { axis: Axis::SelfNode, test: no_node(), predicates: Vec::new() };
    Expr::Path(Box::new(Path { start: PathStart::Context, segments: vec![Segment::Step(step)] }))
}

/// A test that no node passes: no name has this namespace.
pub(crate) fn no_node() -> Test {
    Test::Namespace("\0".into())
}

impl Expr {
    pub(crate) fn unless_out(self, feature: &[&str]) -> Self {
        if is_out(feature) { empty_node_set() } else { self }
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
    pub(crate) const fn symbol(self) -> &'static str {
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
