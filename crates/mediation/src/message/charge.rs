//! Charges of a message to the budget of its run.

use expression::Budget;

use super::Message;
use crate::limits;

/// Charges that a message keeps: see [`Message::kept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Bytes charged for its body, its properties and its header fields.
    pub(crate) bytes: usize,
    /// Edits of trees, which their message is not charged for.
    pub(crate) edits: usize,
}

impl Message {
    /// Bytes charged for its body and its properties.
    pub(crate) fn charged(&self) -> usize {
        self.properties.charged().saturating_add(self.body.charged())
    }

    /// Its present charges, for [`Message::release_since`].
    pub(crate) fn kept(&self) -> Kept {
        let bytes = self.charged().saturating_add(self.field_bytes);
        Kept { bytes, edits: self.properties.edits().saturating_add(self.body.edits()) }
    }

    /// Drops it, and releases its exclusive charges: not bytes that others may share.
    pub(crate) fn release(mut self, budget: &Budget) {
        self.body.forget_views(budget);
        let charged = self.properties.charged();
        self.properties.retain_scopes(|_| false);
        let free = charged.saturating_sub(self.properties.charged());
        budget.release_memory(free.saturating_add(self.copied_bytes));
    }

    /// Releases the charges since `used` bytes of `budget` were used and the message kept `before`, except those that
    /// it keeps in addition; nothing, if a tree was edited.
    pub(crate) fn release_since(&self, (used, before): (u64, Kept), budget: &Budget) {
        let now = self.kept();
        if now.edits == before.edits {
            let is = budget.bytes_used().saturating_add(before.bytes as u64);
            let temporary = is.saturating_sub(used.saturating_add(now.bytes as u64));
            budget.release_memory(usize::try_from(temporary).unwrap_or(usize::MAX));
            // Without steps, the next charge fails.
            let _ = budget.charge_steps(temporary / limits::RELEASED_BYTES_PER_STEP);
        }
    }
}
