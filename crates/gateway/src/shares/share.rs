//! Shares of a worker: how many requests a client, an API or all of them together may have in progress, and how many
//! uploads that have not begun. Where requests wait for a place, those whose clients are the slowest give way.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::gate::{Gate, Pass};
use super::give_way;
use crate::body::held::HeldBytes;
use crate::body::request_body::{RequestBody, Unwanted};
use crate::tasks::watch::Watches;

/// Places and bytes held by one client, one API, or the whole worker.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Requests that were forwarded, until the end of their response. Each holds an upstream connection.
    pub(crate) requests: Rc<Gate>,
    /// Requests that were forwarded without a byte of their body, until the head of their response.
    pub(crate) early_uploads: Rc<Gate>,
    /// Streams of HTTP/2 that are open, regardless of the state of their requests. Requests over HTTP/1.1 are limited
    /// by the client's connections.
    pub(crate) streams: Rc<Gate>,
    /// Bytes of the heads of these streams.
    pub(crate) head_bytes: Cell<usize>,
    /// Bytes of held bodies, and of data that mediation derives from them: a client's part.
    pub(crate) held: HeldBytes,
    /// Opaque tokens that issuers are asked about.
    pub(crate) introspections: Rc<Gate>,
    /// Passwords that are verified.
    pub(crate) passwords: Rc<Gate>,
}

#[cfg(test)]
impl Share {
    /// Whether nothing is held.
    pub(crate) fn is_free(&self) -> bool {
        let gates = [
            &self.requests,
            &self.early_uploads,
            &self.streams,
            &self.introspections,
            &self.passwords,
        ];
        let are_free = gates.iter().all(|gate| gate.passed() == 0 && gate.waiting() == 0);
        are_free && self.head_bytes.get() == 0 && self.held.used() == 0
    }
}

/// A request's places in up to three shares, until dropped.
pub(crate) type Places = [Option<Pass>; 3];

/// Whose requests give way to those that wait at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// It waits for its own client's.
    Nobody,
    /// The API's with this key.
    Api(u32),
    Anybody,
}

/// The gates of a worker at which requests wait.
#[derive(Debug, Default)]
pub(crate) struct Crowds(RefCell<Vec<(Rc<Gate>, Whose)>>);

impl Crowds {
    /// [`Gate::wait`]; meanwhile the slowest requests give way.
    ///
    /// # Errors
    /// As [`Gate::wait`].
    pub(crate) async fn wait<B: RequestBody>(
        &self,
        gate: &Rc<Gate>,
        whose: Whose,
        body: &mut B,
    ) -> Result<Pass, Unwanted> {
        if whose != Whose::Nobody {
            self.add(gate, whose);
        }
        gate.wait(body).await
    }

    fn add(&self, gate: &Rc<Gate>, whose: Whose) {
        let mut crowds = self.0.borrow_mut();
        if !crowds.iter().any(|(known, _)| Rc::ptr_eq(known, gate)) {
            crowds.push((Rc::clone(gate), whose));
        }
    }

    /// Lets exchanges give way to those that wait at each gate.
    pub(crate) fn sweep(&self, watches: &Watches, now_us: u64) {
        self.0.borrow_mut().retain(|(gate, whose)| {
            let waits = gate.waiting() > 0;
            if waits {
                let is_at = |api| match whose {
                    Whose::Nobody => false,
                    Whose::Api(key) => api == *key,
                    Whose::Anybody => true,
                };
                give_way::at_gate(&watches.running(), is_at, gate.limit(), now_us);
            }
            waits
        });
    }
}

/// Places that an admitted request holds until the head of the response.
#[derive(Default)]
pub(crate) struct Admitted {
    /// If its body had not begun.
    pub(crate) early_upload: Places,
    pub(crate) turn: Option<Pass>,
}
