//! The streams of a connection, in a bounded number of slots.

use base::limits::{
    H2_PENDING_RESETS_MAX, H2_RESET_STREAMS_MAX, H2_STREAM_WINDOW_BYTES, H2_STREAMS_MAX,
};

/// Number of slots: one for each open stream, and some for those whose handlers have yet to notice a reset.
pub const SLOTS: usize = H2_STREAMS_MAX as usize + H2_PENDING_RESETS_MAX;

/// The receiving side of a stream: the frames that the client may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    /// Payload or trailers.
    Open,
    /// The client has ended the stream.
    Ended,
    /// The client has reset the stream.
    ResetByClient,
    /// The stream was reset; frames that crossed the reset are ignored.
    ResetByUs,
}

/// The sending side of a stream: the frames that are still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Head,
    Body,
    Nothing,
}

/// A stream that has a handler.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) receiving: Receiving,
    /// Bytes that the client may send before its window is updated.
    pub(super) receive_window: i64,
    /// Payload that was received and not consumed.
    pub(super) held: usize,
    /// Payload that was consumed since the last update of the window.
    pub(super) unreturned: usize,
    /// Payload that is missing, if Content-Length is known.
    pub(super) missing: Option<u64>,
    /// Opened by an extended CONNECT.
    pub(super) is_tunnel: bool,
    pub(super) sending: Sending,
    pub(super) send_window: i64,
}

impl Stream {
    pub(super) fn is_reset(&self) -> bool {
        matches!(self.receiving, Receiving::ResetByClient | Receiving::ResetByUs)
    }
}

/// The state of a stream without a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// The stream ended, or the client reset it.
    Closed,
    /// The gateway reset the stream; frames that crossed the reset are ignored.
    ResetByUs,
    /// The stream was used too long ago, or never.
    Unknown,
}

/// All streams that have a handler, and the last ones that had one.
#[derive(Debug)]
pub(super) struct Streams {
    /// The stream's number in each slot; 0 if the slot is free. Stored separately, because each frame searches it.
    ids: Vec<u32>,
    slots: Vec<Option<Stream>>,
    /// Streams that were not reset.
    open: usize,
    /// Streams that the gateway reset. Stored apart from the others, which would soon displace them.
    reset: Ring<{ 2 * SLOTS }>,
    closed: Ring<H2_RESET_STREAMS_MAX>,
}

/// The last streams that lost their slots: the number of each, and the rest of its window.
#[derive(Debug)]
struct Ring<const MOST: usize> {
    streams: Vec<(u32, i64)>,
    oldest: usize,
}

impl<const MOST: usize> Ring<MOST> {
    const fn new() -> Self {
        Self { streams: Vec::new(), oldest: 0 }
    }

    fn add(&mut self, stream: (u32, i64)) {
        if self.streams.len() < MOST {
            self.streams.push(stream);
            return;
        }
        if let Some(oldest) = self.streams.get_mut(self.oldest) {
            *oldest = stream;
        }
        self.oldest = (self.oldest + 1) % MOST;
    }

    fn has(&self, id: u32) -> bool {
        self.streams.iter().any(|(known, _)| *known == id)
    }
}

impl Streams {
    pub(super) const fn new() -> Self {
        Self {
            ids: Vec::new(),
            slots: Vec::new(),
            open: 0,
            reset: Ring::new(),
            closed: Ring::new(),
        }
    }

    /// Opens a stream. `None` if the client has opened too many.
    pub(super) fn open(&mut self, id: u32, send_window: i64) -> Option<usize> {
        if self.open >= H2_STREAMS_MAX as usize {
            return None;
        }
        let stream = Stream {
            id,
            receiving: Receiving::Open,
            receive_window: i64::from(H2_STREAM_WINDOW_BYTES),
            held: 0,
            unreturned: 0,
            missing: None,
            is_tunnel: false,
            sending: Sending::Head,
            send_window,
        };
        let slot = match self.ids.iter().position(|used| *used == 0) {
            Some(free) => free,
            None if self.ids.len() < SLOTS => {
                self.ids.push(0);
                self.slots.push(None);
                self.ids.len() - 1
            }
            None => return None,
        };
        *self.ids.get_mut(slot)? = id;
        *self.slots.get_mut(slot)? = Some(stream);
        self.open += 1;
        Some(slot)
    }

    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<usize> {
        self.ids.iter().position(|used| *used == id)
    }

    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<&Stream> {
        self.slots.get(slot)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Stream> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().flatten()
    }

    /// Marks a stream as reset. The slot stays in use until the handler ends.
    pub(super) fn reset(&mut self, slot: usize, by: Receiving) {
        if let Some(stream) = self.get_mut(slot)
            && !stream.is_reset()
        {
            stream.receiving = by;
            stream.sending = Sending::Nothing;
            self.open = self.open.saturating_sub(1);
        }
    }

    /// Frees the slot.
    pub(super) fn close(&mut self, slot: usize) -> Option<Stream> {
        let stream = self.slots.get_mut(slot)?.take()?;
        if let Some(id) = self.ids.get_mut(slot) {
            *id = 0;
        }
        if !stream.is_reset() {
            self.open = self.open.saturating_sub(1);
        }
        let was_reset = stream.receiving == Receiving::ResetByUs;
        self.remember(stream.id, was_reset.then_some(stream.receive_window));
        Some(stream)
    }

    /// Remembers a stream without a slot. `late_window` is the rest of its window, if the gateway has reset it.
    pub(super) fn remember(&mut self, id: u32, late_window: Option<i64>) {
        match late_window {
            Some(window) => self.reset.add((id, window)),
            None => self.closed.add((id, 0)),
        }
    }

    /// The rest of the window of a stream that the gateway has reset.
    pub(super) fn late_window(&mut self, id: u32) -> Option<&mut i64> {
        if let Some(slot) = self.find(id) {
            return self.get_mut(slot).map(|stream| &mut stream.receive_window);
        }
        let past = self.reset.streams.iter_mut().find(|(known, _)| *known == id);
        past.map(|(_, window)| window)
    }

    pub(super) fn past(&self, id: u32) -> Past {
        if self.reset.has(id) {
            Past::ResetByUs
        } else if self.closed.has(id) {
            Past::Closed
        } else {
            Past::Unknown
        }
    }

    /// Number of streams that were not reset.
    pub(super) const fn open_streams(&self) -> usize {
        self.open
    }
}
