//! Which sequences only choose where a message goes, as far as that is known at load.

use super::{Program, Routing, Sequence, SequenceId, Step};

impl Program {
    /// Whether some way through the sequence may consist of steps that choose and send.
    pub(crate) fn may_pass(&self, sequence: SequenceId) -> bool {
        self.passable.get(sequence.0 as usize).copied().unwrap_or_default()
    }

    /// Finds the sequences in which some way, up to a call, consists of steps that choose and send. One that enters
    /// itself is none.
    pub(super) fn find_passable(&mut self) {
        let mut passable = vec![false; self.sequences.len()];
        let is_one = |sequence: &Sequence, known: &[bool]| {
            let calls = |step: &Step| matches!(step.mediator.routing(), Some(Routing::Calls(_)));
            let called = sequence.steps.iter().position(calls).unwrap_or(usize::MAX);
            sequence.steps.iter().take(called).all(|step| {
                let entered = step.mediator.enters();
                let is_known = |id: &SequenceId| known.get(id.0 as usize) == Some(&true);
                match step.mediator.routing() {
                    Some(Routing::Chooses) => entered.is_empty() || entered.iter().any(is_known),
                    Some(Routing::Sends(_) | Routing::Calls(_) | Routing::Returns) => true,
                    None => false,
                }
            })
        };
        // Each round finds one at least, or is the last.
        loop {
            let found: Vec<bool> =
                self.sequences.iter().map(|sequence| is_one(sequence, &passable)).collect();
            if found == passable {
                break;
            }
            passable = found;
        }
        self.passable = passable;
    }
}
