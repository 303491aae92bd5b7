//! Downward paths: those that need no walk with bookkeeping are answered here, the rest by `scan.rs`.
//!
//! One step, or two of which the first is `//`, look at each node once and for all; outer elements of which there
//! is one are passed through.

use xml::{Kind, Node};

use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::plan::{COUNTERS_MAX, Predicate, Scan, ScanStep, Test};
use crate::sink::Sink;
use crate::test::Ready;

impl<'d> Run<'_, 'd> {
    /// Gives the sink what the scan finds below `start`, in document order; false when it has enough.
    pub(crate) fn scan(
        &mut self,
        scan: &Scan,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let Some((start, from)) = self.descend(scan, start)? else { return Ok(true) };
        let deep = scan.deep >> from;
        match scan.steps.get(from..).unwrap_or(&[]) {
            [] => Ok(true),
            [step] if deep == 0 || (!scan.attribute && stands_alone(step, start)) => {
                self.one_step(scan, step, start, sink)
            }
            [first, second] if deep == 1 && !sink.any_order() && stands_alone(first, start) => {
                self.two_steps(first, second, scan.attribute, start, sink)
            }
            _ => self.walk_down(scan, from, start, sink),
        }
    }

    /// Goes down as long as each step has one child to go to, as a document's outer elements have; none when a step
    /// has nowhere to go. The node that is left, and the step that comes next.
    fn descend(&mut self, scan: &Scan, mut start: Node<'d>) -> Outcome<Option<(Node<'d>, usize)>> {
        let before_last = scan.steps.len().saturating_sub(1);
        for (index, step) in scan.steps.iter().take(before_last).enumerate() {
            let Test::Name(name) = &step.test else { return Ok(Some((start, index))) };
            if scan.deep >> index & 1 != 0 || !step.predicates.is_empty() {
                return Ok(Some((start, index)));
            }
            let Some(name) = name.id(start.document()) else { return Ok(None) };
            let mut children = start.named_children(name);
            let (first, second) = (children.next(), children.next());
            self.spend(children.looked().saturating_add(1))?;
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
        sink: &mut dyn Sink<'d>,
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
        self.descendants(step, ready, start, sink)
    }

    /// `//one/two` for those who want all nodes: first all of the one, then of each the other, and in
    /// order only if nodes of the first step stood in one another.
    fn two_steps(
        &mut self,
        first: &ScanStep,
        second: &ScanStep,
        attribute: bool,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let document = start.document();
        let (one, two) = (first.test.ready(document), second.test.ready(document));
        if one.is_never() || two.is_never() {
            return Ok(true);
        }
        let (mut above, mut found) = (Vec::new(), Vec::new());
        self.descendants(first, one, start, &mut above)?;
        self.check_size(above.len())?;
        for node in above.iter().filter_map(|item| item.node()) {
            if attribute {
                self.attributes(second, two, node, &mut found)?;
            } else {
                self.children(second, two, node, &mut found)?;
            }
        }
        self.sort(&mut found)?;
        Ok(found.into_iter().all(|item| sink.take(item)))
    }

    /// `//test`: all nodes below, without bookkeeping.
    fn descendants(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        if let Ready::Name(name) = test {
            return self.named_descendants(step, name, start, sink);
        }
        let mut looked = 0u64;
        for node in start.descendants() {
            looked += 1;
            if test.passes(node, Kind::Element) {
                self.spend(std::mem::take(&mut looked))?;
                if self.all_hold(step, node)? && !sink.take(node.into()) {
                    return Ok(false);
                }
            }
        }
        self.spend(looked)?;
        Ok(true)
    }

    /// `test` alone: the children.
    pub(crate) fn children(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        if let (Ready::Name(name), []) = (test, step.predicates.as_slice()) {
            return self.named_children(name, start, sink);
        }
        let mut counts = [0; COUNTERS_MAX];
        let mut position = 0;
        let mut looked = 1u64;
        for node in start.children() {
            looked += 1;
            if !test.passes(node, Kind::Element) {
                continue;
            }
            if let Some(wanted) = step.exactly {
                position += 1;
                if position < wanted {
                    continue;
                }
                self.spend(looked)?;
                return Ok(position != wanted || sink.take(node.into()));
            }
            if !step.predicates.is_empty() {
                self.spend(std::mem::take(&mut looked))?;
                if step.is_spent(&counts) {
                    return Ok(true);
                }
                if !self.steps_fit(test, step, node, &mut counts)? {
                    continue;
                }
            }
            if !sink.take(node.into()) {
                return Ok(false);
            }
        }
        self.spend(looked)?;
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

/// Whether the step's nodes can be found without the walk: their predicates ask for no position, or the nodes are
/// found by name in the order in which positions are counted.
fn stands_alone(step: &ScanStep, start: Node<'_>) -> bool {
    let by_name = matches!(step.test, Test::Name(_)) && start.document().is_in_order();
    by_name || step.predicates.iter().all(Predicate::is_plain)
}
