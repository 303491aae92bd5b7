//! Conditions that the beginning of a document can decide, so that the rest need not be parsed.
//!
//! A document of which only the beginning was parsed has all elements that began there, with all their attributes, and
//! no text that is cut. But elements that are still open will have more children and a longer string value. Until then,
//! each of their string values ends with a character that XML forbids (`xml::DocumentFeed::cut`), so that it equals no
//! text and does not convert to a number.

use crate::functions::Core;
use crate::plan::{Comparison, Expr, Path, PathStart, Predicate, Segment, Test};

/// The last character in the string value of an open element.
const CUT: char = '\0';

impl Expr {
    /// Whether the expression holds for a document if it holds for its beginning.
    pub(crate) fn is_steady(&self) -> bool {
        match self {
            Self::Or(all) | Self::And(all) | Self::Union(all) => all.iter().all(Self::is_steady),
            Self::Path(path) => path.is_steady() && path.finds_no_text(),
            Self::Compare(comparison, sides) => match &**sides {
                (one, constant @ (Self::Literal(_) | Self::Number(_)))
                | (constant @ (Self::Literal(_) | Self::Number(_)), one) => {
                    one.compares_steadily(*comparison, constant)
                }
                _ => false,
            },
            Self::Core(Core::Boolean, all) => all.iter().all(Self::is_steady),
            Self::Core(Core::Contains | Core::StartsWith, all) => match all.as_slice() {
                [Self::Path(path), Self::Literal(text)] => {
                    path.has_steady_first() && !text.is_empty() && !text.contains(CUT)
                }
                _ => false,
            },
            Self::Number(_)
            | Self::Literal(_)
            | Self::Variable(_)
            | Self::Arithmetic(..)
            | Self::Negate(..)
            | Self::Core(..)
            | Self::Extension(..) => false,
        }
    }

    fn compares_steadily(&self, comparison: Comparison, constant: &Self) -> bool {
        if matches!(constant, Self::Literal(text) if text.contains(CUT)) {
            return false;
        }
        let is_different = comparison == Comparison::NotEqual;
        match self {
            Self::Union(all) => all.iter().all(|one| one.compares_steadily(comparison, constant)),
            // Attributes are complete.
            Self::Path(path) if is_different => path.is_steady() && path.finds_attributes(),
            Self::Path(path) => path.is_steady(),
            Self::Core(Core::LocalName | Core::NamespaceUri | Core::Name, none) => none.is_empty(),
            // Without a node the string is empty, but a node may follow.
            Self::Core(Core::String | Core::NormalizeSpace, all) => match all.as_slice() {
                [Self::Path(path)] => {
                    let is_empty = matches!(constant, Self::Literal(text) if text.is_empty());
                    !is_different && !is_empty && path.has_steady_first()
                }
                _ => false,
            },
            Self::Number(_)
            | Self::Literal(_)
            | Self::Variable(_)
            | Self::Or(_)
            | Self::And(_)
            | Self::Compare(..)
            | Self::Arithmetic(..)
            | Self::Negate(..)
            | Self::Core(..)
            | Self::Extension(..) => false,
        }
    }
}

impl Path {
    /// Whether the path selects in the document each node that it selects in its beginning.
    fn is_steady(&self) -> bool {
        self.is_downward(|predicate| match predicate {
            Predicate::Plain(condition) => condition.expr.is_steady(),
            Predicate::At(_) | Predicate::Last | Predicate::Positional(_) | Predicate::Sized(_) => {
                false
            }
        })
    }

    /// Whether the first node that the path selects is the same in the document as in its beginning.
    fn has_steady_first(&self) -> bool {
        self.is_downward(|_| false)
    }

    /// Whether the path leads only downwards, and each predicate is a position or `allowed`.
    fn is_downward(&self, allowed: impl Fn(&Predicate) -> bool) -> bool {
        let is_start = match &self.start {
            PathStart::Context | PathStart::Root => true,
            PathStart::Filter(Expr::Variable(_), predicates) => predicates.is_empty(),
            PathStart::Filter(..) => false,
        };
        is_start
            && self.segments.iter().all(|segment| match segment {
                Segment::Step(_) => false,
                Segment::Scan(scan) => scan.steps.iter().all(|step| {
                    // After another predicate, only those that passed it are counted.
                    let others = match step.predicates.as_slice() {
                        [Predicate::At(_), others @ ..] | others => others,
                    };
                    others.iter().all(&allowed)
                }),
            })
    }

    /// Whether the path selects no text nodes: a beginning ends with one that the document does not have.
    fn finds_no_text(&self) -> bool {
        let Some(Segment::Scan(scan)) = self.segments.last() else { return true };
        !matches!(scan.steps.last(), Some(step) if matches!(step.test, Test::Text | Test::Node))
    }

    fn finds_attributes(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Scan(scan)) if scan.attribute)
    }
}
