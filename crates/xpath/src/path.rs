//! Evaluates paths segment by segment, each from a node-set in document order.
//!
//! Duplicates are removed between segments, so that the cost of a path is at most its number of steps times
//! the square of the document's size. The last segment passes its nodes directly to the sink if they come in
//! document order, or if the sink accepts any order.

use xml::Kind;

use crate::axis::Axis;
use crate::budget::Budget;
use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::item::{Item, NodeSet, is_in_order, put_in_order};
use crate::plan::{Path, PathStart, Predicate, Segment, Step, Test, Type};
use crate::sink::{NodeSink, Nodes, Taken};
use crate::value::Value;
use crate::walk::Walk;

/// How the nodes of a set are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Single,
    /// None is a descendant of another.
    Flat,
    Any,
}

/// The nodes from which a segment starts.
enum Set<'d> {
    One(Item<'d>),
    Many(Vec<Item<'d>>),
    /// The value of a variable or a function, perhaps shared.
    Given(NodeSet<'d>),
}

impl<'d> Set<'d> {
    fn items(&self) -> &[Item<'d>] {
        match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
            Self::Given(nodes) => nodes.items(),
        }
    }

    fn shape(&self, shape: Shape) -> Shape {
        if self.items().len() <= 1 { Shape::Single } else { shape }
    }
}

/// Whether the nodes of a segment come in document order and without duplicates from a set of this shape,
/// and the shape of their set.
fn order_and_shape(segment: &Segment, from: Shape) -> (bool, Shape) {
    let single = from == Shape::Single;
    let apart = from != Shape::Any;
    let inside = if apart { Shape::Flat } else { Shape::Any };
    let beside = if single { Shape::Flat } else { Shape::Any };
    match segment {
        Segment::Scan(scan) => {
            let attributes_only = scan.deep == 0 && scan.attribute && scan.steps.len() == 1;
            (apart || attributes_only, if scan.deep == 0 { inside } else { Shape::Any })
        }
        Segment::Step(step) => match step.axis {
            Axis::SelfNode => (true, from),
            Axis::Attribute | Axis::Namespace => (true, Shape::Flat),
            Axis::Child => (apart, inside),
            Axis::Descendant | Axis::DescendantOrSelf => (apart, Shape::Any),
            Axis::FollowingSibling => (single, beside),
            Axis::PrecedingSibling => (false, beside),
            Axis::Parent | Axis::Following => (single, Shape::Any),
            Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding => (false, Shape::Any),
        },
    }
}

impl<'d> Run<'_, 'd> {
    /// Passes the nodes of the path to the sink; false if it needs no more.
    pub(crate) fn path(
        &mut self,
        path: &Path,
        context: Context<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let mut set = match &path.start {
            PathStart::Context => Set::One(context.item),
            PathStart::Root => Set::One(context.item.holder().document().root().into()),
            PathStart::Filter(expr, predicates) => {
                let nodes = self.nodes(expr, context)?;
                match predicates.as_slice() {
                    [] => Set::Given(nodes),
                    predicates => Set::Many(self.filter(nodes.items(), predicates)?),
                }
            }
        };
        let mut shape = set.shape(Shape::Any);
        let Some((last, before)) = path.segments.split_last() else {
            sink.begin(true);
            return self.pass_on(set.items(), sink);
        };
        for segment in before {
            let (sorted, next) = order_and_shape(segment, shape);
            let mut items = self.all_from(segment, set)?;
            if !sorted {
                self.sort(&mut items)?;
            }
            set = Set::Many(items);
            shape = set.shape(next);
        }
        let (sorted, _) = order_and_shape(last, shape);
        if sorted || sink.any_order() {
            sink.begin(sorted);
            return self.segment(last, set.items(), sink);
        }
        let mut items = self.all_from(last, set)?;
        self.sort(&mut items)?;
        sink.begin(true);
        Ok(sink.take_all(items, self.budget)?)
    }

    /// All nodes of a segment, unsorted and with duplicates.
    fn all_from(&mut self, segment: &Segment, set: Set<'d>) -> Outcome<Vec<Item<'d>>> {
        match (segment, set) {
            (Segment::Step(step), Set::Many(items))
                if step.axis == Axis::Parent && step.predicates.is_empty() =>
            {
                self.parents_of_all(&step.test, items)
            }
            (segment, set) => {
                let mut nodes = Nodes::default();
                self.segment(segment, set.items(), &mut nodes)?;
                Ok(nodes.items)
            }
        }
    }

    /// The parents; siblings next to each other add theirs once.
    fn parents_of_all(&mut self, test: &Test, items: Vec<Item<'d>>) -> Outcome<Vec<Item<'d>>> {
        self.charge(items.len() as u64)?;
        let mut last = None;
        let new_parent = |item: Item<'d>| {
            let parent = item.parent()?.holder();
            let is_new = last.replace(parent) != Some(parent);
            let passes = is_new && test.ready(parent.document()).passes(parent, Kind::Element);
            passes.then(|| parent.into())
        };
        let mut nodes = Nodes::default();
        for parent in items.into_iter().filter_map(new_parent) {
            nodes.push(parent, self.budget)?;
        }
        Ok(nodes.items)
    }

    fn segment(
        &mut self,
        segment: &Segment,
        items: &[Item<'d>],
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        if let (Segment::Scan(scan), [_, _, ..]) = (segment, items)
            && let Some(step) = scan.sole_child_step()
        {
            return self.children_of_all(step, items, sink);
        }
        let whole_subtrees = items.len() > 1 && takes_whole_subtrees(segment);
        let mut covered: Option<Item<'d>> = None;
        for item in items {
            self.charge(1)?;
            let is_covered = |last| item.document_order(last).is_le() && is_child(*item);
            if covered.is_some_and(is_covered) {
                continue;
            }
            let wants = if whole_subtrees {
                let mut last_seen = LastSeen { sink, last: *item };
                let wants = self.segment_from(segment, *item, &mut last_seen)?;
                covered = Some(last_seen.last);
                wants
            } else {
                self.segment_from(segment, *item, sink)?
            };
            if !wants {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn segment_from(
        &mut self,
        segment: &Segment,
        item: Item<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        match (segment, item.node()) {
            (Segment::Scan(scan), Some(node)) => self.scan(scan, node, sink),
            (Segment::Scan(_), None) => Ok(true),
            (Segment::Step(step), _) => self.step(step, item, sink),
        }
    }

    /// One step from one node, in the order of the axis.
    pub(crate) fn step(
        &mut self,
        step: &Step,
        from: Item<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let Step { axis, test, predicates } = step;
        let sized = predicates.iter().any(|p| matches!(p, Predicate::Sized(_) | Predicate::Last));
        if let (Axis::Child, [Predicate::Last]) = (axis, predicates.as_slice()) {
            return self.last_child(test, from, sink);
        }
        if !sized && predicates.len() <= COUNTS {
            return self.walk(*axis, test, predicates, from, sink);
        }
        let mut nodes = Nodes::default();
        self.walk(*axis, test, &[], from, &mut nodes)?;
        let items = self.filter(&nodes.items, predicates)?;
        self.pass_on(&items, sink)
    }

    /// `child::test[last()]`, searched from the end.
    fn last_child(
        &mut self,
        test: &Test,
        from: Item<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let Some(node) = from.node() else { return Ok(true) };
        let ready = test.ready(node.document());
        let mut next = node.last_child();
        while let Some(child) = next {
            self.charge(1)?;
            if ready.passes(child, Kind::Element) {
                return Ok(sink.take(child.into(), self.budget)?);
            }
            next = child.previous_sibling();
        }
        Ok(true)
    }

    /// Walks along an axis and applies predicates that don't need the size.
    fn walk(
        &mut self,
        axis: Axis,
        test: &Test,
        predicates: &[Predicate],
        from: Item<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let ready = test.ready(from.holder().document());
        if ready.is_never() && axis != Axis::Namespace && from.kind() != Kind::Namespace {
            return Ok(true);
        }
        let principal = axis.principal();
        let mut counts = [0usize; COUNTS];
        let mut walk = Walk::new(axis, from);
        if let Walk::Namespaces { element, .. } = &walk {
            self.budget.charge_scope(*element)?;
        }
        while let Some(item) = walk.next() {
            self.charge(1 + walk.passed())?;
            let passes = match item.node() {
                Some(node) => ready.passes(node, principal),
                None => {
                    item.charge_scope(self.budget)?;
                    passes_namespace(test, principal, item)
                }
            };
            if !passes {
                continue;
            }
            match self.count(predicates, &mut counts, item)? {
                Verdict::Fails => {}
                Verdict::FailsWithAllLater => return Ok(true),
                Verdict::Passes => {
                    if !sink.take(item, self.budget)? {
                        return Ok(false);
                    }
                    if is_over(predicates, &counts) {
                        return Ok(true);
                    }
                }
            }
        }
        self.charge(walk.passed())?;
        Ok(true)
    }

    /// Applies predicates to a node; `counts` has the nodes that each of them has seen.
    pub(crate) fn count(
        &mut self,
        predicates: &[Predicate],
        counts: &mut [usize],
        item: Item<'d>,
    ) -> Outcome<Verdict> {
        for (predicate, count) in predicates.iter().zip(counts) {
            *count += 1;
            if let Predicate::At(wanted) = predicate {
                // Counts are far below 2^53.
                let position = *count as f64;
                if position > *wanted {
                    return Ok(Verdict::FailsWithAllLater);
                }
                if position < *wanted {
                    return Ok(Verdict::Fails);
                }
            } else if !self.holds(predicate, Context { item, position: *count, size: 0 })? {
                return Ok(Verdict::Fails);
            }
        }
        Ok(Verdict::Passes)
    }

    /// Whether a predicate holds at a position.
    pub(crate) fn holds(&mut self, predicate: &Predicate, context: Context<'d>) -> Outcome<bool> {
        let at = |number: f64| number == context.position as f64;
        match predicate {
            Predicate::At(number) => Ok(at(*number)),
            Predicate::Last => Ok(context.position == context.size),
            Predicate::Plain(condition) => {
                self.charge(condition.cost)?;
                self.boolean(&condition.expr, context)
            }
            Predicate::Positional(condition) | Predicate::Sized(condition) => {
                self.charge(condition.cost)?;
                let expr = &condition.expr;
                match expr.value_type() {
                    Type::Number => self.number(expr, context).map(at),
                    Type::Unknown => Ok(match self.value(expr, context)? {
                        Value::Number(number) => at(number),
                        other @ (Value::NodeSet(_) | Value::String(_) | Value::Boolean(_)) => {
                            other.boolean()
                        }
                    }),
                    Type::NodeSet | Type::String | Type::Boolean => self.boolean(expr, context),
                }
            }
        }
    }

    /// Applies the predicates one after the other: section 2.4.
    pub(crate) fn filter(
        &mut self,
        items: &[Item<'d>],
        predicates: &[Predicate],
    ) -> Outcome<Vec<Item<'d>>> {
        let mut kept: Option<Vec<Item<'d>>> = None;
        for predicate in predicates {
            kept = Some(self.filter_once(kept.as_deref().unwrap_or(items), predicate)?);
        }
        Ok(kept.unwrap_or_default())
    }

    fn filter_once(&mut self, items: &[Item<'d>], predicate: &Predicate) -> Outcome<Vec<Item<'d>>> {
        self.charge(1)?;
        let mut kept = Nodes::default();
        let size = items.len();
        match predicate {
            Predicate::At(number) => self.keep(nth(items, *number), &mut kept)?,
            Predicate::Last => self.keep(items.last(), &mut kept)?,
            Predicate::Plain(_) | Predicate::Positional(_) | Predicate::Sized(_) => {
                for (index, item) in items.iter().enumerate() {
                    self.charge(1)?;
                    if self.holds(predicate, Context { item: *item, position: index + 1, size })? {
                        kept.push(*item, self.budget)?;
                    }
                }
            }
        }
        Ok(kept.items)
    }

    fn keep(&self, item: Option<&Item<'d>>, kept: &mut Nodes<'d>) -> Outcome<()> {
        if let Some(item) = item {
            kept.push(*item, self.budget)?;
        }
        Ok(())
    }

    pub(crate) fn pass_on(&self, items: &[Item<'d>], sink: &mut dyn NodeSink<'d>) -> Outcome<bool> {
        for item in items {
            if !sink.take(*item, self.budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn sort(&mut self, items: &mut Vec<Item<'d>>) -> Outcome<()> {
        const COMPARISONS_PER_STEP: u64 = 8;
        let len = items.len() as u64;
        self.charge(len)?;
        if !is_in_order(items) {
            let comparisons = len.saturating_mul(u64::from(len.ilog2()));
            self.charge(comparisons / COMPARISONS_PER_STEP)?;
            put_in_order(items);
        }
        Ok(())
    }
}

/// Maximum number of predicates that are applied while walking; the nodes of a step with more are collected first.
const COUNTS: usize = 4;

/// The item at a position, from 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn nth<'s, 'd>(items: &'s [Item<'d>], position: f64) -> Option<&'s Item<'d>> {
    let is_valid = position >= 1.0 && position <= items.len() as f64 && position.fract() == 0.0;
    if is_valid { items.get(position as usize - 1) } else { None }
}

/// Attributes and namespace nodes are on no descendant axis.
fn is_child(item: Item<'_>) -> bool {
    !matches!(item.kind(), Kind::Attribute | Kind::Namespace)
}

/// The result of applying predicates to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passes,
    Fails,
    /// All later nodes of the axis fail too.
    FailsWithAllLater,
}

/// Whether the only position that one of the predicates accepts has passed.
fn is_over(predicates: &[Predicate], counts: &[usize]) -> bool {
    predicates.iter().zip(counts).any(|(predicate, count)| match predicate {
        Predicate::At(wanted) => *count as f64 >= *wanted,
        Predicate::Last | Predicate::Plain(_) | Predicate::Positional(_) | Predicate::Sized(_) => {
            false
        }
    })
}

fn passes_namespace(test: &Test, principal: Kind, item: Item<'_>) -> bool {
    if principal == Kind::Namespace {
        test.passes_namespace(item)
    } else {
        matches!(test, Test::Node)
    }
}

/// Whether a segment finds from a node all that it finds from the node's descendants, so that these can be
/// skipped.
fn takes_whole_subtrees(segment: &Segment) -> bool {
    match segment {
        Segment::Scan(scan) => match scan.steps.as_slice() {
            [step] => scan.deep == 1 && step.predicates.iter().all(Predicate::is_plain),
            _ => false,
        },
        Segment::Step(step) => {
            matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf)
                && step.predicates.iter().all(Predicate::is_plain)
        }
    }
}

/// Passes on nodes and remembers the last one.
struct LastSeen<'s, 'd> {
    sink: &'s mut dyn NodeSink<'d>,
    last: Item<'d>,
}

impl<'d> NodeSink<'d> for LastSeen<'_, 'd> {
    fn any_order(&self) -> bool {
        self.sink.any_order()
    }

    fn take(&mut self, item: Item<'d>, budget: &Budget) -> Taken {
        self.last = item;
        self.sink.take(item, budget)
    }
}
