//! Downward paths in one walk: `/a/b`, `//order[1]/symbol`, `a//b/@c`.
//!
//! Each node on the walk has a set of steps that its children may match, a bit each. A child that
//! matches step i has bit i + 1 for its own children; a step after `//` keeps its bit all the way down.
//! So every node is met once, in document order, however many ways lead to it, and the walk goes only
//! where a step may match. Positions are counted per parent, as `//order[1]` means.

use xml::{Kind, Node};

use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::plan::{COUNTERS_MAX, Predicate, Scan, ScanStep};
use crate::sink::Sink;
use crate::test::Ready;

/// Steps and depth that need no allocation.
const INLINE: usize = 6;

/// An element on the way down.
#[derive(Clone, Copy)]
struct Frame<'d> {
    next: Option<Node<'d>>,
    bits: u32,
    counts: [u32; COUNTERS_MAX],
}

const IDLE: Frame<'static> = Frame { next: None, bits: 0, counts: [0; COUNTERS_MAX] };

/// A stack whose first frames lie in place.
struct Frames<'d> {
    near: [Frame<'d>; INLINE],
    far: Vec<Frame<'d>>,
    len: usize,
}

impl<'d> Frames<'d> {
    fn push(&mut self, frame: Frame<'d>) {
        match self.near.get_mut(self.len) {
            Some(place) => *place = frame,
            None => self.far.push(frame),
        }
        self.len += 1;
    }

    fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
        if self.len >= INLINE {
            self.far.pop();
        }
    }

    fn top(&mut self) -> Option<&mut Frame<'d>> {
        let index = self.len.checked_sub(1)?;
        if index < INLINE { self.near.get_mut(index) } else { self.far.last_mut() }
    }
}

/// The tests of a scan for one document.
enum Tests<'p> {
    Near([Ready<'p>; INLINE]),
    Far(Vec<Ready<'p>>),
}

impl<'p> Tests<'p> {
    /// None when some step can't match anything in this document.
    fn of(scan: &'p Scan, node: Node<'_>) -> Option<Self> {
        let document = node.document();
        let mut near = [Ready::Never; INLINE];
        let mut far = Vec::new();
        for (index, step) in scan.steps.iter().enumerate() {
            let ready = step.test.ready(document);
            if ready.is_never() {
                return None;
            }
            match near.get_mut(index) {
                Some(place) if scan.steps.len() <= INLINE => *place = ready,
                Some(_) | None => far.push(ready),
            }
        }
        Some(if far.is_empty() { Self::Near(near) } else { Self::Far(far) })
    }

    #[inline]
    fn get(&self, index: usize) -> Ready<'p> {
        let all: &[Ready<'p>] = match self {
            Self::Near(near) => near,
            Self::Far(far) => far,
        };
        all.get(index).copied().unwrap_or(Ready::Never)
    }
}

/// A scan at work on one document.
struct Scanning<'p> {
    scan: &'p Scan,
    tests: Tests<'p>,
    last: usize,
    /// The bit of a last step along the attribute axis.
    attribute_bit: u32,
}

impl<'d> Run<'_, 'd> {
    /// Gives the sink what the scan finds below `start`, in document order; false when it has enough.
    pub(crate) fn scan(
        &mut self,
        scan: &Scan,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let Some(last) = scan.steps.len().checked_sub(1) else { return Ok(true) };
        let Some(tests) = Tests::of(scan, start) else { return Ok(true) };
        let attribute_bit = if scan.attribute { 1 << last } else { 0 };
        let scanning = Scanning { scan, tests, last, attribute_bit };
        if !scan.attribute && last == 0 && scan.deep == 1 && plain(scan.steps.first()) {
            return self.descendants(&scanning, start, sink);
        }
        let mut frames = Frames { near: [IDLE; INLINE], far: Vec::new(), len: 0 };
        if !self.enter(&scanning, start, 1, &mut frames, sink)? {
            return Ok(false);
        }
        while let Some(frame) = frames.top() {
            let Some(node) = frame.next else {
                frames.pop();
                continue;
            };
            frame.next = node.next_sibling();
            self.spend(1)?;
            let (found, below) = self.meet(&scanning, node, frame)?;
            if found && !sink.take(node.into()) {
                return Ok(false);
            }
            if below != 0
                && node.is_element()
                && !self.enter(&scanning, node, below, &mut frames, sink)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Which of the frame's steps the node matches: whether the last one, and what its children may.
    fn meet(
        &mut self,
        scanning: &Scanning<'_>,
        node: Node<'d>,
        frame: &mut Frame<'d>,
    ) -> Outcome<(bool, u32)> {
        let mut found = false;
        let mut below = frame.bits & scanning.scan.deep;
        let mut open = frame.bits & !scanning.attribute_bit;
        while open != 0 {
            let index = open.trailing_zeros();
            open &= open - 1;
            let place = index as usize;
            if !scanning.tests.get(place).passes(node, Kind::Element) {
                continue;
            }
            let Some(step) = scanning.scan.steps.get(place) else { continue };
            if step.predicates.is_empty()
                || self.fits(scanning, place, step, node, &mut frame.counts)?
            {
                if place == scanning.last {
                    found = true;
                } else {
                    below |= 1 << (index + 1);
                }
            }
        }
        Ok((found, below))
    }

    fn fits(
        &mut self,
        scanning: &Scanning<'_>,
        place: usize,
        step: &ScanStep,
        node: Node<'d>,
        counts: &mut [u32; COUNTERS_MAX],
    ) -> Outcome<bool> {
        let mut slot = step.first_counter;
        for predicate in &step.predicates {
            let mut position = 1;
            if predicate.counts() {
                if let Some(count) = counts.get_mut(slot) {
                    *count += 1;
                    position = *count as usize;
                }
                slot += 1;
            }
            let holds = match predicate {
                Predicate::Last => self.is_last(scanning.tests.get(place), node)?,
                Predicate::At(_)
                | Predicate::Plain(_)
                | Predicate::Positional(_)
                | Predicate::Sized(_) => {
                    self.holds(predicate, Context { item: node.into(), position, size: 0 })?
                }
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no later sibling passes the test. A sibling is looked at for one node only, the last
    /// before it that passed, so all of them together cost one look at each.
    fn is_last(&mut self, test: Ready<'_>, node: Node<'d>) -> Outcome<bool> {
        let mut next = node.next_sibling();
        while let Some(sibling) = next {
            self.spend(1)?;
            if test.passes(sibling, Kind::Element) {
                return Ok(false);
            }
            next = sibling.next_sibling();
        }
        Ok(true)
    }

    /// Goes down to the children of `node`, and gives its attributes when they are asked for.
    fn enter(
        &mut self,
        scanning: &Scanning<'_>,
        node: Node<'d>,
        bits: u32,
        frames: &mut Frames<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        if bits & scanning.attribute_bit != 0 && !self.attributes(scanning, node, sink)? {
            return Ok(false);
        }
        if bits & !(scanning.attribute_bit & !scanning.scan.deep) != 0 {
            frames.push(Frame { next: node.first_child(), bits, counts: [0; COUNTERS_MAX] });
        }
        Ok(true)
    }

    fn attributes(
        &mut self,
        scanning: &Scanning<'_>,
        node: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let Some(step) = scanning.scan.steps.get(scanning.last) else { return Ok(true) };
        let test = scanning.tests.get(scanning.last);
        for attribute in node.attributes() {
            self.spend(1)?;
            if test.passes(attribute, Kind::Attribute)
                && self.all_hold(step, attribute)?
                && !sink.take(attribute.into())
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `//test`: all nodes below, without bookkeeping.
    fn descendants(
        &mut self,
        scanning: &Scanning<'_>,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let Some(step) = scanning.scan.steps.first() else { return Ok(true) };
        let test = scanning.tests.get(0);
        for node in start.descendants() {
            self.spend(1)?;
            if test.passes(node, Kind::Element)
                && self.all_hold(step, node)?
                && !sink.take(node.into())
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn all_hold(&mut self, step: &ScanStep, node: Node<'d>) -> Outcome<bool> {
        for predicate in &step.predicates {
            if !self.holds(predicate, Context::new(node))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn plain(step: Option<&ScanStep>) -> bool {
    step.is_some_and(|step| step.predicates.iter().all(Predicate::is_plain))
}
