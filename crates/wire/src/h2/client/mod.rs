//! The client's side of a connection, without I/O: bytes from the server in, events and bytes to the server out.
//!
//! Used by the lab's load generator. All requests of a connection have the same fields except for a bearer token
//! ([`RequestFields`]), so that after the first request most of a head is a few bytes of references; a request with
//! fields of its own is sent without the dynamic table. Bodies and tokens belong to the caller, who passes them again
//! while there is something left to send.
//!
//! Each stream has a slot, a small number that [`Client::close`] frees.
//!
//! Architecture invariant: the result depends only on the bytes, never on how they were split into reads.

mod fields;
mod receive;
mod response;
mod send;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use super::connection::{Continued, Payload};
use super::frame::{Reason, WINDOW_DEFAULT};
use super::hpack::Decoder;

pub use fields::RequestFields;

/// An event that the server caused.
#[derive(Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The final head of a response. `ends`: it has no body.
    Head { slot: usize, status: u16, ends: bool },
    /// A part of the body, at this place of the input; empty if only the end is new.
    Data { slot: usize, at: Range<usize>, ends: bool },
    /// The server reset the stream.
    Reset { slot: usize },
    /// The response is invalid: the stream was reset.
    Malformed { slot: usize },
    /// The server opens no more streams. [`Client::is_unprocessed`] names those that it ignores.
    GoAway,
}

/// The result of [`Client::receive`].
#[derive(Debug)]
pub struct ClientStep {
    /// Bytes at the front of the input that are done with.
    pub used: usize,
    pub event: Option<ClientEvent>,
}

impl ClientStep {
    const NEED_MORE: Self = Self { used: 0, event: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first frame has to be SETTINGS.
    FirstFrame,
    Open,
    Failed,
}

/// How the fields that all requests share can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Empty,
    /// They are in the dynamic table.
    Filled,
    /// The server's table is too small for them.
    TooSmall,
}

/// A request and its response.
#[derive(Debug, Default)]
struct Stream {
    /// The identifier; 0 if the slot is free.
    id: u32,
    send_window: i64,
    /// Bytes of the request's body that were not sent yet.
    unsent: usize,
    /// The method is HEAD, so the response has no body even if its head has a length.
    is_head_method: bool,
    has_head: bool,
    has_ended: bool,
    interim: u32,
    /// The length of the body that the head announced, and the length so far.
    announced: Option<u64>,
    body: u64,
    /// Bytes received since the last update of the stream's window.
    unreturned: usize,
    /// Bytes of frames sent.
    sent: u64,
    received: u64,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    state: State,
    fields: Arc<RequestFields>,
    /// The identifiers of `streams`, stored separately so that finding one is fast.
    ids: Vec<u32>,
    streams: Vec<Stream>,
    free: Vec<usize>,
    next_id: u32,
    /// The server ignores streams above this one.
    last_id: u32,
    is_leaving: bool,
    // --- receiving ---
    decoder: Decoder,
    block: Vec<u8>,
    continued: Option<Continued>,
    payload: Option<Payload>,
    unreturned: usize,
    /// The fields of the last head or trailers, if they are wanted.
    kept_fields: Option<Vec<u8>>,
    // --- sending ---
    out: Vec<u8>,
    written: usize,
    send_window: i64,
    initial_window: i64,
    streams_max: u32,
    table: Table,
    table_bytes_max: usize,
    /// The next header block has to begin with the size of the dynamic table.
    is_resized: bool,
}

impl Client {
    /// A new connection. The first output is its preface and settings.
    #[must_use]
    pub fn new(fields: Arc<RequestFields>) -> Self {
        let mut client = Self {
            state: State::FirstFrame,
            fields,
            ids: Vec::new(),
            streams: Vec::new(),
            free: Vec::new(),
            next_id: 1,
            last_id: u32::MAX,
            is_leaving: false,
            decoder: Decoder::new().remembering(),
            block: Vec::new(),
            continued: None,
            payload: None,
            unreturned: 0,
            kept_fields: None,
            out: Vec::new(),
            written: 0,
            send_window: WINDOW_DEFAULT,
            initial_window: WINDOW_DEFAULT,
            streams_max: u32::MAX,
            table: Table::Empty,
            table_bytes_max: base::limits::H2_TABLE_BYTES_MAX,
            is_resized: false,
        };
        client.send_preface();
        client
    }

    /// Keeps the fields of heads and trailers for [`Client::fields`].
    #[must_use]
    pub fn keeping_fields(self) -> Self {
        Self { kept_fields: Some(Vec::new()), ..self }
    }

    /// The fields of the head or the trailers of the last event, one per line as in HTTP/1.1; empty for other events,
    /// and without [`Client::keeping_fields`].
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        self.kept_fields.as_deref().unwrap_or_default()
    }

    /// Whether the server's settings have arrived.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == State::Open
    }

    /// Whether no more requests can be sent: the server is leaving, or all identifiers are used.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.is_leaving || self.state == State::Failed || self.next_id > i32::MAX as u32
    }

    /// How many streams the server allows at once.
    #[must_use]
    pub fn streams_max(&self) -> usize {
        usize::try_from(self.streams_max).unwrap_or(usize::MAX)
    }

    /// Whether a request can be sent now.
    #[must_use]
    pub fn can_open(&self) -> bool {
        let open = self.streams.len() - self.free.len();
        self.is_established() && !self.is_leaving() && open < self.streams_max()
    }

    /// Whether the server announced that it ignores this stream, so that the request can be sent again.
    /// Source: RFC 9113 section 6.8.
    #[must_use]
    pub fn is_unprocessed(&self, slot: usize) -> bool {
        self.streams.get(slot).is_some_and(|stream| stream.id > self.last_id)
    }

    /// Bytes of frames of this stream: sent and received.
    #[must_use]
    pub fn traffic(&self, slot: usize) -> (u64, u64) {
        self.streams.get(slot).map_or((0, 0), |stream| (stream.sent, stream.received))
    }

    /// Frees `slot`. A stream that is not complete is reset.
    pub fn close(&mut self, slot: usize) {
        let Some(stream) = self.streams.get(slot).filter(|stream| stream.id != 0) else { return };
        if !stream.has_ended || stream.unsent > 0 {
            self.reset(slot, Reason::Cancel);
        }
        if let (Some(stream), Some(id)) = (self.streams.get_mut(slot), self.ids.get_mut(slot)) {
            (*stream, *id) = (Stream::default(), 0);
            self.free.push(slot);
        }
    }

    /// The slot of an open stream.
    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|known| *known == id)
    }
}
