//! Frames for the client, queued in one buffer in the order of sending.

use base::limits::{
    H2_CONNECTION_SEND_BYTES, H2_CONNECTION_WINDOW_BYTES, H2_STREAM_WINDOW_BYTES, H2_STREAMS_MAX,
    HEAD_BYTES_MAX,
};

use super::connection::{Connection, LEAVE_PING, Leaving};
use super::frame::{self, HEADER_BYTES, PAYLOAD_BYTES_MAX, Reason, WINDOW_DEFAULT, code};
use super::hpack::encode;
use super::streams::{Receiving, Sending};
use crate::http1::{Rejection, is_token};

impl Connection {
    /// Frames that are to be written to the client.
    pub fn output(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    /// `count` bytes of the output were written.
    pub fn written(&mut self, count: usize) {
        self.written = self.written.saturating_add(count).min(self.out.len());
        // Fewer bytes are moved than were written.
        if self.written >= self.out.len() / 2 {
            self.out.drain(..self.written);
            let written = std::mem::take(&mut self.written);
            self.last_data =
                self.last_data.and_then(|(slot, at)| Some((slot, at.checked_sub(written)?)));
        }
    }

    /// Exchanges the memory of the output, which has to be empty, for `memory`. Returns the memory that is not in use.
    pub fn swap_output(&mut self, memory: Vec<u8>) -> Vec<u8> {
        if self.output().is_empty() && memory.is_empty() {
            (self.written, self.last_data) = (0, None);
            let mut used = std::mem::replace(&mut self.out, memory);
            used.clear();
            return used;
        }
        memory
    }

    /// Whether the output is so long that streams should add nothing.
    pub fn is_full(&self) -> bool {
        self.output().len() >= H2_CONNECTION_SEND_BYTES
    }

    /// Whether receiving has to wait until some output is written, because it could require more output.
    pub fn is_overfull(&self) -> bool {
        self.output().len() >= 2 * H2_CONNECTION_SEND_BYTES
    }

    /// Sends a final head. [`head_block`] writes `block`. With `is_all`, no body follows.
    pub fn send_head(&mut self, slot: usize, block: &[u8], is_all: bool) {
        self.send_block(slot, block, is_all);
        self.budget.earn_sent(0);
        if let Some(stream) = self.streams.get_mut(slot).filter(|stream| !stream.is_reset()) {
            stream.sending = if is_all { Sending::Nothing } else { Sending::Body };
        }
    }

    /// Sends `100 Continue`.
    pub fn send_continue(&mut self, slot: usize) {
        let mut block = Vec::new();
        encode::status(&mut block, 100);
        self.send_block(slot, &block, false);
    }

    /// Sends trailers, which end the response. [`trailer_block`] writes `block`.
    pub fn send_trailers(&mut self, slot: usize, block: &[u8]) {
        self.send_block(slot, block, true);
        if let Some(stream) = self.streams.get_mut(slot).filter(|stream| !stream.is_reset()) {
            stream.sending = Sending::Nothing;
        }
    }

    fn send_block(&mut self, slot: usize, block: &[u8], ends: bool) {
        let Some(stream) = self.streams.get(slot).filter(|stream| !stream.is_reset()) else {
            return;
        };
        let id = stream.id;
        let prefix: &[u8] = if self.has_sent_block { &[] } else { &[encode::NO_TABLE] };
        self.has_sent_block = true;
        self.last_data = None;
        let end_stream = if ends { frame::END_STREAM } else { 0 };
        let (first, mut rest) = block.split_at(block.len().min(PAYLOAD_BYTES_MAX - prefix.len()));
        let last = |rest: &[u8]| if rest.is_empty() { frame::END_HEADERS } else { 0 };
        let flags = end_stream | last(rest);
        frame::header(&mut self.out, prefix.len() + first.len(), code::HEADERS, flags, id);
        self.out.extend_from_slice(prefix);
        self.out.extend_from_slice(first);
        while !rest.is_empty() {
            let (part, after) = rest.split_at(rest.len().min(PAYLOAD_BYTES_MAX));
            frame::short(&mut self.out, code::CONTINUATION, last(after), id, part);
            rest = after;
        }
    }

    /// The number of payload bytes that can be sent now; 0 if the client's window or the output is full.
    #[inline]
    pub fn room(&self, slot: usize) -> usize {
        let Some(stream) = self.streams.get(slot) else { return 0 };
        let window = stream.send_window.min(self.send_window);
        let free = H2_CONNECTION_SEND_BYTES.saturating_sub(self.output().len());
        usize::try_from(window).unwrap_or_default().min(free)
    }

    /// Sends the front of `data`, as far as there is room, in one frame. Returns its length.
    pub fn send_data(&mut self, slot: usize, data: &[u8]) -> usize {
        let room = self.room(slot).min(PAYLOAD_BYTES_MAX);
        let data = data.get(..room).unwrap_or(data);
        let Some(stream) = self.streams.get_mut(slot) else { return 0 };
        if data.is_empty() || stream.sending != Sending::Body {
            return 0;
        }
        stream.send_window -= data.len() as i64;
        self.send_window -= data.len() as i64;
        self.last_data = Some((slot, self.out.len()));
        frame::short(&mut self.out, code::DATA, 0, stream.id, data);
        self.budget.earn_sent(data.len());
        data.len()
    }

    /// Ends the response, in its last frame if that was not written yet.
    pub fn finish(&mut self, slot: usize) {
        let Some(stream) = self.streams.get_mut(slot) else { return };
        if stream.sending != Sending::Body {
            return;
        }
        stream.sending = Sending::Nothing;
        const FLAGS: usize = 4;
        if let Some((last, at)) = self.last_data
            && last == slot
            && at >= self.written
            && let Some(flags) = self.out.get_mut(at + FLAGS)
        {
            *flags |= frame::END_STREAM;
        } else {
            frame::header(&mut self.out, 0, code::DATA, frame::END_STREAM, stream.id);
        }
        self.last_data = None;
    }

    /// Resets a stream that is not complete, after the frames that are already queued.
    pub fn reset(&mut self, slot: usize, reason: Reason) {
        if let Some(stream) = self.streams.get(slot).filter(|stream| !stream.is_reset()) {
            let id = stream.id;
            self.send_reset(id, reason);
            self.streams.reset(slot, Receiving::ResetByUs);
        }
    }

    pub(super) fn send_reset(&mut self, id: u32, reason: Reason) {
        self.last_data = None;
        frame::short(&mut self.out, code::RESET_STREAM, 0, id, &(reason as u32).to_be_bytes());
    }

    /// `stream` 0 stands for the connection.
    pub(super) fn send_window_update(&mut self, stream: u32, increment: usize) {
        self.last_data = None;
        let increment = u32::try_from(increment).unwrap_or_default().to_be_bytes();
        frame::short(&mut self.out, code::WINDOW_UPDATE, 0, stream, &increment);
    }

    pub(super) fn send_goaway(&mut self, last_stream: u32, reason: Reason) {
        self.last_data = None;
        let [a, b, c, d] = last_stream.to_be_bytes();
        let [e, f, g, h] = (reason as u32).to_be_bytes();
        frame::short(&mut self.out, code::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
    }

    /// Asks the client to open no more streams. The streams that it opens before it receives this are served. Source:
    /// RFC 9113 section 6.8.
    pub fn leave(&mut self) {
        if self.leaving == Leaving::No && !self.has_failed() {
            self.leaving = Leaving::Announced;
            self.send_goaway(i32::MAX as u32, Reason::NoError);
            frame::short(&mut self.out, code::PING, 0, 0, &LEAVE_PING);
        }
    }

    /// Whether the client has received the request to open no more streams, and none is open.
    pub fn has_left(&self) -> bool {
        matches!(self.leaving, Leaving::Final(_)) && self.streams.open_streams() == 0
    }

    /// Sends the gateway's settings. Sources: RFC 9113 section 6.5.2, RFC 8441 section 3.
    pub(super) fn send_settings(&mut self) {
        const SETTINGS: [(u16, u32); 4] =
            [(3, H2_STREAMS_MAX), (4, H2_STREAM_WINDOW_BYTES), (6, HEAD_BYTES_MAX), (8, 1)];
        const ENTRY_BYTES: usize = 6;
        // The last setting allows extended CONNECT.
        let count = SETTINGS.len() - usize::from(!self.writer.allows_connect);
        frame::header(&mut self.out, count * ENTRY_BYTES, code::SETTINGS, 0, 0);
        for (setting, value) in SETTINGS.into_iter().take(count) {
            self.out.extend_from_slice(&setting.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        let default = usize::try_from(WINDOW_DEFAULT).unwrap_or_default();
        self.send_window_update(0, H2_CONNECTION_WINDOW_BYTES as usize - default);
    }
}

/// Appends the block of a response head with `fields`, names in any case, and `length` as its Content-Length.
///
/// # Errors
/// 502 for a status that HTTP/2 does not allow, such as 101 (RFC 9113 section 8.6).
pub fn head_block<'a>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    length: Option<u64>,
) -> Result<(), Rejection> {
    if status == 101 || !(200..=999).contains(&status) {
        return Err(Rejection::new(502, "status is not allowed in HTTP/2"));
    }
    encode::status(out, status);
    fields.for_each(|(name, value)| encode::field(out, name, value));
    if let Some(length) = length {
        encode::length(out, length);
    }
    Ok(())
}

/// Appends the block of a response's trailers. `lines`: as [`crate::http1::ChunkedDecoder::trailers`] returns them.
///
/// # Errors
/// 502 for a name that is not a token.
pub fn trailer_block(out: &mut Vec<u8>, lines: &[u8]) -> Result<(), Rejection> {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        if !is_token(name) {
            return Err(Rejection::new(502, "field is not allowed in HTTP/2"));
        }
        encode::field(out, name, value.get(1..).unwrap_or_default().trim_ascii());
    }
    Ok(())
}

const _: () = assert!(H2_CONNECTION_SEND_BYTES > HEADER_BYTES + PAYLOAD_BYTES_MAX);
