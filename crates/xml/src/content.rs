//! The text of a document: its source, which other documents may share, and the text that was added.

use std::ops::Range;

use bytestring::ByteString;

use crate::names::shrink_text;

/// Two texts with one range of addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    source: ByteString,
    /// Text that doesn't occur in the source as it is.
    added: String,
}

impl Content {
    pub(crate) fn of(source: ByteString, mut added: String) -> Self {
        shrink_text(&mut added);
        Self { source, added }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn len(&self) -> usize {
        self.source.len().saturating_add(self.added.len())
    }

    /// The text at `range`, which lies within one of the two parts.
    #[inline]
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&str> {
        let behind = self.source.len();
        match range.start.checked_sub(behind) {
            None => self.source.get(range),
            Some(start) => self.added.get(start..range.end.checked_sub(behind)?),
        }
    }

    pub(crate) fn push_str(&mut self, text: &str) {
        self.added.push_str(text);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.source.len().saturating_add(self.added.capacity())
    }
}
