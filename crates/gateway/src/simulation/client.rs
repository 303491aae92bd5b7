//! Clients: each sends the requests of one connection, and checks each response.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use super::ledger::{ClientFault, Exchange, Outcome};
use super::message::{Body, Cut, Framing, Reader, payload, write};
use super::network::{End, Network};
use super::random::Random;
use super::{http2, sharing};

pub(super) type Ledger = Rc<RefCell<Vec<Exchange>>>;

/// A client and its requests, by their ids.
pub(super) struct Client {
    pub(super) network: Network,
    pub(super) ledger: Ledger,
    pub(super) random: Random,
    pub(super) requests: Vec<usize>,
    /// It sends without waiting for responses.
    pub(super) pipelines: bool,
    /// It speaks HTTP/2.
    pub(super) http2: bool,
    /// It is gone after so long.
    pub(super) leaves_us: Option<u64>,
}

/// Progress of the reading half of a client, for the writing half.
#[derive(Debug, Default)]
struct Progress {
    /// Responses that are complete.
    responses: Cell<usize>,
    /// The current response has begun.
    begun: Cell<bool>,
    /// A 100 arrived.
    may_continue: Cell<bool>,
    /// No further response comes.
    closed: Cell<bool>,
}

/// Both outputs. The futures may tell each other something: each is polled until both wait.
pub(super) async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (false, false);
    poll_fn(|cx| {
        first = first || one.as_mut().poll(cx).is_ready();
        second = second || other.as_mut().poll(cx).is_ready();
        // The first may wait for an action of the second.
        first = first || one.as_mut().poll(cx).is_ready();
        if first && second { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The output of `future`, unless so much time passes first.
pub(super) async fn within<T>(
    network: &Network,
    us: u64,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut future, mut time) = (pin!(future), pin!(network.sleep(us)));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        time.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Longest time in which every exchange of a client ends, even after failures.
const PATIENCE_US: u64 = 200_000_000;

impl Client {
    /// Sends all requests over `end`, and reads the responses.
    pub(super) async fn run(mut self, end: End) {
        let network = self.network.clone();
        let (requests, ledger) = (self.requests.clone(), Rc::clone(&self.ledger));
        let leaves_us = self.leaves_us;
        let (connection, end) = (end.connection, Rc::new(end));
        let progress = Progress::default();
        let talk = async {
            if self.http2 {
                return http2::talk(&self, Rc::clone(&end)).await;
            }
            let reader = Reading {
                network: &network,
                ledger: &ledger,
                progress: &progress,
                requests: &requests,
            };
            let mut random = self.random.clone();
            both(self.write(&end, &progress), reader.run(&end, &mut random)).await;
        };
        match leaves_us {
            Some(us) => {
                if within(&network, us, talk).await.is_none() {
                    network.log(|| format!("the client of connection {connection} leaves"));
                    requests.iter().for_each(|id| ledger.borrow_mut()[*id].cut = true);
                }
            }
            None => {
                let ended = within(&network, PATIENCE_US, talk).await;
                assert!(ended.is_some(), "the client of connection {connection} still waits");
            }
        }
        if end.was_cut() {
            let mut ledger = ledger.borrow_mut();
            for id in requests {
                let exchange = &mut ledger[id];
                let complete = matches!(exchange.outcome, Outcome::Complete { .. });
                exchange.cut |= !exchange.sent || !complete;
            }
        }
    }

    /// Writes the requests, one after another.
    async fn write(&mut self, end: &End, progress: &Progress) {
        for (position, id) in self.requests.clone().into_iter().enumerate() {
            let pause_us = self.random.pause_us(100_000);
            let wants = self.ledger.borrow()[id].wants;
            self.network.sleep(pause_us + wants.map_or(0, |wants| wants.pause_us)).await;
            if !self.pipelines {
                wait_until(|| progress.responses.get() == position || progress.closed.get()).await;
            }
            if progress.closed.get() || self.request(id, position, end, progress).await.is_none() {
                return;
            }
        }
    }

    /// Writes one request. `None`: the connection cannot be used any more.
    async fn request(
        &mut self,
        id: usize,
        position: usize,
        end: &End,
        progress: &Progress,
    ) -> Option<()> {
        let (head, payload, trailers, framing, fault, expects) = {
            let exchange = &self.ledger.borrow()[id];
            let Exchange { framing, fault, expects, .. } = *exchange;
            (exchange.head(), exchange.payload(), exchange.trailers(), framing, fault, expects)
        };
        self.ledger.borrow_mut()[id].begun_us = Some(self.network.now_us());
        progress.may_continue.set(false);
        self.pieces(end, head.as_bytes(), false).await?;
        if expects {
            let is_answered = || {
                progress.closed.get()
                    || progress.responses.get() == position && progress.begun.get()
            };
            let done = || progress.may_continue.get() || is_answered();
            within(&self.network, 1_000_000, wait_until(done)).await;
            if !progress.may_continue.get() && is_answered() {
                // The response came instead of the 100: the body is not sent, and the connection is of no use.
                end.end();
                return None;
            }
        }
        let good = match fault {
            Some(_) => self.random.below(payload.len()),
            None => payload.len(),
        };
        let chunked = framing == Framing::Chunked;
        self.pieces(end, &payload[..good], chunked).await?;
        match fault {
            None => {}
            Some(ClientFault::Stalls) => {
                wait_until(|| progress.closed.get()).await;
                return None;
            }
            Some(ClientFault::Ends) => {
                end.end();
                return None;
            }
            Some(ClientFault::Resets) => {
                self.network.sleep(self.random.pause_us(50_000)).await;
                end.abort();
                return None;
            }
            Some(ClientFault::BadChunk) => {
                let _ = write(end, b"xyz\r\n").await;
                return None;
            }
        }
        if chunked {
            self.pieces(end, trailers.as_bytes(), false).await?;
        }
        self.ledger.borrow_mut()[id].sent = true;
        Some(())
    }

    /// Writes `bytes` in pieces, with pauses; as chunks if `chunked`.
    async fn pieces(&mut self, end: &End, mut bytes: &[u8], chunked: bool) -> Option<()> {
        while !bytes.is_empty() {
            let whole = self.random.percent(60);
            let count = if whole { bytes.len() } else { self.random.between(1, bytes.len()) };
            let (piece, rest) = bytes.split_at(count);
            bytes = rest;
            if chunked {
                let extension = self.random.pick(&["", "", ";a=b"]);
                let mut chunk = format!("{count:x}{extension}\r\n").into_bytes();
                chunk.extend_from_slice(piece);
                chunk.extend_from_slice(b"\r\n");
                write(end, &chunk).await.ok()?;
            } else {
                write(end, piece).await.ok()?;
            }
            if !bytes.is_empty() && self.random.percent(40) {
                let pause_us = self.random.pause_us(200_000);
                self.network.sleep(pause_us).await;
            }
        }
        Some(())
    }
}

/// Waits until `condition` holds. The task that polls this changes it.
pub(super) async fn wait_until(condition: impl Fn() -> bool) {
    poll_fn(|_| if condition() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The reading half of a client.
struct Reading<'a> {
    network: &'a Network,
    ledger: &'a Ledger,
    progress: &'a Progress,
    requests: &'a [usize],
}

impl Reading<'_> {
    async fn run(&self, end: &End, random: &mut Random) {
        let mut reader = Reader::new(end);
        // The last response overtook its upload, so that the connection may be closed after it.
        let mut overtaken = false;
        for id in self.requests {
            reader.pause_us = if random.percent(10) { random.pause_us(300_000) } else { 0 };
            let outcome = self.response(*id, &mut reader).await;
            self.progress.begun.set(false);
            if let Ok((outcome, closes)) = outcome {
                overtaken = self.ledger.borrow_mut()[*id].ended(outcome, self.network.now_us());
                self.progress.responses.set(self.progress.responses.get() + 1);
                if !closes {
                    continue;
                }
                let rest = reader.rest().await;
                assert_eq!(rest, "", "bytes after the last response, to request {id}");
                break;
            }
            let mut ledger = self.ledger.borrow_mut();
            let exchange = &mut ledger[*id];
            if !reader.is_empty() && exchange.outcome == Outcome::Nothing {
                exchange.outcome = Outcome::Truncated;
            }
            exchange.ignored = exchange.outcome == Outcome::Nothing && !overtaken;
            break;
        }
        self.progress.closed.set(true);
    }

    /// Reads the response to request `id`. Returns whether it is the last one on its connection.
    async fn response(&self, id: usize, reader: &mut Reader<'_>) -> Result<(Outcome, bool), Cut> {
        let head = loop {
            let head = reader.head().await?;
            let status = head.status();
            if status >= 200 {
                break head;
            }
            assert!(status == 100 && self.ledger.borrow()[id].expects, "{head:?} to {id}");
            self.progress.may_continue.set(true);
        };
        self.progress.begun.set(true);
        self.ledger.borrow_mut()[id].outcome = Outcome::Truncated;
        let status = head.status();
        let closes = head.field("connection") == Some("close") || self.ledger.borrow()[id].http10;
        assert!(head.field("x-hop").is_none(), "a hop-by-hop field: {head:?}");
        let bodiless = self.ledger.borrow()[id].method == "HEAD" || matches!(status, 204 | 304);
        let framing = head.framing(Framing::UntilClose);
        let framing = if bodiless { Framing::None } else { framing };
        let Some(tag) = head.field("x-tag") else {
            let mut body = Body::any();
            reader.body(framing, &mut body).await?;
            let text = String::from_utf8(body.bytes).unwrap();
            let code = text.split('"').nth(3).unwrap_or_default().to_owned();
            return Ok((Outcome::Own { status, code }, closes));
        };
        let (of, attempt) = sharing::received(&self.ledger.borrow(), id, tag);
        let adds = self.ledger.borrow()[id].service.adds_fields();
        assert_eq!(head.field("x-out"), adds.then_some("out"), "{head:?} to {id}");
        let len = self.ledger.borrow()[of].attempts[attempt].answer.unwrap();
        let expected = payload(tag, if bodiless { 0 } else { len });
        let mut body = Body::of(expected);
        let trailers = reader.body(framing, &mut body).await?;
        assert!(bodiless || body.bytes.len() == len, "{} of {len} to {id}", body.bytes.len());
        let trailer = format!("X-Trailer: {tag}");
        assert!(trailers.iter().all(|line| *line == trailer), "{trailers:?} to {id}");
        Ok((Outcome::Complete { status, of, attempt }, closes))
    }
}
