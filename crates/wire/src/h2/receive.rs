//! The frames of the client, one function for each type. Source: RFC 9113 section 6.

use super::connection::{Connection, Continued, Event, Leaving, Payload, Step};
use super::frame::{self, HEADER_BYTES, Header, Reason, WINDOW_MAX, code};
use super::request::{Invalid, TrailerWriter};
use super::streams::{Past, Receiving};

impl Connection {
    /// The start of a DATA frame, whose payload is passed on as it arrives. `after` is the input after the header.
    pub(super) fn data(&mut self, header: Header, after: &[u8]) -> Result<Step, Reason> {
        if header.stream == 0 {
            return Err(Reason::ProtocolError);
        }
        let (mut used, mut left, mut padding) = (HEADER_BYTES, header.len, 0);
        if header.has(frame::PADDED) {
            if header.len == 0 {
                return Err(Reason::ProtocolError);
            }
            let Some(len) = after.first() else { return Ok(Step::NEED_MORE) };
            padding = usize::from(*len);
            left = left.checked_sub(padding + 1).ok_or(Reason::ProtocolError)?;
            used += 1;
        }
        let ends = header.has(frame::END_STREAM);
        if left == 0 && !ends {
            self.charge()?;
        }
        let len = i64::try_from(header.len).unwrap_or(i64::MAX);
        self.receive_window -= len;
        if self.receive_window < 0 {
            return Err(Reason::FlowControlError);
        }
        // Bytes other than payload never reach a handler, so their window is returned here.
        self.return_to_connection(header.len - left);
        let event = self.charge_stream(header, len, left, ends)?;
        self.payload = Some(Payload { stream: header.stream, left, padding, ends });
        Ok(Step { used, event })
    }

    /// Checks that the stream may receive `len` bytes, `payload` of them payload, which earns control frames.
    fn charge_stream(
        &mut self,
        header: Header,
        len: i64,
        payload: usize,
        ends: bool,
    ) -> Result<Option<Event>, Reason> {
        let id = header.stream;
        let Some(stream) = self.streams.find(id).and_then(|slot| self.streams.get_mut(slot)) else {
            self.past_stream(id)?;
            return self.late_data(header, payload).map(|()| None);
        };
        match stream.receiving {
            Receiving::Open => {}
            Receiving::ResetByUs => return self.late_data(header, payload).map(|()| None),
            Receiving::ResetByClient => return Err(Reason::StreamClosed),
            Receiving::Ended => return self.stream_error(id, Reason::StreamClosed),
        }
        stream.receive_window -= len;
        if stream.receive_window < 0 {
            return self.stream_error(id, Reason::FlowControlError);
        }
        // Padding counts as consumed.
        stream.unreturned += usize::try_from(len).unwrap_or_default() - payload;
        if let Some(missing) = &mut stream.missing {
            let left = missing.checked_sub(payload as u64);
            match left {
                Some(left) if left == 0 || !ends => *missing = left,
                // The body's length differs from its Content-Length. Source: RFC 9113 section 8.1.1.
                Some(_) | None => return self.stream_error(id, Reason::ProtocolError),
            }
        }
        if payload > 0 {
            self.budget.earn_received();
        }
        Ok(None)
    }

    /// DATA for a stream that the gateway has reset. Frames that the client may have sent before it received the reset
    /// are ignored: as much as the stream's window allowed, and the end. A stream that was opened after the final
    /// GOAWAY has no window.
    ///
    /// # Errors
    /// The frame exceeds the window, or is empty and exhausts the budget.
    fn late_data(&mut self, header: Header, payload: usize) -> Result<(), Reason> {
        let Some(window) = self.streams.late_window(header.stream) else { return self.charge() };
        *window -= i64::try_from(header.len).unwrap_or(i64::MAX);
        if *window < 0 {
            return Err(Reason::FlowControlError);
        }
        if payload == 0 && header.has(frame::END_STREAM) { self.charge() } else { Ok(()) }
    }

    /// A frame for a stream without a handler: ignored if it crossed a reset.
    ///
    /// # Errors
    /// The stream was closed, or never opened.
    fn past_stream(&self, id: u32) -> Result<(), Reason> {
        if id > self.last_stream {
            return Err(Reason::ProtocolError);
        }
        if let Leaving::Final(last) = self.leaving
            && id > last
        {
            return Ok(());
        }
        match self.streams.past(id) {
            Past::ResetByUs => Ok(()),
            Past::Closed | Past::Unknown => Err(Reason::StreamClosed),
        }
    }

    /// A piece of a DATA frame's payload, its padding, or its end.
    pub(super) fn payload(&mut self, mut payload: Payload, input: &[u8]) -> Result<Step, Reason> {
        let slot = self.streams.find(payload.stream);
        let slot =
            slot.filter(|slot| self.streams.get(*slot).is_some_and(|stream| !stream.is_reset()));
        let (used, event);
        if payload.left > 0 {
            used = payload.left.min(input.len());
            if used == 0 {
                return Ok(Step::NEED_MORE);
            }
            payload.left -= used;
            if let Some((slot, stream)) =
                slot.and_then(|slot| Some((slot, self.streams.get_mut(slot)?)))
            {
                stream.held += used;
                event = Some(Event::Data { slot, at: 0..used });
            } else {
                self.return_to_connection(used);
                event = None;
            }
        } else {
            used = payload.padding.min(input.len());
            if used == 0 && payload.padding > 0 {
                return Ok(Step::NEED_MORE);
            }
            payload.padding -= used;
            event = None;
        }
        if payload.left > 0 || payload.padding > 0 || (payload.ends && event.is_some()) {
            self.payload = Some(payload);
            return Ok(Step { used, event });
        }
        self.payload = None;
        if payload.ends
            && let Some((slot, stream)) =
                slot.and_then(|slot| Some((slot, self.streams.get_mut(slot)?)))
        {
            stream.receiving = Receiving::Ended;
            return Ok(Step { used, event: Some(Event::End { slot }) });
        }
        Ok(Step { used, event })
    }

    pub(super) fn headers(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        if header.stream == 0 {
            return Err(Reason::ProtocolError);
        }
        let mut block = unpadded(header, payload)?;
        let mut self_dependent = false;
        if header.has(frame::PRIORITY_FLAG) {
            let (priority, rest) = block.split_first_chunk::<5>().ok_or(Reason::FrameSizeError)?;
            self_dependent = dependency(priority) == header.stream;
            block = rest;
        }
        let ends = header.has(frame::END_STREAM);
        let continued = Continued { stream: header.stream, ends, self_dependent };
        if header.has(frame::END_HEADERS) {
            return self.complete_block(continued, block);
        }
        self.block.clear();
        self.keep_block(block)?;
        self.continued = Some(continued);
        Ok(None)
    }

    pub(super) fn continuation(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        let Some(continued) = self.continued else { return Err(Reason::ProtocolError) };
        self.keep_block(payload)?;
        if !header.has(frame::END_HEADERS) {
            return Ok(None);
        }
        self.continued = None;
        let block = std::mem::take(&mut self.block);
        self.complete_block(continued, &block)
    }

    /// Decodes a whole block, even for a stream that is gone, because later blocks depend on it.
    fn complete_block(&mut self, of: Continued, block: &[u8]) -> Result<Option<Event>, Reason> {
        let id = of.stream;
        if let Some(slot) = self.streams.find(id) {
            return self.trailers(slot, of, block);
        }
        if id <= self.last_stream {
            self.decoder.decode(block, |_, _| {}).map_err(|_| Reason::CompressionError)?;
            return match self.past_stream(id) {
                Err(Reason::StreamClosed) if self.streams.past(id) == Past::Unknown => {
                    Err(Reason::ProtocolError)
                }
                Err(reason) => Err(reason),
                Ok(()) => self.charge().map(|()| None),
            };
        }
        if id.is_multiple_of(2) {
            return Err(Reason::ProtocolError);
        }
        self.last_stream = id;
        let writer = &mut self.writer;
        writer.clear();
        let decoded = self.decoder.decode(block, |name, value| writer.field(name, value));
        decoded.map_err(|_| Reason::CompressionError)?;
        if let Leaving::Final(last) = self.leaving
            && id > last
        {
            return self.charge().map(|()| None);
        }
        if of.self_dependent {
            return self.stream_error(id, Reason::ProtocolError);
        }
        let head = match self.writer.end(of.ends) {
            Ok(()) => Ok(()),
            Err(Invalid::Rejected(rejection)) => Err(rejection),
            Err(Invalid::Malformed) => return self.stream_error(id, Reason::ProtocolError),
        };
        let Some(slot) = self.streams.open(id, self.initial_window) else {
            return self.stream_error(id, Reason::RefusedStream);
        };
        if let Some(stream) = self.streams.get_mut(slot) {
            (stream.missing, stream.is_tunnel) = (self.writer.length, self.writer.is_tunnel());
            if of.ends {
                stream.receiving = Receiving::Ended;
            }
        }
        Ok(Some(Event::Request {
            slot,
            head,
            is_head_method: self.writer.is_head_method,
            is_all: of.ends,
        }))
    }

    /// A second block ends the request. Source: RFC 9113 section 8.1.
    fn trailers(
        &mut self,
        slot: usize,
        of: Continued,
        block: &[u8],
    ) -> Result<Option<Event>, Reason> {
        let mut writer = TrailerWriter::default();
        let decoded = self.decoder.decode(block, |name, value| writer.field(name, value));
        decoded.map_err(|_| Reason::CompressionError)?;
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        match stream.receiving {
            Receiving::Open => {}
            Receiving::Ended => return self.stream_error(of.stream, Reason::StreamClosed),
            Receiving::ResetByClient => return Err(Reason::StreamClosed),
            Receiving::ResetByUs => return self.charge().map(|()| None),
        }
        let is_short = stream.missing.is_some_and(|missing| missing > 0);
        // A tunnel has no trailers. Source: RFC 9113 section 8.5.
        if !of.ends || of.self_dependent || is_short || stream.is_tunnel {
            return self.stream_error(of.stream, Reason::ProtocolError);
        }
        let lines = match writer.end() {
            Ok(lines) => Ok(lines),
            Err(Invalid::Rejected(rejection)) => Err(rejection),
            Err(Invalid::Malformed) => return self.stream_error(of.stream, Reason::ProtocolError),
        };
        stream.receiving = Receiving::Ended;
        Ok(Some(Event::Trailers { slot, lines }))
    }

    pub(super) fn priority(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        if header.stream == 0 {
            return Err(Reason::ProtocolError);
        }
        match <&[u8; 5]>::try_from(payload) {
            Ok(priority) if dependency(priority) != header.stream => Ok(None),
            Ok(_) => self.stream_error(header.stream, Reason::ProtocolError),
            Err(_) => self.stream_error(header.stream, Reason::FrameSizeError),
        }
    }

    pub(super) fn reset_stream(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        if header.stream == 0 || header.stream > self.last_stream {
            return Err(Reason::ProtocolError);
        }
        if payload.len() != 4 {
            return Err(Reason::FrameSizeError);
        }
        let Some(slot) = self.streams.find(header.stream) else { return Ok(None) };
        if self.is_reset(slot) {
            return Ok(None);
        }
        // Source: CVE-2023-44487.
        if header.stream > self.served_stream {
            self.pending_resets += 1;
            if self.pending_resets > base::limits::H2_PENDING_RESETS_MAX {
                return Err(Reason::EnhanceYourCalm);
            }
        }
        self.streams.reset(slot, Receiving::ResetByClient);
        Ok(Some(Event::Reset { slot }))
    }

    pub(super) fn settings(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        if header.stream != 0 {
            return Err(Reason::ProtocolError);
        }
        if header.has(frame::ACK) {
            return if payload.is_empty() { Ok(None) } else { Err(Reason::FrameSizeError) };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Reason::FrameSizeError);
        }
        let mut event = None;
        for [high, low, a, b, c, d] in settings {
            let value = u32::from_be_bytes([*a, *b, *c, *d]);
            match u16::from_be_bytes([*high, *low]) {
                ENABLE_PUSH if value > 1 => return Err(Reason::ProtocolError),
                INITIAL_WINDOW_SIZE => {
                    self.set_initial_window(i64::from(value))?;
                    event = Some(Event::Window);
                }
                MAX_FRAME_SIZE if !(16_384..1 << 24).contains(&value) => {
                    return Err(Reason::ProtocolError);
                }
                // The other settings do not matter: the gateway pushes nothing, uses no dynamic table, and sends no
                // larger frames.
                _ => {}
            }
        }
        frame::short(&mut self.out, code::SETTINGS, frame::ACK, 0, &[]);
        self.last_data = None;
        Ok(event)
    }

    /// Applies the client's initial window to all streams. Source: RFC 9113 section 6.9.2.
    fn set_initial_window(&mut self, window: i64) -> Result<(), Reason> {
        if window > WINDOW_MAX {
            return Err(Reason::FlowControlError);
        }
        let change = window - self.initial_window;
        self.initial_window = window;
        for stream in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > WINDOW_MAX {
                return Err(Reason::FlowControlError);
            }
        }
        Ok(())
    }

    pub(super) fn ping(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream != 0 {
            return Err(Reason::ProtocolError);
        }
        if payload.len() != 8 {
            return Err(Reason::FrameSizeError);
        }
        if !header.has(frame::ACK) {
            frame::short(&mut self.out, code::PING, frame::ACK, 0, payload);
            self.last_data = None;
        } else if self.leaving == Leaving::Announced && payload == super::connection::LEAVE_PING {
            self.leaving = Leaving::Final(self.last_stream);
            self.send_goaway(self.last_stream, Reason::NoError);
        }
        Ok(())
    }

    pub(super) fn window_update(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<Event>, Reason> {
        let increment = <[u8; 4]>::try_from(payload).map_err(|_| Reason::FrameSizeError)?;
        let increment = i64::from(u32::from_be_bytes(increment) & 0x7fff_ffff);
        if header.stream == 0 {
            if increment == 0 {
                return Err(Reason::ProtocolError);
            }
            self.send_window += increment;
            return if self.send_window > WINDOW_MAX {
                Err(Reason::FlowControlError)
            } else {
                Ok(Some(Event::Window))
            };
        }
        if header.stream > self.last_stream {
            return Err(Reason::ProtocolError);
        }
        let Some(slot) = self.streams.find(header.stream) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(slot).filter(|stream| !stream.is_reset()) else {
            return Ok(None);
        };
        if increment == 0 {
            return self.stream_error(header.stream, Reason::ProtocolError);
        }
        stream.send_window += increment;
        if stream.send_window > WINDOW_MAX {
            return self.stream_error(header.stream, Reason::FlowControlError);
        }
        Ok(Some(Event::Window))
    }
}

const ENABLE_PUSH: u16 = 2;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

/// The payload without its padding. Source: RFC 9113 section 6.2.
pub(super) fn unpadded(header: Header, payload: &[u8]) -> Result<&[u8], Reason> {
    if !header.has(frame::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(Reason::FrameSizeError)?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(Reason::ProtocolError)?;
    Ok(rest.get(..len).unwrap_or_default())
}

/// The stream that a priority refers to.
fn dependency(priority: &[u8; 5]) -> u32 {
    let [a, b, c, d, _] = *priority;
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}
