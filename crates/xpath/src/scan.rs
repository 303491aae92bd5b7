//! Evaluates downward paths such as `/a/b`, `//order[1]/symbol` and `a//b/@c` in one walk over the tree.
//!
//! Each node of the walk has a bit set of the steps that its children may match. A child that matches step i
//! sets bit i + 1 for its own children; a step after `//` keeps its bit for all descendants. So each node is
//! visited at most once, in document order, and only where a step may match. Positions are counted per
//! parent, as `//order[1]` requires.

use xml::{Kind, Node};

use crate::context::Context;
use crate::evaluate::{Outcome, Run};
use crate::plan::{COUNTERS_MAX, Predicate, Scan, ScanStep};
use crate::sink::NodeSink;
use crate::test::Ready;

/// Maximum number of steps, and of levels, that are stored without an allocation.
const INLINE: usize = 6;

/// An element whose children are being visited.
#[derive(Clone, Copy)]
struct Frame<'d> {
    next: Option<Node<'d>>,
    bits: u32,
    counts: [u32; COUNTERS_MAX],
}

const IDLE: Frame<'static> = Frame { next: None, bits: 0, counts: [0; COUNTERS_MAX] };

/// A stack whose first frames are stored inline.
struct Frames<'d> {
    inline: [Frame<'d>; INLINE],
    heap: Vec<Frame<'d>>,
    len: usize,
}

impl<'d> Frames<'d> {
    fn push(&mut self, frame: Frame<'d>) {
        match self.inline.get_mut(self.len) {
            Some(place) => *place = frame,
            None => self.heap.push(frame),
        }
        self.len += 1;
    }

    fn pop(&mut self) -> Option<Frame<'d>> {
        self.len = self.len.checked_sub(1)?;
        self.inline.get(self.len).copied().or_else(|| self.heap.pop())
    }
}

/// The tests of a scan, resolved for one document.
enum Tests<'p> {
    Inline([Ready<'p>; INLINE]),
    Heap(Vec<Ready<'p>>),
}

impl<'p> Tests<'p> {
    /// None if a step matches nothing in this document.
    fn of(scan: &'p Scan, node: Node<'_>) -> Option<Self> {
        let document = node.document();
        let mut inline = [Ready::Never; INLINE];
        let mut heap = Vec::new();
        for (index, step) in scan.steps.iter().enumerate() {
            let ready = step.test.ready(document);
            if ready.is_never() {
                return None;
            }
            match inline.get_mut(index) {
                Some(place) if scan.steps.len() <= INLINE => *place = ready,
                Some(_) | None => heap.push(ready),
            }
        }
        Some(if heap.is_empty() { Self::Inline(inline) } else { Self::Heap(heap) })
    }

    fn all(&self) -> &[Ready<'p>] {
        match self {
            Self::Inline(inline) => inline,
            Self::Heap(heap) => heap,
        }
    }
}

#[inline]
fn test_of<'p>(tests: &[Ready<'p>], index: usize) -> Ready<'p> {
    tests.get(index).copied().unwrap_or(Ready::Never)
}

/// A scan of one document.
struct Scanning<'p> {
    scan: &'p Scan,
    tests: &'p [Ready<'p>],
    last: usize,
    /// The bit of the last step if it is along the attribute axis.
    attribute_bit: u32,
    /// The bits of the steps that match elements only.
    element_bits: u32,
    /// The bit of the last step if it is along the child axis, so that the walk ends there.
    closing_bit: u32,
    charge_per_node: u64,
}

impl Scanning<'_> {
    /// The node or the first of its following siblings that a step of `bits` may match by its type.
    #[inline]
    fn candidate<'d>(
        &self,
        bits: u32,
        mut node: Option<Node<'d>>,
        visited: &mut u64,
    ) -> Option<Node<'d>> {
        *visited += 1;
        if bits & !self.element_bits == 0 {
            while let Some(other) = node.filter(|node| !node.is_element()) {
                *visited += 1;
                node = other.next_sibling();
            }
        }
        node
    }
}

/// The nodes after which a walk charges them.
const NODES_PER_CHARGE: u64 = 256;
/// The steps of a path that a node is tested against for the price of one.
const STEPS_PER_CHARGE: u64 = 8;

impl<'d> Run<'_, 'd> {
    /// Evaluates all steps from the step `from` on.
    pub(crate) fn walk_down(
        &mut self,
        scan: &Scan,
        from: usize,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let Some(last) = scan.steps.len().checked_sub(1) else { return Ok(true) };
        let charge_per_node = 1 + scan.steps.len() as u64 / STEPS_PER_CHARGE;
        self.charge(charge_per_node)?;
        let Some(tests) = Tests::of(scan, start) else { return Ok(true) };
        let tests = tests.all();
        let attribute_bit = if scan.attribute { 1 << last } else { 0 };
        let principal = |bits: u32, index: usize| {
            bits | (u32::from(test_of(tests, index).is_principal()) << index)
        };
        let element_bits = (0..=last).fold(0, principal);
        let closing_bit = (1 << last) & !attribute_bit & !scan.deep;
        let closing_bit = if closing_bit == 0 { u32::MAX } else { closing_bit };
        let scanning = Scanning {
            scan,
            tests,
            last,
            attribute_bit,
            element_bits,
            closing_bit,
            charge_per_node,
        };
        self.scan_steps(&scanning, 1 << from, start, sink)
    }

    fn scan_steps(
        &mut self,
        scanning: &Scanning<'_>,
        bits: u32,
        start: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let mut frames = Frames { inline: [IDLE; INLINE], heap: Vec::new(), len: 0 };
        let mut frame = IDLE;
        if !self.enter(scanning, start, bits, &mut frame, sink)? {
            return Ok(false);
        }
        let mut visited = 0u64;
        loop {
            let Some(node) = frame.next else {
                match frames.pop() {
                    Some(above) => frame = above,
                    None => break,
                }
                continue;
            };
            frame.next = scanning.candidate(frame.bits, node.next_sibling(), &mut visited);
            let (found, below) = self.match_steps(scanning, node, &mut frame)?;
            if found && !sink.take(node.into(), self.budget)? {
                return Ok(false);
            }
            if below == scanning.closing_bit {
                let test = test_of(scanning.tests, scanning.last);
                if let Some(step) = scanning.scan.steps.get(scanning.last)
                    && !self.children(step, test, node, sink)?
                {
                    return Ok(false);
                }
            } else if below != 0 && node.is_element() {
                let above = frame;
                if !self.enter(scanning, node, below, &mut frame, sink)? {
                    return Ok(false);
                }
                let first = scanning.candidate(below, frame.next, &mut visited);
                if frame.bits == 0 || first.is_none() {
                    frame = above;
                } else {
                    // A frame without further children isn't needed again.
                    if above.next.is_some() {
                        frames.push(above);
                    }
                    frame.next = first;
                }
            }
            if visited > NODES_PER_CHARGE {
                self.charge(std::mem::take(&mut visited) * scanning.charge_per_node)?;
            }
        }
        self.charge(visited * scanning.charge_per_node)?;
        Ok(true)
    }

    /// Whether the node matches the last step, and the steps that its children may match.
    #[inline]
    fn match_steps(
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
            if !test_of(scanning.tests, place).passes(node, Kind::Element) {
                continue;
            }
            let Some(step) = scanning.scan.steps.get(place) else { continue };
            let test = test_of(scanning.tests, place);
            if step.predicates.is_empty() || self.fits(test, step, node, &mut frame.counts)? {
                if place == scanning.last {
                    found = true;
                } else {
                    below |= 1 << (index + 1);
                }
            }
        }
        Ok((found, below))
    }

    /// Whether a node that passes the step's test passes its predicates; `counts` are those of its parent.
    pub(crate) fn fits(
        &mut self,
        test: Ready<'_>,
        step: &ScanStep,
        node: Node<'d>,
        counts: &mut [u32; COUNTERS_MAX],
    ) -> Outcome<bool> {
        if let (Some(wanted), Some(count)) = (step.exactly, counts.get_mut(step.first_counter)) {
            *count += 1;
            return Ok(*count == wanted);
        }
        if step.is_over(counts) {
            return Ok(false);
        }
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
                Predicate::Last => self.is_last(test, node)?,
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

    /// Whether no following sibling passes the test. The search ends at the next one that does, so that all
    /// searches among the children of a node visit each of them once.
    fn is_last(&mut self, test: Ready<'_>, node: Node<'d>) -> Outcome<bool> {
        let mut next = node.next_sibling();
        while let Some(sibling) = next {
            self.charge(1)?;
            if test.passes(sibling, Kind::Element) {
                return Ok(false);
            }
            next = sibling.next_sibling();
        }
        Ok(true)
    }

    /// Passes the attributes of `node` to the sink if the steps select them, and sets `frame` to visit its
    /// children, or none if no step can match them.
    #[inline]
    fn enter(
        &mut self,
        scanning: &Scanning<'_>,
        node: Node<'d>,
        bits: u32,
        frame: &mut Frame<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        if bits & scanning.attribute_bit != 0 && !self.attributes_of(scanning, node, sink)? {
            return Ok(false);
        }
        *frame = IDLE;
        if bits & !(scanning.attribute_bit & !scanning.scan.deep) != 0 {
            *frame = Frame { next: node.first_child(), bits, counts: [0; COUNTERS_MAX] };
        }
        Ok(true)
    }

    #[inline]
    fn attributes_of(
        &mut self,
        scanning: &Scanning<'_>,
        node: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        let Some(step) = scanning.scan.steps.get(scanning.last) else { return Ok(true) };
        self.attributes(step, test_of(scanning.tests, scanning.last), node, sink)
    }

    pub(crate) fn attributes(
        &mut self,
        step: &ScanStep,
        test: Ready<'_>,
        node: Node<'d>,
        sink: &mut dyn NodeSink<'d>,
    ) -> Outcome<bool> {
        for attribute in node.attributes() {
            self.charge(1)?;
            if test.passes(attribute, Kind::Attribute)
                && self.all_hold(step, attribute)?
                && !sink.take(attribute.into(), self.budget)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ScanStep {
    /// Whether the only position that one of its predicates accepts has passed.
    pub(crate) fn is_over(&self, counts: &[u32; COUNTERS_MAX]) -> bool {
        let counted = self.predicates.iter().filter(|predicate| predicate.counts());
        let mut counted = counted.zip(counts.iter().skip(self.first_counter));
        counted.any(|(predicate, count)| {
            matches!(predicate, Predicate::At(wanted) if f64::from(*count) >= *wanted)
        })
    }
}
