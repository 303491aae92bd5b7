//! The caller's side of one stream, as the other rooms see it.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use model::Fault;
use wire::h2::{self, Incoming, SendResponse};

use crate::flow::{BodyError, Source};
use crate::request::Client;
use crate::watch::Watch;

/// The way back to the caller. It is asked for resets whatever else the stream waits for, so it
/// cannot belong to one waiter.
pub(super) type Responder = RefCell<SendResponse<Bytes>>;

/// A request's body, and someone who may reset the stream.
pub(super) struct StreamClient<'a> {
    body: Incoming,
    pub(super) respond: &'a Responder,
    pub(super) watch: Rc<Watch>,
    /// What is read and not handed on: at most a frame.
    piece: Bytes,
    /// Trailer lines, once `ended`.
    trailers: Vec<u8>,
    ended: bool,
    /// The caller sends its body when it is told to go on.
    waits_for_continue: bool,
    /// Something of the body was handed on.
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

    /// Whether the head is all there is.
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
            // A caller that is gone shows when its body is read.
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

    /// A stream has its own end of the request; one that is gone was reset.
    fn has_half_closed(&self) -> bool {
        false
    }
}
