//! Which conditions a part of a document can decide, so that the rest need not be parsed.
//!
//! A document of which only the beginning was parsed has all elements that began there, with all their attributes, and no
//! text that is cut. But elements that are still open will have more children and a longer string value. Until then, the
//! string value of each of them ends with a character that is not in XML (`xml::DocumentFeed::cut`), so that it equals no
//! text and is no number.

use crate::functions::Core;
use crate::plan::{Comparison, Expr, Path, Predicate, Segment, Start, Test};

impl Expr {
    /// Whether it is true of a document if it is true of its beginning.
    pub(crate) fn is_steady(&self) -> bool {
        match self {
            Self::Or(all) | Self::And(all) | Self::Union(all) => all.iter().all(Self::is_steady),
            Self::Path(path) => path.is_steady() && path.finds_elements(),
            Self::Compare(comparison, sides) => match &**sides {
                (one, constant @ (Self::Literal(_) | Self::Number(_)))
                | (constant @ (Self::Literal(_) | Self::Number(_)), one) => {
                    one.compares_steadily(*comparison, constant)
                }
                _ => false,
            },
            Self::Core(Core::Boolean, all) => all.iter().all(Self::is_steady),
            Self::Core(Core::Contains | Core::StartsWith, all) => match all.as_slice() {
                [Self::Path(path), Self::Literal(text)] => path.has_steady_first() && is_text(text),
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
        let is_different = comparison == Comparison::NotEqual;
        match self {
            // Attributes are complete.
            Self::Path(path) if is_different => path.is_steady() && path.finds_attributes(),
            Self::Path(path) => path.is_steady(),
            Self::Core(Core::LocalName | Core::NamespaceUri | Core::Name, none) => none.is_empty(),
            // Without a node it is empty, which it may not stay.
            Self::Core(Core::String | Core::NormalizeSpace, all) => match all.as_slice() {
                [Self::Path(path)] => {
                    let is_wanted = !matches!(constant, Self::Literal(text) if !is_text(text));
                    !is_different && is_wanted && path.has_steady_first()
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
            | Self::Union(_)
            | Self::Core(..)
            | Self::Extension(..) => false,
        }
    }
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

impl Path {
    /// Whether each node that it finds in the beginning of a document is one that it finds in the document.
    fn is_steady(&self) -> bool {
        self.is_downward(|predicate| match predicate {
            Predicate::Plain(condition) => condition.expr.is_steady(),
            Predicate::At(_) | Predicate::Last | Predicate::Positional(_) | Predicate::Sized(_) => {
                false
            }
        })
    }

    /// Whether the first node that it finds in the beginning of a document is the first one of the document.
    fn has_steady_first(&self) -> bool {
        self.is_downward(|_| false)
    }

    /// Whether it leads down alone, and its predicates are positions, or else are `allowed`.
    fn is_downward(&self, allowed: impl Fn(&Predicate) -> bool) -> bool {
        let is_start = match &self.start {
            Start::Context | Start::Root => true,
            Start::Filter(Expr::Variable(_), predicates) => predicates.is_empty(),
            Start::Filter(..) => false,
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

    /// Whether it leads to elements or attributes. The end of a beginning is a text that the document may not have.
    fn finds_elements(&self) -> bool {
        let last = self.segments.iter().rev().find_map(|segment| match segment {
            Segment::Scan(scan) => scan.steps.last(),
            Segment::Step(_) => None,
        });
        last.is_none_or(|step| {
            matches!(step.test, Test::Name(_) | Test::Principal | Test::Namespace(_))
        })
    }

    fn finds_attributes(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Scan(scan)) if scan.attribute)
    }
}
