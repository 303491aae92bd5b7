//! Running a template. Recursion goes as deep as the template is nested, which its reading bounds.

mod access;
mod arithmetic;

use crate::limits;

use super::{Expr, FreeMarker, Kind, List, Node, Operator, built_ins};
use crate::budget::fits;
use crate::json::{self, Builder};
use crate::scope::Scope;
use crate::{EvalError, Value, error};
pub(super) use arithmetic::{is_number, printed};

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
        looping: 0,
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
    /// The innermost loop's variables first, then what was assigned.
    names: Vec<(&'s str, Value<'s>)>,
    /// How many of them are loops'.
    looping: usize,
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

    /// Whether `more` bytes of output fit.
    fn fits(&self, more: usize) -> Step<()> {
        fits(self.out.len() - self.start, more).map_err(|_| Stop::Limit("40 MiB of text"))
    }

    fn nodes(&mut self, nodes: &'s [Node]) -> Step<()> {
        for node in nodes {
            self.spend(0)?;
            self.node(node)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &'s Node) -> Step<()> {
        match node {
            Node::Text(text) => {
                self.fits(text.len())?;
                self.out.extend_from_slice(text.as_bytes());
            }
            Node::Print(expression) => {
                let value = self.value(expression)?;
                let text = printed(&value);
                self.fits(text.len())?;
                self.out.extend_from_slice(text.as_bytes());
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

    /// Loop variables of the same name go on hiding it.
    fn assign(&mut self, name: &'s str, value: Value<'s>) {
        let assigned = self.names.get_mut(self.looping..).unwrap_or_default();
        match assigned.iter_mut().find(|(known, _)| *known == name) {
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
            let added = if list.value.is_some() { 2 } else { 1 };
            self.looping += added;
            self.nodes(&list.body)?;
            self.looping -= added;
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
}
