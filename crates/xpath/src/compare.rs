//! Comparisons: XPath 1.0 section 3.4.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::item::{Item, NodeSet};
use crate::number::string_to_number;
use crate::plan::Comparison;
use crate::value::Value;

impl Comparison {
    /// The same with its sides exchanged.
    pub(crate) fn turned(self) -> Self {
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

#[expect(clippy::float_cmp, reason = "IEEE equality is what the recommendation asks for")]
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

/// Equality of text; all other comparisons are of its numbers.
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

/// Two values of any types.
pub(crate) fn compare_values(comparison: Comparison, left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::NodeSet(left), Value::NodeSet(right)) => compare_sets(comparison, left, right),
        (Value::NodeSet(nodes), other) => compare_with_set(comparison, nodes, other),
        (other, Value::NodeSet(nodes)) => compare_with_set(comparison.turned(), nodes, other),
        _ => compare_scalars(comparison, left, right),
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

fn compare_with_set(comparison: Comparison, nodes: &NodeSet<'_>, other: &Value<'_>) -> bool {
    let mut all = nodes.iter().map(Item::string_value);
    match other {
        Value::Boolean(_) => compare_scalars(comparison, &Value::Boolean(!nodes.is_empty()), other),
        Value::Number(number) => {
            all.any(|text| compare_numbers(comparison, string_to_number(&text), *number))
        }
        Value::String(other) => all.any(|text| compare_strings(comparison, &text, other)),
        Value::NodeSet(other) => compare_sets(comparison, nodes, other),
    }
}

/// Whether any pair compares so, without looking at all pairs.
fn compare_sets(comparison: Comparison, left: &NodeSet<'_>, right: &NodeSet<'_>) -> bool {
    match comparison {
        Comparison::Equal => share_a_value(left, right),
        Comparison::NotEqual => differ_somewhere(left, right),
        Comparison::Less | Comparison::LessOrEqual => {
            compare_numbers(comparison, least(left), greatest(right))
        }
        Comparison::Greater | Comparison::GreaterOrEqual => {
            compare_numbers(comparison, greatest(left), least(right))
        }
    }
}

fn share_a_value(left: &NodeSet<'_>, right: &NodeSet<'_>) -> bool {
    let (few, many) = if left.len() <= right.len() { (left, right) } else { (right, left) };
    if let (1, Some(only)) = (few.len(), few.first()) {
        let only = only.string_value();
        return many.iter().any(|item| item.string_value() == only);
    }
    let known: HashSet<Cow<'_, str>> = few.iter().map(Item::string_value).collect();
    !known.is_empty() && many.iter().any(|item| known.contains(&item.string_value()))
}

/// Some pair differs unless one side is empty or all nodes of both have one value.
fn differ_somewhere(left: &NodeSet<'_>, right: &NodeSet<'_>) -> bool {
    let (Some(one), false) = (left.first(), right.is_empty()) else { return false };
    let one = one.string_value();
    left.iter().chain(right.iter()).any(|item| item.string_value() != one)
}

fn least(nodes: &NodeSet<'_>) -> f64 {
    numbers(nodes).fold(f64::NAN, f64::min)
}

fn greatest(nodes: &NodeSet<'_>) -> f64 {
    numbers(nodes).fold(f64::NAN, f64::max)
}

fn numbers<'s>(nodes: &'s NodeSet<'_>) -> impl Iterator<Item = f64> + 's {
    nodes.iter().map(|item| string_to_number(&item.string_value()))
}
