//! A reference evaluator that follows the text of the recommendation: it selects from a list of all nodes,
//! without any optimisation.

use std::collections::HashMap;

use xml::{Document, Kind};

use crate::axis::Axis;
use crate::budget::Budget;
use crate::compare::compare_values;
use crate::context::{Context, NoBindings};
use crate::evaluate::Run;
use crate::functions::Core;
use crate::item::{Item, NodeSet};
use crate::number::string_to_number;
use crate::plan::{Arithmetic, Expr, Path, PathStart, Predicate, Segment, Step, Test};
use crate::value::Value;

/// All nodes of a document in document order.
pub(super) struct Reference<'d> {
    all: Vec<Item<'d>>,
    places: HashMap<Item<'d>, usize>,
}

impl<'d> Reference<'d> {
    #[expect(clippy::mutable_key_type, reason = "nodes are hashed by their identity")]
    pub(super) fn new(document: &'d Document) -> Self {
        let mut all = vec![Item::from(document.root())];
        for node in document.root().descendants() {
            all.push(node.into());
            let bindings = if node.is_element() { node.namespaces_in_scope().count() } else { 0 };
            let bindings = u32::try_from(bindings).unwrap_or(0);
            all.extend((0..bindings).map(|place| Item::namespace_node(node, place)));
            all.extend(node.attributes().map(Item::from));
        }
        let places = all.iter().enumerate().map(|(place, item)| (*item, place)).collect();
        Self { all, places }
    }

    fn place(&self, item: Item<'d>) -> usize {
        self.places.get(&item).copied().unwrap_or(usize::MAX)
    }

    fn set(&self, items: &[Item<'d>]) -> Value<'d> {
        Value::NodeSet(NodeSet::from_ordered(self.in_order(items)))
    }

    fn in_order(&self, items: &[Item<'d>]) -> Vec<Item<'d>> {
        let mut places: Vec<usize> = items.iter().map(|item| self.place(*item)).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| self.all.get(place).copied()).collect()
    }

    pub(super) fn value(&self, expr: &Expr, context: Context<'d>) -> Value<'d> {
        match expr {
            Expr::Number(number) => Value::Number(*number),
            Expr::Literal(text) => Value::String(text.to_string()),
            Expr::Variable(_) | Expr::Extension(..) => Value::String(String::new()),
            Expr::Or(all) => Value::Boolean(all.iter().any(|one| self.boolean(one, context))),
            Expr::And(all) => Value::Boolean(all.iter().all(|one| self.boolean(one, context))),
            Expr::Compare(comparison, sides) => {
                let (left, right) = (self.value(&sides.0, context), self.value(&sides.1, context));
                Value::Boolean(self.pairs(&left).iter().any(|left| {
                    self.pairs(&right).iter().any(|right| {
                        compare_values(*comparison, left, right, &Budget::large())
                            .expect("within the budget")
                    })
                }))
            }
            Expr::Arithmetic(first, rest) => {
                let mut total = self.value(first, context).number();
                for (operator, operand) in rest {
                    let operand = self.value(operand, context).number();
                    total = match operator {
                        Arithmetic::Add => total + operand,
                        Arithmetic::Subtract => total - operand,
                        Arithmetic::Multiply => total * operand,
                        Arithmetic::Divide => total / operand,
                        Arithmetic::Modulo => total % operand,
                    };
                }
                Value::Number(total)
            }
            Expr::Negate(inner, negative) => {
                let number = self.value(inner, context).number();
                Value::Number(if *negative { -number } else { number })
            }
            Expr::Union(all) => {
                let items: Vec<Item<'d>> =
                    all.iter().flat_map(|one| self.nodes(one, context)).collect();
                self.set(&items)
            }
            Expr::Path(path) => self.set(&self.path(path, context)),
            Expr::Core(core, arguments) => self.call(*core, arguments, context),
        }
    }

    /// The nodes of a node-set as sets of one; other values as they are.
    fn pairs(&self, value: &Value<'d>) -> Vec<Value<'d>> {
        match value {
            Value::NodeSet(nodes) if nodes.len() > 1 => {
                nodes.iter().map(|item| Value::NodeSet(item.into())).collect()
            }
            one @ (Value::NodeSet(_) | Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                vec![one.clone()]
            }
        }
    }

    fn boolean(&self, expr: &Expr, context: Context<'d>) -> bool {
        self.value(expr, context).boolean()
    }

    fn nodes(&self, expr: &Expr, context: Context<'d>) -> Vec<Item<'d>> {
        match self.value(expr, context) {
            Value::NodeSet(nodes) => nodes.into_items(),
            Value::String(_) | Value::Number(_) | Value::Boolean(_) => Vec::new(),
        }
    }

    fn path(&self, path: &Path, context: Context<'d>) -> Vec<Item<'d>> {
        let mut set = match &path.start {
            PathStart::Context => vec![context.item],
            PathStart::Root => self.all.first().copied().into_iter().collect(),
            PathStart::Filter(expr, predicates) => {
                self.filter(self.nodes(expr, context), predicates)
            }
        };
        for segment in &path.segments {
            let Segment::Step(step) = segment else { return Vec::new() };
            let found: Vec<Item<'d>> = set.iter().flat_map(|item| self.step(step, *item)).collect();
            set = self.in_order(&found);
        }
        set
    }

    fn step(&self, step: &Step, from: Item<'d>) -> Vec<Item<'d>> {
        let start = self.place(from);
        let placed = self.all.iter().enumerate();
        let on_axis =
            placed.filter(|(place, item)| on_axis(step.axis, from, **item, *place > start));
        let mut found: Vec<Item<'d>> = on_axis.map(|(_, item)| *item).collect();
        let reverse =
            [Axis::Ancestor, Axis::AncestorOrSelf, Axis::Preceding, Axis::PrecedingSibling];
        if reverse.contains(&step.axis) {
            found.reverse();
        }
        found.retain(|item| passes(&step.test, step.axis.principal(), *item));
        self.filter(found, &step.predicates)
    }

    fn filter(&self, mut items: Vec<Item<'d>>, predicates: &[Predicate]) -> Vec<Item<'d>> {
        for predicate in predicates {
            let size = items.len();
            let kept = items.iter().enumerate().filter(|(index, item)| {
                let context = Context { item: **item, position: index + 1, size };
                let position = context.position as f64;
                match predicate {
                    Predicate::At(wanted) => position == *wanted,
                    Predicate::Last => context.position == size,
                    Predicate::Plain(condition)
                    | Predicate::Positional(condition)
                    | Predicate::Sized(condition) => match self.value(&condition.expr, context) {
                        Value::Number(number) => number == position,
                        other @ (Value::NodeSet(_) | Value::String(_) | Value::Boolean(_)) => {
                            other.boolean()
                        }
                    },
                }
            });
            items = kept.map(|(_, item)| *item).collect();
        }
        items
    }

    fn call(&self, core: Core, arguments: &[Expr], context: Context<'d>) -> Value<'d> {
        let first = || match arguments.first() {
            Some(nodes) => self.nodes(nodes, context).first().copied(),
            None => Some(context.item),
        };
        let text = |item: Option<Item<'d>>, of: fn(Item<'d>) -> String| {
            Value::String(item.map(of).unwrap_or_default())
        };
        match core {
            Core::Last => Value::Number(context.size as f64),
            Core::Position => Value::Number(context.position as f64),
            Core::Count => {
                let nodes = arguments.iter().flat_map(|nodes| self.nodes(nodes, context));
                Value::Number(nodes.count() as f64)
            }
            Core::Sum => {
                let nodes = arguments.iter().flat_map(|nodes| self.nodes(nodes, context));
                let numbers = nodes.map(|item| string_to_number(&item.string_value()));
                Value::Number(numbers.fold(0.0, |total, number| total + number))
            }
            Core::LocalName => text(first(), |item| item.local_name().to_owned()),
            Core::NamespaceUri => text(first(), |item| item.namespace_uri().to_owned()),
            Core::Name => text(first(), |item| item.qualified_name().into_owned()),
            Core::Not => Value::Boolean(!arguments.iter().any(|one| self.boolean(one, context))),
            Core::Id
            | Core::String
            | Core::Concat
            | Core::StartsWith
            | Core::Contains
            | Core::SubstringBefore
            | Core::SubstringAfter
            | Core::Substring
            | Core::StringLength
            | Core::NormalizeSpace
            | Core::Translate
            | Core::Boolean
            | Core::True
            | Core::False
            | Core::Lang
            | Core::Number
            | Core::Floor
            | Core::Ceiling
            | Core::Round => self.on_scalars(core, arguments, context),
        }
    }

    /// Evaluates a function by the engine, with arguments that the reference evaluated.
    fn on_scalars(&self, core: Core, arguments: &[Expr], context: Context<'d>) -> Value<'d> {
        let scalar = |expr: &Expr| match self.value(expr, context) {
            Value::Number(number) => Expr::Number(number),
            Value::Boolean(true) => Expr::Core(Core::True, Vec::new()),
            Value::Boolean(false) => Expr::Core(Core::False, Vec::new()),
            Value::NodeSet(nodes) if core == Core::Boolean => {
                Expr::Number(if nodes.is_empty() { 0.0 } else { 1.0 })
            }
            text @ (Value::NodeSet(_) | Value::String(_)) => {
                Expr::Literal(text.into_string().into_boxed_str())
            }
        };
        let call = Expr::Core(core, arguments.iter().map(scalar).collect());
        let mut bindings = NoBindings;
        let budget = Budget::large();
        let mut run = Run::new(&mut bindings, &budget);
        run.value(&call, context).unwrap_or(Value::Boolean(false))
    }
}

/// Whether the item is on the axis of `from`; `after`: whether it comes after `from` in document order.
fn on_axis(axis: Axis, from: Item<'_>, item: Item<'_>, after: bool) -> bool {
    let inner = matches!(item.kind(), Kind::Attribute | Kind::Namespace);
    let starts_inner = matches!(from.kind(), Kind::Attribute | Kind::Namespace);
    let siblings = item.parent() == from.parent() && !inner && !starts_inner && item != from;
    match axis {
        Axis::SelfNode => item == from,
        Axis::Child => item.parent() == Some(from) && !inner,
        Axis::Parent => from.parent() == Some(item),
        Axis::Descendant => is_above(from, item) && !inner,
        Axis::DescendantOrSelf => item == from || (is_above(from, item) && !inner),
        Axis::Ancestor => is_above(item, from),
        Axis::AncestorOrSelf => item == from || is_above(item, from),
        Axis::FollowingSibling => siblings && after,
        Axis::PrecedingSibling => siblings && !after,
        Axis::Following => after && !inner && !is_above(from, item),
        Axis::Preceding => !after && item != from && !inner && !is_above(item, from),
        Axis::Attribute => item.kind() == Kind::Attribute && item.parent() == Some(from),
        Axis::Namespace => item.kind() == Kind::Namespace && item.parent() == Some(from),
    }
}

fn is_above(above: Item<'_>, below: Item<'_>) -> bool {
    let mut next = below.parent();
    while let Some(item) = next {
        if item == above {
            return true;
        }
        next = item.parent();
    }
    false
}

fn passes(test: &Test, principal: Kind, item: Item<'_>) -> bool {
    let kind = item.kind();
    match test {
        Test::Node => true,
        Test::Principal => kind == principal,
        Test::Namespace(uri) => kind == principal && item.namespace_uri() == &**uri,
        Test::Name(name) => {
            kind == principal
                && item.local_name() == name.expanded.local
                && item.namespace_uri() == name.expanded.namespace
        }
        Test::Text => kind == Kind::Text,
        Test::Comment => kind == Kind::Comment,
        Test::Instruction(target) => {
            kind == Kind::ProcessingInstruction
                && target.as_deref().is_none_or(|target| target == item.local_name())
        }
    }
}
