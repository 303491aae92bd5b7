//! EXSLT math.

use xpath::{Item, NodeSet, Value, string_to_number};

use super::arguments::Arguments;
use super::{Evaluated, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("abs",      1, 1, |args| one(args, f64::abs)),
    row("acos",     1, 1, |args| one(args, f64::acos)),
    row("asin",     1, 1, |args| one(args, f64::asin)),
    row("atan",     1, 1, |args| one(args, f64::atan)),
    row("atan2",    2, 2, |args| two(args, f64::atan2)),
    row("constant", 2, 2, constant),
    row("cos",      1, 1, |args| one(args, f64::cos)),
    row("exp",      1, 1, |args| one(args, f64::exp)),
    row("highest",  1, 1, |args| extreme_nodes(args, f64::max)),
    row("log",      1, 1, |args| one(args, f64::ln)),
    row("lowest",   1, 1, |args| extreme_nodes(args, f64::min)),
    row("max",      1, 1, |args| extreme_of(args, f64::max)),
    row("min",      1, 1, |args| extreme_of(args, f64::min)),
    row("power",    2, 2, |args| two(args, f64::powf)),
    row("sin",      1, 1, |args| one(args, f64::sin)),
    row("sqrt",     1, 1, |args| one(args, f64::sqrt)),
    row("tan",      1, 1, |args| one(args, f64::tan)),
];

fn one<'d>(args: &mut Arguments<'_, 'd>, f: fn(f64) -> f64) -> Evaluated<Value<'d>> {
    Ok(Value::Number(f(args.number()?)))
}

fn two<'d>(args: &mut Arguments<'_, 'd>, f: fn(f64, f64) -> f64) -> Evaluated<Value<'d>> {
    let first = args.number()?;
    Ok(Value::Number(f(first, args.number()?)))
}

/// The numbers of the nodes.
fn numbers<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Vec<(Item<'d>, f64)>> {
    let nodes = args.nodes()?;
    args.charge_memory(nodes.len().saturating_mul(size_of::<(Item<'_>, f64)>()))?;
    let mut numbers = Vec::with_capacity(nodes.len());
    for item in &nodes {
        let text = item.charged_string_value(args.host.budget())?;
        args.host.budget().charge_scanning(text.len())?;
        numbers.push((item, string_to_number(&text)));
    }
    Ok(numbers)
}

/// NaN if there are no nodes, or one is not a number.
fn extreme(numbers: &[(Item<'_>, f64)], better: fn(f64, f64) -> f64) -> f64 {
    let both = |one: f64, other: f64| {
        if one.is_nan() || other.is_nan() { f64::NAN } else { better(one, other) }
    };
    numbers.iter().map(|(_, number)| *number).reduce(both).unwrap_or(f64::NAN)
}

fn extreme_of<'d>(
    args: &mut Arguments<'_, 'd>,
    better: fn(f64, f64) -> f64,
) -> Evaluated<Value<'d>> {
    Ok(Value::Number(extreme(&numbers(args)?, better)))
}

fn extreme_nodes<'d>(
    args: &mut Arguments<'_, 'd>,
    better: fn(f64, f64) -> f64,
) -> Evaluated<Value<'d>> {
    let numbers = numbers(args)?;
    let best = extreme(&numbers, better);
    let found = numbers.iter().filter(|(_, number)| *number == best).map(|(item, _)| *item);
    Ok(Value::NodeSet(NodeSet::from_unordered(found.collect())))
}

#[rustfmt::skip]
const CONSTANTS: &[(&str, &str)] = &[
    ("E",       "2.71828182845904523536028747135266249775724709369996"),
    ("LN10",    "2.30258509299404568402"),
    ("LN2",     "0.69314718055994530941723212145817656807550013436025"),
    ("LOG2E",   "1.4426950408889634074"),
    ("PI",      "3.1415926535897932384626433832795028841971693993751"),
    ("SQRRT2",  "1.41421356237309504880168872420969807856967187537694"),
    ("SQRT1_2", "0.70710678118654752440"),
];

/// A constant, truncated to the given number of characters.
fn constant<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let name = args.text()?;
    let precision = args.number()?;
    let found = CONSTANTS.iter().find(|(known, _)| *known == name);
    let Some((_, text)) = found.filter(|_| precision >= 1.0) else {
        return Ok(Value::Number(f64::NAN));
    };
    let kept = text.char_indices().map(|(at, _)| at).find(|at| *at as f64 >= precision);
    let text = kept.and_then(|at| text.get(..at)).unwrap_or(text);
    Ok(Value::Number(string_to_number(text)))
}
