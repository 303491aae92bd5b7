//! Runs a template. It recurses on the nesting of the template, which the parser bounds.

mod access;
mod arithmetic;
mod sequences;

use std::borrow::Cow;

use xpath::{Budget, BudgetExceeded};

use super::built_ins::{self, BuiltIn};
use super::nodes::Nodes;
use super::{Expr, FreeMarker, Kind, List, Node, Operator};
use crate::context::EvalContext;
use crate::error::{self, Error};
use crate::json::Builder;
use crate::pattern::Computed;
use crate::value::Value;
pub(super) use arithmetic::{is_number, printed};

/// Why a run stopped.
pub(super) enum Stop {
    /// Failure of the budget or the body.
    Error(Error),
    /// An error at an offset of the source; `!` and `??` catch those of `missing` values.
    Failed { at: usize, message: String, missing: bool },
}

pub(super) type Step<T> = Result<T, Stop>;

impl From<BudgetExceeded> for Stop {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::Error(exceeded.into())
    }
}

pub(super) fn fail<T>(at: usize, message: impl Into<String>) -> Step<T> {
    Err(Stop::Failed { at, message: message.into(), missing: false })
}

fn missing<T>(at: usize, message: impl Into<String>) -> Step<T> {
    Err(Stop::Failed { at, message: message.into(), missing: true })
}

/// Value of an expression.
#[derive(Clone)]
pub(super) enum Model<'s> {
    Value(Value<'s>),
    /// A node of an XML payload.
    Nodes(Nodes<'s>),
}

impl Model<'_> {
    fn is_null(&self) -> bool {
        matches!(self, Self::Value(value) if value.is_null())
    }
}

pub(super) fn run(
    template: &FreeMarker,
    context: &dyn EvalContext,
    budget: &Budget,
    into: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut machine = Machine {
        template,
        context,
        budget,
        out: std::mem::take(into),
        names: Vec::new(),
        loop_variables: 0,
        loops: Vec::new(),
        patterns: Computed::default(),
    };
    let done = machine.nodes(&template.nodes);
    *into = machine.out;
    done.map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Failed { at, message, .. } => {
            let (line, column) = error::position(template.source.as_bytes(), at);
            Error::Template { line, column, message }
        }
    })
}

struct Machine<'s> {
    template: &'s FreeMarker,
    context: &'s dyn EvalContext,
    budget: &'s Budget,
    out: Vec<u8>,
    /// Loop variables, innermost first, then assigned names.
    names: Vec<(&'s str, Model<'s>)>,
    /// How many of `names` are loop variables.
    loop_variables: usize,
    loops: Vec<Loop<'s>>,
    patterns: Computed,
}

/// The state of a loop.
struct Loop<'s> {
    name: &'s str,
    index: usize,
    count: usize,
}

impl<'s> Machine<'s> {
    fn print(&mut self, text: &str) -> Step<()> {
        self.budget.charge_memory(text.len())?;
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn nodes(&mut self, nodes: &'s [Node]) -> Step<()> {
        for node in nodes {
            self.budget.charge_steps(1)?;
            self.node(node)?;
        }
        Ok(())
    }

    fn node(&mut self, node: &'s Node) -> Step<()> {
        match node {
            Node::Text(text) => self.print(text)?,
            Node::Print(expression) => {
                let value = self.scalar(expression)?;
                self.budget.charge_scanning(built_ins::text_len(&value))?;
                self.print(&printed(&value))?;
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
                if self.loops.last().is_some_and(|state| state.index + 1 < state.count) {
                    self.nodes(body)?;
                }
            }
            Node::Assign(name, expression) => {
                let value = self.value(expression)?;
                self.assign(name, value)?;
            }
            Node::Capture(name, body) => {
                let from = self.out.len();
                self.nodes(body)?;
                self.budget.charge_reading(self.out.len() - from)?;
                let text = String::from_utf8_lossy(&self.out.split_off(from)).into_owned();
                self.assign(name, Model::Value(Value::Text(text.into())))?;
            }
        }
        Ok(())
    }

    /// A loop variable of the same name continues to hide it.
    fn assign(&mut self, name: &'s str, value: Model<'s>) -> Step<()> {
        self.charge_names()?;
        let assigned = self.names.get_mut(self.loop_variables..).unwrap_or_default();
        match assigned.iter_mut().find(|(known, _)| *known == name) {
            Some((_, place)) => *place = value,
            None => self.names.push((name, value)),
        }
        Ok(())
    }

    fn list(&mut self, list: &'s List) -> Step<()> {
        let over = self.value(&list.over)?;
        let items = match list.value {
            Some(_) => self.members(over, list.over.at)?,
            None => {
                let items = self.items(over, list.over.at, "`<#list>`")?;
                items.into_iter().map(|item| (None, item)).collect()
            }
        };
        if items.is_empty() {
            return self.nodes(&list.otherwise);
        }
        let outer = self.names.len();
        self.loops.push(Loop { name: &list.name, index: 0, count: items.len() });
        for (index, (key, value)) in items.into_iter().enumerate() {
            let shadowed = self.names.len();
            self.charge_names()?;
            if let Some(state) = self.loops.last_mut() {
                state.index = index;
            }
            match (key, &list.value) {
                (Some(key), Some(name)) => {
                    self.names.insert(0, (name, value));
                    self.names.insert(0, (&list.name, Model::Value(key)));
                }
                (_, _) => self.names.insert(0, (&list.name, value)),
            }
            let added = if list.value.is_some() { 2 } else { 1 };
            self.loop_variables += added;
            self.nodes(&list.body)?;
            self.loop_variables -= added;
            self.names.drain(..added);
            debug_assert!(self.names.len() >= shadowed);
        }
        debug_assert!(self.names.len() >= outer);
        self.loops.pop();
        Ok(())
    }

    /// Charges a walk over the names, of which a template may assign many.
    fn charge_names(&self) -> Step<()> {
        Ok(self.budget.charge_steps(self.names.len() as u64 / 8)?)
    }

    /// The value; nodes as their text.
    fn scalar(&mut self, expression: &'s Expr) -> Step<Value<'s>> {
        let value = self.value(expression)?;
        self.text_of(value, expression.at)
    }

    fn text_of(&self, value: Model<'s>, at: usize) -> Step<Value<'s>> {
        match value {
            Model::Value(value) => Ok(value),
            Model::Nodes(nodes) => nodes.text(at, self.budget).map(Value::Text),
        }
    }

    /// The value as a scalar, if it is one.
    fn plain(&mut self, expression: &'s Expr) -> Step<Value<'s>> {
        Ok(self.scalar(expression)?.plain_within(self.budget)?)
    }

    fn truth(&mut self, expression: &'s Expr) -> Step<bool> {
        match self.plain(expression)? {
            Value::Boolean(truth) => Ok(truth),
            _ => fail(
                expression.at,
                "a condition requires a boolean; use a comparison, `?boolean`, `??` or `?has_content`",
            ),
        }
    }

    /// The value, which must exist.
    fn value(&mut self, expression: &'s Expr) -> Step<Model<'s>> {
        match self.find(expression)? {
            Some(value) if !value.is_null() => Ok(value),
            Some(_) | None => missing(
                expression.at,
                "the value is missing or null; give a default with `!` or test with `??`",
            ),
        }
    }

    /// The value; `None` if its last step is missing.
    fn find(&mut self, expression: &'s Expr) -> Step<Option<Model<'s>>> {
        self.budget.charge_steps(1)?;
        let at = expression.at;
        Ok(Some(Model::Value(match &*expression.kind {
            Kind::Literal(Value::Text(text)) => Value::Text(Cow::Borrowed(text)),
            Kind::Literal(value) => value.clone(),
            Kind::Sequence(elements) => {
                let mut builder = Builder::new();
                builder.begin_array();
                for element in elements {
                    let value = self.scalar(element)?;
                    self.copy(&value, &mut builder)?;
                }
                Value::Made(Box::new(builder.finish()))
            }
            Kind::Hash(members) => {
                let mut builder = Builder::new();
                builder.begin_object();
                for (name, value) in members {
                    let name = self.scalar(name)?;
                    self.charge_copy(&name)?;
                    builder.key(&name.text());
                    let value = self.scalar(value)?;
                    self.copy(&value, &mut builder)?;
                }
                Value::Made(Box::new(builder.finish()))
            }
            Kind::Range { from, to, exclusive } => self.range(from, to, *exclusive)?,
            Kind::Name(name) => return self.name(name),
            Kind::Member(of, name) => return self.member(of, name, at),
            Kind::Index(of, index) => {
                let index = self.plain(index)?;
                return match index {
                    Value::Text(name) => self.member(of, &name, at),
                    Value::Integer(place) => {
                        let of = self.value(of)?;
                        self.element(of, place)
                    }
                    _ => fail(at, "an index must be a number or a name"),
                };
            }
            Kind::Slice(of, from, to) => return self.slice(of, from, to.as_ref()).map(Some),
            Kind::BuiltIn(of, built_in, arguments) => {
                return self.built_in(of, *built_in, arguments, at).map(Some);
            }
            Kind::Each { of, is_filter, name, body } => {
                return self.each(of, *is_filter, name, body).map(Some);
            }
            Kind::Loop(name, property) => self.loop_property(name, *property, at)?,
            Kind::Default(of, fallback) => match (self.find_or_none(of)?, fallback) {
                (Some(value), _) => return Ok(Some(value)),
                (None, Some(fallback)) => return self.value(fallback).map(Some),
                (None, None) => Value::Text("".into()),
            },
            Kind::Exists(of) => Value::Boolean(self.find_or_none(of)?.is_some()),
            Kind::Group(inner) => return self.find(inner),
            Kind::Not(of) => Value::Boolean(!self.truth(of)?),
            Kind::Negative(of) => {
                let value = self.plain(of)?;
                self.binary(&Value::Integer(0), Operator::Subtract, &value, at)?
            }
            Kind::Binary(left, Operator::And, right) => {
                Value::Boolean(self.truth(left)? && self.truth(right)?)
            }
            Kind::Binary(left, Operator::Or, right) => {
                Value::Boolean(self.truth(left)? || self.truth(right)?)
            }
            Kind::Binary(left, operator, right) => {
                let left = self.plain(left)?;
                let right = self.plain(right)?;
                self.binary(&left, *operator, &right, at)?
            }
        })))
    }

    fn built_in(
        &mut self,
        of: &'s Expr,
        built_in: BuiltIn,
        arguments: &'s [Expr],
        at: usize,
    ) -> Step<Model<'s>> {
        let value = match self.find(of)? {
            None if built_in.accepts_missing() => Model::Value(Value::Null),
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
            given.push(self.scalar(argument)?);
        }
        let value = match value {
            value if built_in == BuiltIn::SortBy => return self.sort_by(value, &given, at),
            Model::Value(value) => value,
            Model::Nodes(nodes) => match built_ins::of_nodes(built_in, &nodes, at, self.budget)? {
                Some(made) => return Ok(made),
                None => built_ins::read_nodes(built_in, &nodes, at, self.budget)?,
            },
        };
        built_ins::apply(built_in, value, &given, at, self.budget, &self.patterns).map(Model::Value)
    }

    /// For `!` and `??`: `None` if the value is missing; in parentheses also if a step before the last is.
    fn find_or_none(&mut self, of: &'s Expr) -> Step<Option<Model<'s>>> {
        match self.find(of) {
            Err(Stop::Failed { missing: true, .. }) if matches!(&*of.kind, Kind::Group(_)) => {
                Ok(None)
            }
            found => Ok(found?.filter(|value| !value.is_null())),
        }
    }

    fn copy(&self, value: &Value<'_>, builder: &mut Builder) -> Step<()> {
        self.charge_copy(value)?;
        value.build(builder);
        Ok(())
    }

    fn charge_copy(&self, value: &Value<'_>) -> Step<()> {
        built_ins::charge_copy(value, self.budget)
    }
}
