//! Expanded names, and what they are called in the document at hand.

use std::sync::atomic::{AtomicU64, Ordering};

use xml::{Document, NameId};

/// A name without its prefix: the namespace (empty for none) and the local part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ExpandedName {
    pub namespace: String,
    pub local: String,
}

impl ExpandedName {
    #[must_use]
    pub fn new(namespace: impl Into<String>, local: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), local: local.into() }
    }
}

impl std::fmt::Display for ExpandedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.local)
        } else {
            write!(f, "{{{}}}{}", self.namespace, self.local)
        }
    }
}

/// The name of a name test. Remembers the number that the last document knew it by: the document's
/// serial above, the number below. A race costs a second look-up and nothing else.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) expanded: ExpandedName,
    known: AtomicU64,
}

impl Name {
    pub(crate) fn new(expanded: ExpandedName) -> Self {
        Self { expanded, known: AtomicU64::new(0) }
    }

    /// None when no node of the document has that name.
    pub(crate) fn id(&self, document: &Document) -> Option<NameId> {
        document.name_id(&self.expanded.namespace, &self.expanded.local)
    }
}

impl Clone for Name {
    fn clone(&self) -> Self {
        Self {
            expanded: self.expanded.clone(),
            known: AtomicU64::new(self.known.load(Ordering::Relaxed)),
        }
    }
}
