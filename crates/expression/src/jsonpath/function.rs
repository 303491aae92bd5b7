//! Functions at the end of a path, and inside it.

use super::compare;
use super::evaluate::{Answer, Run, copied};
use super::filter::Operand;
use crate::json::{Builder, Kind, Ref};
use crate::{EvalError, Value};

/// A function with its arguments.
#[derive(Clone)]
pub(super) struct Call {
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

impl Call {
    /// The function called `name`; what is wrong with it, else.
    pub(super) fn new(name: &str, arguments: Vec<Operand>) -> Result<Self, String> {
        let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
        let (_, function) = found.ok_or_else(|| {
            let known: Vec<_> = FUNCTIONS.iter().map(|(known, _)| *known).collect();
            format!("unknown function `{name}()`; there are {}", known.join(", "))
        })?;
        if *function == Function::Index && arguments.len() != 1 {
            return Err("`index()` takes one number".to_owned());
        }
        Ok(Self { function: *function, arguments })
    }

    /// Functions over numbers: they take all that an indefinite path finds.
    pub(super) fn is_aggregate(&self) -> bool {
        match self.function {
            Function::Min | Function::Max | Function::Avg | Function::Stddev | Function::Sum => {
                true
            }
            Function::Length | Function::Keys | Function::Concat | Function::Append => false,
            Function::First | Function::Last | Function::Index => false,
        }
    }

    /// The function over what a value holds.
    pub(super) fn over_value<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        value: &Value<'d>,
    ) -> Answer<Value<'d>> {
        let root = run.root;
        match self.function {
            Function::Length if self.arguments.is_empty() => {
                return Ok(compare::size(run, value)?.map_or(Value::Null, count));
            }
            Function::Keys => return Ok(keys(value)),
            Function::Length | Function::Min | Function::Max | Function::Avg => {}
            Function::Stddev | Function::Sum | Function::Concat | Function::Append => {}
            Function::First | Function::Last | Function::Index => {}
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
        self.over_list(run, &elements, root)
    }

    /// The function over a list.
    pub(super) fn over_list<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        list: &[Value<'d>],
        from: Ref<'d>,
    ) -> Answer<Value<'d>> {
        let mut given = Vec::new();
        for argument in &self.arguments {
            given.extend(argument.value(run, from)?);
        }
        match self.function {
            Function::Min | Function::Max | Function::Avg | Function::Stddev | Function::Sum => {
                run.budget.visit(list.len() as u64)?;
                self.aggregate(&numbers(list, &given)).map(Value::Double)
            }
            Function::Length => match given.first() {
                Some(value) => Ok(compare::size(run, value)?.map_or(Value::Null, count)),
                None => Ok(count(list.len())),
            },
            Function::Keys => Ok(list.first().map_or(Value::Null, keys)),
            Function::Concat => concat(run, list, &given),
            Function::Append => {
                list.iter().chain(&given).try_for_each(|value| run.budget.visit(copied(value)))?;
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
                let wanted = wanted
                    .ok_or_else(|| EvalError::Type("`index()` takes a whole number".to_owned()))?;
                let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let place = if wanted < 0 { wanted.saturating_add(size) } else { wanted };
                let found = usize::try_from(place).ok().and_then(|place| list.get(place));
                found
                    .cloned()
                    .ok_or_else(|| EvalError::Missing(format!("no element {wanted} among {size}")))
            }
        }
    }

    fn aggregate(&self, numbers: &[f64]) -> Answer<f64> {
        if numbers.is_empty() {
            return Err(EvalError::Missing("a function over numbers found none".to_owned()));
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

/// The numbers of the list and of the arguments; an argument that is a list gives its own.
fn numbers(list: &[Value<'_>], given: &[Value<'_>]) -> Vec<f64> {
    let number = |json: Ref<'_>| json.number_text().and_then(|text| text.parse::<f64>().ok());
    let mut found: Vec<f64> = Vec::new();
    for value in list.iter().chain(given) {
        match value {
            Value::Integer(whole) => found.push(*whole as f64),
            Value::Double(double) => found.push(*double),
            Value::Json(_) | Value::Made(_) => {
                let Some(json) = value.json() else { continue };
                match json.kind() {
                    Kind::Array => found.extend(json.elements().filter_map(number)),
                    Kind::Number => found.extend(number(json)),
                    Kind::Null | Kind::Boolean | Kind::String | Kind::Object => {}
                }
            }
            Value::Text(_) | Value::Boolean(_) | Value::Null => {}
        }
    }
    found
}

fn keys(value: &Value<'_>) -> Value<'static> {
    let Some(object) = value.json().filter(|json| json.kind() == Kind::Object) else {
        return Value::Null;
    };
    let mut builder = Builder::new();
    builder.begin_array();
    for (name, _) in object.members() {
        builder.string(&name);
    }
    Value::Made(Box::new(builder.finish()))
}

/// The strings of the list, then all arguments as text.
fn concat(
    run: &mut Run<'_, '_>,
    list: &[Value<'_>],
    given: &[Value<'_>],
) -> Answer<Value<'static>> {
    let mut text = String::new();
    for value in list {
        if let Value::Text(part) = value.clone().plain() {
            run.budget.visit_text(part.len())?;
            text.push_str(&part);
        }
    }
    for value in given {
        run.budget.visit(copied(value))?;
        text.push_str(&value.text());
    }
    Ok(Value::Text(text.into()))
}
