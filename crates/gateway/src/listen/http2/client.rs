//! The client's side of one stream.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use model::Fault;
use wire::h2::{self, Incoming, SendResponse};

use crate::flow::{BodyError, Source};
use crate::request::Client;
use crate::watch::Watch;

/// Sends the response. Shared, because resets are polled for during every wait of the stream.
pub(super) type Responder = RefCell<SendResponse<Bytes>>;

/// The request's body, and the client that may reset the stream.
pub(super) struct StreamClient<'a> {
    body: Incoming,
    pub(super) respond: &'a Responder,
    pub(super) watch: Rc<Watch>,
    /// Payload that was read and not consumed: at most one frame.
    piece: Bytes,
    /// Trailer lines, once `ended`.
    trailers: Vec<u8>,
    ended: bool,
    /// The client waits for a 100 before it sends its body.
    waits_for_continue: bool,
    /// Some of the body was consumed.
    touched: bool,
}

impl<'a> StreamClient<'a> {
    pub(super) fn new(body: Incoming, respond: &'a Responder, watch: Rc<Watch>) -> Self {
        Self {
            body,
            respond,
            watch,
            piece: Bytes::new(),
            trailers: Vec::new(),
            ended: false,
            waits_for_continue: false,
            touched: false,
        }
    }

    /// Whether the request has no body.
    pub(super) fn has_no_body(&self) -> bool {
        self.body.is_end()
    }

    pub(super) fn expect_continue(&mut self, waits: bool) {
        self.waits_for_continue = waits;
    }
}

impl Source for StreamClient<'_> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if std::mem::take(&mut self.waits_for_continue) {
            // If the client is gone, reading its body fails.
            let _ = h2::send_continue(&mut self.respond.borrow_mut());
        }
        while self.piece.is_empty() && !self.ended {
            match ready!(self.body.poll_next(cx)) {
                Some(Ok(piece)) => self.piece = piece,
                Some(Err(_)) => return Poll::Ready(Err(BodyError::Closed)),
                None => {
                    let trailers = ready!(self.body.poll_trailers(cx));
                    if let Some(trailers) = trailers.map_err(|_| BodyError::Closed)? {
                        h2::trailer_lines(&mut self.trailers, &trailers)
                            .map_err(BodyError::Malformed)?;
                    }
                    self.ended = true;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.piece
    }

    fn consume(&mut self, count: usize) {
        self.touched = true;
        self.piece.advance(count.min(self.piece.len()));
    }

    fn trailers(&self) -> &[u8] {
        &self.trailers
    }
}

impl Client for StreamClient<'_> {
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        self.respond.borrow_mut().poll_reset(cx).map(|_| Fault::ClientLeft)
    }

    fn is_untouched(&self) -> bool {
        !self.touched
    }

    fn watch(&self) -> &Watch {
        &self.watch
    }

    /// HTTP/2 has no half-closed clients: ending the request is normal, and one that is gone resets.
    fn has_half_closed(&self) -> bool {
        false
    }
}
