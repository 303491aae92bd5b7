//! `xsl:sort`: section 10.

use std::cmp::Ordering;

use xpath::{Context, Item};

use super::RunResult;
use super::machine::Machine;
use crate::collation::{CaseFirst, Collator};
use crate::program::Sort;

enum Key {
    Number(f64),
    Text(String),
}

struct Order {
    numbers: bool,
    descending: bool,
    case: Option<CaseFirst>,
    /// `None` sorts by code points.
    collation: Option<Collator>,
}

impl<'d> Machine<'_, 'd> {
    pub(super) fn sort(&mut self, items: &mut Vec<Item<'d>>, sorts: &'d [Sort]) -> RunResult {
        if sorts.is_empty() {
            return Ok(());
        }
        let mut orders = Vec::new();
        for sort in sorts {
            orders.push(self.order(sort)?);
        }
        let size = items.len();
        // The memory of the keys, which may be larger than the source.
        let entry = size_of::<Key>().saturating_mul(sorts.len());
        let entry = entry.saturating_add(size_of::<(Vec<Key>, Item<'d>)>());
        let mut held = size.saturating_mul(entry);
        self.state.charge_memory(held)?;
        let mut keyed = Vec::with_capacity(size);
        for (at, item) in items.iter().enumerate() {
            let context = Context { item: *item, position: at.saturating_add(1), size };
            let mut keys = Vec::with_capacity(sorts.len());
            for (sort, order) in sorts.iter().zip(&orders) {
                let key = self.key(sort, order, context)?;
                if let Key::Text(text) = &key {
                    self.state.charge_memory(text.len())?;
                    held = held.saturating_add(text.len());
                    // Collation looks at each character, code points are compared many at once.
                    let per_step = if order.collation.is_some() { 1 } else { 16 };
                    self.state.charge_steps(text.len() / per_step)?;
                }
                keys.push(key);
            }
            keyed.push((keys, *item));
        }
        self.state.charge_steps(items.len().saturating_mul(sorts.len()))?;
        // Stable: equal keys stay in document order.
        keyed.sort_by(|(one, _), (other, _)| {
            let pairs = one.iter().zip(other).zip(&orders);
            let unequal = pairs.map(|((a, b), order)| compare(a, b, order)).find(|o| o.is_ne());
            unequal.unwrap_or(Ordering::Equal)
        });
        *items = keyed.into_iter().map(|(_, item)| item).collect();
        self.state.budget.release_memory(held);
        Ok(())
    }

    fn order(&mut self, sort: &'d Sort) -> RunResult<Order> {
        let numbers = match self.avt(&sort.data_type)?.as_str() {
            "text" => false,
            "number" => true,
            other => {
                return Err(format!("`data-type` must be `text` or `number`, not `{other}`").into());
            }
        };
        let descending = match self.avt(&sort.order)?.as_str() {
            "ascending" => false,
            "descending" => true,
            other => {
                let message = format!("`order` must be `ascending` or `descending`, not `{other}`");
                return Err(message.into());
            }
        };
        let case = match self.avt(&sort.case_order)?.as_str() {
            "" => None,
            "upper-first" => Some(CaseFirst::Upper),
            "lower-first" => Some(CaseFirst::Lower),
            other => {
                let message =
                    format!("`case-order` must be `upper-first` or `lower-first`, not `{other}`");
                return Err(message.into());
            }
        };
        let lang = self.avt(&sort.lang)?;
        let collation = match lang.as_str() {
            "" => None,
            tag => Some(Collator::new(tag, case)?),
        };
        Ok(Order { numbers, descending, case, collation })
    }

    fn key(&mut self, sort: &'d Sort, order: &Order, context: Context<'d>) -> RunResult<Key> {
        let Some(select) = &sort.select else {
            let text = context.item.charged_string_value(self.state.budget)?;
            let number = order.numbers.then(|| xpath::string_to_number(&text));
            return Ok(number.map_or_else(|| Key::Text(text.into_owned()), Key::Number));
        };
        let budget = self.state.budget;
        let (_, mut env) = self.env();
        env.current = context.item;
        Ok(if order.numbers {
            Key::Number(select.evaluate_number(context, &mut env, budget)?)
        } else {
            Key::Text(select.evaluate_string(context, &mut env, budget)?.into_owned())
        })
    }
}

fn compare(one: &Key, other: &Key, order: &Order) -> Ordering {
    let ascending = match (one, other) {
        (Key::Number(one), Key::Number(other)) => numbers(*one, *other),
        (Key::Text(one), Key::Text(other)) => match &order.collation {
            Some(collation) => collation.compare(one, other),
            None => texts(one, other, order.case),
        },
        (Key::Number(_), Key::Text(_)) | (Key::Text(_), Key::Number(_)) => Ordering::Equal,
    };
    if order.descending { ascending.reverse() } else { ascending }
}

/// NaN comes first.
fn numbers(one: f64, other: f64) -> Ordering {
    let known = one.partial_cmp(&other);
    known.unwrap_or_else(|| other.is_nan().cmp(&one.is_nan()))
}

/// Compares by code points; with a case order, first regardless of case.
fn texts(one: &str, other: &str, case: Option<CaseFirst>) -> Ordering {
    // Reads both only up to the first difference, since a long key may be compared with all others.
    let folded = || {
        let (one, other) = (one.chars(), other.chars());
        one.flat_map(char::to_lowercase).cmp(other.flat_map(char::to_lowercase))
    };
    match case {
        Some(CaseFirst::Upper) => folded().then_with(|| one.cmp(other)),
        Some(CaseFirst::Lower) => folded().then_with(|| other.cmp(one)),
        None => one.cmp(other),
    }
}
