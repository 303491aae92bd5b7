//! Evaluation: recursion goes as deep as the expression is nested, which its reading bounds.

use super::{Access, Node, Operator, Root, functions};
use crate::budget::Budget;
use crate::json::{Document, Kind};
use crate::scope::Scope;
use crate::{EvalError, Value};

pub(super) type Answer<'s> = Result<Value<'s>, EvalError>;

/// `budget` is that of the whole expression.
pub(super) fn node<'s>(of: &'s Node, scope: &'s dyn Scope, budget: &Budget) -> Answer<'s> {
    match of {
        Node::Literal(value) => Ok(value.clone()),
        Node::Array(elements) => {
            let values: Result<Vec<_>, _> =
                elements.iter().map(|element| node(element, scope, budget)).collect();
            Value::array(&values?, budget)
        }
        Node::Access(path) => access(path, scope, budget),
        Node::Call(function, arguments) => functions::call(*function, arguments, scope, budget),
        Node::Binary(left, operator, right) => {
            let (left, right) =
                (node(left, scope, budget)?.plain(), node(right, scope, budget)?.plain());
            binary(&left, *operator, &right, budget)
        }
        Node::Choice(parts) => match node(&parts.0, scope, budget)?.plain() {
            Value::Boolean(true) => node(&parts.1, scope, budget),
            Value::Boolean(false) => node(&parts.2, scope, budget),
            Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Integer(_) => {
                Err(wrong("a condition", "a boolean"))
            }
            Value::Double(_) | Value::Null => Err(wrong("a condition", "a boolean")),
        },
    }
}

pub(super) fn wrong(what: &str, wants: &str) -> EvalError {
    EvalError::Type(format!("{what} wants {wants}"))
}

fn access<'s>(access: &'s Access, scope: &'s dyn Scope, budget: &Budget) -> Answer<'s> {
    let value = match &access.root {
        Root::Payload => match scope.json()? {
            Some(json) => Value::Json(json),
            None => Value::Text(scope.text()?),
        },
        Root::Variable(name) => scope
            .variable(name)
            .ok_or_else(|| EvalError::Missing(format!("variable `{name}` is not defined")))?,
        Root::Header(name) => scope.header(name).map_or(Value::Null, Value::Text),
        Root::Property(of, name) => scope.property(*of, name).unwrap_or(Value::Null),
        Root::Parameter(kind, name) => {
            scope.parameter(*kind, name).map_or(Value::Null, Value::Text)
        }
        Root::Config(name) => scope.config(name).map_or(Value::Null, Value::Text),
        Root::Answer(call) => node(call, scope, budget)?,
    };
    if access.path.is_root() {
        return Ok(value);
    }
    let mut slots = Vec::new();
    for slot in &access.slots {
        slots.push(node(slot, scope, budget)?);
    }
    along(access, value, &slots, budget)
}

/// Follows the path; a text that holds JSON is read for it.
fn along<'s>(
    access: &'s Access,
    value: Value<'s>,
    slots: &[Value<'s>],
    budget: &Budget,
) -> Answer<'s> {
    let inside = |document: &Document<'_>| -> Answer<'s> {
        let slots: Vec<_> = slots.to_vec();
        let found = access.path.evaluate_with(document.root(), &slots, budget)?;
        Ok(found.paid(budget)?.into_owned())
    };
    match value.plain() {
        Value::Json(json) => access.path.evaluate_with(json, slots, budget)?.paid(budget),
        Value::Made(document) => inside(&document),
        Value::Text(text) => match Document::parse(text.as_bytes()) {
            Ok(document) => inside(&document),
            Err(error) => Err(EvalError::Type(format!("a path wants JSON: {error}"))),
        },
        Value::Integer(_) | Value::Double(_) | Value::Boolean(_) => {
            Err(wrong("a path", "an object or an array"))
        }
        Value::Null => Err(EvalError::Missing("a path begins where there is nothing".to_owned())),
    }
}

fn binary<'s>(
    left: &Value<'s>,
    operator: Operator,
    right: &Value<'s>,
    budget: &Budget,
) -> Answer<'s> {
    match operator {
        Operator::Equal => Ok(Value::Boolean(equal(left, right))),
        Operator::NotEqual => Ok(Value::Boolean(!equal(left, right))),
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            compare(left, operator, right)
        }
        Operator::And | Operator::Or => match (left, right) {
            (Value::Boolean(one), Value::Boolean(other)) => {
                Ok(Value::Boolean(if operator == Operator::And {
                    *one && *other
                } else {
                    *one || *other
                }))
            }
            (_, _) => Err(wrong(
                "`and` or `or`",
                "two booleans; comparisons beside them need parentheses",
            )),
        },
        Operator::Add => add(left, right, budget),
        Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            arithmetic(left, operator, right)
        }
    }
}

/// As texts; `null` and what isn't there equal each other only.
fn equal(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left.is_null(), right.is_null()) {
        (true, true) => true,
        (false, false) => left.text() == right.text(),
        (_, _) => false,
    }
}

fn compare<'s>(left: &Value<'_>, operator: Operator, right: &Value<'_>) -> Answer<'s> {
    let (Some(left), Some(right)) = (numeric(left), numeric(right)) else {
        return Err(wrong("a comparison", "two numbers"));
    };
    Ok(Value::Boolean(match operator {
        Operator::Less => left < right,
        Operator::LessOrEqual => left <= right,
        Operator::Greater => left > right,
        _ => left >= right,
    }))
}

/// A number that is one; a text that spells one is none.
pub(super) fn numeric(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Double(double) => Some(*double),
        Value::Json(json) if json.kind() == Kind::Number => json.raw().parse().ok(),
        Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Boolean(_) | Value::Null => None,
    }
}

fn add<'s>(left: &Value<'_>, right: &Value<'_>, budget: &Budget) -> Answer<'s> {
    if let (Value::Text(one), Value::Text(other)) = (left, right) {
        budget.make(one.len() + other.len())?;
        return Ok(Value::Text(format!("{one}{other}").into()));
    }
    if let (Value::Integer(one), Value::Integer(other)) = (left, right)
        && let Some(sum) = one.checked_add(*other)
    {
        return Ok(Value::Integer(sum));
    }
    match (numeric(left), numeric(right)) {
        (Some(one), Some(other)) => Ok(Value::Double(decimal(one, other, one + other))),
        (_, _) => Err(wrong("`+`", "two numbers or two texts")),
    }
}

fn arithmetic<'s>(left: &Value<'_>, operator: Operator, right: &Value<'_>) -> Answer<'s> {
    let (Some(one), Some(other)) = (numeric(left), numeric(right)) else {
        return Err(wrong("arithmetic", "two numbers"));
    };
    let divides = matches!(operator, Operator::Divide | Operator::Modulo);
    if divides && other == 0.0 {
        return Err(EvalError::Type("division by zero".to_owned()));
    }
    if let (Value::Integer(one), Value::Integer(other)) = (left, right) {
        let whole = match operator {
            Operator::Subtract => one.checked_sub(*other),
            Operator::Multiply => one.checked_mul(*other),
            Operator::Modulo => one.checked_rem(*other),
            _ if one.checked_rem(*other) == Some(0) => one.checked_div(*other),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Value::Integer(whole));
        }
        if operator == Operator::Divide {
            return Ok(Value::Double(*one as f64 / *other as f64));
        }
    }
    Ok(Value::Double(match operator {
        Operator::Subtract => decimal(one, other, one - other),
        Operator::Multiply => product(one, other),
        Operator::Divide => quotient(one, other),
        _ => decimal(one, other, one % other),
    }))
}

/// Digits after the point of the shortest spelling.
fn places(number: f64) -> usize {
    let spelt = format!("{number}");
    spelt.split_once('.').map_or(0, |(_, digits)| digits.len())
}

/// `exact` as decimal arithmetic has it, which Micro Integrator uses: 0.1 + 0.2 is 0.3.
fn decimal(one: f64, other: f64, exact: f64) -> f64 {
    rounded(exact, places(one).max(places(other)))
}

fn product(one: f64, other: f64) -> f64 {
    rounded(one * other, places(one) + places(other))
}

/// Rounded half up to the digits that the dividend has, at least one, as Java's `BigDecimal.divide` does there.
fn quotient(one: f64, other: f64) -> f64 {
    rounded(one / other, places(one).max(1))
}

pub(super) fn rounded(number: f64, places: usize) -> f64 {
    if places > 15 || !number.is_finite() {
        return number;
    }
    let scale = 10_f64.powi(i32::try_from(places).unwrap_or(15));
    let scaled = number * scale;
    if scaled.abs() > 9e15 { number } else { scaled.round() / scale }
}
