//! EXSLT math.

use xpath::{Item, NodeSet, Value, string_to_number};

use super::call::Call;
use super::{Answer, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("abs",      1, 1, |call| one(call, f64::abs)),
    row("acos",     1, 1, |call| one(call, f64::acos)),
    row("asin",     1, 1, |call| one(call, f64::asin)),
    row("atan",     1, 1, |call| one(call, f64::atan)),
    row("atan2",    2, 2, |call| two(call, f64::atan2)),
    row("constant", 2, 2, constant),
    row("cos",      1, 1, |call| one(call, f64::cos)),
    row("exp",      1, 1, |call| one(call, f64::exp)),
    row("highest",  1, 1, |call| extreme_nodes(call, f64::max)),
    row("log",      1, 1, |call| one(call, f64::ln)),
    row("lowest",   1, 1, |call| extreme_nodes(call, f64::min)),
    row("max",      1, 1, |call| extreme_of(call, f64::max)),
    row("min",      1, 1, |call| extreme_of(call, f64::min)),
    row("power",    2, 2, |call| two(call, f64::powf)),
    row("sin",      1, 1, |call| one(call, f64::sin)),
    row("sqrt",     1, 1, |call| one(call, f64::sqrt)),
    row("tan",      1, 1, |call| one(call, f64::tan)),
];

fn one<'d>(call: &mut Call<'_, 'd>, f: fn(f64) -> f64) -> Answer<Value<'d>> {
    Ok(Value::Number(f(call.number())))
}

fn two<'d>(call: &mut Call<'_, 'd>, f: fn(f64, f64) -> f64) -> Answer<Value<'d>> {
    let first = call.number();
    Ok(Value::Number(f(first, call.number())))
}

fn value(item: Item<'_>) -> f64 {
    string_to_number(&item.string_value())
}

/// NaN if there are no nodes, or one isn't a number.
fn extreme(nodes: &NodeSet<'_>, better: fn(f64, f64) -> f64) -> f64 {
    let both = |one: f64, other: f64| {
        if one.is_nan() || other.is_nan() { f64::NAN } else { better(one, other) }
    };
    nodes.iter().map(value).reduce(both).unwrap_or(f64::NAN)
}

fn extreme_of<'d>(call: &mut Call<'_, 'd>, better: fn(f64, f64) -> f64) -> Answer<Value<'d>> {
    Ok(Value::Number(extreme(&call.nodes()?, better)))
}

fn extreme_nodes<'d>(call: &mut Call<'_, 'd>, better: fn(f64, f64) -> f64) -> Answer<Value<'d>> {
    let nodes = call.nodes()?;
    let best = extreme(&nodes, better);
    let fitting = nodes.iter().filter(|item| value(*item) == best).collect();
    Ok(Value::NodeSet(NodeSet::from_unordered(fitting)))
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

/// A constant, cut to so many characters.
fn constant<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let name = call.text();
    let precision = call.number();
    let found = CONSTANTS.iter().find(|(known, _)| *known == name);
    let Some((_, text)) = found.filter(|_| precision >= 1.0) else {
        return Ok(Value::Number(f64::NAN));
    };
    let kept = text.char_indices().map(|(at, _)| at).find(|at| *at as f64 >= precision);
    let text = kept.and_then(|at| text.get(..at)).unwrap_or(text);
    Ok(Value::Number(string_to_number(text)))
}
