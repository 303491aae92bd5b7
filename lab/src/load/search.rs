//! Searching the body of a response for the expected text.

use memchr::memmem::Finder;

/// Searches for a text in a body that arrives in pieces.
pub(crate) struct Search {
    finder: Finder<'static>,
    /// The last bytes, one fewer than the text has: a match may start there.
    tail: Vec<u8>,
    pub(super) found: bool,
}

impl Search {
    pub(super) fn new(text: &[u8]) -> Self {
        let finder = Finder::new(text).into_owned();
        Self { found: text.is_empty(), tail: Vec::new(), finder }
    }

    pub(super) fn restart(&mut self) {
        self.tail.clear();
        self.found = self.finder.needle().is_empty();
    }

    pub(super) fn see(&mut self, piece: &[u8]) {
        if self.found {
            return;
        }
        let overlap = self.finder.needle().len().saturating_sub(1);
        if !self.tail.is_empty() {
            let border = piece.get(..overlap).unwrap_or(piece);
            self.tail.extend_from_slice(border);
            self.found = self.finder.find(&self.tail).is_some();
            if border.len() < overlap {
                let extra = self.tail.len().saturating_sub(overlap);
                self.tail.drain(..extra);
                return;
            }
            self.tail.clear();
        }
        self.found = self.found || self.finder.find(piece).is_some();
        let tail = piece.len().saturating_sub(overlap);
        self.tail.extend_from_slice(piece.get(tail..).unwrap_or_default());
    }
}
