//! `xsl:sort`: section 10.

use std::cmp::Ordering;

use xpath::{Context, Item};

use super::Ran;
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
    /// Absent: by code points.
    collator: Option<Collator>,
}

impl<'d> Machine<'_, 'd> {
    pub(super) fn sort(&mut self, items: &mut Vec<Item<'d>>, sorts: &'d [Sort]) -> Ran {
        if sorts.is_empty() {
            return Ok(());
        }
        let mut orders = Vec::new();
        for sort in sorts {
            orders.push(self.order(sort)?);
        }
        let mut keyed = Vec::with_capacity(items.len());
        let size = items.len();
        // In bytes: a key may be as long as the source, and the source's parts inside one another.
        let mut held = 0_usize;
        for (at, item) in items.iter().enumerate() {
            let context = Context { item: *item, position: at.saturating_add(1), size };
            let mut keys = Vec::with_capacity(sorts.len());
            for (sort, order) in sorts.iter().zip(&orders) {
                let key = self.key(sort, order, context)?;
                if let Key::Text(text) = &key {
                    self.world.made(text.len())?;
                    held = held.saturating_add(text.len());
                    // A collation reads each letter; code points are compared many at once.
                    let at_once = if order.collator.is_some() { 1 } else { 16 };
                    self.spend_many(text.len() as u64 / at_once)?;
                }
                keys.push(key);
            }
            keyed.push((keys, *item));
        }
        // Stable: what compares equal stays in document order.
        keyed.sort_by(|(one, _), (other, _)| {
            let pairs = one.iter().zip(other).zip(&orders);
            let unequal = pairs.map(|((a, b), order)| compare(a, b, order)).find(|o| o.is_ne());
            unequal.unwrap_or(Ordering::Equal)
        });
        *items = keyed.into_iter().map(|(_, item)| item).collect();
        // The keys are gone.
        self.world.made = self.world.made.saturating_sub(held);
        Ok(())
    }

    fn order(&mut self, sort: &'d Sort) -> Ran<Order> {
        let numbers = match self.avt(&sort.data_type)?.as_str() {
            "text" => false,
            "number" => true,
            other => return Err(format!("not supported: xsl:sort by data-type `{other}`").into()),
        };
        let descending = match self.avt(&sort.order)?.as_str() {
            "ascending" => false,
            "descending" => true,
            other => return Err(format!("xsl:sort has no order `{other}`").into()),
        };
        let case = match self.avt(&sort.case_order)?.as_str() {
            "" => None,
            "upper-first" => Some(CaseFirst::Upper),
            "lower-first" => Some(CaseFirst::Lower),
            other => return Err(format!("xsl:sort has no case-order `{other}`").into()),
        };
        let lang = self.avt(&sort.lang)?;
        let collator = match lang.as_str() {
            "" => None,
            tag => Some(Collator::new(tag, case)?),
        };
        Ok(Order { numbers, descending, case, collator })
    }

    fn key(&mut self, sort: &'d Sort, order: &Order, context: Context<'d>) -> Ran<Key> {
        let Some(select) = &sort.select else {
            let text = context.item.string_value();
            let number = order.numbers.then(|| xpath::string_to_number(&text));
            return Ok(number.map_or_else(|| Key::Text(text.into_owned()), Key::Number));
        };
        let (_, mut env) = self.env();
        env.current = context.item;
        Ok(if order.numbers {
            Key::Number(select.evaluate_number(context, &mut env)?)
        } else {
            Key::Text(select.evaluate_string(context, &mut env)?.into_owned())
        })
    }
}

fn compare(one: &Key, other: &Key, order: &Order) -> Ordering {
    let ascending = match (one, other) {
        (Key::Number(one), Key::Number(other)) => numbers(*one, *other),
        (Key::Text(one), Key::Text(other)) => match &order.collator {
            Some(collator) => collator.compare(one, other),
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

/// By code points; with a case order, letters first and their case last.
fn texts(one: &str, other: &str, case: Option<CaseFirst>) -> Ordering {
    let folded = || {
        let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>();
        lower(one).cmp(&lower(other))
    };
    match case {
        Some(CaseFirst::Upper) => folded().then_with(|| one.cmp(other)),
        Some(CaseFirst::Lower) => folded().then_with(|| other.cmp(one)),
        None => one.cmp(other),
    }
}
