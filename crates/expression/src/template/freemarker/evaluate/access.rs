//! Names, members, elements, slices and ranges.

use super::super::nodes::Nodes;
use super::super::{Expr, Kind, LoopProperty, built_ins};
use super::{Machine, Model, Step, Stop, fail};
use crate::context::PropertyScope;
use crate::error::Error;
use crate::json::{self, Builder};
use crate::value::Value;

impl<'s> Machine<'s> {
    pub(super) fn name(&mut self, name: &str) -> Step<Option<Model<'s>>> {
        self.charge_names()?;
        if let Some((_, value)) = self.names.iter().find(|(known, _)| *known == name) {
            if let Model::Value(copied @ (Value::Made(_) | Value::Text(_))) = value {
                self.charge_copy(copied)?;
            }
            return Ok(Some(value.clone()));
        }
        if name != "payload" {
            return Ok(None);
        }
        self.payload().map(Some).map_err(Stop::Error)
    }

    fn payload(&self) -> Result<Model<'s>, Error> {
        if let Some(element) = self.context.xml_payload()? {
            return Ok(Model::Nodes(Nodes::Document(element)));
        }
        Ok(Model::Value(match self.context.json()? {
            Some(json) => Value::Json(json),
            None => Value::Text(self.context.text()?),
        }))
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
    ) -> Step<Option<Model<'s>>> {
        if let Some(found) = self.part(of, name, at)? {
            return Ok(found.map(Model::Value));
        }
        let of = self.value(of)?;
        self.member_of(&of, name, at)
    }

    pub(super) fn member_of(
        &self,
        of: &Model<'s>,
        name: &str,
        at: usize,
    ) -> Step<Option<Model<'s>>> {
        let found = match of {
            Model::Nodes(nodes) => {
                let namespaces = &self.template.namespaces;
                return nodes.member(name, namespaces, at, self.budget).map(Some);
            }
            Model::Value(Value::Json(json)) if json.kind() == json::Kind::Object => {
                self.budget.charge_steps(json.len() as u64 / 8)?;
                json.get(name).map(Value::Json)
            }
            Model::Value(Value::Made(document)) if document.root().kind() == json::Kind::Object => {
                document.root().get(name).map(|value| Value::Json(value).into_owned())
            }
            Model::Value(_) => {
                let message = format!("member `{name}` of a value that is not a hash");
                return fail(at, format!("{message}; test with `?is_hash`"));
            }
        };
        Ok(found.map(Model::Value))
    }

    pub(super) fn element(&mut self, of: Model<'s>, place: i64) -> Step<Option<Model<'s>>> {
        let Ok(place) = usize::try_from(place) else { return Ok(None) };
        let found = match of {
            Model::Nodes(nodes) => {
                let found = nodes.as_slice().get(place).copied();
                return Ok(found.map(|node| Model::Nodes(Nodes::One(node))));
            }
            Model::Value(Value::Json(json)) if json.kind() == json::Kind::Array => {
                self.budget.charge_steps(place.min(json.len()) as u64 / 8)?;
                json.at(place).map(Value::Json)
            }
            Model::Value(Value::Made(document)) => {
                document.root().at(place).map(|value| Value::Json(value).into_owned())
            }
            Model::Value(other) => {
                self.budget.charge_scanning(place.min(built_ins::text_len(&other)))?;
                other.text().chars().nth(place).map(|found| Value::Text(found.to_string().into()))
            }
        };
        Ok(found.map(Model::Value))
    }

    pub(super) fn whole(&mut self, of: &'s Expr) -> Step<i64> {
        match self.plain(of)? {
            Value::Integer(whole) => Ok(whole),
            _ => {
                fail(of.at, "integer expected; convert text with `?number`, a fraction with `?int`")
            }
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
    ) -> Step<Model<'s>> {
        let value = self.value(of)?;
        let from_at = from.at;
        let from = usize::try_from(self.whole(from)?).unwrap_or(usize::MAX);
        let to = match to {
            Some(to) => Some(usize::try_from(self.whole(to)?.saturating_add(1)).unwrap_or(0)),
            None => None,
        };
        let count = |length: usize| {
            let to = to.unwrap_or(length);
            if from > length || to > length {
                return fail(
                    from_at,
                    "the slice goes past the end; test with `?size` or `?length`",
                );
            }
            Ok(to.saturating_sub(from))
        };
        let value = match value {
            Model::Value(value) => value.plain(),
            Model::Nodes(nodes) => {
                let all = nodes.as_slice();
                let part = all.iter().skip(from).take(count(all.len())?).copied();
                return Nodes::collect(part, self.budget).map(Model::Nodes);
            }
        };
        self.charge_copy(&value)?;
        if let Some(array) = value.json() {
            let part = array.elements().skip(from).take(count(array.len())?);
            let part: Vec<_> = part.map(Value::Json).collect();
            return Ok(Model::Value(Value::array_of(&part)));
        }
        let text = value.text();
        let part: String = text.chars().skip(from).take(count(text.chars().count())?).collect();
        Ok(Model::Value(Value::Text(part.into())))
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
