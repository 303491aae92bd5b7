//! The relational operators over values.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::evaluate::{Outcome, Run};
use super::filter::Operator;
use crate::json::{Kind, Ref};
use crate::value::Value;

/// Whether `left operator right` holds. A missing side (`None`) satisfies `!=`, `!==` and `nin` only.
pub(super) fn holds(
    run: &mut Run<'_, '_>,
    left: Option<&Value<'_>>,
    operator: Operator,
    right: Option<&Value<'_>>,
) -> Outcome<bool> {
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(match operator {
            Operator::NotEqual | Operator::SameTypeNotEqual | Operator::NotIn => true,
            Operator::NoneOf => false,
            Operator::Equal | Operator::SameTypeEqual | Operator::Less | Operator::LessOrEqual => {
                false
            }
            Operator::Greater | Operator::GreaterOrEqual | Operator::Matches | Operator::In => {
                false
            }
            Operator::Contains | Operator::All | Operator::Size | Operator::SubsetOf => false,
            Operator::AnyOf => false,
        });
    };
    match operator {
        Operator::Equal => equal(run, left, right),
        Operator::NotEqual => Ok(!equal(run, left, right)?),
        Operator::SameTypeEqual => Ok(same_type(left, right) && equal(run, left, right)?),
        Operator::SameTypeNotEqual => Ok(!(same_type(left, right) && equal(run, left, right)?)),
        Operator::Less => Ok(charged_order(run, left, right)?.is_some_and(Ordering::is_lt)),
        Operator::LessOrEqual => Ok(charged_order(run, left, right)?.is_some_and(Ordering::is_le)),
        Operator::Greater => Ok(charged_order(run, left, right)?.is_some_and(Ordering::is_gt)),
        Operator::GreaterOrEqual => {
            Ok(charged_order(run, left, right)?.is_some_and(Ordering::is_ge))
        }
        Operator::Matches => Ok(false),
        Operator::In => is_in(run, left, right),
        Operator::NotIn => Ok(!is_in(run, left, right)?),
        Operator::Contains => contains(run, left, right),
        Operator::All => each(run, right, left, true),
        Operator::SubsetOf => each(run, left, right, true),
        Operator::AnyOf => each(run, left, right, false),
        Operator::NoneOf => match (array(left), array(right)) {
            (Some(_), Some(_)) => Ok(!each(run, left, right, false)?),
            (_, _) => Ok(false),
        },
        Operator::Size if left.json().is_some_and(|json| json.kind() == Kind::Object) => Ok(false),
        Operator::Size => {
            run.budget.charge_reading(right.size().bytes)?;
            let wanted = right.number();
            Ok(size(run, left)?.is_some_and(|size| wanted == Some(size as f64)))
        }
    }
}

/// The number of elements, members, or UTF-16 units of a string; `None` for other values.
pub(super) fn size(run: &mut Run<'_, '_>, value: &Value<'_>) -> Outcome<Option<usize>> {
    let text = match value.json() {
        Some(json) => match json.kind() {
            Kind::Array | Kind::Object => return Ok(Some(json.len())),
            Kind::String => json.string(),
            Kind::Null | Kind::Boolean | Kind::Number => None,
        },
        None => match value {
            Value::Text(text) => Some(Cow::Borrowed(&**text)),
            Value::Json(_) | Value::Made(_) | Value::Integer(_) | Value::Double(_) => None,
            Value::Boolean(_) | Value::Null => None,
        },
    };
    let Some(text) = text else { return Ok(None) };
    run.budget.charge_scanning(text.len())?;
    Ok(Some(text.encode_utf16().count()))
}

fn array<'v>(value: &'v Value<'_>) -> Option<Ref<'v>> {
    value.json().filter(|json| json.kind() == Kind::Array)
}

fn same_type(left: &Value<'_>, right: &Value<'_>) -> bool {
    let kind = |value: &Value<'_>| match value {
        Value::Json(_) | Value::Made(_) => value.json().map(Ref::kind),
        Value::Text(_) => Some(Kind::String),
        Value::Integer(_) | Value::Double(_) => Some(Kind::Number),
        Value::Boolean(_) => Some(Kind::Boolean),
        Value::Null => Some(Kind::Null),
    };
    kind(left) == kind(right)
}

fn is_in(run: &mut Run<'_, '_>, value: &Value<'_>, list: &Value<'_>) -> Outcome<bool> {
    let Some(list) = array(list) else { return Ok(false) };
    for element in list.elements() {
        if equal(run, value, &Value::Json(element).plain_within(run.budget)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn contains(run: &mut Run<'_, '_>, left: &Value<'_>, right: &Value<'_>) -> Outcome<bool> {
    if let (Value::Text(text), Value::Text(part)) = (left, right) {
        run.budget.charge_reading(text.len())?;
        return Ok(text.contains(part.as_ref()));
    }
    is_in(run, right, left)
}

/// Whether all (or, with `all` false, any) of `some`'s elements are in `list`.
fn each(run: &mut Run<'_, '_>, some: &Value<'_>, list: &Value<'_>, all: bool) -> Outcome<bool> {
    let (Some(elements), Some(_)) = (array(some), array(list)) else { return Ok(false) };
    for element in elements.elements() {
        if is_in(run, &Value::Json(element).plain_within(run.budget)?, list)? != all {
            return Ok(!all);
        }
    }
    Ok(all)
}

fn charged_order(
    run: &Run<'_, '_>,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Outcome<Option<Ordering>> {
    if let (Value::Text(one), Value::Text(other)) = (left, right) {
        run.budget.charge_reading(one.len().min(other.len()))?;
    }
    Ok(order(left, right))
}

/// Orders numbers with numbers and strings with strings; other values have no order.
fn order(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    match (left, right) {
        (Value::Text(one), Value::Text(other)) => Some(one.as_ref().cmp(other.as_ref())),
        (Value::Integer(one), Value::Integer(other)) => Some(one.cmp(other)),
        (Value::Integer(_) | Value::Double(_), Value::Integer(_) | Value::Double(_)) => {
            left.number()?.partial_cmp(&right.number()?)
        }
        (_, _) => None,
    }
}

/// Equality. A number equals a string that spells it; the order of an object's members does not matter.
pub(super) fn equal(run: &mut Run<'_, '_>, left: &Value<'_>, right: &Value<'_>) -> Outcome<bool> {
    run.budget.charge_steps(1)?;
    if let (Some(one), Some(other)) = (left.json(), right.json()) {
        return same_json(run, one, other);
    }
    Ok(match (left, right) {
        (Value::Null, Value::Null) => true,
        (Value::Boolean(one), Value::Boolean(other)) => one == other,
        (Value::Text(one), Value::Text(other)) => {
            run.budget.charge_reading(one.len().min(other.len()))?;
            one == other
        }
        (Value::Text(text), number @ (Value::Integer(_) | Value::Double(_)))
        | (number @ (Value::Integer(_) | Value::Double(_)), Value::Text(text)) => {
            run.budget.charge_reading(text.len())?;
            text.parse().ok() == number.number()
        }
        (_, _) => order(left, right).is_some_and(Ordering::is_eq),
    })
}

/// Deep equality, without recursion.
fn same_json(run: &mut Run<'_, '_>, one: Ref<'_>, other: Ref<'_>) -> Outcome<bool> {
    let mut pairs = vec![(one, other)];
    while let Some((one, other)) = pairs.pop() {
        run.budget.charge_steps(1)?;
        if one.kind() != other.kind() || one.len() != other.len() {
            return Ok(false);
        }
        match one.kind() {
            Kind::Array => pairs.extend(one.elements().zip(other.elements())),
            Kind::Object => {
                run.budget.charge_steps(one.len() as u64 * other.len() as u64)?;
                for (name, value) in one.members() {
                    let Some(twin) = other.get(&name) else { return Ok(false) };
                    pairs.push((value, twin));
                }
            }
            Kind::String => {
                run.budget.charge_scanning(one.raw().len().min(other.raw().len()))?;
                if one.string() != other.string() {
                    return Ok(false);
                }
            }
            Kind::Number => {
                let one = Value::Json(one).plain_within(run.budget)?;
                let other = Value::Json(other).plain_within(run.budget)?;
                if order(&one, &other) != Some(Ordering::Equal) {
                    return Ok(false);
                }
            }
            Kind::Boolean if one.boolean() != other.boolean() => return Ok(false),
            Kind::Boolean | Kind::Null => {}
        }
    }
    Ok(true)
}
