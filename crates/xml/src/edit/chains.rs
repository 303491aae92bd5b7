//! Indexes of long attribute and declaration chains, so that setting n attributes takes n steps, even if the
//! elements alternate.

use std::collections::HashMap;

use crate::document::NONE;

/// A chain of at least this length gets an index.
pub(super) const MANY: usize = 16;

/// The attributes, or the declarations, of one element by name.
#[derive(Debug, Clone)]
pub(super) struct ChainIndex {
    /// The last of the chain.
    pub(super) last: u32,
    /// Indexes by the number of the name, or the symbol of the prefix.
    pub(super) by_name: HashMap<u32, u32>,
}

/// The chain indexes of a document, by element.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChainIndexes {
    chains: HashMap<(Of, u32), ChainIndex>,
    /// How often a chain was walked to index it.
    #[cfg(test)]
    pub(super) walks: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Attributes,
    Declarations,
}

impl ChainIndexes {
    /// The last of the chain and the one with that name; none for a short chain.
    pub(super) fn find(&self, of: Of, owner: u32, name: u32) -> Option<(u32, u32)> {
        let chain = self.chains.get(&(of, owner))?;
        Some((chain.last, chain.by_name.get(&name).copied().unwrap_or(NONE)))
    }

    pub(super) fn insert(&mut self, of: Of, owner: u32, chain: ChainIndex) {
        #[cfg(test)]
        {
            self.walks += 1;
        }
        self.chains.insert((of, owner), chain);
    }

    /// `index` was added at the end of the chain.
    pub(super) fn add(&mut self, of: Of, owner: u32, name: u32, index: u32) {
        if let Some(chain) = self.chains.get_mut(&(of, owner)) {
            chain.last = index;
            chain.by_name.insert(name, index);
        }
    }

    /// The chain was changed in another way.
    pub(super) fn remove(&mut self, of: Of, owner: u32) {
        self.chains.remove(&(of, owner));
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let slot = size_of::<((Of, u32), ChainIndex)>();
        let names =
            self.chains.values().map(|chain| chain.by_name.capacity() * size_of::<(u32, u32)>());
        size_of::<Self>() + self.chains.capacity() * slot + names.sum::<usize>()
    }
}
