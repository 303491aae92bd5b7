//! Compiled artefacts: sequences and endpoints by number.

use std::collections::HashMap;
use std::fmt;

use expression::BodyUse;

use crate::Mediator;

/// A sequence of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(crate) u32);

/// An endpoint of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EndpointId(pub(crate) u32);

/// A position in an artefact, for messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) file: std::sync::Arc<str>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A mediator and its place.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) element: &'static str,
    pub(crate) site: Site,
    pub(crate) mediator: Box<dyn Mediator>,
}

#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) steps: Vec<Step>,
    /// Takes over when a step fails.
    pub(crate) on_error: Option<SequenceId>,
}

/// All compiled artefacts of an integration runtime. Immutable; shared by its workers.
#[derive(Debug, Default)]
pub struct Program {
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) sequence_names: HashMap<String, SequenceId>,
    pub(crate) endpoint_names: HashMap<String, EndpointId>,
    /// What each sequence needs of the body, with all that it may enter.
    pub(crate) body_uses: Vec<BodyUse>,
}

impl Program {
    /// The sequence of this name.
    #[must_use]
    pub fn sequence(&self, name: &str) -> Option<SequenceId> {
        self.sequence_names.get(name).copied()
    }

    /// The endpoint of this name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<EndpointId> {
        self.endpoint_names.get(name).copied()
    }

    /// What a run of `sequence` may need of the body, with all that it may enter.
    #[must_use]
    pub fn body_use(&self, sequence: SequenceId) -> BodyUse {
        self.body_uses.get(sequence.0 as usize).copied().unwrap_or(BodyUse::Rewritten)
    }

    pub(crate) fn get(&self, sequence: SequenceId) -> Option<&Sequence> {
        self.sequences.get(sequence.0 as usize)
    }

    /// Computes what each sequence needs: the maximum over everything that it can reach.
    pub(crate) fn link(&mut self) {
        let reach = |sequence: &Sequence| {
            let own = sequence.steps.iter().map(|step| step.mediator.body_use()).max();
            let next = sequence.steps.iter().flat_map(|step| step.mediator.enters());
            (own.unwrap_or_default(), next.chain(sequence.on_error).collect::<Vec<_>>())
        };
        let edges: Vec<_> = self.sequences.iter().map(reach).collect();
        let mut uses: Vec<BodyUse> = edges.iter().map(|(own, _)| *own).collect();
        // Needs only grow, and there are three of them: this ends after a few rounds, cycles included.
        loop {
            let mut grew = false;
            for (at, (_, next)) in edges.iter().enumerate() {
                let most = next.iter().filter_map(|id| uses.get(id.0 as usize)).max().copied();
                if let (Some(most), Some(mine)) = (most, uses.get_mut(at))
                    && most > *mine
                {
                    (*mine, grew) = (most, true);
                }
            }
            if !grew {
                break;
            }
        }
        self.body_uses = uses;
    }
}
