//! Scheduling of requests to a control plane for the changes after a revision: revoked tokens, or applications.
//!
//! Architecture invariant: no files, sockets or clock: bytes and times are arguments.

use std::sync::Arc;
use std::thread;

use base::{Now, limits};
use model::{Feed, FeedRequest};

/// Requests the changes after a revision, waiting for the next one. Blocks, within its own limits.
pub type AskFeed = Arc<dyn Fn(&Feed, FeedRequest) -> Result<Vec<u8>, String> + Send + Sync>;

/// The state of an endpoint that is followed.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) from: Feed,
    /// The revision up to which all changes are known.
    pub(crate) revision: u64,
    /// The time of the next request, in microseconds. `None` while one is in progress.
    due_us: Option<u64>,
    failures: u32,
    /// Whether a response was received. From then on, requests wait for the next change.
    responded: bool,
}

impl Next {
    pub(crate) fn new(from: Feed, revision: u64, now: Now) -> Self {
        Self { from, revision, due_us: Some(now.mono_us), failures: 0, responded: false }
    }

    /// Whether a request is in progress.
    pub(crate) fn is_asking(&self) -> bool {
        self.due_us.is_none()
    }

    /// Whether the first request is in progress.
    pub(crate) fn is_first(&self) -> bool {
        self.is_asking() && !self.responded && self.failures == 0
    }

    /// Whether the last request failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Starts a request if one is due. `reply` is called with the result in every case.
    pub(crate) fn ask(
        &mut self,
        ask: &AskFeed,
        full: bool,
        now_us: u64,
        reply: impl Fn(Result<Vec<u8>, String>) + Clone + Send + 'static,
    ) {
        if self.due_us.take_if(|due_us| *due_us <= now_us).is_none() {
            return;
        }
        // The first request does not wait for changes, because the gateway waits for its response before it opens its
        // listeners.
        let wait_s = if self.responded { limits::FEED_WAIT_S } else { 0 };
        let request = FeedRequest { after: self.revision, wait_s, full };
        let (ask, from, on_failure) = (Arc::clone(ask), self.from.clone(), reply.clone());
        let spawned = thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || reply(ask(&from, request)));
        if let Err(error) = spawned {
            on_failure(Err(format!("cannot start a thread: {error}")));
        }
    }

    /// Requests everything again. The response to a request in progress is ignored.
    pub(crate) fn restart(&mut self, now: Now) {
        self.revision = 0;
        self.due_us.get_or_insert(now.mono_us);
    }

    /// Whether a response to the request for changes after `after` is expected.
    pub(crate) fn expects(&self, after: u64) -> bool {
        self.is_asking() && self.revision == after
    }

    /// Schedules the next request after a response. `is_good` is false for an error.
    pub(crate) fn schedule(&mut self, is_good: bool, now: Now) {
        self.failures = if is_good { 0 } else { self.failures.saturating_add(1) };
        self.responded |= is_good;
        let wait_ms = match self.failures {
            0 => limits::FEED_PAUSE_MS,
            _ => (limits::FEED_RETRY_MS_MIN << self.failures.saturating_sub(1).min(16))
                .min(limits::FEED_RETRY_MS_MAX),
        };
        self.due_us = Some(now.mono_us.saturating_add(wait_ms.saturating_mul(1_000)));
    }

    /// Makes the next request due immediately, because there is more.
    pub(crate) fn hurry(&mut self, now: Now) {
        self.due_us = Some(now.mono_us);
    }
}
