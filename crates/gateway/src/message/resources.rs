//! Resources of a worker that exchanges use: time, deadlines, buffers and heads. Independent of stages and protocols.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use base::{Clock, Now, limits};
use time::OffsetDateTime;

use super::{Forwarded, Head, HeadEdits, Peer, Request, RequestCopy};
use crate::body::buffer::Buffers;
use crate::body::spares::Spares;
use crate::tasks::watch::Watches;

/// The system's clock, or in tests one that a simulation sets.
#[cfg(not(test))]
pub(crate) type WorkerClock = base::SystemClock;
#[cfg(test)]
pub(crate) type WorkerClock = crate::simulation::TestClock;

pub(crate) struct Resources {
    clock: WorkerClock,
    /// The time of the last sweep: precise enough for deadlines and token lifetimes.
    coarse: Cell<Now>,
    pub(crate) buffers: Buffers,
    pub(crate) watches: Watches,
    /// Boxed like the others, so that a connection's future holds and moves a pointer.
    requests: Spares<Box<Request>>,
    /// The peer of spare requests, so that they keep no client's connection in its count.
    nobody: Rc<Peer>,
    copies: Spares<Box<RequestCopy>>,
    heads: Spares<Box<Head>>,
    edits: Spares<Box<HeadEdits>>,
    /// When spares were last trimmed.
    trimmed_us: Cell<u64>,
    date: RefCell<HttpDate>,
}

/// The time of a `Date` field, formatted once per second.
#[derive(Debug, Default)]
struct HttpDate {
    unix_s: u64,
    text: String,
}

impl Resources {
    pub(crate) fn new(clock: impl Into<WorkerClock>, pipes_max: usize) -> Self {
        let clock = clock.into();
        Self {
            coarse: Cell::new(clock.now()),
            clock,
            buffers: Buffers::new(pipes_max),
            watches: Watches::default(),
            requests: Spares::default(),
            nobody: Rc::default(),
            copies: Spares::default(),
            heads: Spares::default(),
            edits: Spares::default(),
            trimmed_us: Cell::new(0),
            date: RefCell::default(),
        }
    }

    /// Microseconds on the worker's clock, now.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The time of the last sweep, without a system call.
    pub(crate) fn coarse_us(&self) -> u64 {
        self.coarse.get().mono_us
    }

    /// Both clocks at the last sweep.
    pub(crate) fn coarse(&self) -> Now {
        self.coarse.get()
    }

    /// Both clocks now, for decisions that must not be late.
    pub(crate) fn exact(&self) -> Now {
        self.clock.now()
    }

    /// The deadline `ms` milliseconds after the last sweep, for a [`crate::tasks::watch::Watch`].
    pub(crate) fn deadline_us(&self, ms: u32) -> u64 {
        self.coarse_us().saturating_add(u64::from(ms) * 1_000)
    }

    /// Converts `us` on the worker's clock to microseconds since the Unix epoch.
    pub(crate) fn unix_us(&self, us: u64) -> u64 {
        self.clock.origin_unix_us().saturating_add(us)
    }

    /// A request to fill in, from the spares if there is one.
    pub(crate) fn request(&self) -> Box<Request> {
        self.requests.lend().unwrap_or_default()
    }

    pub(crate) fn release_request(&self, mut request: Box<Request>) {
        if request.bytes.capacity() <= limits::HEAD_BUFFER_BYTES as usize {
            request.bytes.clear();
            request.peer = Rc::clone(&self.nobody);
            request.forwarded = Forwarded::Absent;
            self.requests.keep(request, limits::SPARE_HEADS_MAX);
        }
    }

    /// A copy of a request's head, in memory from the spares if there is some.
    pub(crate) fn copy(&self, request: &Request) -> Box<RequestCopy> {
        let mut copy = self.copies.lend().unwrap_or_default();
        copy.copy(request);
        copy
    }

    pub(crate) fn release_copy(&self, copy: Box<RequestCopy>) {
        if copy.capacity() <= limits::HEAD_BUFFER_BYTES as usize {
            self.copies.keep(copy, limits::SPARE_HEADS_MAX);
        }
    }

    /// An empty response head, from the spares if there is one.
    pub(crate) fn head(&self) -> Box<Head> {
        self.heads.lend().unwrap_or_default()
    }

    pub(crate) fn release_head(&self, mut head: Box<Head>) {
        if head.capacity() <= limits::HEAD_BUFFER_BYTES as usize {
            head.clear();
            self.heads.keep(head, limits::SPARE_HEADS_MAX);
        }
    }

    /// Empty edits of a request's head, from the spares if there are some.
    pub(crate) fn edits(&self) -> Box<HeadEdits> {
        self.edits.lend().unwrap_or_default()
    }

    pub(crate) fn release_edits(&self, mut edits: Box<HeadEdits>) {
        if edits.capacity() <= limits::HEAD_BUFFER_BYTES as usize {
            edits.clear();
            self.edits.keep(edits, limits::SPARE_HEADS_MAX);
        }
    }

    /// Appends a `Date` field with the time of the last sweep. Source: RFC 9110 section 6.6.1.
    pub(crate) fn append_date(&self, edits: &mut HeadEdits) {
        let unix_s = self.coarse().unix_s;
        let mut date = self.date.borrow_mut();
        if date.unix_s != unix_s {
            *date = HttpDate { unix_s, text: http_date(unix_s) };
        }
        edits.append(b"Date", date.text.as_bytes());
    }

    /// Reads the clock and expires deadlines. Returns the time.
    pub(crate) fn sweep(&self) -> u64 {
        let now = self.clock.now();
        let last = self.coarse.replace(now);
        self.watches.sweep(now.mono_us, now.mono_us.saturating_sub(last.mono_us));
        let waited_us = now.mono_us.saturating_sub(self.trimmed_us.get());
        if waited_us >= u64::from(limits::SPARES_TRIM_MS) * 1_000 {
            self.trimmed_us.set(now.mono_us);
            self.trim();
        }
        now.mono_us
    }

    /// Frees spares that were not needed since the last call.
    fn trim(&self) {
        self.requests.trim();
        self.copies.trim();
        self.heads.trim();
        self.edits.trim();
        self.buffers.trim();
    }
}

/// An IMF-fixdate (RFC 9110 section 5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(unix_s: u64) -> String {
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    format!(
        "{:.3}, {:02} {:.3} {:04} {:02}:{:02}:{:02} GMT",
        weekday,
        at.day(),
        month,
        at.year(),
        at.hour(),
        at.minute(),
        at.second()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_an_imf_fixdate() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(http_date(1_709_164_800), "Thu, 29 Feb 2024 00:00:00 GMT");
    }
}
