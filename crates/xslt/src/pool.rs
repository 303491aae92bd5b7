//! Documents that are made while others are looked at: a list that grows and never moves what it holds.

use std::cell::{Cell, OnceCell};

use xml::Document;

/// Room for the first documents; each further piece has twice as many.
const FIRST: usize = 8;

#[derive(Default)]
pub(crate) struct Pool {
    pieces: [OnceCell<Vec<OnceCell<Document>>>; 24],
    len: Cell<usize>,
}

impl Pool {
    /// None: it is full, after some hundred million.
    pub(crate) fn add(&self, document: Document) -> Option<&Document> {
        let mut at = self.len.get();
        let mut room = FIRST;
        for piece in &self.pieces {
            if at < room {
                let cells = piece.get_or_init(|| (0..room).map(|_| OnceCell::new()).collect());
                self.len.set(self.len.get().saturating_add(1));
                return cells.get(at).map(|cell| cell.get_or_init(|| document));
            }
            at = at.saturating_sub(room);
            room = room.saturating_mul(2);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_stays_while_more_is_added() {
        let pool = Pool::default();
        let all: Vec<&Document> = (0..100).filter_map(|_| pool.add(Document::new())).collect();
        assert_eq!(all.len(), 100);
        let distinct: std::collections::HashSet<_> = all.iter().map(|d| d.root().id()).collect();
        assert_eq!(distinct.len(), 100);
    }
}
