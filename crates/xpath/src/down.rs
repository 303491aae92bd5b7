//! Evaluates simple downward paths; `scan.rs` evaluates the others.
//!
//! A path is simple if it has one step, or two of which the first is preceded by `//`. Leading steps that match a
//! single child are descended first.

use xml::{Node, NodeFilter};

use crate::budget::Budget;
use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::item::Item;
use crate::plan::{COUNTERS_MAX, Predicate, Scan, ScanStep, Test};
use crate::sink::{NodeSink, Nodes, Taken};
use crate::test::{Below, Ready};

/// Initial capacity of a list of descendants, in nodes.
const NODES_AT_FIRST: usize = 16;

type Counts = [u32; COUNTERS_MAX];

impl<'d> Run<'_, 'd> {
    /// Passes the nodes that the scan finds from `start` to the sink, in document order; false if it needs no
    /// more.
    pub(crate) fn scan(
        &mut self,
        scan: &Scan,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let Some((start, from)) = self.descend(scan, start)? else { return Ok(true) };
        let deep = scan.deep >> from;
        match scan.steps.get(from..).unwrap_or(&[]) {
            [] => Ok(true),
            [step] if deep == 0 || (!scan.attribute && is_simple(step, start)) => {
                self.one_step(scan, step, start, sink)
            }
            [first, second] if deep == 1 && !sink.any_order() && is_simple(first, start) => {
                self.two_steps(first, second, scan.attribute, start, sink)
            }
            _ => self.walk_down(scan, from, start, sink),
        }
    }

    /// Follows the leading steps that match a single child, as those to the outer elements of a document do. Returns
    /// the node and the next step; none if a step matches nothing.
    fn descend(&mut self, scan: &Scan, mut start: Node<'d>) -> Outcome<Option<(Node<'d>, usize)>> {
        let before_last = scan.steps.len().saturating_sub(1);
        for (index, step) in scan.steps.iter().take(before_last).enumerate() {
            let Test::Name(name) = &step.test else { return Ok(Some((start, index))) };
            if scan.deep >> index & 1 != 0 || !step.predicates.is_empty() {
                return Ok(Some((start, index)));
            }
            let document = start.document();
            let Some(name) = name.id(document) else { return Ok(None) };
            let mut children = start.filtered_children(NodeFilter::name(document, name));
            let (first, second) = (children.next(), children.next());
            self.charge(children.take_visited().saturating_add(1))?;
            match (first, second) {
                (None, _) => return Ok(None),
                (Some(only), None) => start = only,
                (Some(_), Some(_)) => return Ok(Some((start, index))),
            }
        }
        Ok(Some((start, before_last)))
    }

    fn one_step(
        &mut self,
        scan: &Scan,
        step: &ScanStep,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let ready = step.test.ready(start.document());
        if ready.is_never() {
            return Ok(true);
        }
        if scan.attribute {
            return self.attributes(step, ready, start, sink);
        }
        if scan.deep == 0 {
            return self.children(step, ready, start, sink);
        }
        match sink.list() {
            Some(list) => {
                list.reserve(NODES_AT_FIRST, self.budget)?;
                self.descendants(step, ready, start, |run, node| Ok(push(list, node, run.budget)?))
            }
            None => self.descendants(step, ready, start, |run, node| {
                Ok(sink.take(node.into(), run.budget)?)
            }),
        }
    }

    /// `//one/two` for a sink that needs all nodes in order: the second step from each node of the first. The nodes
    /// have to be sorted only if those of the first step contain one another.
    fn two_steps(
        &mut self,
        first: &ScanStep,
        second: &ScanStep,
        attribute: bool,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let document = start.document();
        let (one, two) = (first.test.ready(document), second.test.ready(document));
        if one.is_never() || two.is_never() {
            return Ok(true);
        }
        let mut found = Nodes::default();
        let below = Below::new(two, document);
        let budget = self.budget;
        self.descendants(first, one, start, |run, node| {
            if attribute {
                run.attributes(second, two, node, &mut found)
            } else {
                run.each_child(second, two, below, node, |node| push(&mut found, node, budget))
            }
        })?;
        self.sort(&mut found.items)?;
        Ok(sink.take_all(found.items, self.budget)?)
    }

    /// `//test`: the descendants that pass, until `visit` returns false. Positions are counted per parent.
    fn descendants(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        start: Node<'d>,
        mut visit: impl FnMut(&mut Self, Node<'d>) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let below = Below::new(test, start.document());
        let is_plain = step.predicates.iter().all(Predicate::is_plain);
        let mut parents = Parents::default();
        let mut all = start.filtered_descendants(below.filter);
        while let Some(node) = all.next() {
            self.charge(all.take_visited())?;
            if !below.passes(node) {
                continue;
            }
            let fits = if is_plain {
                self.all_hold(step, node)?
            } else {
                let Some((parent, counts)) = parents.counts_of(node) else { continue };
                let fits = self.fits(test, step, node, counts)?;
                if step.is_over(counts) {
                    all.pass_over(parent);
                }
                fits
            };
            if fits && !visit(self, node)? {
                return Ok(false);
            }
        }
        self.charge(all.take_visited())?;
        Ok(true)
    }

    /// `test`: the children that pass.
    pub(crate) fn children(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let (below, budget) = (Below::new(test, start.document()), self.budget);
        match sink.list() {
            Some(list) => {
                self.each_child(step, test, below, start, |node| push(list, node, budget))
            }
            None => {
                self.each_child(step, test, below, start, |node| sink.take(node.into(), budget))
            }
        }
    }

    /// `test` from each of several nodes; the test is resolved once per document.
    pub(crate) fn children_of_all(
        &mut self,
        step: &ScanStep,
        items: &[Item<'d>],
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        if let Some(list) = sink.list() {
            list.reserve(items.len(), self.budget)?;
        }
        let budget = self.budget;
        let mut known = None;
        for node in items.iter().filter_map(|item| item.node()) {
            let document = node.document();
            let (test, below) = match known {
                Some((serial, test, below)) if serial == document.serial() => (test, below),
                Some(_) | None => {
                    let test = step.test.ready(document);
                    (test, Below::new(test, document))
                }
            };
            known = Some((document.serial(), test, below));
            let wants = match sink.list() {
                Some(list) => {
                    self.each_child(step, test, below, node, |node| push(list, node, budget))
                }
                None => {
                    self.each_child(step, test, below, node, |node| sink.take(node.into(), budget))
                }
            }?;
            if !wants {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The children that pass, until `visit` returns false.
    #[inline]
    fn each_child(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        below: Below<'_>,
        start: Node<'d>,
        mut visit: impl FnMut(Node<'d>) -> Taken,
    ) -> Outcome<bool> {
        let mut all = start.filtered_children(below.filter);
        // Plain loops: adapters over the children aren't inlined.
        if let Some(wanted) = step.exactly {
            let mut left = wanted;
            let mut found = None;
            for node in all.by_ref() {
                left -= u32::from(below.passes(node));
                if left == 0 {
                    found = Some(node);
                    break;
                }
            }
            self.charge(all.take_visited().saturating_add(1))?;
            return Ok(found.map_or(Ok(true), visit)?);
        }
        if step.predicates.is_empty() {
            let mut wants = true;
            for node in all.by_ref() {
                if below.passes(node) {
                    wants = visit(node)?;
                    if !wants {
                        break;
                    }
                }
            }
            self.charge(all.take_visited().saturating_add(1))?;
            return Ok(wants);
        }
        let mut counts = Counts::default();
        while let Some(node) = all.next() {
            self.charge(all.take_visited())?;
            if step.is_over(&counts) {
                return Ok(true);
            }
            if below.passes(node) && self.fits(test, step, node, &mut counts)? && !visit(node)? {
                return Ok(false);
            }
        }
        self.charge(all.take_visited().saturating_add(1))?;
        Ok(true)
    }

    pub(crate) fn all_hold(&mut self, step: &ScanStep, node: Node<'d>) -> Outcome<bool> {
        for predicate in &step.predicates {
            if !self.holds(predicate, Context::new(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Avoids the virtual call of the sink, which is most of the cost of a node.
#[inline]
fn push<'d>(list: &mut Nodes<'d>, node: Node<'d>, budget: &Budget) -> Taken {
    list.push(node.into(), budget)
}

/// Whether the step can be evaluated here: its predicates need no position, or descendants are visited in the
/// order in which positions are counted.
fn is_simple(step: &ScanStep, start: Node<'_>) -> bool {
    start.document().is_in_order() || step.predicates.iter().all(Predicate::is_plain)
}

/// Counts for the parents that may have further children, ancestors first. For documents whose nodes are numbered in
/// document order.
#[derive(Default)]
struct Parents<'d> {
    open: Vec<(Node<'d>, Counts)>,
}

impl<'d> Parents<'d> {
    /// The parent of `node` with its counts. Call it in document order.
    fn counts_of(&mut self, node: Node<'d>) -> Option<(Node<'d>, &mut Counts)> {
        let parent = node.parent()?;
        while let Some((last, _)) = self.open.last().filter(|(last, _)| *last != parent) {
            // A node after the parent, or a sibling of it, gets no more children.
            let is_left = last.document_order(parent).is_gt() || last.parent() == parent.parent();
            if !is_left {
                break;
            }
            self.open.pop();
        }
        if self.open.last().is_none_or(|(last, _)| *last != parent) {
            self.open.push((parent, [0; COUNTERS_MAX]));
        }
        self.open.last_mut().map(|(parent, counts)| (*parent, counts))
    }
}
