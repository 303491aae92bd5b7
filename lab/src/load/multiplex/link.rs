//! The connection of [`Multiplexed`]: opening, reading, writing.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use wire::h2::client::Client;
use wire::stream::Stream;

use super::{Multiplexed, Phase};
use crate::limits;
use crate::load::response::Outcome;
use crate::load::thread_state::{Plan, READ_BUFFER};

type Connecting = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

pub(super) enum Link {
    Closed,
    Connecting { stream: Connecting, since_us: u64 },
    Open(Box<Open>),
}

pub(super) struct Open {
    stream: Stream,
    pub(super) client: Client,
    /// Received bytes of an incomplete frame.
    unread: Vec<u8>,
    /// A response was received.
    pub(super) has_served: bool,
    /// Writing failed; a response may explain why.
    is_broken: bool,
    /// Written bytes may still be in the TLS session.
    is_unflushed: bool,
    /// When the server last sent something.
    pub(super) heard_us: u64,
}

impl Multiplexed {
    /// Opens a connection if there is none.
    pub(super) fn connect(&mut self, cx: &mut task::Context<'_>) {
        if matches!(self.link, Link::Closed) {
            let plan = Arc::clone(&self.context.plan);
            let since_us = plan.now_us();
            let stream = Box::pin(async move { plan.connector.open().await });
            self.link = Link::Connecting { stream, since_us };
        }
        let Link::Connecting { stream, since_us } = &mut self.link else { return };
        let Poll::Ready(opened) = stream.as_mut().poll(cx) else { return };
        let now_us = self.context.plan.now_us();
        let connect_us = now_us.saturating_sub(*since_us);
        let Ok(stream) = opened else { return self.give_up(Outcome::Connect) };
        if let Some(user) = self.users.iter_mut().find(|user| user.phase == Phase::Ready) {
            user.connect_us = connect_us;
        }
        let plan = &self.context.plan;
        let client = Client::new(Arc::clone(plan.prepared.fields()));
        let client =
            if plan.scenario.is_some() || plan.is_grpc { client.keeping_fields() } else { client };
        self.link = Link::Open(Box::new(Open {
            stream,
            client,
            unread: Vec::new(),
            has_served: false,
            is_broken: false,
            is_unflushed: false,
            heard_us: now_us,
        }));
    }

    /// Writes the pending bytes. `true` if the socket accepted all of it.
    pub(super) fn write(&mut self, cx: &mut task::Context<'_>) -> bool {
        let Link::Open(open) = &mut self.link else { return false };
        if open.is_broken || open.client.output().is_empty() && !open.is_unflushed {
            return false;
        }
        open.is_unflushed = true;
        let mut stream = Pin::new(&mut open.stream);
        while !open.client.output().is_empty() {
            match stream.as_mut().poll_write(cx, open.client.output()) {
                Poll::Ready(Ok(count)) if count > 0 => open.client.written(count),
                Poll::Ready(_) => {
                    open.is_broken = true;
                    return false;
                }
                Poll::Pending => return false,
            }
        }
        let flushed = stream.poll_flush(cx);
        open.is_unflushed = flushed.is_pending();
        open.is_broken = matches!(flushed, Poll::Ready(Err(_)));
        flushed.is_ready()
    }

    /// Reads once and processes the received bytes. `false` if there were none.
    pub(super) fn read(&mut self, cx: &mut task::Context<'_>) -> bool {
        READ_BUFFER.with_borrow_mut(|scratch| {
            let Link::Open(open) = &mut self.link else { return false };
            if open.client.is_overfull() && !open.is_broken {
                return false;
            }
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut open.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => {
                    let outcome = if open.is_broken { Outcome::Write } else { Outcome::Closed };
                    self.lose(outcome);
                    return true;
                }
            }
            let mut unread = std::mem::take(&mut open.unread);
            if unread.is_empty() {
                let used = self.receive(buffer.filled());
                unread.extend_from_slice(buffer.filled().get(used..).unwrap_or_default());
            } else {
                unread.extend_from_slice(buffer.filled());
                let used = self.receive(&unread);
                unread.drain(..used);
            }
            if let Link::Open(open) = &mut self.link {
                open.unread = unread;
            }
            self.leave();
            true
        })
    }

    /// Processes all complete frames. Returns the number of used bytes.
    fn receive(&mut self, input: &[u8]) -> usize {
        let now_us = self.context.plan.now_us();
        let mut used = 0;
        while let Link::Open(open) = &mut self.link {
            let rest = input.get(used..).unwrap_or_default();
            match open.client.receive(rest) {
                Ok(step) if step.used == 0 && step.event.is_none() => break,
                Ok(step) => {
                    open.heard_us = now_us;
                    used += step.used;
                    if let Some(event) = step.event {
                        self.event(event, rest, now_us);
                    }
                }
                Err(_) => self.lose(Outcome::Protocol),
            }
        }
        used
    }

    /// Closes a connection that takes no more requests, once it has no more responses.
    pub(super) fn leave(&mut self) {
        if let Link::Open(open) = &self.link
            && open.client.is_leaving()
            && self.in_flight == 0
        {
            self.lose(Outcome::Closed);
        }
    }

    /// The connection is gone, and with it the requests in flight. One that served nothing also fails the requests that
    /// waited for it: a server that accepts connections only to close them would get one after another.
    pub(super) fn lose(&mut self, outcome: Outcome) {
        let Link::Open(open) = &self.link else { return };
        if !open.has_served {
            return self.give_up(outcome);
        }
        self.fail_all(outcome, false, self.context.plan.now_us());
        self.sending.clear();
        self.link = Link::Closed;
    }

    /// Fails all requests for lack of a connection; their users pause.
    fn give_up(&mut self, outcome: Outcome) {
        self.fail_all(outcome, true, self.after_pause_us());
        self.sending.clear();
        self.ready.clear();
        self.link = Link::Closed;
    }

    pub(super) fn after_pause_us(&self) -> u64 {
        self.context.plan.now_us().saturating_add(limits::LOAD_RECONNECT_MS * 1_000)
    }
}

/// Checks that the server speaks HTTP/2 and allows `streams` streams per connection.
///
/// # Errors
/// The socket's; `InvalidData` if the server does not; `InvalidInput` if it allows fewer streams.
pub(in crate::load) async fn probe(
    mut stream: Stream,
    plan: &Plan,
    streams: usize,
) -> io::Result<()> {
    let mut client = Client::new(Arc::clone(plan.prepared.fields()));
    stream.write_all(client.output()).await?;
    stream.flush().await?;
    let no_http2 = || {
        let text = "it does not speak HTTP/2 (its first frame is not SETTINGS)";
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    let mut received = Vec::new();
    while !client.is_established() {
        let step = client.receive(&received).map_err(|_| no_http2())?;
        received.drain(..step.used);
        if step.used > 0 {
            continue;
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Err(no_http2());
        }
    }
    if client.streams_max() < streams {
        let most = client.streams_max();
        let text =
            format!("it allows {most} streams per connection, not {streams}; use --streams {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(())
}
