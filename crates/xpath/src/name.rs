//! Expanded names, and their numbers in documents.

use std::sync::atomic::{AtomicU64, Ordering};

use xml::{Document, NameId};

/// An expanded name: a namespace (empty for none) and a local part.
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

/// The name of a name test. It caches its number in the document that was used last: the document's serial
/// number in the high half, the number in the low half, 0 for none. Documents never drop names, so a cached
/// number stays valid; a race between threads costs one more look-up.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) expanded: ExpandedName,
    known: AtomicU64,
}

impl Name {
    pub(crate) fn new(expanded: ExpandedName) -> Self {
        Self { expanded, known: AtomicU64::new(0) }
    }

    /// The document's number for the name; none if the document doesn't have it.
    pub(crate) fn id(&self, document: &Document) -> Option<NameId> {
        let serial = u64::from(document.serial());
        let known = self.known.load(Ordering::Relaxed);
        if known >> 32 == serial && known != 0 {
            let number = usize::try_from(known & u64::from(u32::MAX)).ok()?;
            return document.name_at(number);
        }
        let id = document.name_id(&self.expanded.namespace, &self.expanded.local)?;
        if let Ok(number) = u32::try_from(id.index()) {
            self.known.store((serial << 32) | u64::from(number), Ordering::Relaxed);
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_again_in_another_document() {
        let one = Document::parse(b"<a><b/></a>").unwrap();
        let other = Document::parse(b"<b/>").unwrap();
        let name = Name::new(ExpandedName::new("", "b"));
        for document in [&one, &other, &one, &other] {
            let id = document.name_id("", "b").unwrap();
            assert_eq!(name.id(document), Some(id));
        }
        assert_eq!(name.id(&Document::new()), None);
    }
}
