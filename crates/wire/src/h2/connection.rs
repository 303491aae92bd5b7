//! The server's side of a connection, without I/O: bytes from the client in, events and bytes to the client out.

use std::ops::Range;

use base::limits::{
    H2_BLOCK_BYTES_MAX, H2_CONNECTION_WINDOW_BYTES, H2_STREAM_WINDOW_BYTES, HEAD_BUFFER_BYTES,
};

use super::budget::Budget;
use super::frame::{
    self, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Reason, WINDOW_DEFAULT, WINDOW_MAX,
};
use super::hpack::Decoder;
use super::preface::{PREFACE, PrefaceMatch, match_preface};
use super::request::HeadWriter;
use super::streams::{Receiving, Sending, Streams};
use crate::http1::Rejection;

/// An event that the client caused, for the handler of a stream.
#[derive(Debug)]
pub enum Event {
    /// A new stream. If its head is valid, [`Connection::swap_head`] returns it.
    Request {
        slot: usize,
        head: Result<(), Rejection>,
        /// The method is HEAD.
        is_head_method: bool,
        /// The request has no body.
        is_all: bool,
    },
    /// Payload, at this place of the input. [`Connection::consumed`] releases it.
    Data { slot: usize, at: Range<usize> },
    /// The request's body is complete.
    End { slot: usize },
    /// The body is complete, with trailers: field lines for `http1::write::last_chunk`.
    Trailers { slot: usize, lines: Result<Vec<u8>, Rejection> },
    /// The stream was reset, by the client or because of an error of the client.
    Reset { slot: usize },
    /// More may be sent than before, on one stream or on all.
    Window,
}

/// The result of [`Connection::receive`].
#[derive(Debug)]
pub struct Step {
    /// Bytes at the front of the input that are done with.
    pub used: usize,
    pub event: Option<Event>,
}

impl Step {
    pub(super) const NEED_MORE: Self = Self { used: 0, event: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Preface,
    /// The first frame has to be SETTINGS.
    FirstFrame,
    Open,
    /// An error has ended the connection: nothing more is read or sent, except GOAWAY.
    Failed,
}

/// Progress of a graceful end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// The client was asked to open no more streams; the streams that it opened before it received the request are
    /// served.
    Announced,
    /// Streams above this one are ignored.
    Final(u32),
}

/// A DATA frame whose payload is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload {
    pub(super) stream: u32,
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) ends: bool,
}

/// A header block that continues in the next frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continued {
    pub(super) stream: u32,
    pub(super) ends: bool,
    /// The stream depends on itself, which is an error of the stream.
    pub(super) self_dependent: bool,
}

/// One client's connection.
#[derive(Debug)]
pub struct Connection {
    state: State,
    pub(super) leaving: Leaving,
    pub(super) streams: Streams,
    /// The highest number of a stream that the client has opened.
    pub(super) last_stream: u32,
    /// Control frames.
    pub(super) budget: Budget,
    /// Streams that were reset because of the client's errors.
    error_resets: Budget,
    /// Streams above this one have been opened since the handlers last ran.
    pub(super) served_stream: u32,
    /// The number of those streams that the client has reset.
    pub(super) pending_resets: usize,
    // --- receiving ---
    pub(super) decoder: Decoder,
    pub(super) writer: HeadWriter,
    /// A header block that arrives in several frames.
    pub(super) block: Vec<u8>,
    pub(super) continued: Option<Continued>,
    pub(super) payload: Option<Payload>,
    pub(super) receive_window: i64,
    /// Bytes that were consumed since the last update of the connection's window.
    pub(super) unreturned: usize,
    // --- sending ---
    pub(super) send_window: i64,
    /// The window of a new stream.
    pub(super) initial_window: i64,
    pub(super) out: Vec<u8>,
    pub(super) written: usize,
    /// The last frame in `out`, if it is DATA: its slot and place.
    pub(super) last_data: Option<(usize, usize)>,
    /// The first header block, which sets the size of the dynamic table to zero, was sent.
    pub(super) has_sent_block: bool,
}

/// The opaque data of the PING that follows the announcement of the end.
pub(super) const LEAVE_PING: [u8; 8] = *b"penstock";

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

impl Connection {
    /// A new connection. The first output is its settings.
    pub fn new() -> Self {
        Self::with_output(Vec::new(), true)
    }

    /// A new connection with `memory` for its output. With `websocket`, clients may open tunnels by extended CONNECT
    /// (RFC 8441).
    pub fn with_output(memory: Vec<u8>, websocket: bool) -> Self {
        let mut connection = Self {
            state: State::Preface,
            leaving: Leaving::No,
            streams: Streams::new(),
            last_stream: 0,
            budget: Budget::of_control_frames(),
            error_resets: Budget::of_error_resets(),
            served_stream: 0,
            pending_resets: 0,
            decoder: Decoder::new(),
            writer: HeadWriter::new(websocket),
            block: Vec::new(),
            continued: None,
            payload: None,
            receive_window: i64::from(H2_CONNECTION_WINDOW_BYTES),
            unreturned: 0,
            send_window: WINDOW_DEFAULT,
            initial_window: WINDOW_DEFAULT,
            out: memory,
            written: 0,
            last_data: None,
            has_sent_block: false,
        };
        connection.send_settings();
        connection
    }

    /// Processes the next piece of input from the client: `input` holds all bytes received and not yet used. Call this
    /// until it returns neither used bytes nor an event; then more bytes are needed. The input must be able to hold a
    /// whole frame of any kind other than DATA.
    ///
    /// # Errors
    /// The client broke the protocol, or exhausted its budget. GOAWAY is in the output; all streams are reset.
    pub fn receive(&mut self, input: &[u8]) -> Result<Step, Reason> {
        let step = self.step(input);
        if let Err(reason) = step {
            self.fail(reason);
        }
        step
    }

    fn step(&mut self, input: &[u8]) -> Result<Step, Reason> {
        match self.state {
            State::Failed => return Ok(Step { used: input.len(), event: None }),
            State::Preface => {
                return match match_preface(input) {
                    PrefaceMatch::Yes => {
                        self.state = State::FirstFrame;
                        Ok(Step { used: PREFACE.len(), event: None })
                    }
                    PrefaceMatch::Partial => Ok(Step::NEED_MORE),
                    PrefaceMatch::No => Err(Reason::ProtocolError),
                };
            }
            State::FirstFrame | State::Open => {}
        }
        if let Some(payload) = self.payload {
            let step = self.payload(payload, input)?;
            if self.payload.is_some() || step.used > 0 || step.event.is_some() {
                return Ok(step);
            }
        }
        let Some(header) = Header::read(input) else { return Ok(Step::NEED_MORE) };
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(Reason::FrameSizeError);
        }
        if self.state == State::FirstFrame {
            if header.kind != Kind::Settings || header.has(frame::ACK) {
                return Err(Reason::ProtocolError);
            }
            self.state = State::Open;
        }
        let is_continued = self.continued.map(|continued| (Kind::Continuation, continued.stream));
        if is_continued.is_some_and(|expected| expected != (header.kind, header.stream)) {
            return Err(Reason::ProtocolError);
        }
        let after = input.get(HEADER_BYTES..).unwrap_or_default();
        if header.kind == Kind::Data {
            return self.data(header, after);
        }
        let Some(payload) = after.get(..header.len) else { return Ok(Step::NEED_MORE) };
        let event = self.frame(header, payload)?;
        Ok(Step { used: HEADER_BYTES + header.len, event })
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> Result<Option<Event>, Reason> {
        // HEADERS that open no stream cost one too, but only decoding shows which ones these are.
        if header.kind != Kind::Headers {
            self.charge()?;
        }
        match header.kind {
            Kind::Headers => self.headers(header, payload),
            Kind::Continuation => self.continuation(header, payload),
            Kind::Priority => self.priority(header, payload),
            Kind::ResetStream => self.reset_stream(header, payload),
            Kind::Settings => self.settings(header, payload),
            Kind::Ping => self.ping(header, payload).map(|()| None),
            Kind::GoAway if header.stream != 0 => Err(Reason::ProtocolError),
            Kind::GoAway if payload.len() < 8 => Err(Reason::FrameSizeError),
            Kind::GoAway | Kind::Unknown => Ok(None),
            Kind::WindowUpdate => self.window_update(header, payload),
            Kind::PushPromise | Kind::Data => Err(Reason::ProtocolError),
        }
    }

    /// Charges a received frame that carries no payload.
    ///
    /// # Errors
    /// The budget is exhausted.
    pub(super) fn charge(&mut self) -> Result<(), Reason> {
        self.budget.spend();
        if self.budget.is_exhausted() { Err(Reason::EnhanceYourCalm) } else { Ok(()) }
    }

    /// Refuses the stream of the last [`Event::Request`]. The request was not processed, so the client may send it
    /// again. Costs as much as a control frame.
    ///
    /// # Errors
    /// As [`Connection::receive`].
    pub fn refuse(&mut self, slot: usize) -> Result<(), Reason> {
        self.reset(slot, Reason::RefusedStream);
        self.close(slot);
        let charged = self.charge();
        if let Err(reason) = charged {
            self.fail(reason);
        }
        charged
    }

    /// Memory of the head of the last [`Event::Request`], in bytes.
    #[must_use]
    pub fn head_bytes(&self) -> usize {
        let head = &self.writer.head;
        // A small one may have the memory of a larger one before it, which is used again.
        if head.capacity() > HEAD_BUFFER_BYTES as usize { head.capacity() } else { head.len() }
    }

    /// Exchanges `head` for the head of the last [`Event::Request`].
    pub fn swap_head(&mut self, head: &mut Vec<u8>) {
        std::mem::swap(head, &mut self.writer.head);
    }

    /// The handlers of all streams have run since they were opened.
    pub fn served(&mut self) {
        self.served_stream = self.last_stream;
        self.pending_resets = 0;
    }

    /// The handler of `slot` has consumed `count` bytes of payload, so the client may send as many more.
    pub fn consumed(&mut self, slot: usize, count: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        let count = count.min(stream.held);
        stream.held -= count;
        stream.unreturned = stream.unreturned.saturating_add(count);
        let lacks = stream
            .missing
            .is_none_or(|left| i64::try_from(left).unwrap_or(i64::MAX) > stream.receive_window);
        if stream.receiving == Receiving::Open
            && stream.unreturned >= H2_STREAM_WINDOW_BYTES as usize / UPDATES
            && lacks
        {
            let (id, increment) = (stream.id, stream.unreturned);
            stream.receive_window += increment as i64;
            stream.unreturned = 0;
            self.send_window_update(id, increment);
        }
        self.return_to_connection(count);
    }

    /// The connection's window is updated in steps.
    pub(super) fn return_to_connection(&mut self, count: usize) {
        self.unreturned = self.unreturned.saturating_add(count);
        if self.unreturned >= H2_CONNECTION_WINDOW_BYTES as usize / UPDATES {
            let increment = std::mem::take(&mut self.unreturned);
            self.receive_window += increment as i64;
            self.send_window_update(0, increment);
        }
    }

    /// Frees `slot` when its handler ends. A stream that is not complete is reset.
    pub fn close(&mut self, slot: usize) {
        let Some(stream) = self.streams.get(slot) else { return };
        match (stream.receiving, stream.sending) {
            (Receiving::ResetByClient | Receiving::ResetByUs, _) => {}
            (Receiving::Open | Receiving::Ended, Sending::Head | Sending::Body) => {
                self.reset(slot, Reason::Cancel);
            }
            // Source: RFC 9113 section 8.1.
            (Receiving::Open, Sending::Nothing) => self.reset(slot, Reason::NoError),
            (Receiving::Ended, Sending::Nothing) => {}
        }
        if let Some(stream) = self.streams.close(slot) {
            self.return_to_connection(stream.held);
        }
        if self.last_data.is_some_and(|(last, _)| last == slot) {
            self.last_data = None;
        }
    }

    /// Whether `slot` was reset, or its connection has failed.
    pub fn is_reset(&self, slot: usize) -> bool {
        self.streams.get(slot).is_none_or(super::streams::Stream::is_reset)
    }

    /// Ends the connection because the client is gone or has to be disconnected: all streams are reset, and nothing
    /// more is received.
    pub fn abandon(&mut self) {
        self.state = State::Failed;
        self.payload = None;
        for slot in 0..super::streams::SLOTS {
            self.streams.reset(slot, Receiving::ResetByUs);
        }
    }

    /// Ends the connection with GOAWAY.
    fn fail(&mut self, reason: Reason) {
        if self.state != State::Failed {
            self.send_goaway(self.last_stream, reason);
            self.abandon();
        }
    }

    /// Whether the connection ended with an error.
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Whether the client has sent the preface and its settings.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Whether a DATA frame has been received only in part.
    pub fn is_receiving_payload(&self) -> bool {
        self.payload.is_some()
    }

    /// Refills the budgets for the time since the last call. `now_us` is a monotonic time in microseconds.
    pub fn refill(&mut self, now_us: u64) {
        self.budget.refill(now_us);
        self.error_resets.refill(now_us);
    }

    /// Whether half of the connection's window is unread payload, so that little is left for other streams.
    pub fn is_crowded(&self) -> bool {
        const HALF: i64 = H2_CONNECTION_WINDOW_BYTES as i64 / 2;
        self.receive_window.saturating_add(i64::try_from(self.unreturned).unwrap_or(i64::MAX))
            < HALF
    }

    /// An error of the stream `id`. If it has a slot, its handler learns of the reset.
    ///
    /// # Errors
    /// The client made too many errors.
    pub(super) fn stream_error(
        &mut self,
        id: u32,
        reason: Reason,
    ) -> Result<Option<Event>, Reason> {
        self.error_resets.spend();
        if self.error_resets.is_exhausted() {
            return Err(Reason::EnhanceYourCalm);
        }
        let Some(slot) = self.streams.find(id) else {
            self.send_reset(id, reason);
            self.streams.remember(id, Some(i64::from(H2_STREAM_WINDOW_BYTES)));
            return Ok(None);
        };
        self.reset(slot, reason);
        Ok(Some(Event::Reset { slot }))
    }

    /// Keeps a part of a block until the rest arrives.
    pub(super) fn keep_block(&mut self, part: &[u8]) -> Result<(), Reason> {
        if self.block.len().saturating_add(part.len()) > H2_BLOCK_BYTES_MAX {
            return Err(Reason::EnhanceYourCalm);
        }
        self.block.extend_from_slice(part);
        Ok(())
    }
}

/// A window is updated when this part (1/n) of it was consumed, so that a sender that keeps pace never waits.
const UPDATES: usize = 4;

const _: () = assert!(H2_CONNECTION_WINDOW_BYTES as i64 <= WINDOW_MAX);
