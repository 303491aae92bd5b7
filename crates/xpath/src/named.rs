//! `//order[2]` and `order` by name: the tree knows its elements by their names' numbers, so that no walk is needed,
//! and positions are counted by parent on the way.

use xml::{NameId, Node};

use crate::evaluate::{Outcome, Run};
use crate::plan::{COUNTERS_MAX, Predicate, ScanStep};
use crate::sink::Sink;
use crate::test::Ready;

type Counts = [u32; COUNTERS_MAX];

/// The counts of the parents whose children may still come, an ancestor below its descendants. For documents whose
/// nodes are ordered at once.
#[derive(Default)]
struct Parents<'d> {
    open: Vec<(Node<'d>, Counts)>,
}

impl<'d> Parents<'d> {
    /// Those of the parent of `node`; nodes are asked for in document order.
    fn counts_of(&mut self, node: Node<'d>) -> Option<&mut Counts> {
        let parent = node.parent()?;
        while let Some((last, _)) = self.open.last() {
            // What begins behind the parent, or beside it, has been left.
            let is_left = last.document_order(parent).is_gt()
                || (*last != parent && last.parent() == parent.parent());
            if !is_left {
                break;
            }
            self.open.pop();
        }
        if self.open.last().is_none_or(|(last, _)| *last != parent) {
            self.open.push((parent, [0; COUNTERS_MAX]));
        }
        self.open.last_mut().map(|(_, counts)| counts)
    }
}

impl<'d> Run<'_, 'd> {
    /// `//name` with predicates; those that ask for a position only in a document in order.
    pub(crate) fn named_descendants(
        &mut self,
        step: &ScanStep,
        name: NameId,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let is_plain = step.predicates.iter().all(Predicate::is_plain);
        let mut parents = Parents::default();
        let mut all = start.named_descendants(name);
        while let Some(node) = all.next() {
            self.spend(all.looked())?;
            let fits = if is_plain {
                self.all_hold(step, node)?
            } else {
                match parents.counts_of(node) {
                    Some(counts) => self.fits(Ready::Name(name), step, node, counts)?,
                    None => false,
                }
            };
            if fits && !sink.take(node.into()) {
                return Ok(false);
            }
        }
        self.spend(all.looked())?;
        Ok(true)
    }

    /// `name`: the children.
    pub(crate) fn named_children(
        &mut self,
        name: NameId,
        start: Node<'d>,
        sink: &mut dyn Sink<'d>,
    ) -> Outcome<bool> {
        let mut all = start.named_children(name);
        let wants = all.all(|node| sink.take(node.into()));
        self.spend(all.looked().saturating_add(1))?;
        Ok(wants)
    }
}
