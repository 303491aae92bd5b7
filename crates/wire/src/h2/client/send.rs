//! Frames for the server, queued in one buffer in the order of sending.

use base::limits::{
    H2_CONNECTION_SEND_BYTES, H2_RESPONSE_CONNECTION_WINDOW_BYTES, H2_RESPONSE_WINDOW_BYTES,
};

use super::{Client, RequestFields, Stream, Table};
use crate::h2::frame::{self, HEADER_BYTES, PAYLOAD_BYTES_MAX, Reason, WINDOW_DEFAULT, code};
use crate::h2::hpack::encode;
use crate::h2::preface::PREFACE;

impl Client {
    /// Frames that are to be written to the server.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    /// `count` bytes of the output were written.
    pub fn written(&mut self, count: usize) {
        self.written = self.written.saturating_add(count).min(self.out.len());
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Whether the output is so long that nothing should be added.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.output().len() >= H2_CONNECTION_SEND_BYTES
    }

    /// Whether receiving has to wait until some output is written, because it could require more output, such as the
    /// acknowledgement of a PING. Requests alone never fill the output that far, so the client does not wait for a
    /// server that sends before it reads.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.output().len() >= 2 * H2_CONNECTION_SEND_BYTES
    }

    pub(super) fn send_preface(&mut self) {
        const ENABLE_PUSH: u16 = 2;
        const INITIAL_WINDOW_SIZE: u16 = 4;
        const SETTINGS: [(u16, u32); 2] =
            [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, H2_RESPONSE_WINDOW_BYTES)];
        const ENTRY_BYTES: usize = 6;
        self.out.extend_from_slice(PREFACE);
        frame::header(&mut self.out, SETTINGS.len() * ENTRY_BYTES, code::SETTINGS, 0, 0);
        for (setting, value) in SETTINGS {
            self.out.extend_from_slice(&setting.to_be_bytes());
            self.out.extend_from_slice(&value.to_be_bytes());
        }
        let default = usize::try_from(WINDOW_DEFAULT).unwrap_or_default();
        self.send_window_update(0, H2_RESPONSE_CONNECTION_WINDOW_BYTES as usize - default);
    }

    /// Opens a stream, if [`Client::can_open`]: sends the head, with `token` as bearer token. A body of `body_len`
    /// bytes, if any, has to follow through [`Client::send_body`]. `own` has the fields, if they differ from those of
    /// the connection.
    pub fn open(
        &mut self,
        own: Option<&RequestFields>,
        token: Option<&[u8]>,
        body_len: Option<usize>,
    ) -> Option<usize> {
        if !self.can_open() {
            return None;
        }
        let id = self.next_id;
        self.next_id += 2;
        let before = self.out.len();
        let end_stream = if body_len.is_some_and(|len| len > 0) { 0 } else { frame::END_STREAM };
        self.send_head(id, own, token, end_stream);
        let stream = Stream {
            id,
            send_window: self.initial_window,
            unsent: body_len.unwrap_or(0),
            is_head_method: own.unwrap_or(&self.fields).is_head_method,
            sent: (self.out.len() - before) as u64,
            ..Stream::default()
        };
        let slot = self.free.pop().unwrap_or(self.streams.len());
        match (self.streams.get_mut(slot), self.ids.get_mut(slot)) {
            (Some(known), Some(known_id)) => (*known, *known_id) = (stream, id),
            _ => {
                self.streams.push(stream);
                self.ids.push(id);
            }
        }
        Some(slot)
    }

    /// Writes HEADERS, and CONTINUATION frames for the part that does not fit.
    fn send_head(
        &mut self,
        id: u32,
        own: Option<&RequestFields>,
        token: Option<&[u8]>,
        end_stream: u8,
    ) {
        let at = self.out.len();
        frame::header(&mut self.out, 0, code::HEADERS, end_stream | frame::END_HEADERS, id);
        if std::mem::take(&mut self.is_resized) {
            encode::table_size(&mut self.out, self.table_bytes_max);
        }
        if let Some(own) = own {
            self.out.extend_from_slice(&own.plain);
        } else if self.table == Table::Empty {
            let fits = self.fields.table_bytes <= self.table_bytes_max;
            self.table = if fits { Table::Filled } else { Table::TooSmall };
            self.out.extend_from_slice(if fits { &self.fields.added } else { &self.fields.plain });
        } else {
            let is_filled = self.table == Table::Filled;
            let block = if is_filled { &self.fields.indexed } else { &self.fields.plain };
            self.out.extend_from_slice(block);
        }
        if let Some(token) = token {
            encode::bearer(&mut self.out, token);
        }
        let len = self.out.len().saturating_sub(at + HEADER_BYTES);
        if len <= PAYLOAD_BYTES_MAX {
            self.set_length(at, len);
            return;
        }
        let block = self.out.split_off(at + HEADER_BYTES);
        let (first, rest) = block.split_at(PAYLOAD_BYTES_MAX);
        self.out.truncate(at);
        frame::short(&mut self.out, code::HEADERS, end_stream, id, first);
        let mut parts = rest.chunks(PAYLOAD_BYTES_MAX).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { frame::END_HEADERS } else { 0 };
            frame::short(&mut self.out, code::CONTINUATION, flags, id, part);
        }
    }

    /// Sets the length of the frame at `at` of the output.
    fn set_length(&mut self, at: usize, len: usize) {
        let [_, length @ ..] = u32::try_from(len).unwrap_or_default().to_be_bytes();
        if let Some(place) = self.out.get_mut(at..at + length.len()) {
            place.copy_from_slice(&length);
        }
    }

    /// Sends the rest of `body`, as far as the server's windows and the output allow. Returns true if the body is
    /// complete.
    pub fn send_body(&mut self, slot: usize, body: &[u8]) -> bool {
        while !self.is_full() {
            let Some(stream) = self.streams.get_mut(slot).filter(|stream| stream.id != 0) else {
                return true;
            };
            if stream.unsent == 0 {
                return true;
            }
            let window = usize::try_from(stream.send_window.min(self.send_window)).unwrap_or(0);
            let from = body.len().saturating_sub(stream.unsent);
            let rest = body.get(from..).unwrap_or_default();
            let part = rest.get(..window.min(PAYLOAD_BYTES_MAX)).unwrap_or(rest);
            if part.is_empty() {
                return false;
            }
            stream.unsent -= part.len();
            stream.send_window -= part.len() as i64;
            self.send_window -= part.len() as i64;
            stream.sent += (HEADER_BYTES + part.len()) as u64;
            let flags = if stream.unsent == 0 { frame::END_STREAM } else { 0 };
            frame::short(&mut self.out, code::DATA, flags, stream.id, part);
        }
        self.streams.get(slot).is_none_or(|stream| stream.unsent == 0)
    }

    pub(super) fn reset(&mut self, slot: usize, reason: Reason) {
        let Some(stream) = self.streams.get_mut(slot).filter(|stream| stream.id != 0) else {
            return;
        };
        (stream.has_ended, stream.unsent) = (true, 0);
        let reason = (reason as u32).to_be_bytes();
        frame::short(&mut self.out, code::RESET_STREAM, 0, stream.id, &reason);
    }

    /// `stream` 0 stands for the connection.
    pub(super) fn send_window_update(&mut self, stream: u32, increment: usize) {
        let increment = u32::try_from(increment).unwrap_or_default().to_be_bytes();
        frame::short(&mut self.out, code::WINDOW_UPDATE, 0, stream, &increment);
    }
}
