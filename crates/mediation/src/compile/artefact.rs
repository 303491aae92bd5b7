//! Which artefacts there are, what they use of each other, and which have errors.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::program::{EndpointId, SequenceId};

type Name = (&'static str, String);

#[derive(Debug, Default)]
pub(super) struct Artefacts {
    /// The one that is compiled.
    pub(super) current: usize,
    owners: HashMap<Name, usize>,
    /// The first sequence and endpoint that an artefact made: its own.
    sequences: BTreeMap<usize, SequenceId>,
    endpoints: BTreeMap<usize, EndpointId>,
    uses: BTreeSet<(usize, Name)>,
    broken: BTreeSet<usize>,
}

impl Artefacts {
    /// Whether the current artefact is the first with this name.
    pub(super) fn claim(&mut self, kind: &'static str, name: &str) -> bool {
        let current = self.current;
        *self.owners.entry((kind, name.to_owned())).or_insert(current) == current
    }

    pub(super) fn uses(&mut self, kind: &'static str, name: &str) {
        self.uses.insert((self.current, (kind, name.to_owned())));
    }

    pub(super) fn has_error(&mut self) {
        self.broken.insert(self.current);
    }

    /// Whether the current artefact has an error.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.contains(&self.current)
    }

    /// Those with an error.
    pub(super) fn broken(&self) -> impl Iterator<Item = usize> {
        self.broken.iter().copied()
    }

    pub(super) fn made_sequence(&mut self, id: SequenceId) {
        self.sequences.entry(self.current).or_insert(id);
    }

    pub(super) fn made_endpoint(&mut self, id: EndpointId) {
        self.endpoints.entry(self.current).or_insert(id);
    }

    pub(super) fn sequence(&self) -> Option<SequenceId> {
        self.sequences.get(&self.current).copied()
    }

    pub(super) fn endpoint(&self) -> Option<EndpointId> {
        self.endpoints.get(&self.current).copied()
    }

    /// The artefacts without an error of their own that use one with errors, directly or not, and what they use.
    pub(super) fn spread(&self) -> BTreeMap<usize, Name> {
        let mut spread = BTreeMap::new();
        // Each round adds at least one artefact, or is the last.
        loop {
            let is_bad = |name: &Name| {
                let owner = self.owners.get(name);
                owner.is_some_and(|owner| self.broken.contains(owner) || spread.contains_key(owner))
            };
            let is_new = |user: &usize| !self.broken.contains(user) && !spread.contains_key(user);
            let next = self.uses.iter().find(|(user, name)| is_new(user) && is_bad(name));
            let Some((user, name)) = next.cloned() else { return spread };
            spread.insert(user, name);
        }
    }

    pub(super) fn is_good(&self, kind: &'static str, name: &str) -> bool {
        let owner = self.owners.get(&(kind, name.to_owned()));
        owner.is_none_or(|owner| !self.broken.contains(owner))
    }
}
