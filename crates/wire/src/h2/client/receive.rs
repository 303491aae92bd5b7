//! Processes the server's frames.

use base::limits::{
    H2_BLOCK_BYTES_MAX, H2_RESPONSE_CONNECTION_WINDOW_BYTES, H2_RESPONSE_WINDOW_BYTES,
    H2_TABLE_BYTES_MAX, INTERIM_RESPONSES_MAX,
};

use super::response::HeadReader;
use super::{Client, ClientEvent, ClientStep, State, Table};
use crate::h2::connection::{Continued, Payload};
use crate::h2::frame::{
    self, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, Reason, WINDOW_MAX, code,
};
use crate::h2::receive::unpadded;

impl Client {
    /// Processes the next piece of input from the server: `input` holds all bytes received and not yet used. Call this
    /// until it returns neither used bytes nor an event; then more bytes are needed. The input must be able to hold a
    /// whole frame of any kind other than DATA.
    ///
    /// # Errors
    /// The server broke the protocol; the connection cannot be used any more.
    pub fn receive(&mut self, input: &[u8]) -> Result<ClientStep, Reason> {
        let step = self.step(input);
        if step.is_err() {
            self.state = State::Failed;
        }
        step
    }

    fn step(&mut self, input: &[u8]) -> Result<ClientStep, Reason> {
        if let Some(kept) = &mut self.kept_fields {
            kept.clear();
        }
        if let Some(payload) = self.payload {
            return Ok(self.data_part(payload, input));
        }
        let Some(header) = Header::read(input) else { return Ok(ClientStep::NEED_MORE) };
        if header.len > PAYLOAD_BYTES_MAX {
            return Err(Reason::FrameSizeError);
        }
        if self.state == State::FirstFrame {
            if header.kind != Kind::Settings || header.has(frame::ACK) {
                return Err(Reason::ProtocolError);
            }
        } else if self.state == State::Failed {
            return Ok(ClientStep { used: input.len(), event: None });
        }
        let continued = self.continued.map(|continued| (Kind::Continuation, continued.stream));
        if continued.is_some_and(|expected| expected != (header.kind, header.stream)) {
            return Err(Reason::ProtocolError);
        }
        let after = input.get(HEADER_BYTES..).unwrap_or_default();
        if header.kind == Kind::Data {
            return self.data(header, after);
        }
        let Some(payload) = after.get(..header.len) else { return Ok(ClientStep::NEED_MORE) };
        let event = self.frame(header, payload)?;
        Ok(ClientStep { used: HEADER_BYTES + header.len, event })
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> Result<Option<ClientEvent>, Reason> {
        match header.kind {
            Kind::Headers => self.headers(header, payload),
            Kind::Continuation => self.continuation(header, payload),
            Kind::ResetStream => self.reset_by_server(header, payload),
            Kind::Settings => self.settings(header, payload).map(|()| None),
            Kind::Ping => self.ping(header, payload).map(|()| None),
            Kind::GoAway => self.go_away(header, payload).map(Some),
            Kind::WindowUpdate => self.window_update(header, payload),
            Kind::PushPromise | Kind::Data => Err(Reason::ProtocolError),
            Kind::Priority | Kind::Unknown => Ok(None),
        }
    }

    /// Rejects frames of streams that were never opened.
    fn check_stream(&self, id: u32) -> Result<(), Reason> {
        let is_known = !id.is_multiple_of(2) && id < self.next_id;
        if is_known { Ok(()) } else { Err(Reason::ProtocolError) }
    }

    fn data(&mut self, header: Header, after: &[u8]) -> Result<ClientStep, Reason> {
        self.check_stream(header.stream)?;
        let (mut padding, mut skip) = (0, 0);
        if header.has(frame::PADDED) {
            if header.len == 0 {
                return Err(Reason::FrameSizeError);
            }
            let Some(count) = after.first() else { return Ok(ClientStep::NEED_MORE) };
            (padding, skip) = (usize::from(*count), 1);
        }
        let left = header.len.checked_sub(skip + padding).ok_or(Reason::ProtocolError)?;
        self.return_window(header);
        let ends = header.has(frame::END_STREAM);
        let payload = Payload { stream: header.stream, left, padding, ends };
        let skip = HEADER_BYTES + skip;
        let mut step =
            self.data_part(payload, after.get(skip - HEADER_BYTES..).unwrap_or_default());
        step.used += skip;
        if let Some(ClientEvent::Data { at, .. }) = &mut step.event {
            *at = at.start + skip..at.end + skip;
        }
        Ok(step)
    }

    /// Returns flow-control credit for a DATA frame, in steps: the caller consumes data immediately.
    fn return_window(&mut self, header: Header) {
        self.unreturned += header.len;
        if self.unreturned >= H2_RESPONSE_CONNECTION_WINDOW_BYTES as usize / 2 {
            let increment = std::mem::take(&mut self.unreturned);
            self.send_window_update(0, increment);
        }
        let Some(stream) = self.find(header.stream).and_then(|slot| self.streams.get_mut(slot))
        else {
            return;
        };
        stream.received += (HEADER_BYTES + header.len) as u64;
        stream.unreturned += header.len;
        if stream.unreturned >= H2_RESPONSE_WINDOW_BYTES as usize / 2 && !stream.has_ended {
            let increment = std::mem::take(&mut stream.unreturned);
            self.send_window_update(header.stream, increment);
        }
    }

    /// The next part of a DATA frame's payload and padding.
    fn data_part(&mut self, mut payload: Payload, input: &[u8]) -> ClientStep {
        let take = payload.left.min(input.len());
        payload.left -= take;
        let padding = payload.padding.min(input.len() - take);
        payload.padding -= padding;
        let is_complete = payload.left == 0 && payload.padding == 0;
        self.payload = (!is_complete).then_some(payload);
        let ends = is_complete && payload.ends;
        let event = if take > 0 || ends { self.body(payload.stream, 0..take, ends) } else { None };
        ClientStep { used: take + padding, event }
    }

    fn body(&mut self, id: u32, at: std::ops::Range<usize>, ends: bool) -> Option<ClientEvent> {
        let slot = self.find(id)?;
        let stream = self.streams.get_mut(slot)?;
        if stream.has_ended || !stream.has_head {
            return self.malformed(slot);
        }
        stream.body = stream.body.saturating_add(at.len() as u64);
        let announced = stream.announced.unwrap_or(stream.body);
        if stream.body > announced || ends && stream.body < announced {
            return self.malformed(slot);
        }
        stream.has_ended = ends;
        Some(ClientEvent::Data { slot, at, ends })
    }

    fn headers(&mut self, header: Header, payload: &[u8]) -> Result<Option<ClientEvent>, Reason> {
        self.check_stream(header.stream)?;
        let mut block = unpadded(header, payload)?;
        if header.has(frame::PRIORITY_FLAG) {
            block = block.get(5..).ok_or(Reason::FrameSizeError)?;
        }
        self.count(header);
        let (stream, ends) = (header.stream, header.has(frame::END_STREAM));
        if header.has(frame::END_HEADERS) {
            return self.head(stream, ends, block);
        }
        self.block.clear();
        self.continued = Some(Continued { stream, ends, self_dependent: false });
        self.keep_block(block)?;
        Ok(None)
    }

    fn continuation(&mut self, header: Header, part: &[u8]) -> Result<Option<ClientEvent>, Reason> {
        let continued = self.continued.ok_or(Reason::ProtocolError)?;
        // An empty frame would cost nothing and could be repeated for ever.
        if part.is_empty() && !header.has(frame::END_HEADERS) {
            return Err(Reason::EnhanceYourCalm);
        }
        self.keep_block(part)?;
        self.count(header);
        if !header.has(frame::END_HEADERS) {
            return Ok(None);
        }
        self.continued = None;
        let block = std::mem::take(&mut self.block);
        self.head(continued.stream, continued.ends, &block)
    }

    fn keep_block(&mut self, part: &[u8]) -> Result<(), Reason> {
        if self.block.len().saturating_add(part.len()) > H2_BLOCK_BYTES_MAX {
            return Err(Reason::EnhanceYourCalm);
        }
        self.block.extend_from_slice(part);
        Ok(())
    }

    fn count(&mut self, header: Header) {
        if let Some(stream) = self.find(header.stream).and_then(|slot| self.streams.get_mut(slot)) {
            stream.received += (HEADER_BYTES + header.len) as u64;
        }
    }

    /// A complete header block. It is decoded even if its stream is gone, since it changes the dynamic table.
    fn head(&mut self, id: u32, ends: bool, block: &[u8]) -> Result<Option<ClientEvent>, Reason> {
        let mut head = HeadReader::default();
        let kept = &mut self.kept_fields;
        let decoded = self.decoder.decode(block, |name, value| {
            head.field(name, value);
            if let Some(kept) = kept.as_mut() {
                kept.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
            }
        });
        decoded.map_err(|_| Reason::CompressionError)?;
        let Some(slot) = self.find(id) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        if stream.has_ended {
            return Ok(self.malformed(slot));
        }
        if stream.has_head {
            let are_valid = ends && head.are_trailers();
            return Ok(if are_valid { self.body(id, 0..0, true) } else { self.malformed(slot) });
        }
        let Some((status, length)) = head.head() else { return Ok(self.malformed(slot)) };
        if status < 200 {
            stream.interim += 1;
            let is_valid = !ends && status != 101 && stream.interim <= INTERIM_RESPONSES_MAX;
            return Ok(if is_valid { None } else { self.malformed(slot) });
        }
        stream.has_head = true;
        stream.announced = length.filter(|_| !stream.is_head_method && status != 304);
        if ends && stream.announced.is_some_and(|length| length > 0) {
            return Ok(self.malformed(slot));
        }
        stream.has_ended = ends;
        Ok(Some(ClientEvent::Head { slot, status, ends }))
    }

    /// Resets the stream of an invalid response, unless it is complete or was reset.
    fn malformed(&mut self, slot: usize) -> Option<ClientEvent> {
        if self.streams.get(slot).is_none_or(|stream| stream.has_ended) {
            return None;
        }
        self.reset(slot, Reason::ProtocolError);
        Some(ClientEvent::Malformed { slot })
    }

    fn reset_by_server(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<ClientEvent>, Reason> {
        self.check_stream(header.stream)?;
        if payload.len() != 4 {
            return Err(Reason::FrameSizeError);
        }
        self.count(header);
        let Some(slot) = self.find(header.stream) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        // After a complete response, a reset only stops the rest of the request. Source: RFC 9113 section 8.1.
        let was_complete = std::mem::replace(&mut stream.has_ended, true);
        stream.unsent = 0;
        Ok((!was_complete).then_some(ClientEvent::Reset { slot }))
    }

    fn settings(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream != 0 {
            return Err(Reason::ProtocolError);
        }
        if header.has(frame::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Reason::FrameSizeError) };
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Reason::FrameSizeError);
        }
        for [high, low, a, b, c, d] in settings {
            let value = u32::from_be_bytes([*a, *b, *c, *d]);
            match u16::from_be_bytes([*high, *low]) {
                1 => self.resize_table(value),
                3 => self.streams_max = value,
                4 => self.set_initial_window(i64::from(value))?,
                5 if !(16_384..1 << 24).contains(&value) => return Err(Reason::ProtocolError),
                _ => {}
            }
        }
        self.state = State::Open;
        frame::short(&mut self.out, code::SETTINGS, frame::ACK, 0, &[]);
        Ok(())
    }

    /// Adapts to the size of the server's dynamic table. Source: RFC 7541 section 4.2.
    fn resize_table(&mut self, bytes_max: u32) {
        let bytes_max = (bytes_max as usize).min(H2_TABLE_BYTES_MAX);
        if bytes_max == self.table_bytes_max {
            return;
        }
        if self.table == Table::Filled && bytes_max < self.fields.table_bytes {
            self.table = Table::TooSmall;
        }
        (self.table_bytes_max, self.is_resized) = (bytes_max, true);
    }

    fn set_initial_window(&mut self, window: i64) -> Result<(), Reason> {
        if window > WINDOW_MAX {
            return Err(Reason::FlowControlError);
        }
        let change = window - self.initial_window;
        self.initial_window = window;
        for stream in &mut self.streams {
            stream.send_window += change;
            if stream.send_window > WINDOW_MAX {
                return Err(Reason::FlowControlError);
            }
        }
        Ok(())
    }

    fn ping(&mut self, header: Header, payload: &[u8]) -> Result<(), Reason> {
        if header.stream != 0 {
            return Err(Reason::ProtocolError);
        }
        if payload.len() != 8 {
            return Err(Reason::FrameSizeError);
        }
        if !header.has(frame::ACK) {
            frame::short(&mut self.out, code::PING, frame::ACK, 0, payload);
        }
        Ok(())
    }

    fn go_away(&mut self, header: Header, payload: &[u8]) -> Result<ClientEvent, Reason> {
        if header.stream != 0 {
            return Err(Reason::ProtocolError);
        }
        let last = payload.first_chunk::<4>().filter(|_| payload.len() >= 8);
        let last = u32::from_be_bytes(*last.ok_or(Reason::FrameSizeError)?) & 0x7fff_ffff;
        self.is_leaving = true;
        self.last_id = self.last_id.min(last);
        Ok(ClientEvent::GoAway)
    }

    fn window_update(
        &mut self,
        header: Header,
        payload: &[u8],
    ) -> Result<Option<ClientEvent>, Reason> {
        let increment = <[u8; 4]>::try_from(payload).map_err(|_| Reason::FrameSizeError)?;
        let increment = i64::from(u32::from_be_bytes(increment) & 0x7fff_ffff);
        if header.stream == 0 {
            self.send_window += increment;
            let is_valid = increment > 0 && self.send_window <= WINDOW_MAX;
            return if is_valid { Ok(None) } else { Err(Reason::FlowControlError) };
        }
        self.check_stream(header.stream)?;
        let Some(slot) = self.find(header.stream) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(slot) else { return Ok(None) };
        stream.send_window += increment;
        if increment == 0 || stream.send_window > WINDOW_MAX {
            return Ok(self.malformed(slot));
        }
        Ok(None)
    }
}
