//! Running a template. Recursion goes as deep as the template is nested, which its reading bounds.

use base::limits;

use super::{Expr, FreeMarker, Kind, List, Node, Operator, Turn, built_ins};
use crate::json::{self, Builder};
use crate::scope::{PropertyScope, Scope};
use crate::value::double_text;
use crate::{EvalError, Value, error};

/// What stops a run.
pub(super) enum Stop {
    Limit(&'static str),
    /// A fault at an offset of the source; `missing` can be forgiven by `!` and `??`.
    Fault {
        at: usize,
        message: String,
        missing: bool,
    },
}

pub(super) type Step<T> = Result<T, Stop>;

pub(super) fn fault<T>(at: usize, message: impl Into<String>) -> Step<T> {
    Err(Stop::Fault { at, message: message.into(), missing: false })
}

fn missing<T>(at: usize, message: impl Into<String>) -> Step<T> {
    Err(Stop::Fault { at, message: message.into(), missing: true })
}

pub(super) fn run(
    template: &FreeMarker,
    scope: &dyn Scope,
    into: &mut Vec<u8>,
) -> Result<(), EvalError> {
    let start = into.len();
    let mut machine = Machine {
        template,
        scope,
        out: std::mem::take(into),
        start,
        names: Vec::new(),
        turns: Vec::new(),
        left: limits::TEMPLATE_INSTRUCTIONS_MAX,
    };
    let done = machine.nodes(&template.nodes);
    *into = machine.out;
    done.map_err(|stop| match stop {
        Stop::Limit(what) => EvalError::Limit(what),
        Stop::Fault { at, message, .. } => {
            let (line, column) = error::position(template.source.as_bytes(), at);
            EvalError::Template { line, column, message }
        }
    })
}

struct Machine<'s> {
    template: &'s FreeMarker,
    scope: &'s dyn Scope,
    out: Vec<u8>,
    start: usize,
    names: Vec<(&'s str, Value<'s>)>,
    turns: Vec<Round<'s>>,
    left: u64,
}

/// Where a loop stands.
struct Round<'s> {
    name: &'s str,
    index: usize,
    count: usize,
}

impl<'s> Machine<'s> {
    fn spend(&mut self, cost: usize) -> Step<()> {
        let left = self.left.checked_sub(cost as u64 + 1);
        self.left = left.ok_or(Stop::Limit("1,000,000 instructions"))?;
        Ok(())
    }

    fn nodes(&mut self, nodes: &'s [Node]) -> Step<()> {
        for node in nodes {
            self.spend(0)?;
            self.node(node)?;
            if self.out.len() - self.start > limits::MADE_BYTES_MAX {
                return Err(Stop::Limit("40 MiB of text"));
            }
        }
        Ok(())
    }

    fn node(&mut self, node: &'s Node) -> Step<()> {
        match node {
            Node::Text(text) => self.out.extend_from_slice(text.as_bytes()),
            Node::Print(expression) => {
                let value = self.value(expression)?;
                self.out.extend_from_slice(printed(&value).as_bytes());
            }
            Node::If(branches) => {
                for (test, body) in branches {
                    let holds = match test {
                        Some(test) => self.truth(test)?,
                        None => true,
                    };
                    if holds {
                        return self.nodes(body);
                    }
                }
            }
            Node::List(list) => self.list(list)?,
            Node::Separator(body) => {
                if self.turns.last().is_some_and(|round| round.index + 1 < round.count) {
                    self.nodes(body)?;
                }
            }
            Node::Assign(name, expression) => {
                let value = self.value(expression)?;
                self.assign(name, value);
            }
            Node::Capture(name, body) => {
                let from = self.out.len();
                self.nodes(body)?;
                let text = String::from_utf8_lossy(&self.out.split_off(from)).into_owned();
                self.assign(name, Value::Text(text.into()));
            }
        }
        Ok(())
    }

    fn assign(&mut self, name: &'s str, value: Value<'s>) {
        match self.names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.names.push((name, value)),
        }
    }

    fn list(&mut self, list: &'s List) -> Step<()> {
        let over = self.value(&list.over)?;
        let owned = matches!(over, Value::Made(_));
        let Some(container) = over.json() else {
            return fault(list.over.at, "a list wants a sequence or a hash");
        };
        let hash = container.kind() == json::Kind::Object;
        if hash != list.value.is_some() || !hash && container.kind() != json::Kind::Array {
            let what = "a list wants a sequence, or with `as key, value` a hash";
            return fault(list.over.at, what);
        }
        self.spend(container.len())?;
        // What stands in the message is used where it stands; what the template made is copied.
        let kept = |value: Value<'_>| -> Value<'static> { value.into_owned() };
        let items: Vec<(Option<Value<'s>>, Value<'s>)> = match (&over, owned) {
            (Value::Json(json), _) if hash => json
                .members()
                .map(|(name, value)| (Some(Value::Text(name)), Value::Json(value)))
                .collect(),
            (Value::Json(json), _) => {
                json.elements().map(|value| (None, Value::Json(value))).collect()
            }
            (_, _) if hash => container
                .members()
                .map(|(name, value)| (Some(kept(Value::Text(name))), kept(Value::Json(value))))
                .collect(),
            (_, _) => container.elements().map(|value| (None, kept(Value::Json(value)))).collect(),
        };
        if items.is_empty() {
            return self.nodes(&list.otherwise);
        }
        let outer = self.names.len();
        self.turns.push(Round { name: &list.name, index: 0, count: items.len() });
        for (index, (key, value)) in items.into_iter().enumerate() {
            let shadowed = self.names.len();
            if let Some(round) = self.turns.last_mut() {
                round.index = index;
            }
            match (key, &list.value) {
                (Some(key), Some(name)) => {
                    self.names.insert(0, (name, value));
                    self.names.insert(0, (&list.name, key));
                }
                (_, _) => self.names.insert(0, (&list.name, value)),
            }
            self.nodes(&list.body)?;
            let added = if list.value.is_some() { 2 } else { 1 };
            self.names.drain(..added);
            debug_assert!(self.names.len() >= shadowed);
        }
        debug_assert!(self.names.len() >= outer);
        self.turns.pop();
        Ok(())
    }

    fn truth(&mut self, expression: &'s Expr) -> Step<bool> {
        match self.value(expression)?.plain() {
            Value::Boolean(truth) => Ok(truth),
            _ => fault(
                expression.at,
                "a condition wants a boolean; compare, or use `??` or `?has_content`",
            ),
        }
    }

    /// The value; it must be there.
    fn value(&mut self, expression: &'s Expr) -> Step<Value<'s>> {
        match self.find(expression)? {
            Some(value) if !value.is_null() => Ok(value),
            Some(_) | None => missing(
                expression.at,
                "the value is missing or null; give a default with `!` or test with `??`",
            ),
        }
    }

    /// The value; `None`: missing at its last step.
    fn find(&mut self, expression: &'s Expr) -> Step<Option<Value<'s>>> {
        self.spend(0)?;
        let at = expression.at;
        Ok(Some(match &*expression.kind {
            Kind::Literal(value) => value.clone(),
            Kind::Sequence(elements) => {
                let mut builder = Builder::new();
                builder.begin_array();
                for element in elements {
                    let value = self.value(element)?;
                    self.copy(&value, &mut builder)?;
                }
                Value::Made(Box::new(builder.finish()))
            }
            Kind::Hash(members) => {
                let mut builder = Builder::new();
                builder.begin_object();
                for (name, value) in members {
                    let name = self.value(name)?;
                    builder.key(&name.text());
                    let value = self.value(value)?;
                    self.copy(&value, &mut builder)?;
                }
                Value::Made(Box::new(builder.finish()))
            }
            Kind::Range { from, to, exclusive } => self.range(from, to, *exclusive)?,
            Kind::Name(name) => return self.name(name, at),
            Kind::Member(of, name) => return self.member(of, name, at),
            Kind::Index(of, index) => {
                let index = self.value(index)?.plain();
                return match index {
                    Value::Text(name) => self.member(of, &name, at),
                    Value::Integer(place) => {
                        let of = self.value(of)?;
                        self.element(of, place)
                    }
                    _ => fault(at, "an index wants a number or a name"),
                };
            }
            Kind::Slice(of, from, to) => return self.slice(of, from, to.as_ref()).map(Some),
            Kind::BuiltIn(of, built_in, arguments) => {
                let value = match self.find(of)? {
                    None if built_in.forgives() => Value::Null,
                    None => {
                        return missing(
                            of.at,
                            "the value is missing; give a default with `!` or test with `??`",
                        );
                    }
                    Some(value) => value,
                };
                let mut given = Vec::new();
                for argument in arguments {
                    given.push(self.value(argument)?);
                }
                self.spend(built_ins::cost(&value))?;
                built_ins::apply(*built_in, value, &given, at)?
            }
            Kind::Turn(name, turn) => self.turn(name, *turn, at)?,
            Kind::Default(of, fallback) => match (self.forgiving(of)?, fallback) {
                (Some(value), _) => value,
                (None, Some(fallback)) => self.value(fallback)?,
                (None, None) => Value::Text("".into()),
            },
            Kind::Exists(of) => Value::Boolean(self.forgiving(of)?.is_some()),
            Kind::Group(inner) => return self.find(inner),
            Kind::Not(of) => Value::Boolean(!self.truth(of)?),
            Kind::Negative(of) => {
                let value = self.value(of)?.plain();
                self.binary(&Value::Integer(0), Operator::Subtract, &value, at)?
            }
            Kind::Binary(left, Operator::And, right) => {
                Value::Boolean(self.truth(left)? && self.truth(right)?)
            }
            Kind::Binary(left, Operator::Or, right) => {
                Value::Boolean(self.truth(left)? || self.truth(right)?)
            }
            Kind::Binary(left, operator, right) => {
                let left = self.value(left)?.plain();
                let right = self.value(right)?.plain();
                self.binary(&left, *operator, &right, at)?
            }
        }))
    }

    /// For `!` and `??`: what is missing is `None`; in parentheses, what is missing on the way, too.
    fn forgiving(&mut self, of: &'s Expr) -> Step<Option<Value<'s>>> {
        match self.find(of) {
            Err(Stop::Fault { missing: true, .. }) if matches!(&*of.kind, Kind::Group(_)) => {
                Ok(None)
            }
            found => Ok(found?.filter(|value| !value.is_null())),
        }
    }

    fn copy(&mut self, value: &Value<'_>, builder: &mut Builder) -> Step<()> {
        self.spend(built_ins::cost(value))?;
        value.build(builder);
        Ok(())
    }

    fn name(&mut self, name: &str, at: usize) -> Step<Option<Value<'s>>> {
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

    fn member(&mut self, of: &'s Expr, name: &str, at: usize) -> Step<Option<Value<'s>>> {
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

    fn element(&mut self, of: Value<'s>, place: i64) -> Step<Option<Value<'s>>> {
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

    fn whole(&mut self, of: &'s Expr) -> Step<i64> {
        match self.value(of)?.plain() {
            Value::Integer(whole) => Ok(whole),
            _ => fault(of.at, "a whole number expected"),
        }
    }

    fn range(&mut self, from: &'s Expr, to: &'s Expr, exclusive: bool) -> Step<Value<'s>> {
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

    fn slice(&mut self, of: &'s Expr, from: &'s Expr, to: Option<&'s Expr>) -> Step<Value<'s>> {
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
            return Ok(Value::array(&part));
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

    fn turn(&self, name: &str, turn: Turn, at: usize) -> Step<Value<'s>> {
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

    fn binary(
        &mut self,
        left: &Value<'_>,
        operator: Operator,
        right: &Value<'_>,
        at: usize,
    ) -> Step<Value<'s>> {
        let numbers = is_number(left) && is_number(right);
        match operator {
            Operator::Add if !numbers => self.add(left, right, at),
            Operator::Equal | Operator::NotEqual => {
                let same = match (left, right) {
                    _ if numbers => left.number() == right.number(),
                    (Value::Text(one), Value::Text(other)) => one == other,
                    (Value::Boolean(one), Value::Boolean(other)) => one == other,
                    (_, _) => {
                        return fault(
                            at,
                            "a comparison wants two numbers, two strings or two booleans",
                        );
                    }
                };
                Ok(Value::Boolean(same == (operator == Operator::Equal)))
            }
            _ if !numbers => fault(at, "two numbers expected"),
            Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => {
                let (one, other) = (left.number(), right.number());
                Ok(Value::Boolean(match operator {
                    Operator::Less => one < other,
                    Operator::LessOrEqual => one <= other,
                    Operator::Greater => one > other,
                    _ => one >= other,
                }))
            }
            _ => arithmetic(left, operator, right, at),
        }
    }

    /// Sequences one after the other, hashes over each other, all else as text.
    fn add(&mut self, left: &Value<'_>, right: &Value<'_>, at: usize) -> Step<Value<'s>> {
        self.spend(built_ins::cost(left) + built_ins::cost(right))?;
        if let (Some(one), Some(other)) = (left.json(), right.json()) {
            let mut builder = Builder::new();
            if one.kind() == json::Kind::Array && other.kind() == json::Kind::Array {
                builder.begin_array();
                for value in one.elements().chain(other.elements()) {
                    builder.embed(value);
                }
                return Ok(Value::Made(Box::new(builder.finish())));
            }
            if one.kind() == json::Kind::Object && other.kind() == json::Kind::Object {
                builder.begin_object();
                for (name, value) in one.members().chain(other.members()) {
                    builder.key(&name).embed(value);
                }
                return Ok(Value::Made(Box::new(builder.finish())));
            }
            return fault(at, "a sequence and a hash can't be added");
        }
        let text = format!("{}{}", printed(left), printed(right));
        if text.len() > limits::MADE_BYTES_MAX {
            return Err(Stop::Limit("40 MiB of text"));
        }
        Ok(Value::Text(text.into()))
    }
}

/// What handing out a copy costs: nothing for what stands in the message.
fn made_cost(value: &Value<'_>) -> usize {
    match value {
        Value::Made(_) | Value::Text(_) => built_ins::cost(value),
        Value::Json(_) | Value::Integer(_) | Value::Double(_) | Value::Boolean(_) | Value::Null => {
            0
        }
    }
}

pub(super) fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Integer(_) | Value::Double(_))
}

fn arithmetic<'v>(
    left: &Value<'_>,
    operator: Operator,
    right: &Value<'_>,
    at: usize,
) -> Step<Value<'v>> {
    if let (Value::Integer(one), Value::Integer(other)) = (left, right) {
        let whole = match operator {
            Operator::Add => one.checked_add(*other),
            Operator::Subtract => one.checked_sub(*other),
            Operator::Multiply => one.checked_mul(*other),
            Operator::Modulo => one.checked_rem(*other),
            _ if one.checked_rem(*other) == Some(0) => one.checked_div(*other),
            _ => None,
        };
        if let Some(whole) = whole {
            return Ok(Value::Integer(whole));
        }
    }
    let (Some(one), Some(other)) = (left.number(), right.number()) else {
        return fault(at, "two numbers expected");
    };
    if matches!(operator, Operator::Divide | Operator::Modulo) && other == 0.0 {
        return fault(at, "division by zero");
    }
    Ok(Value::Double(match operator {
        Operator::Add => one + other,
        Operator::Subtract => one - other,
        Operator::Multiply => one * other,
        Operator::Divide => one / other,
        _ => one % other,
    }))
}

/// As `${...}` prints: numbers as `?c` does, the rest as text.
pub(super) fn printed(value: &Value<'_>) -> String {
    match value {
        Value::Double(number) if number.is_finite() => {
            let text = format!("{number:.12}");
            let short = text.trim_end_matches('0').trim_end_matches('.');
            if number.abs() < 1e15 { short.to_owned() } else { double_text(*number) }
        }
        value => value.text().into_owned(),
    }
}
