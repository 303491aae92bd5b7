//! The existing artefacts, their references to each other, and those with errors.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::program::{EndpointId, SequenceId};

type Name = (&'static str, String);

#[derive(Debug, Default)]
pub(crate) struct Artefacts {
    /// The one that is compiled.
    pub(crate) current: usize,
    owners: HashMap<Name, usize>,
    /// The first sequence and endpoint that an artefact made: its own.
    sequences: BTreeMap<usize, SequenceId>,
    endpoints: BTreeMap<usize, EndpointId>,
    uses: BTreeSet<(usize, Name)>,
    broken: BTreeSet<usize>,
}

impl Artefacts {
    /// Whether the current artefact is the first with this name.
    pub(crate) fn claim(&mut self, kind: &'static str, name: &str) -> bool {
        let current = self.current;
        *self.owners.entry((kind, name.to_owned())).or_insert(current) == current
    }

    pub(crate) fn uses(&mut self, kind: &'static str, name: &str) {
        self.uses.insert((self.current, (kind, name.to_owned())));
    }

    pub(crate) fn has_error(&mut self) {
        self.broken.insert(self.current);
    }

    /// Whether the current artefact has an error.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.contains(&self.current)
    }

    /// Artefacts with an error.
    pub(crate) fn broken(&self) -> impl Iterator<Item = usize> {
        self.broken.iter().copied()
    }

    pub(crate) fn made_sequence(&mut self, id: SequenceId) {
        self.sequences.entry(self.current).or_insert(id);
    }

    pub(crate) fn made_endpoint(&mut self, id: EndpointId) {
        self.endpoints.entry(self.current).or_insert(id);
    }

    pub(crate) fn sequence(&self) -> Option<SequenceId> {
        self.sequences.get(&self.current).copied()
    }

    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        self.endpoints.get(&self.current).copied()
    }

    /// The artefacts without an error of their own that use one with errors, directly or not, and the used ones.
    pub(crate) fn spread(&self) -> BTreeMap<usize, Name> {
        let mut users: HashMap<usize, Vec<(usize, &Name)>> = HashMap::new();
        for (user, name) in &self.uses {
            if let Some(owner) = self.owners.get(name) {
                users.entry(*owner).or_default().push((*user, name));
            }
        }
        let mut spread = BTreeMap::new();
        let mut bad: VecDeque<usize> = self.broken.iter().copied().collect();
        while let Some(owner) = bad.pop_front() {
            for (user, name) in users.remove(&owner).into_iter().flatten() {
                if !self.broken.contains(&user) && !spread.contains_key(&user) {
                    spread.insert(user, name.clone());
                    bad.push_back(user);
                }
            }
        }
        spread
    }

    pub(crate) fn is_good(&self, kind: &'static str, name: &str) -> bool {
        let owner = self.owners.get(&(kind, name.to_owned()));
        owner.is_none_or(|owner| !self.broken.contains(owner))
    }
}
