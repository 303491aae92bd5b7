//! Comparisons: XPath 1.0 section 3.4.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::budget::Budget;
use crate::evaluate::Outcome;
use crate::item::NodeSet;
use crate::number::string_to_number;
use crate::plan::Comparison;
use crate::value::Value;

impl Comparison {
    /// The same comparison with its operands exchanged.
    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    pub(crate) fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::NotEqual)
    }
}

#[expect(clippy::float_cmp, reason = "the recommendation requires IEEE equality")]
pub(crate) fn compare_numbers(comparison: Comparison, left: f64, right: f64) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

/// Compares two strings. Only equality compares the texts; the other comparisons convert them to numbers.
pub(crate) fn compare_strings(comparison: Comparison, left: &str, right: &str) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less
        | Comparison::LessOrEqual
        | Comparison::Greater
        | Comparison::GreaterOrEqual => {
            compare_numbers(comparison, string_to_number(left), string_to_number(right))
        }
    }
}

/// Compares two values of any types.
pub(crate) fn compare_values(
    comparison: Comparison,
    left: &Value<'_>,
    right: &Value<'_>,
    budget: &Budget,
) -> Outcome<bool> {
    match (left, right) {
        (Value::NodeSet(nodes), other) => compare_with_set(comparison, nodes, other, budget),
        (other, Value::NodeSet(nodes)) => {
            compare_with_set(comparison.reversed(), nodes, other, budget)
        }
        _ => Ok(compare_scalars(comparison, left, right)),
    }
}

fn compare_scalars(comparison: Comparison, left: &Value<'_>, right: &Value<'_>) -> bool {
    let either = |is: fn(&Value<'_>) -> bool| is(left) || is(right);
    if !comparison.is_equality() {
        compare_numbers(comparison, left.number(), right.number())
    } else if either(|value| matches!(value, Value::Boolean(_))) {
        (left.boolean() == right.boolean()) == (comparison == Comparison::Equal)
    } else if either(|value| matches!(value, Value::Number(_))) {
        compare_numbers(comparison, left.number(), right.number())
    } else {
        compare_strings(comparison, &left.string(), &right.string())
    }
}

fn compare_with_set(
    comparison: Comparison,
    nodes: &NodeSet<'_>,
    other: &Value<'_>,
    budget: &Budget,
) -> Outcome<bool> {
    let holds: &dyn Fn(&str) -> bool = match other {
        Value::NodeSet(other) => return compare_sets(comparison, nodes, other, budget),
        Value::Boolean(_) => {
            let any = Value::Boolean(!nodes.is_empty());
            return Ok(compare_scalars(comparison, &any, other));
        }
        Value::Number(number) => {
            &|text| compare_numbers(comparison, string_to_number(text), *number)
        }
        Value::String(other) => &|text| compare_strings(comparison, text, other),
    };
    for item in nodes {
        let text = item.charged_string_value(budget)?;
        budget.charge_steps(1)?;
        budget.charge_reading(text.len())?;
        if holds(&text) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the comparison holds for any pair, in time proportional to the sum of both sizes.
fn compare_sets(
    comparison: Comparison,
    left: &NodeSet<'_>,
    right: &NodeSet<'_>,
    budget: &Budget,
) -> Outcome<bool> {
    match comparison {
        Comparison::Equal => share_a_value(left, right, budget),
        Comparison::NotEqual => any_pair_differs(left, right, budget),
        Comparison::Less | Comparison::LessOrEqual => {
            let right = extreme(right, f64::max, budget)?;
            Ok(compare_numbers(comparison, extreme(left, f64::min, budget)?, right))
        }
        Comparison::Greater | Comparison::GreaterOrEqual => {
            let right = extreme(right, f64::min, budget)?;
            Ok(compare_numbers(comparison, extreme(left, f64::max, budget)?, right))
        }
    }
}

fn share_a_value(left: &NodeSet<'_>, right: &NodeSet<'_>, budget: &Budget) -> Outcome<bool> {
    /// Maximum memory of an entry of the hash set.
    const ENTRY_BYTES: usize = 4 * size_of::<Cow<'_, str>>();
    let (few, many) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    if few.is_empty() {
        return Ok(false);
    }
    budget.charge_steps((few.len() + many.len()) as u64)?;
    if let (1, Some(only)) = (few.len(), few.first()) {
        let only = only.charged_string_value(budget)?;
        for item in many {
            if item.charged_string_value(budget)? == only {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    budget.charge_memory(few.len().saturating_mul(ENTRY_BYTES))?;
    let mut known = HashSet::with_capacity(few.len());
    for item in few {
        known.insert(item.charged_string_value(budget)?);
    }
    for item in many {
        if known.contains(&item.charged_string_value(budget)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// No pair differs if one side is empty or all nodes of both sides have the same value.
fn any_pair_differs(left: &NodeSet<'_>, right: &NodeSet<'_>, budget: &Budget) -> Outcome<bool> {
    let (Some(first), false) = (left.first(), right.is_empty()) else { return Ok(false) };
    let first = first.charged_string_value(budget)?;
    for item in left.iter().skip(1).chain(right) {
        budget.charge_steps(1)?;
        if item.charged_string_value(budget)? != first {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The least or greatest of the nodes' numbers; NaN if none of them is a number.
fn extreme(nodes: &NodeSet<'_>, pick: fn(f64, f64) -> f64, budget: &Budget) -> Outcome<f64> {
    let mut found = f64::NAN;
    for item in nodes {
        budget.charge_steps(1)?;
        let text = item.charged_string_value(budget)?;
        budget.charge_reading(text.len())?;
        found = pick(found, string_to_number(&text));
    }
    Ok(found)
}
