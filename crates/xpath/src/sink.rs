//! Where a path's nodes go: each sink says after each node whether it wants more.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::limits;

use crate::compare::{compare_numbers, compare_strings};
use crate::item::Item;
use crate::number::string_to_number;
use crate::plan::Comparison;

/// Takes nodes. `sorted` is told first: whether they come in document order without duplicates.
pub(crate) trait Sink<'d> {
    /// Whether nodes in any order, some twice, will do. Then nothing is sorted for it.
    fn any_order(&self) -> bool;

    fn begin(&mut self, sorted: bool) {
        let _ = sorted;
    }

    /// Takes one node; false: the answer is known.
    fn take(&mut self, item: Item<'d>) -> bool;

    /// The list that all nodes go to, if that is all that is done with them.
    fn list(&mut self) -> Option<&mut Vec<Item<'d>>> {
        None
    }

    /// As [`Sink::take`] with each.
    fn take_all(&mut self, items: Vec<Item<'d>>) -> bool {
        items.into_iter().all(|item| self.take(item))
    }
}

/// Is there one?
#[derive(Default)]
pub(crate) struct Exists {
    pub(crate) found: bool,
}

impl<'d> Sink<'d> for Exists {
    fn any_order(&self) -> bool {
        true
    }

    fn take(&mut self, _: Item<'d>) -> bool {
        self.found = true;
        false
    }
}

/// The first in document order.
#[derive(Default)]
pub(crate) struct First<'d> {
    pub(crate) item: Option<Item<'d>>,
    sorted: bool,
}

impl<'d> Sink<'d> for First<'d> {
    fn any_order(&self) -> bool {
        true
    }

    fn begin(&mut self, sorted: bool) {
        self.sorted = sorted;
    }

    fn take(&mut self, item: Item<'d>) -> bool {
        if self.item.is_none_or(|first| item.document_order(first) == Ordering::Less) {
            self.item = Some(item);
        }
        !self.sorted
    }
}

impl<'d> Sink<'d> for Vec<Item<'d>> {
    fn any_order(&self) -> bool {
        false
    }

    /// Stops one past the most that is allowed: then whoever collected says so.
    #[inline]
    fn take(&mut self, item: Item<'d>) -> bool {
        self.push(item);
        self.len() <= limits::XPATH_NODES_MAX
    }

    fn list(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn take_all(&mut self, items: Self) -> bool {
        if self.is_empty() {
            *self = items
        } else {
            self.extend(items)
        }
        self.len() <= limits::XPATH_NODES_MAX
    }
}

/// How many?
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) nodes: usize,
}

impl<'d> Sink<'d> for Count {
    fn any_order(&self) -> bool {
        false
    }

    fn take(&mut self, _: Item<'d>) -> bool {
        self.nodes += 1;
        true
    }

    fn take_all(&mut self, items: Vec<Item<'d>>) -> bool {
        self.nodes += items.len();
        true
    }
}

/// The sum of their numbers: section 4.4.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) total: f64,
    /// As in [`Holds`].
    pub(crate) steps: u64,
    pub(crate) steps_max: u64,
}

impl<'d> Sink<'d> for Sum {
    fn any_order(&self) -> bool {
        false
    }

    fn take(&mut self, item: Item<'d>) -> bool {
        let (text, steps) = item.weighed_text();
        self.steps = self.steps.saturating_add(steps);
        self.total += string_to_number(&text);
        !self.total.is_nan() && self.steps <= self.steps_max
    }
}

/// What nodes are compared with.
pub(crate) enum Operand<'a> {
    Text(Cow<'a, str>),
    Number(f64),
}

/// Does the comparison hold of any? Section 3.4.
pub(crate) struct Holds<'a> {
    pub(crate) comparison: Comparison,
    pub(crate) operand: Operand<'a>,
    pub(crate) found: bool,
    /// What the texts took: work that the caller accounts for.
    pub(crate) steps: u64,
    /// Past so many it stops.
    pub(crate) steps_max: u64,
}

impl<'d> Sink<'d> for Holds<'_> {
    fn any_order(&self) -> bool {
        true
    }

    fn take(&mut self, item: Item<'d>) -> bool {
        let (text, steps) = item.weighed_text();
        self.steps = self.steps.saturating_add(steps);
        self.found = match &self.operand {
            Operand::Text(operand) => compare_strings(self.comparison, &text, operand),
            Operand::Number(operand) => {
                compare_numbers(self.comparison, string_to_number(&text), *operand)
            }
        };
        !self.found && self.steps <= self.steps_max
    }
}
