//! Sinks consume the nodes of a path, and end the search when they need no more.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::budget::{Budget, BudgetExceeded};
use crate::compare::{compare_numbers, compare_strings};
use crate::item::Item;
use crate::number::string_to_number;
use crate::plan::Comparison;

/// Whether more nodes are needed.
pub(crate) type Taken = Result<bool, BudgetExceeded>;

/// A consumer of nodes.
pub(crate) trait NodeSink<'d> {
    /// Whether it accepts nodes in any order and with duplicates. Then they aren't sorted.
    fn any_order(&self) -> bool;

    /// Called before the first node: whether the nodes are in document order, without duplicates.
    fn begin(&mut self, sorted: bool) {
        let _ = sorted;
    }

    /// Takes one node; false: no more are needed.
    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken;

    /// The list to which the sink adds all nodes, if it does nothing else.
    fn list(&mut self) -> Option<&mut Nodes<'d>> {
        None
    }

    /// Takes nodes that are in document order, without duplicates.
    fn take_all(&mut self, items: Vec<Item<'d>>, budget: &Budget) -> Taken {
        for item in items {
            if !self.take(item, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether there is a node.
#[derive(Default)]
pub(crate) struct Exists {
    pub(crate) found: bool,
}

impl<'d> NodeSink<'d> for Exists {
    fn any_order(&self) -> bool {
        true
    }

    fn take(&mut self, _: Item<'d>, _: &Budget) -> Taken {
        self.found = true;
        Ok(false)
    }
}

/// The first node in document order.
#[derive(Default)]
pub(crate) struct First<'d> {
    pub(crate) item: Option<Item<'d>>,
    sorted: bool,
}

impl<'d> NodeSink<'d> for First<'d> {
    fn any_order(&self) -> bool {
        true
    }

    fn begin(&mut self, sorted: bool) {
        self.sorted = sorted;
    }

    fn take(&mut self, item: Item<'d>, _: &Budget) -> Taken {
        if self.item.is_none_or(|first| item.document_order(first) == Ordering::Less) {
            self.item = Some(item);
        }
        Ok(!self.sorted)
    }
}

/// Collects all nodes. The memory of the list is charged as it grows.
#[derive(Default)]
pub(crate) struct Nodes<'d> {
    pub(crate) items: Vec<Item<'d>>,
}

/// Capacity of a list when it first grows, in nodes.
const NODES_AT_FIRST: usize = 4;

impl<'d> Nodes<'d> {
    #[inline]
    pub(crate) fn push(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        if self.items.len() == self.items.capacity() {
            self.reserve(self.items.len().max(NODES_AT_FIRST), budget)?;
        }
        self.items.push(item);
        Ok(true)
    }

    /// Makes room for `more` nodes.
    #[cold]
    pub(crate) fn reserve(&mut self, more: usize, budget: &Budget) -> Result<(), BudgetExceeded> {
        let room = self.items.capacity() - self.items.len();
        if let Some(new @ 1..) = more.checked_sub(room) {
            budget.charge_memory(new.saturating_mul(size_of::<Item<'_>>()))?;
            self.items.reserve_exact(more);
        }
        Ok(())
    }
}

impl<'d> NodeSink<'d> for Nodes<'d> {
    fn any_order(&self) -> bool {
        false
    }

    #[inline]
    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        self.push(item, budget)
    }

    fn list(&mut self) -> Option<&mut Self> {
        Some(self)
    }

    fn take_all(&mut self, items: Vec<Item<'d>>, budget: &Budget) -> Taken {
        if self.items.is_empty() {
            self.items = items;
        } else {
            self.reserve(items.len(), budget)?;
            self.items.extend(items);
        }
        Ok(true)
    }
}

/// The number of nodes.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) nodes: usize,
}

impl<'d> NodeSink<'d> for Count {
    fn any_order(&self) -> bool {
        false
    }

    fn take(&mut self, _: Item<'d>, _: &Budget) -> Taken {
        self.nodes += 1;
        Ok(true)
    }

    fn take_all(&mut self, items: Vec<Item<'d>>, _: &Budget) -> Taken {
        self.nodes += items.len();
        Ok(true)
    }
}

/// The sum of the nodes' numbers: section 4.4.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) total: f64,
}

impl<'d> NodeSink<'d> for Sum {
    fn any_order(&self) -> bool {
        false
    }

    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        let text = item.charged_string_value(budget)?;
        budget.charge_reading(text.len())?;
        self.total += string_to_number(&text);
        Ok(!self.total.is_nan())
    }
}

/// The operand that nodes are compared with.
pub(crate) enum Operand<'a> {
    Text(Cow<'a, str>),
    Number(f64),
}

/// Whether a comparison holds for any node: section 3.4.
pub(crate) struct Holds<'a> {
    pub(crate) comparison: Comparison,
    pub(crate) operand: Operand<'a>,
    pub(crate) found: bool,
}

impl<'d> NodeSink<'d> for Holds<'_> {
    fn any_order(&self) -> bool {
        true
    }

    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        let text = item.charged_string_value(budget)?;
        self.found = match &self.operand {
            Operand::Text(operand) => compare_strings(self.comparison, &text, operand),
            Operand::Number(operand) => {
                budget.charge_reading(text.len())?;
                compare_numbers(self.comparison, string_to_number(&text), *operand)
            }
        };
        Ok(!self.found)
    }
}
