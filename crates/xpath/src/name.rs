//! Expanded names, and what they are called in the document at hand.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use xml::Document;

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
/// serial above, the number below, 0 for nothing yet. Names of a document are never forgotten, so what
/// is remembered stays true; a race between threads costs a look-up and nothing else.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) expanded: ExpandedName,
    known: AtomicU64,
}

impl Name {
    pub(crate) fn new(expanded: ExpandedName) -> Self {
        Self { expanded, known: AtomicU64::new(0) }
    }

    /// `NameId::index` in the document; none when no node of it has that name.
    pub(crate) fn number(&self, document: &Document) -> Option<u32> {
        let serial = serial(document);
        let known = self.known.load(Ordering::Relaxed);
        if known >> 32 == serial && known != 0 {
            return u32::try_from(known & u64::from(u32::MAX)).ok();
        }
        let id = document.name_id(&self.expanded.namespace, &self.expanded.local)?;
        let number = u32::try_from(id.index()).ok()?;
        if serial <= u64::from(u32::MAX) {
            self.known.store((serial << 32) | u64::from(number), Ordering::Relaxed);
        }
        Some(number)
    }
}

/// What tells a document from others: what its root's id hashes to when nothing is mixed. An id is two
/// numbers of 32 bits, and the root's own is 0.
fn serial(document: &Document) -> u64 {
    let mut joined = Joined(0);
    document.root().id().hash(&mut joined);
    joined.0
}

struct Joined(u64);

impl Hasher for Joined {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u32(&mut self, part: u32) {
        self.0 = (self.0 << 32) | u64::from(part);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_has_a_serial_of_its_own_that_fits_beside_a_number() {
        let documents: Vec<Document> = (0..100).map(|_| Document::new()).collect();
        let mut serials: Vec<u64> = documents.iter().map(serial).collect();
        assert!(serials.iter().all(|serial| *serial > 0 && *serial <= u64::from(u32::MAX)));
        serials.sort_unstable();
        serials.dedup();
        assert_eq!(serials.len(), documents.len());
    }

    #[test]
    fn a_name_is_found_anew_in_each_document() {
        let one = Document::parse(b"<a><b/></a>").unwrap();
        let other = Document::parse(b"<b/>").unwrap();
        let name = Name::new(ExpandedName::new("", "b"));
        for document in [&one, &other, &one, &other] {
            let id = document.name_id("", "b").unwrap();
            assert_eq!(name.number(document).map(|number| number as usize), Some(id.index()));
        }
        assert_eq!(name.number(&Document::new()), None);
    }
}
