//! Evaluation. It recurses on the nesting of the expression, which the grammar bounds.

use xpath::{Budget, Pool};

use super::{Access, Node, Operator, Root, Xpath, XpathSource, functions};
use crate::context::EvalContext;
use crate::error::Error;
use crate::json::{Document, Kind, Limits};
use crate::value::Value;
use crate::{limits, xpath_bridge};

pub(super) type Outcome<'s> = Result<Value<'s>, Error>;

pub(super) fn node<'s>(of: &'s Node, context: &'s dyn EvalContext, budget: &Budget) -> Outcome<'s> {
    match of {
        Node::Literal(value) => Ok(value.clone()),
        Node::Array(elements) => {
            let values: Result<Vec<_>, _> =
                elements.iter().map(|element| node(element, context, budget)).collect();
            Value::array(&values?, budget)
        }
        Node::Access(path) => access(path, context, budget),
        Node::Call(function, arguments) => functions::call(*function, arguments, context, budget),
        Node::Xpath(xpath) => evaluate_xpath(xpath, context, budget),
        Node::Binary(left, operator, right) => {
            let left = node(left, context, budget)?.plain_within(budget)?;
            let right = node(right, context, budget)?.plain_within(budget)?;
            binary(&left, *operator, &right, budget)
        }
        Node::Choice(parts) => match node(&parts.0, context, budget)?.plain_within(budget)? {
            Value::Boolean(true) => node(&parts.1, context, budget),
            Value::Boolean(false) => node(&parts.2, context, budget),
            Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Integer(_) => {
                Err(type_error("a condition", "a boolean"))
            }
            Value::Double(_) | Value::Null => Err(type_error("a condition", "a boolean")),
        },
    }
}

/// `what` requires another type.
pub(super) fn type_error(what: &str, required: &str) -> Error {
    Error::Type(format!("{what} requires {required}"))
}

/// The document that an XPath is evaluated on; `None`: the body.
fn document<'s>(
    xpath: &'s Xpath,
    context: &'s dyn EvalContext,
    budget: &Budget,
) -> Result<Option<&'s xml::Document>, Error> {
    let Some(variable) = &xpath.variable else { return Ok(None) };
    let name = node(variable, context, budget)?.plain_within(budget)?;
    let missing = || Error::Missing(format!("no XML in variable `{}`", name.text()));
    context.variable_xml(&name.text()).ok_or_else(missing).map(Some)
}

/// The nodes that an expression selects which is a call of `xpath` with a literal, and nothing else.
pub(super) fn nodes<'s>(
    expression: &'s Node,
    context: &'s dyn EvalContext,
    budget: &Budget,
) -> Result<Option<xpath::NodeSet<'s>>, Error> {
    let Node::Xpath(xpath) = expression else { return Ok(None) };
    let XpathSource::Compiled(path) = &xpath.path else { return Ok(None) };
    let on = (document(xpath, context, budget)?, None);
    Ok(match xpath_bridge::evaluate(path, context, on, budget)? {
        xpath::Value::NodeSet(nodes) => Some(nodes),
        _ => None,
    })
}

fn evaluate_xpath<'s>(
    xpath: &'s Xpath,
    context: &'s dyn EvalContext,
    budget: &Budget,
) -> Outcome<'s> {
    let document = document(xpath, context, budget)?;
    let pool = Pool::default();
    let on = (document, Some(&pool));
    let found = match &xpath.path {
        XpathSource::Compiled(path) => xpath_bridge::evaluate(path, context, on, budget)?,
        XpathSource::Computed(path, namespaces) => {
            let path = node(path, context, budget)?;
            let path = path.text();
            if path.len() > limits::COMPUTED_PATH_BYTES_MAX {
                let most = limits::COMPUTED_PATH_BYTES_MAX;
                return Err(Error::Type(format!("computed XPath longer than {most} bytes")));
            }
            // Compiling costs about as much as 500 steps, and 20 more for each byte.
            budget.charge_steps(500 + 20 * path.len() as u64)?;
            let compiled = xpath_bridge::compile(&path, namespaces)
                .map_err(|error| Error::Type(format!("invalid XPath `{path}`: {error}")))?;
            xpath_bridge::evaluate(&compiled, context, on, budget)?
        }
    };
    xpath_bridge::value(found, budget)
}

fn access<'s>(access: &'s Access, context: &'s dyn EvalContext, budget: &Budget) -> Outcome<'s> {
    let value = match &access.root {
        Root::Payload => match context.json()? {
            Some(json) => Value::Json(json),
            None => Value::Text(context.text()?),
        },
        Root::Variable(name) => context
            .variable(name)
            .ok_or_else(|| Error::Missing(format!("variable `{name}` is not defined")))?,
        Root::Header(name) => context.header(name).map_or(Value::Null, Value::Text),
        Root::Property(of, name) => context.property(*of, name).unwrap_or(Value::Null),
        Root::Parameter(kind, name) => {
            context.parameter(*kind, name).map_or(Value::Null, Value::Text)
        }
        Root::Config(name) => context.config(name).map_or(Value::Null, Value::Text),
        Root::Result(call) => node(call, context, budget)?,
    };
    if access.path.is_root() {
        return Ok(value);
    }
    let mut slots = Vec::new();
    for slot in &access.slots {
        slots.push(node(slot, context, budget)?);
    }
    along(access, value, &slots, budget)
}

/// Follows the path into `value`; text is parsed as JSON.
fn along<'s>(
    access: &'s Access,
    value: Value<'s>,
    slots: &[Value<'s>],
    budget: &Budget,
) -> Outcome<'s> {
    let inside = |document: &Document<'_>| -> Outcome<'s> {
        let slots: Vec<_> = slots.to_vec();
        let found = access.path.evaluate_with(document.root(), &slots, budget)?;
        Ok(found.into_value_within(budget)?.into_owned())
    };
    match value.plain_within(budget)? {
        Value::Json(json) => {
            access.path.evaluate_with(json, slots, budget)?.into_value_within(budget)
        }
        Value::Made(document) => inside(&document),
        Value::Text(text) => {
            budget.charge_scanning(text.len())?;
            match Document::parse_charged(text.as_bytes(), &Limits::default(), budget) {
                Ok(document) => inside(&document),
                Err(error @ Error::Budget(_)) => Err(error),
                Err(error) => Err(Error::Type(format!("a path requires JSON: {error}"))),
            }
        }
        Value::Integer(_) | Value::Double(_) | Value::Boolean(_) => {
            Err(type_error("a path", "an object or an array"))
        }
        Value::Null => Err(Error::Missing("the value before the path does not exist".to_owned())),
    }
}

fn binary<'s>(
    left: &Value<'s>,
    operator: Operator,
    right: &Value<'s>,
    budget: &Budget,
) -> Outcome<'s> {
    match operator {
        Operator::Equal => Ok(Value::Boolean(equal(left, right, budget)?)),
        Operator::NotEqual => Ok(Value::Boolean(!equal(left, right, budget)?)),
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
            (_, _) => Err(type_error(
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

/// Compares texts; `null` and absent values equal only each other.
fn equal(left: &Value<'_>, right: &Value<'_>, budget: &Budget) -> Result<bool, Error> {
    Ok(match (left.is_null(), right.is_null()) {
        (true, true) => true,
        (false, false) => {
            let (left, right) = (left.text(), right.text());
            budget.charge_reading(left.len().min(right.len()))?;
            left == right
        }
        (_, _) => false,
    })
}

fn compare<'s>(left: &Value<'_>, operator: Operator, right: &Value<'_>) -> Outcome<'s> {
    let (Some(left), Some(right)) = (numeric(left), numeric(right)) else {
        return Err(type_error("a comparison", "two numbers"));
    };
    Ok(Value::Boolean(match operator {
        Operator::Less => left < right,
        Operator::LessOrEqual => left <= right,
        Operator::Greater => left > right,
        _ => left >= right,
    }))
}

/// The value of a number; text that spells a number is not one.
pub(super) fn numeric(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Double(double) => Some(*double),
        Value::Json(json) if json.kind() == Kind::Number => json.raw().parse().ok(),
        Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Boolean(_) | Value::Null => None,
    }
}

fn add<'s>(left: &Value<'_>, right: &Value<'_>, budget: &Budget) -> Outcome<'s> {
    if let (Value::Text(one), Value::Text(other)) = (left, right) {
        budget.charge_memory(one.len() + other.len())?;
        return Ok(Value::Text(format!("{one}{other}").into()));
    }
    if let (Value::Integer(one), Value::Integer(other)) = (left, right)
        && let Some(sum) = one.checked_add(*other)
    {
        return Ok(Value::Integer(sum));
    }
    match (numeric(left), numeric(right)) {
        (Some(one), Some(other)) => Ok(Value::Double(decimal(one, other, one + other))),
        (_, _) => Err(type_error("`+`", "two numbers or two strings")),
    }
}

fn arithmetic<'s>(left: &Value<'_>, operator: Operator, right: &Value<'_>) -> Outcome<'s> {
    let (Some(one), Some(other)) = (numeric(left), numeric(right)) else {
        return Err(type_error("arithmetic", "two numbers"));
    };
    let divides = matches!(operator, Operator::Divide | Operator::Modulo);
    if divides && other == 0.0 {
        return Err(Error::Type("division by zero".to_owned()));
    }
    if let (Value::Integer(one), Value::Integer(other)) = (left, right) {
        // As in Micro Integrator, where the quotient of a `long` is a `double`.
        let is_long = |number: &i64| i32::try_from(*number).is_err();
        let whole = match operator {
            Operator::Subtract => one.checked_sub(*other),
            Operator::Multiply => one.checked_mul(*other),
            Operator::Modulo => one.checked_rem(*other),
            _ if is_long(one) || is_long(other) => None,
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

/// Digits after the point in the shortest representation.
fn places(number: f64) -> usize {
    let text = format!("{number}");
    text.split_once('.').map_or(0, |(_, digits)| digits.len())
}

/// `exact` rounded as in decimal arithmetic, which Micro Integrator uses: 0.1 + 0.2 is 0.3.
fn decimal(one: f64, other: f64, exact: f64) -> f64 {
    rounded(exact, places(one).max(places(other)))
}

fn product(one: f64, other: f64) -> f64 {
    rounded(one * other, places(one) + places(other))
}

/// Rounded half up to the digits of the dividend, at least one, like Java's `BigDecimal.divide`.
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
