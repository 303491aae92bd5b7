//! Names, members, elements, slices and ranges.

use super::super::{Expr, Kind, LoopProperty, built_ins};
use super::{Machine, Step, fail};
use crate::context::PropertyScope;
use crate::json::{self, Builder};
use crate::{Error, Value};

impl<'s> Machine<'s> {
    pub(super) fn name(&mut self, name: &str, at: usize) -> Step<Option<Value<'s>>> {
        self.charge_names()?;
        if let Some((_, value)) = self.names.iter().find(|(known, _)| *known == name) {
            if let Value::Made(_) | Value::Text(_) = value {
                self.charge_copy(value)?;
            }
            return Ok(Some(value.clone()));
        }
        if name == "payload" {
            return match self.context.json() {
                Ok(Some(json)) => Ok(Some(Value::Json(json))),
                Ok(None) => match self.context.text() {
                    Ok(text) => Ok(Some(Value::Text(text))),
                    Err(error) => fail(at, error.to_string()),
                },
                Err(error) => fail(at, error.to_string()),
            };
        }
        Ok(None)
    }

    /// `args.x`, `ctx.x`, `axis2.x`, `trp.x`, `vars.x`: parts of the message that are not values themselves.
    fn part(&self, of: &Expr, name: &str, at: usize) -> Step<Option<Option<Value<'s>>>> {
        let Kind::Name(part) = &*of.kind else { return Ok(None) };
        self.charge_names()?;
        if self.names.iter().any(|(known, _)| **known == **part) {
            return Ok(None);
        }
        Ok(Some(match &**part {
            "ctx" => self.context.property(PropertyScope::Synapse, name),
            "axis2" => self.context.property(PropertyScope::Axis2, name),
            "trp" | "headers" => self.context.header(name).map(Value::Text),
            "vars" => self.context.variable(name),
            "args" => {
                let number =
                    name.strip_prefix("arg").and_then(|number| number.parse::<usize>().ok());
                let argument =
                    number.and_then(|number| self.template.arguments.get(number.checked_sub(1)?));
                let Some(argument) = argument else { return Ok(Some(None)) };
                match argument.evaluate_within(self.context, self.budget) {
                    Ok(value) => Some(value).filter(|value| !value.is_null()),
                    Err(Error::Missing(_)) => None,
                    Err(Error::Budget(exceeded)) => return Err(exceeded.into()),
                    Err(error) => return fail(at, error.to_string()),
                }
            }
            _ => return Ok(None),
        }))
    }

    pub(super) fn member(
        &mut self,
        of: &'s Expr,
        name: &str,
        at: usize,
    ) -> Step<Option<Value<'s>>> {
        if let Some(found) = self.part(of, name, at)? {
            return Ok(found);
        }
        match self.value(of)? {
            Value::Json(json) if json.kind() == json::Kind::Object => {
                self.budget.charge_steps(json.len() as u64 / 8)?;
                Ok(json.get(name).map(Value::Json))
            }
            Value::Made(document) if document.root().kind() == json::Kind::Object => {
                Ok(document.root().get(name).map(|value| Value::Json(value).into_owned()))
            }
            _ => fail(at, format!("member `{name}` of a value that is not a hash")),
        }
    }

    pub(super) fn element(&mut self, of: Value<'s>, place: i64) -> Step<Option<Value<'s>>> {
        let Ok(place) = usize::try_from(place) else { return Ok(None) };
        Ok(match of {
            Value::Json(json) if json.kind() == json::Kind::Array => {
                self.budget.charge_steps(place.min(json.len()) as u64 / 8)?;
                json.at(place).map(Value::Json)
            }
            Value::Made(document) => {
                document.root().at(place).map(|value| Value::Json(value).into_owned())
            }
            other => {
                self.budget.charge_scanning(place.min(built_ins::text_len(&other)))?;
                other.text().chars().nth(place).map(|found| Value::Text(found.to_string().into()))
            }
        })
    }

    pub(super) fn whole(&mut self, of: &'s Expr) -> Step<i64> {
        match self.plain(of)? {
            Value::Integer(whole) => Ok(whole),
            _ => fail(of.at, "integer expected"),
        }
    }

    pub(super) fn range(
        &mut self,
        from: &'s Expr,
        to: &'s Expr,
        exclusive: bool,
    ) -> Step<Value<'s>> {
        let (first, last) = (self.whole(from)?, self.whole(to)?);
        let step = if last >= first { 1 } else { -1 };
        let mut builder = Builder::new();
        builder.begin_array();
        let mut at = first;
        while at != last {
            self.budget.charge_steps(1)?;
            self.budget.charge_memory(24 + json::NODE_BYTES)?;
            builder.number(&at.to_string());
            at += step;
        }
        if !exclusive {
            builder.number(&last.to_string());
        }
        Ok(Value::Made(Box::new(builder.finish())))
    }

    pub(super) fn slice(
        &mut self,
        of: &'s Expr,
        from: &'s Expr,
        to: Option<&'s Expr>,
    ) -> Step<Value<'s>> {
        let value = self.value(of)?.plain();
        self.charge_copy(&value)?;
        let from_at = from.at;
        let from = usize::try_from(self.whole(from)?).unwrap_or(usize::MAX);
        let to = match to {
            Some(to) => Some(usize::try_from(self.whole(to)?.saturating_add(1)).unwrap_or(0)),
            None => None,
        };
        if let Some(array) = value.json() {
            let to = to.unwrap_or(array.len());
            if from > array.len() || to > array.len() {
                return fail(from_at, "the slice goes past the end");
            }
            let part: Vec<_> = array
                .elements()
                .skip(from)
                .take(to.saturating_sub(from))
                .map(Value::Json)
                .collect();
            return Ok(Value::array_of(&part));
        }
        let text = value.text();
        let length = text.chars().count();
        let to = to.unwrap_or(length);
        if from > length || to > length {
            return fail(from_at, "the slice goes past the end");
        }
        let part: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
        Ok(Value::Text(part.into()))
    }

    pub(super) fn loop_property(
        &self,
        name: &str,
        property: LoopProperty,
        at: usize,
    ) -> Step<Value<'s>> {
        let Some(state) = self.loops.iter().rev().find(|state| state.name == name) else {
            return fail(at, format!("`{name}` is not a loop variable here"));
        };
        let number = |of: usize| Value::Integer(i64::try_from(of).unwrap_or(i64::MAX));
        Ok(match property {
            LoopProperty::Index => number(state.index),
            LoopProperty::Counter => number(state.index + 1),
            LoopProperty::HasNext => Value::Boolean(state.index + 1 < state.count),
            LoopProperty::IsFirst => Value::Boolean(state.index == 0),
            LoopProperty::IsLast => Value::Boolean(state.index + 1 == state.count),
            LoopProperty::IsOdd => Value::Boolean(state.index % 2 == 0),
            LoopProperty::IsEven => Value::Boolean(state.index % 2 == 1),
        })
    }
}
