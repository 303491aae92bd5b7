//! What a name, a member, a place or a range of a value is.

use super::super::{Expr, Kind, Turn, built_ins};
use super::arithmetic::made_cost;
use super::{Machine, Step, Stop, fault};
use crate::json::{self, Builder};
use crate::scope::PropertyScope;
use crate::{EvalError, Value};

impl<'s> Machine<'s> {
    pub(super) fn name(&mut self, name: &str, at: usize) -> Step<Option<Value<'s>>> {
        if let Some((_, value)) = self.names.iter().find(|(known, _)| *known == name) {
            let value = value.clone();
            self.spend(made_cost(&value))?;
            return Ok(Some(value));
        }
        if name == "payload" {
            return match self.scope.json() {
                Ok(Some(json)) => Ok(Some(Value::Json(json))),
                Ok(None) => match self.scope.text() {
                    Ok(text) => Ok(Some(Value::Text(text))),
                    Err(error) => fault(at, error.to_string()),
                },
                Err(error) => fault(at, error.to_string()),
            };
        }
        Ok(None)
    }

    /// `args.x`, `ctx.x`, `axis2.x`, `trp.x`, `vars.x`: parts of the message that are no values by themselves.
    fn part(&self, of: &Expr, name: &str, at: usize) -> Step<Option<Option<Value<'s>>>> {
        let Kind::Name(part) = &*of.kind else { return Ok(None) };
        if self.names.iter().any(|(known, _)| **known == **part) {
            return Ok(None);
        }
        Ok(Some(match &**part {
            "ctx" => self.scope.property(PropertyScope::Synapse, name),
            "axis2" => self.scope.property(PropertyScope::Axis2, name),
            "trp" | "headers" => self.scope.header(name).map(Value::Text),
            "vars" => self.scope.variable(name),
            "args" => {
                let number =
                    name.strip_prefix("arg").and_then(|number| number.parse::<usize>().ok());
                let argument =
                    number.and_then(|number| self.template.arguments.get(number.checked_sub(1)?));
                let Some(argument) = argument else { return Ok(Some(None)) };
                match argument.evaluate(self.scope) {
                    Ok(value) => Some(value).filter(|value| !value.is_null()),
                    Err(EvalError::Missing(_)) => None,
                    Err(EvalError::Limit(what)) => return Err(Stop::Limit(what)),
                    Err(error) => return fault(at, error.to_string()),
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
                self.spend(json.len() / 8)?;
                Ok(json.get(name).map(Value::Json))
            }
            Value::Made(document) if document.root().kind() == json::Kind::Object => {
                Ok(document.root().get(name).map(|value| Value::Json(value).into_owned()))
            }
            _ => fault(at, format!("member `{name}` is wanted of what is no hash")),
        }
    }

    pub(super) fn element(&mut self, of: Value<'s>, place: i64) -> Step<Option<Value<'s>>> {
        let Ok(place) = usize::try_from(place) else { return Ok(None) };
        Ok(match of {
            Value::Json(json) if json.kind() == json::Kind::Array => {
                self.spend(place.min(json.len()) / 8)?;
                json.at(place).map(Value::Json)
            }
            Value::Made(document) => {
                document.root().at(place).map(|value| Value::Json(value).into_owned())
            }
            other => {
                other.text().chars().nth(place).map(|found| Value::Text(found.to_string().into()))
            }
        })
    }

    pub(super) fn whole(&mut self, of: &'s Expr) -> Step<i64> {
        match self.value(of)?.plain() {
            Value::Integer(whole) => Ok(whole),
            _ => fault(of.at, "a whole number expected"),
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
            self.spend(0)?;
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
        self.spend(built_ins::cost(&value))?;
        let from_at = from.at;
        let from = usize::try_from(self.whole(from)?).unwrap_or(usize::MAX);
        let to = match to {
            Some(to) => Some(usize::try_from(self.whole(to)?.saturating_add(1)).unwrap_or(0)),
            None => None,
        };
        if let Some(array) = value.json() {
            let to = to.unwrap_or(array.len());
            if from > array.len() || to > array.len() {
                return fault(from_at, "a slice goes past the end");
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
            return fault(from_at, "a slice goes past the end");
        }
        let part: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
        Ok(Value::Text(part.into()))
    }

    pub(super) fn turn(&self, name: &str, turn: Turn, at: usize) -> Step<Value<'s>> {
        let Some(round) = self.turns.iter().rev().find(|round| round.name == name) else {
            return fault(at, format!("`{name}` is no loop variable here"));
        };
        let number = |of: usize| Value::Integer(i64::try_from(of).unwrap_or(i64::MAX));
        Ok(match turn {
            Turn::Index => number(round.index),
            Turn::Counter => number(round.index + 1),
            Turn::HasNext => Value::Boolean(round.index + 1 < round.count),
            Turn::IsFirst => Value::Boolean(round.index == 0),
            Turn::IsLast => Value::Boolean(round.index + 1 == round.count),
            Turn::IsOdd => Value::Boolean(round.index % 2 == 0),
            Turn::IsEven => Value::Boolean(round.index % 2 == 1),
        })
    }
}
