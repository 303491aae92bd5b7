//! Evaluates plans: one function per result type, so that a path in a condition stops at its first node and
//! text is borrowed from the document.

use std::borrow::Cow;

use crate::budget::Budget;
use crate::compare::{compare_numbers, compare_strings, compare_values};
use crate::context::{Context, Environment};
use crate::error::Error;
use crate::item::{Item, NodeSet};
use crate::number::{number_to_string, string_to_number};
use crate::plan::{Arithmetic, Comparison, Expr, Type};
use crate::sink::{Exists, First, Holds, NodeSink, Nodes, Operand, Taken};
use crate::value::{Value, is_true};

pub(crate) type Outcome<T> = Result<T, Error>;

/// Nodes of a set that are passed on for the price of one step.
const NODES_PER_STEP: usize = 8;

/// One evaluation.
pub(crate) struct Run<'a, 'd> {
    pub(crate) environment: &'a mut dyn Environment<'d>,
    pub(crate) budget: &'a Budget,
}

impl<'a, 'd> Run<'a, 'd> {
    pub(crate) fn new(environment: &'a mut dyn Environment<'d>, budget: &'a Budget) -> Self {
        Self { environment, budget }
    }

    #[inline]
    pub(crate) fn charge(&self, steps: u64) -> Outcome<()> {
        Ok(self.budget.charge_steps(steps)?)
    }

    pub(crate) fn value(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<Value<'d>> {
        match expr {
            Expr::Variable(id) => {
                self.charge(1)?;
                self.environment.variable(*id, self.budget)
            }
            Expr::Extension(id, arguments) => {
                self.charge(1)?;
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(argument, context)?);
                }
                self.environment.call(*id, &context, values, self.budget)
            }
            Expr::Path(_) | Expr::Union(_) => self.nodes(expr, context).map(Value::NodeSet),
            Expr::Literal(text) => self.owned(Cow::Borrowed(text)).map(Value::String),
            Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(..) => {
                self.number(expr, context).map(Value::Number)
            }
            Expr::Or(_) | Expr::And(_) | Expr::Compare(..) => {
                self.boolean(expr, context).map(Value::Boolean)
            }
            Expr::Core(core, arguments) => match core.return_type() {
                Type::String => {
                    let text = self.core_string(*core, arguments, context)?;
                    self.owned(text).map(Value::String)
                }
                Type::Number => self.core_number(*core, arguments, context).map(Value::Number),
                Type::Boolean => self.core_boolean(*core, arguments, context).map(Value::Boolean),
                Type::NodeSet | Type::Unknown => self.id(arguments, context).map(Value::NodeSet),
            },
        }
    }

    pub(crate) fn boolean(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<bool> {
        match expr {
            Expr::Or(all) => {
                for one in all {
                    if self.boolean(one, context)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expr::And(all) => {
                for one in all {
                    if !self.boolean(one, context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expr::Compare(comparison, sides) => {
                self.compare(*comparison, &sides.0, &sides.1, context)
            }
            Expr::Path(_) | Expr::Union(_) => self.exists(expr, context),
            Expr::Literal(text) => Ok(!text.is_empty()),
            Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(..) => {
                self.number(expr, context).map(is_true)
            }
            Expr::Core(core, arguments) => match core.return_type() {
                Type::Boolean => self.core_boolean(*core, arguments, context),
                Type::Number => self.core_number(*core, arguments, context).map(is_true),
                Type::String => {
                    self.core_string(*core, arguments, context).map(|text| !text.is_empty())
                }
                Type::NodeSet | Type::Unknown => self.exists(expr, context),
            },
            Expr::Variable(_) | Expr::Extension(..) => {
                self.value(expr, context).map(|value| value.boolean())
            }
        }
    }

    pub(crate) fn number(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<f64> {
        match expr {
            Expr::Number(number) => Ok(*number),
            Expr::Literal(text) => Ok(string_to_number(text)),
            Expr::Or(_) | Expr::And(_) | Expr::Compare(..) => {
                self.boolean(expr, context).map(|value| f64::from(u8::from(value)))
            }
            Expr::Arithmetic(first, rest) => {
                let mut total = self.number(first, context)?;
                for (operator, operand) in rest {
                    total = calculate(*operator, total, self.number(operand, context)?);
                }
                Ok(total)
            }
            Expr::Negate(inner, negative) => {
                let number = self.number(inner, context)?;
                Ok(if *negative { -number } else { number })
            }
            Expr::Path(_) | Expr::Union(_) => {
                let text = self.string(expr, context)?;
                self.parsed(&text)
            }
            Expr::Core(core, arguments) => match core.return_type() {
                Type::Number => self.core_number(*core, arguments, context),
                Type::Boolean => {
                    let value = self.core_boolean(*core, arguments, context)?;
                    Ok(f64::from(u8::from(value)))
                }
                Type::String | Type::NodeSet | Type::Unknown => {
                    let text = self.string(expr, context)?;
                    self.parsed(&text)
                }
            },
            Expr::Variable(_) | Expr::Extension(..) => {
                let value = self.value(expr, context)?;
                self.number_of(&value)
            }
        }
    }

    fn number_of(&self, value: &Value<'d>) -> Outcome<f64> {
        match value {
            Value::NodeSet(nodes) => {
                let text = self.text_of(nodes.first())?;
                self.parsed(&text)
            }
            Value::String(text) => self.parsed(text),
            Value::Number(_) | Value::Boolean(_) => Ok(value.number()),
        }
    }

    pub(crate) fn parsed(&self, text: &str) -> Outcome<f64> {
        self.budget.charge_reading(text.len())?;
        Ok(string_to_number(text))
    }

    /// Copies text that is borrowed from the document or the expression, and charges the copy.
    fn owned(&self, text: Cow<'_, str>) -> Outcome<String> {
        if let Cow::Borrowed(text) = text {
            self.budget.charge_reading(text.len())?;
            self.budget.charge_memory(text.len())?;
        }
        Ok(text.into_owned())
    }

    pub(crate) fn string<'e>(
        &mut self,
        expr: &'e Expr,
        context: Context<'d>,
    ) -> Outcome<Cow<'e, str>>
    where
        'd: 'e,
    {
        match expr {
            Expr::Literal(text) => Ok(Cow::Borrowed(text)),
            Expr::Number(_) | Expr::Arithmetic(..) | Expr::Negate(..) => {
                self.number(expr, context).map(number_to_string)
            }
            Expr::Or(_) | Expr::And(_) | Expr::Compare(..) => {
                self.boolean(expr, context).map(truth)
            }
            Expr::Path(_) | Expr::Union(_) => {
                let first = self.first(expr, context)?;
                self.text_of(first)
            }
            Expr::Core(core, arguments) => match core.return_type() {
                Type::String => self.core_string(*core, arguments, context),
                Type::Number => self.core_number(*core, arguments, context).map(number_to_string),
                Type::Boolean => self.core_boolean(*core, arguments, context).map(truth),
                Type::NodeSet | Type::Unknown => {
                    let first = self.first(expr, context)?;
                    self.text_of(first)
                }
            },
            Expr::Variable(_) | Expr::Extension(..) => match self.value(expr, context)? {
                Value::NodeSet(nodes) => self.text_of(nodes.first()),
                scalar @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                    Ok(Cow::Owned(scalar.into_string()))
                }
            },
        }
    }

    pub(crate) fn text_of(&self, item: Option<Item<'d>>) -> Outcome<Cow<'d, str>> {
        let Some(item) = item else { return Ok(Cow::Borrowed("")) };
        Ok(item.charged_string_value(self.budget)?)
    }

    pub(crate) fn nodes(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<NodeSet<'d>> {
        match expr {
            Expr::Path(path) => {
                let mut nodes = Nodes::default();
                self.path(path, context, &mut nodes)?;
                Ok(NodeSet::from_ordered(nodes.items))
            }
            Expr::Union(all) => {
                let mut nodes = Nodes::default();
                for one in all {
                    let found = self.nodes(one, context)?.charged_items(self.budget)?;
                    nodes.take_all(found, self.budget)?;
                }
                let mut items = nodes.items;
                self.sort(&mut items)?;
                Ok(NodeSet::from_ordered(items))
            }
            Expr::Core(core, arguments) if core.return_type() == Type::NodeSet => {
                self.id(arguments, context)
            }
            Expr::Variable(_) | Expr::Extension(..) => {
                self.value(expr, context)?.into_nodes("the operand of a path or a union")
            }
            Expr::Number(_)
            | Expr::Literal(_)
            | Expr::Or(_)
            | Expr::And(_)
            | Expr::Compare(..)
            | Expr::Arithmetic(..)
            | Expr::Negate(..)
            | Expr::Core(..) => {
                self.value(expr, context)?.into_nodes("the operand of a path or a union")
            }
        }
    }

    /// The first node in document order.
    pub(crate) fn first(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<Option<Item<'d>>> {
        if let Expr::Union(all) = expr {
            let mut first: Option<Item<'d>> = None;
            for one in all {
                let item = self.first(one, context)?;
                let is_before =
                    |first: Item<'d>| item.is_some_and(|i| i.document_order(first).is_lt());
                if first.is_none_or(is_before) {
                    first = item;
                }
            }
            return Ok(first);
        }
        let mut first = First::default();
        self.feed(expr, context, &mut first)?;
        Ok(first.item)
    }

    fn exists(&mut self, expr: &Expr, context: Context<'d>) -> Outcome<bool> {
        let mut exists = Exists::default();
        self.feed(expr, context, &mut exists)?;
        Ok(exists.found)
    }

    /// Passes the nodes to the sink until it needs no more.
    pub(crate) fn feed(
        &mut self,
        expr: &Expr,
        context: Context<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<()> {
        if let Expr::Path(path) = expr {
            return self.path(path, context, sink).map(drop);
        }
        if let (Expr::Union(all), true) = (expr, sink.any_order()) {
            let mut unsorted = Unsorted { sink, wants: true };
            for one in all {
                self.feed(one, context, &mut unsorted)?;
                if !unsorted.wants {
                    break;
                }
            }
            return Ok(());
        }
        let nodes = self.nodes(expr, context)?;
        sink.begin(true);
        for items in nodes.items().chunks(NODES_PER_STEP) {
            self.charge(1)?;
            if !self.pass_on(items, sink)? {
                break;
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        left: &Expr,
        right: &Expr,
        context: Context<'d>,
    ) -> Outcome<bool> {
        match (left.value_type(), right.value_type()) {
            (Type::NodeSet, Type::String | Type::Number) => {
                self.compare_nodes(comparison, left, right, context)
            }
            (Type::String | Type::Number, Type::NodeSet) => {
                self.compare_nodes(comparison.reversed(), right, left, context)
            }
            (Type::Number, Type::Number | Type::String) | (Type::String, Type::Number) => {
                let left = self.number(left, context)?;
                Ok(compare_numbers(comparison, left, self.number(right, context)?))
            }
            (Type::String, Type::String) => {
                let left = self.string(left, context)?;
                let right = self.string(right, context)?;
                Ok(compare_strings(comparison, &left, &right))
            }
            (Type::Boolean, Type::NodeSet) | (Type::NodeSet, Type::Boolean) => {
                let left = Value::Boolean(self.boolean(left, context)?);
                let right = Value::Boolean(self.boolean(right, context)?);
                compare_values(comparison, &left, &right, self.budget)
            }
            _ => {
                let left = self.value(left, context)?;
                let right = self.value(right, context)?;
                compare_values(comparison, &left, &right, self.budget)
            }
        }
    }

    fn compare_nodes(
        &mut self,
        comparison: Comparison,
        nodes: &Expr,
        other: &Expr,
        context: Context<'d>,
    ) -> Outcome<bool> {
        let operand = match other.value_type() {
            Type::String if comparison.is_equality() => Operand::Text(self.string(other, context)?),
            Type::String | Type::Number | Type::Boolean | Type::NodeSet | Type::Unknown => {
                Operand::Number(self.number(other, context)?)
            }
        };
        let mut holds = Holds { comparison, operand, found: false };
        self.feed(nodes, context, &mut holds)?;
        Ok(holds.found)
    }
}

/// Passes on the nodes of one operand of a union, which are in order among themselves only.
struct Unsorted<'s, 'd> {
    sink: &'s mut dyn NodeSink<'d>,
    wants: bool,
}

impl<'d> NodeSink<'d> for Unsorted<'_, 'd> {
    fn any_order(&self) -> bool {
        true
    }

    fn begin(&mut self, _: bool) {
        self.sink.begin(false);
    }

    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        self.wants = self.sink.take(item, budget)?;
        Ok(self.wants)
    }
}

fn truth(value: bool) -> Cow<'static, str> {
    Cow::Borrowed(if value { "true" } else { "false" })
}

/// IEEE 754; `mod` keeps the sign of the dividend: section 3.5.
fn calculate(operator: Arithmetic, left: f64, right: f64) -> f64 {
    match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    }
}
