//! An HTTP/2 connection of the echo backend. One task serves the connection and its streams.
//!
//! A request gets its own body when it is complete. The messages of a gRPC call are returned as they arrive, regardless
//! of frames, and the call's status is 0.

use std::io;
use std::iter;
use std::time::Duration;

use base::SystemClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::h2::{self, Event, head_block, trailer_block};
use wire::http1::{Known, Parsed, RequestHead};
use wire::stream::Stream;

use super::{Asked, Counts, INPUT_BYTES};
use crate::limits;

/// Memory that a slot keeps for the body of its next request.
const KEPT_BYTES: usize = 16 * INPUT_BYTES;

pub(super) struct Connection<'a> {
    stream: Stream,
    delay_us: u64,
    counts: &'a Counts,
    clock: SystemClock,
    engine: h2::Connection,
    /// Bytes read and not used yet.
    input: Vec<u8>,
    /// Exchanges in progress, by slot.
    exchanges: Vec<Exchange>,
    /// The slots of requests in progress.
    open: Vec<usize>,
    head: RequestHead,
    /// The head's bytes.
    text: Vec<u8>,
    /// The encoded fields of a response.
    block: Vec<u8>,
}

/// A request and its response. The next exchange in the same slot uses its memory again.
#[derive(Default)]
struct Exchange {
    asked: Asked,
    is_grpc: bool,
    is_head_method: bool,
    content_type: Vec<u8>,
    body: Vec<u8>,
    /// Bytes of the body that were sent.
    sent: usize,
    /// The request is complete.
    is_complete: bool,
    /// The response may begin.
    due_us: u64,
    has_begun: bool,
}

impl<'a> Connection<'a> {
    /// `input`: bytes already read from `stream`.
    pub(super) fn new(stream: Stream, input: Vec<u8>, delay: Duration, counts: &'a Counts) -> Self {
        Self {
            stream,
            delay_us: u64::try_from(delay.as_micros()).unwrap_or(u64::MAX),
            counts,
            clock: SystemClock::new(),
            engine: h2::Connection::new(),
            input,
            exchanges: Vec::new(),
            open: Vec::new(),
            head: RequestHead::default(),
            text: Vec::new(),
            block: Vec::new(),
        }
    }

    /// Serves requests until the client closes the connection, or breaks the protocol.
    pub(super) async fn run(mut self) -> io::Result<()> {
        loop {
            self.receive();
            let due_us = self.respond();
            let output = self.engine.output();
            let length = output.len();
            if length > 0 {
                self.stream.write_all(output).await?;
                self.stream.flush().await?;
                // There is room for more.
                self.engine.written(length);
            } else if self.engine.has_failed() || !self.read(due_us).await? {
                return self.stream.shutdown().await;
            }
        }
    }

    /// Waits for bytes, or until the next response is due. `false`: the client has closed the connection.
    async fn read(&mut self, due_us: Option<u64>) -> io::Result<bool> {
        self.input.reserve(INPUT_BYTES);
        let read = self.stream.read_buf(&mut self.input);
        let Some(due_us) = due_us else { return Ok(read.await? > 0) };
        let left = Duration::from_micros(due_us.saturating_sub(self.clock.now_us()));
        match tokio::time::timeout(left, read).await {
            Ok(read) => Ok(read? > 0),
            Err(_) => Ok(true),
        }
    }

    /// Processes the received bytes.
    fn receive(&mut self) {
        let input = std::mem::take(&mut self.input);
        let mut unread = &*input;
        self.engine.refill(self.clock.now_us());
        // An error is in the output, as GOAWAY.
        while let Ok(step) = self.engine.receive(unread)
            && (step.used > 0 || step.event.is_some())
        {
            if let Some(event) = step.event {
                self.event(event, unread);
            }
            unread = unread.get(step.used..).unwrap_or_default();
        }
        self.engine.served();
        let used = input.len() - unread.len();
        self.input = input;
        self.input.drain(..used);
    }

    fn event(&mut self, event: Event, input: &[u8]) {
        match event {
            Event::Request { slot, head, is_head_method, is_all } => match head {
                Ok(()) if self.begin(slot, is_head_method) => {
                    if is_all {
                        self.complete(slot);
                    }
                }
                Ok(()) => self.reject(slot, 400),
                Err(rejection) => self.reject(slot, rejection.status),
            },
            Event::Data { slot, at } => {
                let Some(exchange) = self.exchanges.get_mut(slot) else { return };
                let length = at.len();
                exchange.body.extend_from_slice(input.get(at).unwrap_or_default());
                if exchange.is_grpc {
                    // The window of a call opens as its messages are returned.
                    return;
                }
                self.engine.consumed(slot, length);
                if exchange.body.len() > limits::ECHO_BODY_BYTES_MAX {
                    self.reject(slot, 413);
                }
            }
            Event::End { slot } | Event::Trailers { slot, .. } => self.complete(slot),
            Event::Reset { slot } => self.end(slot),
            Event::Window => {}
        }
    }

    /// Reads a request's head. `false`: it is invalid.
    fn begin(&mut self, slot: usize, is_head_method: bool) -> bool {
        self.engine.swap_head(&mut self.text);
        if self.head.parse(&self.text).ok() != Some(Parsed::Complete) {
            return false;
        }
        if self.exchanges.len() <= slot {
            self.exchanges.resize_with(slot + 1, Exchange::default);
        }
        let Some(exchange) = self.exchanges.get_mut(slot) else { return false };
        let content_type = self.head.find(Known::ContentType);
        exchange.content_type.clear();
        exchange.content_type.extend(content_type.iter().flat_map(|f| f.value.of(&self.text)));
        exchange.body.clear();
        exchange.body.shrink_to(KEPT_BYTES);
        *exchange = Exchange {
            asked: Asked::of(&self.head, &self.text),
            is_grpc: exchange.content_type.starts_with(b"application/grpc"),
            is_head_method,
            content_type: std::mem::take(&mut exchange.content_type),
            body: std::mem::take(&mut exchange.body),
            due_us: self.clock.now_us().saturating_add(self.delay_us),
            ..Exchange::default()
        };
        self.open.push(slot);
        true
    }

    /// The request's body is complete.
    fn complete(&mut self, slot: usize) {
        let Some(exchange) = self.exchanges.get_mut(slot) else { return };
        exchange.is_complete = true;
        if exchange.asked == Asked::Echo {
            self.counts.add(1);
        }
        if exchange.is_grpc {
            return;
        }
        exchange.due_us = self.clock.now_us().saturating_add(self.delay_us);
        if let Some(own) = exchange.asked.own_body(self.counts) {
            own.as_bytes().clone_into(&mut exchange.body);
        }
        if let Some(own) = exchange.asked.own_content_type() {
            own.clone_into(&mut exchange.content_type);
        }
    }

    /// Sends all that the window allows. Returns when the next response is due, if one has to wait.
    fn respond(&mut self) -> Option<u64> {
        let mut next_us = None;
        let open = std::mem::take(&mut self.open);
        let now_us = self.clock.now_us();
        for slot in open {
            let Some(exchange) = self.exchanges.get_mut(slot) else { continue };
            let is_ready = exchange.is_complete || exchange.is_grpc && !exchange.body.is_empty();
            if is_ready && exchange.due_us > now_us {
                next_us = Some(next_us.unwrap_or(u64::MAX).min(exchange.due_us));
            }
            if is_ready
                && exchange.due_us <= now_us
                && exchange.send(slot, &mut self.engine, &mut self.block)
            {
                self.engine.close(slot);
            } else {
                self.open.push(slot);
            }
        }
        next_us
    }

    fn reject(&mut self, slot: usize, status: u16) {
        self.block.clear();
        if head_block(&mut self.block, status, iter::empty(), Some(0)).is_ok() {
            self.engine.send_head(slot, &self.block, true);
        }
        self.end(slot);
    }

    fn end(&mut self, slot: usize) {
        self.open.retain(|open| *open != slot);
        self.engine.close(slot);
    }
}

impl Exchange {
    /// Sends as much as the client allows. `true`: the response is complete.
    fn send(&mut self, slot: usize, engine: &mut h2::Connection, block: &mut Vec<u8>) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            let length = (!self.is_grpc).then_some(self.body.len() as u64);
            let field = Some((&b"content-type"[..], &*self.content_type));
            let fields = field.filter(|(_, value)| !value.is_empty()).into_iter();
            let is_all = length == Some(0) || self.is_head_method;
            block.clear();
            if head_block(block, 200, fields, length).is_ok() {
                engine.send_head(slot, block, is_all);
            }
            if is_all {
                return true;
            }
        }
        while let rest @ [_, ..] = self.body.get(self.sent..).unwrap_or_default() {
            let count = engine.send_data(slot, rest);
            if count == 0 {
                self.body.drain(..self.sent);
                self.sent = 0;
                return false;
            }
            self.sent += count;
            if self.is_grpc {
                engine.consumed(slot, count);
            }
        }
        if !self.is_complete {
            self.body.clear();
            self.sent = 0;
            return false;
        }
        if self.is_grpc {
            block.clear();
            if trailer_block(block, b"grpc-status: 0\r\n").is_ok() {
                engine.send_trailers(slot, block);
            }
        } else {
            engine.finish(slot);
        }
        true
    }
}
