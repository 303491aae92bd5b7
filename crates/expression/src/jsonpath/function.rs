//! Functions of a path: `length()`, `sum()` and the like.

use super::compare;
use super::evaluate::{Outcome, Run};
use super::filter::Operand;
use crate::error::Error;
use crate::json::{Builder, Kind, NODE_BYTES, Ref};
use crate::value::Value;

/// A function call.
#[derive(Clone)]
pub(super) struct FunctionCall {
    function: Function,
    arguments: Vec<Operand>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Min,
    Max,
    Avg,
    Stddev,
    Sum,
    Length,
    Keys,
    Concat,
    Append,
    First,
    Last,
    Index,
}

const FUNCTIONS: &[(&str, Function)] = &[
    ("min", Function::Min),
    ("max", Function::Max),
    ("avg", Function::Avg),
    ("stddev", Function::Stddev),
    ("sum", Function::Sum),
    ("length", Function::Length),
    ("size", Function::Length),
    ("keys", Function::Keys),
    ("concat", Function::Concat),
    ("append", Function::Append),
    ("first", Function::First),
    ("last", Function::Last),
    ("index", Function::Index),
];

impl FunctionCall {
    /// Fails if the function `name` does not exist, or does not take these arguments.
    pub(super) fn new(name: &str, arguments: Vec<Operand>) -> Result<Self, String> {
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let (_, function) = found.ok_or_else(|| {
            let known: Vec<_> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
            format!("unknown function `{name}()`; use one of {}", known.join(", "))
        })?;
        if *function == Function::Index && arguments.len() != 1 {
            return Err("`index()` takes one argument".to_owned());
        }
        Ok(Self { function: *function, arguments })
    }

    /// Whether the function computes a number from numbers.
    pub(super) fn is_aggregate(&self) -> bool {
        match self.function {
            Function::Min | Function::Max | Function::Avg | Function::Stddev | Function::Sum => {
                true
            }
            Function::Length | Function::Keys | Function::Concat | Function::Append => false,
            Function::First | Function::Last | Function::Index => false,
        }
    }

    /// Applies the function to one value; of an array, to its elements.
    pub(super) fn over_value<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        value: &Value<'d>,
    ) -> Outcome<Value<'d>> {
        match self.function {
            Function::Length if self.arguments.is_empty() => {
                return Ok(compare::size(run, value)?.map_or(Value::Null, count));
            }
            Function::Keys => return keys(run, value),
            Function::Length | Function::Min | Function::Max | Function::Avg => {}
            Function::Stddev | Function::Sum | Function::Concat | Function::Append => {}
            Function::First | Function::Last | Function::Index => {}
        }
        let count = value.json().filter(|json| json.kind() == Kind::Array).map_or(0, Ref::len);
        run.budget.charge_steps(count as u64)?;
        run.budget.charge_memory(count * size_of::<Value<'_>>())?;
        if let Value::Made(_) = value {
            value.charge_copy(run.budget)?;
        }
        let elements: Vec<Value<'d>> = match value {
            Value::Json(json) => json.elements().map(Value::Json).collect(),
            Value::Made(document) => document
                .root()
                .elements()
                .map(|element| Value::Json(element).into_owned())
                .collect(),
            Value::Text(_)
            | Value::Integer(_)
            | Value::Double(_)
            | Value::Boolean(_)
            | Value::Null => Vec::new(),
        };
        self.apply(run, &elements, run.root, false)
    }

    /// Applies the function to everything that the steps before it selected.
    pub(super) fn over_list<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        list: &[Value<'d>],
        from: Ref<'d>,
    ) -> Outcome<Value<'d>> {
        self.apply(run, list, from, true)
    }

    /// `selected`: the list is a selection, not the elements of one array.
    fn apply<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        list: &[Value<'d>],
        from: Ref<'d>,
        selected: bool,
    ) -> Outcome<Value<'d>> {
        let mut given = Vec::new();
        for argument in &self.arguments {
            given.extend(argument.value(run, from)?);
        }
        match self.function {
            Function::Min | Function::Max | Function::Avg | Function::Stddev | Function::Sum => {
                self.aggregate(&numbers(run, list, &given, selected)?).map(Value::Double)
            }
            Function::Length => match given.first() {
                Some(value) => Ok(compare::size(run, value)?.map_or(Value::Null, count)),
                // As in Jayway: `$..a.length()` counts what `$..a[*]` selects.
                None => Ok(count(list.iter().filter_map(Value::json).map(Ref::len).sum())),
            },
            Function::Keys => list.first().map_or(Ok(Value::Null), |value| keys(run, value)),
            Function::Concat => concat(run, list, &given, selected),
            Function::Append => {
                list.iter().chain(&given).try_for_each(|value| value.charge_copy(run.budget))?;
                let all: Vec<_> = list.iter().chain(&given).cloned().collect();
                Ok(Value::array_of(&all))
            }
            Function::First => Ok(list.first().cloned().unwrap_or(Value::Null)),
            Function::Last => Ok(list.last().cloned().unwrap_or(Value::Null)),
            Function::Index => {
                let wanted = given.first().and_then(|value| match value {
                    Value::Integer(place) => Some(*place),
                    Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Double(_) => None,
                    Value::Boolean(_) | Value::Null => None,
                });
                let wanted =
                    wanted.ok_or_else(|| Error::Type("`index()` takes an integer".to_owned()))?;
                let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let place = if wanted < 0 { wanted.saturating_add(size) } else { wanted };
                let found = usize::try_from(place).ok().and_then(|place| list.get(place));
                found.cloned().ok_or_else(|| {
                    Error::Missing(format!("no element {wanted} in an array of {size}"))
                })
            }
        }
    }

    fn aggregate(&self, numbers: &[f64]) -> Outcome<f64> {
        if numbers.is_empty() {
            return Err(Error::Missing("no numbers to compute from".to_owned()));
        }
        let count = numbers.len() as f64;
        let sum: f64 = numbers.iter().sum();
        Ok(match self.function {
            Function::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Function::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Function::Avg => sum / count,
            Function::Stddev => {
                let squares: f64 = numbers.iter().map(|number| number * number).sum();
                (squares / count - sum * sum / count / count).max(0.0).sqrt()
            }
            Function::Sum | Function::Length | Function::Keys | Function::Concat => sum,
            Function::Append | Function::First | Function::Last | Function::Index => sum,
        })
    }
}

fn count(of: usize) -> Value<'static> {
    Value::Integer(i64::try_from(of).unwrap_or(i64::MAX))
}

/// The numbers of the list and the arguments, and of arrays among the arguments. Arrays in the list count if it is a
/// selection.
fn numbers(
    run: &Run<'_, '_>,
    list: &[Value<'_>],
    given: &[Value<'_>],
    selected: bool,
) -> Outcome<Vec<f64>> {
    let number = |json: Ref<'_>| json.number_text().and_then(|text| text.parse::<f64>().ok());
    let mut numbers: Vec<f64> = Vec::new();
    for (place, value) in list.iter().chain(given).enumerate() {
        let more = value.json().map_or(1, |json| json.len() + 1);
        run.budget.charge_steps(more as u64)?;
        run.budget.charge_reading(value.json().map_or(0, |json| json.raw().len()))?;
        run.budget.charge_memory(more * size_of::<f64>())?;
        match value {
            Value::Integer(integer) => numbers.push(*integer as f64),
            Value::Double(double) => numbers.push(*double),
            Value::Json(_) | Value::Made(_) => {
                let Some(json) = value.json() else { continue };
                match json.kind() {
                    Kind::Array if selected || place >= list.len() => {
                        numbers.extend(json.elements().filter_map(number));
                    }
                    Kind::Number => numbers.extend(number(json)),
                    Kind::Null | Kind::Boolean | Kind::String | Kind::Array | Kind::Object => {}
                }
            }
            Value::Text(_) | Value::Boolean(_) | Value::Null => {}
        }
    }
    Ok(numbers)
}

fn keys(run: &Run<'_, '_>, value: &Value<'_>) -> Outcome<Value<'static>> {
    let Some(object) = value.json().filter(|json| json.kind() == Kind::Object) else {
        return Ok(Value::Null);
    };
    run.budget.charge_steps(object.len() as u64)?;
    let mut builder = Builder::new();
    builder.begin_array();
    for (name, _) in object.members() {
        run.budget.charge_memory(name.len() + NODE_BYTES)?;
        builder.string(&name);
    }
    Ok(Value::Made(Box::new(builder.finish())))
}

/// Joins texts: all arguments, and of the list everything if it is a selection, else its strings.
fn concat(
    run: &Run<'_, '_>,
    list: &[Value<'_>],
    given: &[Value<'_>],
    selected: bool,
) -> Outcome<Value<'static>> {
    let is_text = |value: &Value<'_>| match value.json() {
        Some(json) => json.kind() == Kind::String,
        None => matches!(value, Value::Text(_)),
    };
    let mut joined = String::new();
    for value in list.iter().filter(|value| selected || is_text(value)).chain(given) {
        let part = value.text();
        run.budget.charge_steps(1)?;
        run.budget.charge_memory(part.len())?;
        joined.push_str(&part);
    }
    Ok(Value::Text(joined.into()))
}
