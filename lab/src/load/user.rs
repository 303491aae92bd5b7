//! A user: a connection that sends one request after another as scheduled, until the measured time is over.
//!
//! In a closed loop, the end of a request is the start of the next one, so the clock is read once per
//! request. A request that has to connect includes the time to connect.
//!
//! In the common case a request costs one write and one read system call and no allocation. Requests have no timers of
//! their own: [`TimeoutSlot`] holds the start of the request in flight, and the thread's sweep ends requests that
//! exceed the timeout.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use base::SystemClock;

use crate::limits;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use wire::stream::Stream;

use crate::load::next_request::{Decision, NextRequest, ScheduledStart};
use crate::load::request::Prepared;
use crate::load::response::{Outcome, ReadState, ResponseReader};
use crate::load::scenario::Session;
use crate::load::shape::IdleUser;
use crate::load::statistics::{Detail, Sample, Traffic};
use crate::load::thread_state::{Plan, READ_BUFFER, ThreadState, TimeoutSlot};
use crate::load::us;
use crate::load::wake_timer::WakeTimer;
use crate::load::websocket::MessageReader;

pub(crate) struct User {
    pub(crate) plan: Arc<Plan>,
    pub(crate) state: Arc<ThreadState>,
    pub(crate) slot: Arc<TimeoutSlot>,
    pub(crate) wake_timer: Arc<WakeTimer>,
    /// Index among all users of the measurement.
    pub(crate) index: usize,
}

/// Kept from one request to the next.
struct UserConnection {
    stream: Option<Stream>,
    reader: ResponseReader,
    session: Option<Session>,
    /// With WebSocket messages.
    messages: Option<MessageReader>,
}

/// How a request ended.
struct RequestEnd {
    outcome: Outcome,
    keep: bool,
    bytes: Traffic,
    /// On the measurement's clock; 0 if not recorded.
    first_byte_us: u64,
}

impl RequestEnd {
    const fn failed(outcome: Outcome, bytes: Traffic) -> Self {
        Self { outcome, keep: false, bytes, first_byte_us: 0 }
    }
}

impl User {
    /// Sends requests until the measured time is over.
    pub(crate) async fn run(self) {
        std::future::poll_fn(|cx| {
            self.slot.set_waker(cx.waker());
            Poll::Ready(())
        })
        .await;
        let reader = ResponseReader::new(self.plan.prepared.method, self.plan.expect.as_deref());
        let session = self.plan.session(self.index);
        let expect = self.plan.expect.as_deref();
        let messages = self.plan.websocket.as_ref().map(|_| MessageReader::new(expect));
        let mut connection = UserConnection { stream: None, reader, session, messages };
        let mut free = IdleUser { user: self.index, made: 0, since_us: self.plan.now_us() };
        while let Some(start) = self.start(free, connection.session.as_ref()).await {
            if free.made == 0 {
                self.plan.begun.fetch_add(1, Ordering::Relaxed);
            }
            free.made += 1;
            free.since_us = self.run_request(&mut connection, start).await;
            let skips_many = free.made.is_multiple_of(limits::LOAD_UNSENT_AT_ONCE as u64);
            if skips_many && free.since_us == start.start_us {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits for the user's next request; `None` if there is none in the measured time.
    async fn start(&self, free: IdleUser, session: Option<&Session>) -> Option<ScheduledStart> {
        let (state, window) = (&self.state, &self.plan.window);
        let think = session.and_then(Session::think);
        let request = NextRequest::schedule(free, think, state, window)?;
        let mut now_us = free.since_us;
        loop {
            match request.decide(now_us, us(self.plan.timeout), state, window) {
                Decision::Start(start) => return Some(start),
                Decision::End => return None,
                Decision::Wait(at_us) => self.wake_timer.sleep_until(at_us).await,
            }
            now_us = self.plan.now_us();
        }
    }

    /// Makes one request, or skips it if it is overdue, and records it. Returns the time at which the user is idle
    /// again.
    async fn run_request(&self, connection: &mut UserConnection, start: ScheduledStart) -> u64 {
        let ScheduledStart { from_us, start_us, queued, is_overdue } = start;
        let measured = self.plan.window.measures(from_us);
        let mut detail = Detail {
            user: self.index,
            users: self.plan.begun.load(Ordering::Relaxed),
            ..Detail::default()
        };
        let unsent = |outcome| {
            let unsent = RequestEnd::failed(outcome, Traffic::default());
            (RequestEnd { keep: true, ..unsent }, start_us)
        };
        let (ended, end_us) = if is_overdue {
            unsent(Outcome::Unsent)
        } else if !connection.session.as_mut().is_none_or(|session| session.next(&self.state)) {
            unsent(Outcome::Extract)
        } else {
            let ended = self.exchange(connection, start_us, &mut detail).await;
            (ended, self.plan.now_us())
        };
        detail.first_byte_us = ended.first_byte_us;
        let RequestEnd { mut outcome, bytes, .. } = ended;
        if let Some(session) = &mut connection.session {
            if !is_overdue {
                outcome = session.finish(outcome, detail.status, connection.reader.captured());
            }
            detail.request = (!is_overdue).then(|| session.request());
        }
        let sample = Sample { from_us, start_us, end_us, outcome, bytes, queued, detail };
        self.state.record(measured, &sample);
        if !ended.keep || self.plan.connection_per_request {
            connection.stream = None;
        }
        // A server that rejects WebSockets is not flooded either.
        let is_refused = outcome == Outcome::Connect
            || self.plan.websocket.is_some()
                && connection.stream.is_none()
                && detail.connect_us == 0;
        if !is_refused && (outcome != Outcome::Extract || end_us != start_us) {
            return end_us;
        }
        self.wake_timer.sleep_until(end_us.saturating_add(limits::LOAD_RECONNECT_MS * 1_000)).await;
        self.plan.now_us()
    }

    /// Opens a connection, and a WebSocket on it if wanted.
    async fn open(&self) -> Result<Stream, Outcome> {
        let mut stream = self.plan.connector.open().await.map_err(|_| Outcome::Connect)?;
        if let Some((handshake, request)) = &self.plan.websocket {
            let turn = self.state.next_token();
            handshake.open(&mut stream, request, turn).await?;
        }
        Ok(stream)
    }

    async fn exchange(
        &self,
        connection: &mut UserConnection,
        start_us: u64,
        detail: &mut Detail,
    ) -> RequestEnd {
        let is_new = connection.stream.is_none();
        let mut stream = match connection.stream.take() {
            Some(stream) => stream,
            None => match tokio::time::timeout(self.plan.timeout, self.open()).await {
                Ok(Ok(stream)) => {
                    detail.connect_us = self.plan.now_us().saturating_sub(start_us);
                    stream
                }
                Ok(Err(outcome)) => return RequestEnd::failed(outcome, Traffic::default()),
                Err(_) => return RequestEnd::failed(Outcome::Timeout, Traffic::default()),
            },
        };
        if let Some(messages) = &mut connection.messages {
            messages.restart(is_new);
            let pong = self.plan.websocket.as_ref().and_then(|(own, _)| messages.pong(own));
            if let Some(pong) = pong
                && !matches!(
                    tokio::time::timeout(self.plan.timeout, stream.write_all(&pong)).await,
                    Ok(Ok(()))
                )
            {
                return RequestEnd::failed(Outcome::Write, Traffic::default());
            }
        }
        let prepared = match &connection.session {
            None => {
                connection.reader.restart();
                &*self.plan.prepared
            }
            Some(session) => {
                let method = session.prepared().method;
                connection.reader.restart_for(method, session.search(), session.capture());
                session.prepared()
            }
        };
        let turn = self.state.next_token();
        let mut in_flight = InFlight {
            prepared,
            slot: &self.slot,
            stream: &mut stream,
            reader: match &mut connection.messages {
                None => Reader::Response(&mut connection.reader),
                Some(messages) => Reader::Message(messages),
            },
            first_byte_clock: self.state.detailed.then_some(&self.plan.clock),
            first_byte_us: 0,
            turn,
            length: prepared.len(turn),
            written: 0,
            flushed: false,
            broken: false,
        };
        self.slot.begin(start_us);
        let ended = std::future::poll_fn(|cx| in_flight.poll(cx)).await;
        self.slot.end();
        detail.status = connection.reader.status();
        connection.stream = Some(stream);
        ended
    }
}

/// Reader of the response.
enum Reader<'a> {
    Response(&'a mut ResponseReader),
    Message(&'a mut MessageReader),
}

impl Reader<'_> {
    fn feed(&mut self, bytes: &[u8]) -> ReadState {
        match self {
            Self::Response(reader) => reader.feed(bytes),
            Self::Message(reader) => match reader.feed(bytes) {
                None => ReadState::More,
                Some(outcome) => ReadState::Over {
                    outcome,
                    keep: matches!(outcome, Outcome::Good | Outcome::BodyMismatch),
                },
            },
        }
    }

    fn end(&mut self) -> ReadState {
        match self {
            Self::Response(reader) => reader.end(),
            Self::Message(_) => ReadState::Over { outcome: Outcome::Closed, keep: false },
        }
    }

    fn received(&self) -> u64 {
        match self {
            Self::Response(reader) => reader.received(),
            Self::Message(reader) => reader.received(),
        }
    }
}

/// A request in flight on a connection.
struct InFlight<'a> {
    prepared: &'a Prepared,
    slot: &'a TimeoutSlot,
    stream: &'a mut Stream,
    reader: Reader<'a>,
    /// The clock to record the first byte's time with, if required.
    first_byte_clock: Option<&'a SystemClock>,
    first_byte_us: u64,
    turn: usize,
    length: usize,
    written: usize,
    flushed: bool,
    /// Writing failed; a response may explain why.
    broken: bool,
}

impl InFlight<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RequestEnd> {
        if self.slot.is_expired() {
            return Poll::Ready(self.failed(Outcome::Timeout));
        }
        // A response may arrive before the request has been written completely.
        if !self.flushed && !self.broken {
            self.broken = matches!(self.poll_write(cx), Poll::Ready(Err(_)));
        }
        loop {
            let reading = match self.poll_read(cx) {
                Poll::Ready(reading) => reading,
                Poll::Pending => return Poll::Pending,
            };
            if let ReadState::Over { outcome, keep } = reading {
                // A connection with a partly written request cannot be reused.
                let keep = keep && self.flushed;
                let (bytes, first_byte_us) = (self.bytes(), self.first_byte_us);
                return Poll::Ready(RequestEnd { outcome, keep, bytes, first_byte_us });
            }
        }
    }

    /// Ready when everything is written, or on an error.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.length {
            let rest = self.prepared.rest(self.turn, self.written);
            match Pin::new(&mut *self.stream).poll_write_vectored(cx, &rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        match Pin::new(&mut *self.stream).poll_flush(cx) {
            Poll::Ready(result) => {
                self.flushed = result.is_ok();
                Poll::Ready(result)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<ReadState> {
        READ_BUFFER.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => Poll::Ready(self.ended()),
                Poll::Ready(Ok(())) => {
                    if let Some(clock) = self.first_byte_clock.take() {
                        self.first_byte_us = clock.now_us();
                    }
                    Poll::Ready(self.reader.feed(buffer.filled()))
                }
                Poll::Ready(Err(_)) => Poll::Ready(self.ended()),
            }
        })
    }

    /// The connection has ended. A previous write error takes precedence.
    fn ended(&mut self) -> ReadState {
        let reading = self.reader.end();
        if let ReadState::Over { outcome: Outcome::Closed, keep } = reading
            && self.broken
        {
            return ReadState::Over { outcome: Outcome::Write, keep };
        }
        reading
    }

    fn failed(&self, outcome: Outcome) -> RequestEnd {
        let first_byte_us = self.first_byte_us;
        RequestEnd { first_byte_us, ..RequestEnd::failed(outcome, self.bytes()) }
    }

    fn bytes(&self) -> Traffic {
        Traffic { sent: self.written as u64, received: self.reader.received() }
    }
}
