//! Binary operators, and the printed form of values.

use super::super::Operator;
use super::{Machine, Step, fail};
use crate::json::{self, Builder};
use crate::value::{Value, double_text};

impl<'s> Machine<'s> {
    pub(super) fn binary(
        &mut self,
        left: &Value<'_>,
        operator: Operator,
        right: &Value<'_>,
        at: usize,
    ) -> Step<Value<'s>> {
        let numbers = is_number(left) && is_number(right);
        match operator {
            Operator::Add if !numbers => self.add(left, right, at),
            Operator::Equal | Operator::NotEqual => {
                let same = match (left, right) {
                    _ if numbers => left.number() == right.number(),
                    (Value::Text(one), Value::Text(other)) => {
                        self.budget.charge_reading(one.len().min(other.len()))?;
                        one == other
                    }
                    (Value::Boolean(one), Value::Boolean(other)) => one == other,
                    (_, _) => {
                        return fail(
                            at,
                            "a comparison requires two numbers, two strings or two booleans; convert with `?number` or `?string`",
                        );
                    }
                };
                Ok(Value::Boolean(same == (operator == Operator::Equal)))
            }
            _ if !numbers => fail(at, "two numbers expected; convert text with `?number`"),
            Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => {
                let (one, other) = (left.number(), right.number());
                Ok(Value::Boolean(match operator {
                    Operator::Less => one < other,
                    Operator::LessOrEqual => one <= other,
                    Operator::Greater => one > other,
                    _ => one >= other,
                }))
            }
            _ => arithmetic(left, operator, right, at),
        }
    }

    /// Concatenates sequences, merges hashes, and joins everything else as text.
    fn add(&mut self, left: &Value<'_>, right: &Value<'_>, at: usize) -> Step<Value<'s>> {
        self.charge_copy(left)?;
        self.charge_copy(right)?;
        if let (Some(one), Some(other)) = (left.json(), right.json()) {
            let mut builder = Builder::new();
            if one.kind() == json::Kind::Array && other.kind() == json::Kind::Array {
                builder.begin_array();
                for value in one.elements().chain(other.elements()) {
                    builder.embed(value);
                }
                return Ok(Value::Made(Box::new(builder.finish())));
            }
            if one.kind() == json::Kind::Object && other.kind() == json::Kind::Object {
                builder.begin_object();
                for (name, value) in one.members().chain(other.members()) {
                    builder.key(&name).embed(value);
                }
                return Ok(Value::Made(Box::new(builder.finish())));
            }
            return fail(at, "`+` cannot join a sequence and a hash");
        }
        let (left, right) = (printed(left), printed(right));
        Ok(Value::Text([left, right].concat().into()))
    }
}

pub(in super::super) fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Integer(_) | Value::Double(_))
}

fn arithmetic<'v>(
    left: &Value<'_>,
    operator: Operator,
    right: &Value<'_>,
    at: usize,
) -> Step<Value<'v>> {
    if let (Value::Integer(one), Value::Integer(other)) = (left, right) {
        let whole = match operator {
            Operator::Add => one.checked_add(*other),
            Operator::Subtract => one.checked_sub(*other),
            Operator::Multiply => one.checked_mul(*other),
            Operator::Modulo => one.checked_rem(*other),
            _ if one.checked_rem(*other) == Some(0) => one.checked_div(*other),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Value::Integer(whole));
        }
    }
    let (Some(one), Some(other)) = (left.number(), right.number()) else {
        return fail(at, "two numbers expected");
    };
    if matches!(operator, Operator::Divide | Operator::Modulo) && other == 0.0 {
        return fail(at, "division by zero; test the divisor with `<#if>`");
    }
    Ok(Value::Double(match operator {
        Operator::Add => one + other,
        Operator::Subtract => one - other,
        Operator::Multiply => one * other,
        Operator::Divide => one / other,
        _ => one % other,
    }))
}

/// The form that `${...}` prints: numbers as by `?c`, everything else as text.
pub(in super::super) fn printed(value: &Value<'_>) -> String {
    match value {
        Value::Double(number) if number.is_finite() => {
            let text = format!("{number:.12}");
            let short = text.trim_end_matches('0').trim_end_matches('.');
            if number.abs() < 1e15 { short.to_owned() } else { double_text(*number) }
        }
        value => value.text().into_owned(),
    }
}
