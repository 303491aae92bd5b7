//! Clients of HTTP/2. The h2 crate speaks it for them, which shares nothing with the framing under test.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use h2::client::{Builder, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client::{Client, Ledger, both, wait_until};
use super::ledger::{ClientFault, Exchange, Outcome};
use super::message::{Body, Framing, payload};
use super::network::{End, Network};
use super::random::Random;
use super::sharing;

type Bytes = io::Cursor<Vec<u8>>;

/// Sends all requests of `client`, each on a stream, and reads the responses.
pub(super) async fn talk(client: &Client, end: Rc<End>) {
    let mut random = client.random.clone();
    let window = random.pick(&[2_000, 65_535, 1 << 20]);
    let mut builder = Builder::new();
    builder.initial_window_size(window).initial_connection_window_size(window.max(65_535));
    let Ok((streams, connection)) = builder.handshake::<_, Bytes>(Io(end)).await else { return };
    let exchanges = async {
        let mut running = Vec::new();
        for id in &client.requests {
            random.next();
            let stream = Stream {
                network: &client.network,
                ledger: &client.ledger,
                id: *id,
                pauses: window > 2_000 && random.percent(10),
                is_over: Cell::new(false),
            };
            let exchange = Box::pin(stream.run(streams.clone(), random.clone()));
            if client.pipelines { running.push(Some(exchange)) } else { exchange.await }
        }
        drop(streams);
        poll_fn(|cx| {
            for exchange in &mut running {
                exchange.take_if(|exchange| exchange.as_mut().poll(cx).is_ready());
            }
            if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    };
    // The connection ends, or fails, with its streams.
    both(exchanges, async { drop(connection.await) }).await;
}

/// Changes options that HTTP/2 has no form for.
pub(super) fn adapt(exchange: &mut Exchange) {
    (exchange.http10, exchange.hops, exchange.expects) = (false, false, false);
    let resets = |fault| if fault == ClientFault::Stalls { fault } else { ClientFault::Resets };
    exchange.fault = exchange.fault.map(resets);
}

/// One exchange.
struct Stream<'a> {
    network: &'a Network,
    ledger: &'a Ledger,
    id: usize,
    /// It waits before it reads.
    pauses: bool,
    /// No more of the response comes.
    is_over: Cell<bool>,
}

impl Stream<'_> {
    fn record<T>(&self, change: impl FnOnce(&mut Exchange) -> T) -> T {
        change(&mut self.ledger.borrow_mut()[self.id])
    }

    async fn run(self, streams: SendRequest<Bytes>, mut random: Random) {
        let wants = self.record(|it| it.wants);
        let pause_us = random.pause_us(100_000) + wants.map_or(0, |wants| wants.pause_us);
        self.network.sleep(pause_us).await;
        let Ok(mut streams) = streams.ready().await else { return };
        let (head, is_all) = self.record(|it| (head(it), it.framing == Framing::None));
        let Ok((response, up)) = streams.send_request(head, is_all) else { return };
        let begun_us = Some(self.network.now_us());
        self.record(|it| (it.begun_us, it.sent) = (begun_us, is_all));
        let pause = random.next();
        let uploads = async {
            if !is_all {
                self.upload(up, random).await;
            }
        };
        let reads = async {
            match response.await {
                Ok(response) => self.response(response, pause).await,
                Err(error) => self.record(|it| it.ignored = !is_refused(&error)),
            }
            self.is_over.set(true);
        };
        both(uploads, reads).await;
    }

    /// Sends the body in pieces, with pauses. `None`: it is not wanted any more.
    async fn upload(&self, mut up: SendStream<Bytes>, mut random: Random) -> Option<()> {
        let (bytes, fault, name, framing) =
            self.record(|it| (it.payload(), it.fault, it.name(), it.framing));
        let good = if fault.is_some() { random.below(bytes.len()) } else { bytes.len() };
        let mut bytes = &bytes[..good];
        while !bytes.is_empty() {
            let whole = random.percent(60);
            let count = if whole { bytes.len() } else { random.between(1, bytes.len()) };
            let (piece, rest) = bytes.split_at(count);
            bytes = rest;
            send(&mut up, piece).await?;
            if !bytes.is_empty() && random.percent(40) {
                self.network.sleep(random.pause_us(200_000)).await;
            }
        }
        match fault {
            None => {}
            Some(ClientFault::Stalls) => {
                wait_until(|| self.is_over.get()).await;
                return None;
            }
            Some(ClientFault::Ends | ClientFault::Resets | ClientFault::BadChunk) => {
                up.send_reset(Reason::CANCEL);
                return None;
            }
        }
        self.record(|it| it.sent = true);
        if framing == Framing::Chunked {
            let trailers = [("x-trailer".parse().unwrap(), name.parse().unwrap())];
            up.send_trailers(trailers.into_iter().collect()).ok()
        } else {
            up.send_data(Bytes::default(), true).ok()
        }
    }

    async fn response(&self, response: Response<RecvStream>, pause: u64) {
        self.record(|it| it.outcome = Outcome::Truncated);
        let (head, mut down) = response.into_parts();
        let status = head.status.as_u16();
        let field = |fields: &HeaderMap, name: &str| {
            assert!(fields.get_all(name).iter().count() <= 1, "{fields:?}");
            fields.get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        assert!(field(&head.headers, "x-hop").is_none(), "a hop-by-hop field: {:?}", head.headers);
        let bodiless = self.record(|it| it.method == "HEAD") || matches!(status, 204 | 304);
        let tag = field(&head.headers, "x-tag");
        let planned = tag.as_ref().map(|tag| self.planned(tag));
        let mut body = match (&tag, planned) {
            (Some(tag), Some((_, _, len))) => {
                Body::of(payload(tag, if bodiless { 0 } else { len }))
            }
            _ => Body::any(),
        };
        while let Some(piece) = poll_fn(|cx| down.poll_data(cx)).await {
            let Ok(piece) = piece else { return };
            body.feed(&piece);
            if self.pauses {
                self.network.sleep(pause % 300_000).await;
            }
            let _ = down.flow_control().release_capacity(piece.len());
        }
        let Ok(trailers) = down.trailers().await else { return };
        let trailer = trailers.and_then(|trailers| field(&trailers, "x-trailer"));
        assert!(trailer.is_none() || trailer == tag, "{trailer:?} to {}", self.id);
        let outcome = match planned {
            Some((of, attempt, len)) => {
                let read = body.bytes.len();
                assert!(bodiless || read == len, "{read} of {len} to {}", self.id);
                Outcome::Complete { status, of, attempt }
            }
            None => {
                let text = String::from_utf8(body.bytes).unwrap();
                let code = text.split('"').nth(3).unwrap_or_default().to_owned();
                Outcome::Own { status, code }
            }
        };
        self.record(|it| it.ended(outcome, self.network.now_us()));
    }

    /// Exchange, attempt and length of the response called `tag`.
    fn planned(&self, tag: &str) -> (usize, usize, usize) {
        let all = self.ledger.borrow();
        let (of, attempt) = sharing::received(&all, self.id, tag);
        (of, attempt, all[of].attempts[attempt].answer.unwrap())
    }
}

fn head(exchange: &Exchange) -> Request<()> {
    let (base_path, path) = (exchange.service.base_path(), exchange.path());
    let mut head =
        Request::builder().method(exchange.method).uri(format!("http://gw{base_path}{path}"));
    for (name, value) in exchange.fields() {
        head = head.header(name, value);
    }
    match exchange.framing {
        Framing::Length(len) => head = head.header("content-length", len),
        Framing::Chunked => head = head.header("te", "trailers"),
        Framing::None | Framing::UntilClose => {}
    }
    head.body(()).unwrap()
}

/// Whether the gateway has declared that it did not process the request.
fn is_refused(error: &h2::Error) -> bool {
    let went_away = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
    went_away || error.reason() == Some(Reason::REFUSED_STREAM)
}

/// Sends `piece` as the window allows. `None`: the stream was reset.
async fn send(up: &mut SendStream<Bytes>, mut piece: &[u8]) -> Option<()> {
    while !piece.is_empty() {
        up.reserve_capacity(piece.len());
        let room = poll_fn(|cx| up.poll_capacity(cx)).await?.ok()?;
        let (now, later) = piece.split_at(room.min(piece.len()));
        up.send_data(Bytes::new(now.to_vec()), false).ok()?;
        piece = later;
    }
    Some(())
}

/// The client's side of the connection, whose end shows whether it was cut.
struct Io(Rc<End>);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_read(cx, buf)
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
