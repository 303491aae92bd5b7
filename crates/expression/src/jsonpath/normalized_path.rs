//! Normalized paths of values: `$['a'][0]`.

use super::evaluate::{Outcome, Run};
use crate::json::{Kind, Ref};
use crate::value::Value;

/// The paths of `values` in the root's document; values made by the evaluation have none.
pub(super) fn of<'d>(run: &mut Run<'_, 'd>, values: &[Value<'d>]) -> Outcome<Vec<Value<'d>>> {
    let mut paths = Vec::new();
    for value in values {
        if let Value::Json(wanted) = value {
            paths.push(Value::Text(path(run, *wanted)?.into()));
        }
    }
    Ok(paths)
}

fn path(run: &mut Run<'_, '_>, wanted: Ref<'_>) -> Outcome<String> {
    let mut path = String::from("$");
    let mut at = run.root;
    while !at.is_same_place(wanted) {
        run.budget.charge_steps(at.len() as u64)?;
        let next = match at.kind() {
            Kind::Array => {
                let before = |(_, value): &(usize, Ref<'_>)| value.index() <= wanted.index();
                let found = at.elements().enumerate().take_while(before).last();
                found.map(|(index, value)| (format!("[{index}]"), value))
            }
            Kind::Object => {
                let found = at.members().take_while(|(_, value)| value.index() <= wanted.index());
                found.last().map(|(name, value)| {
                    let name = name.replace('\\', "\\\\").replace('\'', "\\'");
                    (format!("['{name}']"), value)
                })
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => None,
        };
        let Some((step, value)) = next else { break };
        path.push_str(&step);
        at = value;
    }
    run.budget.charge_memory(path.len())?;
    Ok(path)
}
