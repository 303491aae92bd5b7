//! A growing list of documents that never moves its elements, so that they can be borrowed while it grows.

use std::cell::{Cell, OnceCell};

use xml::Document;

/// Capacity of the first chunk; each further chunk is twice as large as the one before.
const FIRST: usize = 8;

/// Documents that are created while others are read.
#[derive(Debug, Default)]
pub struct Pool {
    /// `None` until a document is added; most pools stay empty.
    chunks: OnceCell<Box<Chunks>>,
    len: Cell<usize>,
}

type Chunks = [OnceCell<Vec<OnceCell<Document>>>; 24];

impl Pool {
    /// Adds a document. Returns `None` if the pool is full, after some hundred million documents.
    pub fn add(&self, document: Document) -> Option<&Document> {
        let mut at = self.len.get();
        let mut capacity = FIRST;
        for chunk in &**self.chunks.get_or_init(Box::default) {
            if at < capacity {
                let cells = chunk.get_or_init(|| (0..capacity).map(|_| OnceCell::new()).collect());
                self.len.set(self.len.get().saturating_add(1));
                return cells.get(at).map(|cell| cell.get_or_init(|| document));
            }
            at = at.saturating_sub(capacity);
            capacity = capacity.saturating_mul(2);
        }
        None
    }

    /// The documents in the order in which they were added.
    pub fn into_documents(self) -> impl Iterator<Item = Document> {
        let chunks = self.chunks.into_inner().map_or_else(Chunks::default, |chunks| *chunks);
        let chunks = chunks.into_iter().filter_map(OnceCell::into_inner);
        chunks.flatten().filter_map(OnceCell::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_stay_in_place_and_in_order_while_more_are_added() {
        let pool = Pool::default();
        let all: Vec<&Document> = (0..100).filter_map(|_| pool.add(Document::new())).collect();
        let serials: Vec<u32> = all.iter().map(|document| document.serial()).collect();
        assert_eq!(serials.len(), 100);
        let kept: Vec<u32> = pool.into_documents().map(|document| document.serial()).collect();
        assert_eq!(kept, serials);
    }
}
