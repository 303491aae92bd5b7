//! Where values stand, as normalised paths: `$['a'][0]`.

use super::evaluate::{Answer, Run};
use crate::Value;
use crate::json::{Kind, Ref};

/// The place of each value of `root`'s document; values that were made have none.
pub(super) fn of<'d>(run: &mut Run<'_, 'd>, values: &[Value<'d>]) -> Answer<Vec<Value<'d>>> {
    let mut places = Vec::new();
    for value in values {
        if let Value::Json(wanted) = value {
            places.push(Value::Text(place(run, *wanted)?.into()));
        }
    }
    Ok(places)
}

fn place(run: &mut Run<'_, '_>, wanted: Ref<'_>) -> Answer<String> {
    let mut place = String::from("$");
    let mut at = run.root;
    while !at.is_same_place(wanted) {
        run.budget.visit(at.len() as u64)?;
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
        place.push_str(&step);
        at = value;
    }
    run.budget.visit_text(place.len())?;
    Ok(place)
}
