//! Bodies held in memory, and what they may use.
//!
//! A body is held only where a stage reads or rewrites it. Its bytes are charged before they are read: to the limit of one
//! body, and to the worker's.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use base::limits::HELD_STEP_BYTES;
use bytes::{Bytes, BytesMut};

use crate::flow::{BodyError, Source};

/// The bytes that a worker's held bodies use.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes(Rc<Cell<usize>>);

impl HeldBytes {
    /// Nothing yet, charged to the worker. `body_max`, `all_max`: the limits of one body and of all, in bytes.
    pub(crate) fn holding(&self, body_max: usize, all_max: usize) -> Holding {
        let account = Account { used: Rc::clone(&self.0), charged: Cell::new(0) };
        Holding { account: Rc::new(account), body_max, all_max }
    }

    pub(crate) fn used(&self) -> usize {
        self.0.get()
    }
}

/// What the bodies of one exchange use, until the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    account: Rc<Account>,
    body_max: usize,
    all_max: usize,
}

#[derive(Debug)]
struct Account {
    /// By all exchanges of the worker.
    used: Rc<Cell<usize>>,
    charged: Cell<usize>,
}

impl Drop for Account {
    fn drop(&mut self) {
        self.used.set(self.used.get().saturating_sub(self.charged.get()));
    }
}

/// Why a body is not held.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// It is larger than the limit of one body.
    TooLarge,
    /// The worker's bodies use all that they may.
    Exhausted,
    Body(BodyError),
}

impl Holding {
    fn charge(&self, bytes: usize) -> Result<(), HoldError> {
        let Account { used, charged } = &*self.account;
        let next = used.get().checked_add(bytes).filter(|next| *next <= self.all_max);
        used.set(next.ok_or(HoldError::Exhausted)?);
        charged.set(charged.get().saturating_add(bytes));
        Ok(())
    }

    fn refund(&self, bytes: usize) {
        let Account { used, charged } = &*self.account;
        used.set(used.get().saturating_sub(bytes));
        charged.set(charged.get().saturating_sub(bytes));
    }
}

/// A body that is being read into memory.
#[derive(Debug)]
pub(crate) struct Hold<'h> {
    holding: &'h Holding,
    bytes: BytesMut,
    /// What this body is charged for.
    charged: usize,
}

impl<'h> Hold<'h> {
    /// `announced`: its length, if it is known.
    ///
    /// # Errors
    /// It is too large, or there is no room for it.
    pub(crate) fn begin(holding: &'h Holding, announced: Option<u64>) -> Result<Self, HoldError> {
        let mut hold = Self { holding, bytes: BytesMut::new(), charged: 0 };
        if let Some(announced) = announced {
            hold.grow(usize::try_from(announced).unwrap_or(usize::MAX))?;
        }
        Ok(hold)
    }

    /// Charges for `bytes` in all, then makes room for them.
    fn grow(&mut self, bytes: usize) -> Result<(), HoldError> {
        if bytes > self.holding.body_max {
            return Err(HoldError::TooLarge);
        }
        self.holding.charge(bytes.saturating_sub(self.charged))?;
        self.charged = self.charged.max(bytes);
        self.bytes.reserve(bytes.saturating_sub(self.bytes.len()));
        Ok(())
    }

    /// Moves what `source` has. Ready with all of it at its end.
    ///
    /// # Errors
    /// It is too large, there is no room for it, or it ended early.
    pub(crate) fn poll<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
    ) -> Poll<Result<Bytes, HoldError>> {
        loop {
            ready!(source.poll_fill(cx)).map_err(HoldError::Body)?;
            let piece = source.data();
            if piece.is_empty() {
                let bytes = std::mem::take(&mut self.bytes).freeze();
                self.holding.refund(self.charged.saturating_sub(bytes.len()));
                self.charged = bytes.len();
                return Poll::Ready(Ok(bytes));
            }
            let len = self.bytes.len().saturating_add(piece.len());
            if len > self.charged {
                let step = self.charged.saturating_mul(2).max(HELD_STEP_BYTES);
                self.grow(step.min(self.holding.body_max).max(len))?;
            }
            self.bytes.extend_from_slice(piece);
            let count = piece.len();
            source.consume(count);
        }
    }

    /// Bytes read so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::flow::Held;

    /// What becomes of a body of `len` bytes, of which `announced` were announced, while others use `used`; and what is
    /// charged for it.
    fn hold(len: usize, announced: Option<u64>, used: usize) -> (Result<usize, String>, usize) {
        let all = HeldBytes::default();
        let others = all.holding(usize::MAX, usize::MAX);
        others.charge(used).unwrap();
        let holding = all.holding(100_000, 150_000);
        let mut source = Held::new(vec![b'x'; len].into());
        let mut cx = Context::from_waker(Waker::noop());
        let held = Hold::begin(&holding, announced).and_then(|mut hold| {
            let Poll::Ready(held) = hold.poll(&mut cx, &mut source) else { unreachable!() };
            held
        });
        let found = held.map(|bytes| bytes.len()).map_err(|error| format!("{error:?}"));
        let charged = all.used() - used;
        drop(holding);
        assert_eq!(all.used(), used, "everything is released");
        (found, charged)
    }

    #[test]
    fn a_body_is_charged_for_its_length() {
        for (len, announced) in [(0, None), (0, Some(0)), (70_000, Some(70_000)), (70_000, None)] {
            assert_eq!(hold(len, announced, 0), (Ok(len), len), "{announced:?}");
        }
    }

    #[test]
    fn a_body_above_its_limit_is_rejected_before_it_is_read_if_its_length_is_known() {
        for (len, announced) in [(100_000, None), (100_000, Some(100_000))] {
            assert_eq!(hold(len, announced, 0).0, Ok(100_000));
        }
        assert_eq!(hold(100_001, None, 0).0, Err("TooLarge".to_owned()));
        assert_eq!(hold(0, Some(100_001), 0), (Err("TooLarge".to_owned()), 0));
        assert_eq!(hold(0, Some(u64::MAX), 0), (Err("TooLarge".to_owned()), 0));
    }

    #[test]
    fn a_body_is_rejected_if_others_use_the_memory() {
        assert_eq!(hold(50_000, Some(50_000), 100_000).0, Ok(50_000));
        assert_eq!(hold(0, Some(50_001), 100_000), (Err("Exhausted".to_owned()), 0));
        assert_eq!(hold(50_001, None, 100_000).0, Err("Exhausted".to_owned()));
    }
}
