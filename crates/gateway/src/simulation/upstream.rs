//! Upstreams: each connection checks the requests that arrive, and answers them as the seed decides.

use std::cell::Cell;

use wire::stream::Simulated;

use super::client::{Ledger, within};
use super::ledger::{Answer, AnswerFault, Attempt, Exchange as Request, Then};
use super::message::{Body, Framing, Head, Reader, payload, write};
use super::network::{End, Network};
use super::random::Random;
use super::services::COPIES_PORT;
use super::sharing::{self, Sharing};

#[derive(Clone)]
pub(super) struct Upstream {
    pub(super) network: Network,
    pub(super) ledger: Ledger,
    pub(super) seed: u64,
    pub(super) calm: bool,
    /// Size of the largest response.
    pub(super) large: usize,
}

const GARBAGE: &[u8] = b"HTTP/1.1 200 OK\r\nX-Tag: garbage.0\r\nContent-Length: 0\r\n\r\n";

/// Longer than any wait of the gateway.
const LONG_US: u64 = 30_000_000;

impl Upstream {
    /// Serves one connection of the gateway.
    pub(super) async fn serve(self, port: u16, end: End) {
        let mut reader = Reader::new(&end);
        let mut idle_us = None;
        loop {
            let head = match idle_us {
                Some(us) => within(&self.network, us, reader.head()).await,
                None => Some(reader.head().await),
            };
            let Some(Ok(head)) = head else { return };
            let (id, attempt) = self.arrived(port, &head);
            let mut random = Random::new(self.seed, (id * 8 + attempt + 1_000) as u64);
            let answer = Answer::plan(&mut random, self.calm, self.large);
            let answer = self.share(id, attempt, &head, answer);
            self.network.log(|| format!("connection {} got q{id}: {answer:?}", end.connection));
            let exchange = Exchange {
                upstream: &self,
                end: &end,
                id,
                attempt,
                framing: head.framing(Framing::None),
                answer,
            };
            match exchange.run(&mut reader, &mut random).await {
                Some(Then::Keep) => idle_us = None,
                Some(Then::CloseIdle(us)) => idle_us = Some(us),
                Some(Then::Close | Then::Garbage) | None => return,
            }
        }
    }

    /// Records and checks a request's head. Returns its id and the number of the attempt.
    fn arrived(&self, port: u16, head: &Head) -> (usize, usize) {
        let id = head.field("x-tag").and_then(|name| name.strip_prefix('q')?.parse().ok());
        let id: usize = id.unwrap_or_else(|| panic!("{head:?}"));
        let all = &mut *self.ledger.borrow_mut();
        let attempt = sharing::arrives(all, id, self.network.now_us());
        let exchange = &mut all[id];
        assert_eq!(head.line, format!("{} {} HTTP/1.1", exchange.method, exchange.path()));
        assert!(head.field("authorization").is_none(), "the client's token: {head:?}");
        let adds = exchange.service.adds_fields();
        assert_eq!(head.field("x-in"), adds.then_some("in"), "{head:?}");
        assert_eq!(head.field("host"), Some(format!("127.0.0.1:{port}").as_str()), "{head:?}");
        assert!(head.field("x-hop").is_none(), "a hop-by-hop field: {head:?}");
        assert!(exchange.may_be_framed(head.framing(Framing::None)), "{head:?}");
        exchange.attempts.push(Attempt { is_copy: port == COPIES_PORT, ..attempt });
        (id, exchange.attempts.len() - 1)
    }

    /// Decides the answer's use for others. A request for validation may be confirmed.
    fn share(&self, id: usize, attempt: usize, head: &Head, answer: Answer) -> Answer {
        let all = &mut *self.ledger.borrow_mut();
        let mut random = Random::new(self.seed, (id * 8 + attempt + 500_000) as u64);
        if all[id].wants.is_none() {
            return answer;
        }
        let sharing = Sharing::plan(&mut random);
        all[id].attempts[attempt].sharing = Some(sharing);
        let answer = Answer { sharing: Some(sharing), ..answer };
        let Some(etag) = head.field("if-none-match") else {
            // The request is not conditional.
            let has_body = answer.framing != Framing::None;
            let status = match answer.status {
                304 => 204,
                _ if has_body && random.percent(60) => 200,
                other => other,
            };
            return Answer { status, ..answer };
        };
        if answer.status != 304 && random.percent(40) {
            return answer;
        }
        sharing::confirms(all, id, etag.trim_matches('"'), self.network.now_us());
        let (framing, sharing) = (Framing::None, None);
        Answer { status: 304, len: 0, framing, sharing, confirms: true, ..answer }
    }
}

/// One request on a connection.
struct Exchange<'a> {
    upstream: &'a Upstream,
    end: &'a End,
    id: usize,
    attempt: usize,
    /// Framing of the request.
    framing: Framing,
    answer: Answer,
}

impl Exchange<'_> {
    /// Reads the request's body and answers. `None`: the connection is closed.
    async fn run(&self, reader: &mut Reader<'_>, random: &mut Random) -> Option<Then> {
        let (network, answer) = (&self.upstream.network, &self.answer);
        if !answer.early {
            self.body(reader).await?;
            network.sleep(answer.pause_us).await;
            return self.answer(random).await;
        }
        let (then, read) = (Cell::new(None), Cell::new(false));
        let reads = async {
            if answer.reads {
                read.set(self.body(reader).await.is_some());
            }
        };
        let answers = async {
            network.sleep(answer.pause_us).await;
            then.set(self.answer(random).await);
            if !answer.reads {
                // It neither reads nor closes for a while.
                network.sleep(answer.pause_us * 20).await;
            }
        };
        tokio::join!(reads, answers);
        then.get().filter(|_| read.get())
    }

    fn record<T>(&self, change: impl FnOnce(&mut Request) -> T) -> T {
        change(&mut self.upstream.ledger.borrow_mut()[self.id])
    }

    async fn body(&self, reader: &mut Reader<'_>) -> Option<()> {
        let (has_trailer, name, expected) = self.record(|it| {
            let expected = if it.drops_body() { Vec::new() } else { it.payload() };
            (it.forwards_trailer(), it.name(), expected)
        });
        let len = expected.len();
        let mut body = Body::of(expected);
        let trailers = reader.body(self.framing, &mut body).await.ok()?;
        assert_eq!(body.bytes.len(), len, "a body that is short, of {name}");
        let expected = has_trailer.then(|| format!("x-trailer: {name}"));
        let trailers: Vec<_> = trailers.iter().map(|line| line.to_ascii_lowercase()).collect();
        assert!(trailers.iter().eq(&expected), "{trailers:?} of {name}");
        self.record(|it| it.attempts[self.attempt].complete = true);
        Some(())
    }

    async fn answer(&self, random: &mut Random) -> Option<Then> {
        let (answer, end, network) = (&self.answer, self.end, &self.upstream.network);
        let (name, is_head) = self.record(|it| {
            it.attempts[self.attempt].answer = Some(answer.len);
            (it.answer_name(self.attempt), it.method == "HEAD")
        });
        let now_us = network.now_us();
        let status = answer.status;
        sharing::answers(
            &mut self.upstream.ledger.borrow_mut(),
            self.id,
            self.attempt,
            status,
            now_us,
        );
        for _ in 0..answer.interim {
            let interim = random.pick(&["100 Continue", "102 Processing", "103 Early Hints"]);
            write(end, format!("HTTP/1.1 {interim}\r\nX-Tag: {name}\r\n\r\n").as_bytes())
                .await
                .ok()?;
        }
        if let Some(bytes) = self.instead(&name).await? {
            write(end, &bytes).await.ok()?;
            network.sleep(random.pause_us(100_000)).await;
            return None;
        }
        let bytes = if is_head { answer.head(&name) } else { answer.bytes(&name, random) };
        let cut = match answer.fault {
            Some(AnswerFault::Half | AnswerFault::HalfResets | AnswerFault::HalfStalls) => {
                random.between(1, bytes.len() - 1)
            }
            _ => bytes.len(),
        };
        let intact = cut == bytes.len() && answer.fault.is_none();
        if intact {
            // Known before the last byte arrives.
            self.record(|it| it.attempts[self.attempt].answered = true);
        }
        let mut rest = &bytes[..cut];
        if answer.then == Then::Garbage && intact {
            // Sent later, the garbage would look like the response to the next request.
            end.send_together([&bytes, GARBAGE]);
            rest = &[];
        }
        while !rest.is_empty() {
            let whole = random.percent(60);
            let count = if whole { rest.len() } else { random.between(1, rest.len()) };
            write(end, &rest[..count]).await.ok()?;
            rest = &rest[count..];
            network.sleep(random.pause_us(50_000)).await;
        }
        match answer.fault {
            Some(AnswerFault::HalfResets) => end.reset_when_dropped(),
            Some(AnswerFault::HalfStalls) => network.sleep(LONG_US).await,
            _ => {}
        }
        intact.then_some(answer.then)
    }

    /// Bytes to send instead of a response. Outer `None`: the connection is closed without any.
    async fn instead(&self, name: &str) -> Option<Option<Vec<u8>>> {
        let text = match self.answer.fault {
            Some(AnswerFault::Closes) => return None,
            Some(AnswerFault::Resets) => {
                self.end.reset_when_dropped();
                return None;
            }
            Some(AnswerFault::Never) => {
                self.upstream.network.sleep(LONG_US).await;
                return None;
            }
            Some(AnswerFault::NoHttp) => "SSH-2.0-OpenSSH_9\r\n\r\n".to_owned(),
            Some(AnswerFault::TwoFramings) => format!(
                "HTTP/1.1 200 OK\r\nX-Tag: {name}\r\nContent-Length: 5\r\n\
                 Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            Some(AnswerFault::Huge) => {
                format!("HTTP/1.1 200 OK\r\nX-Tag: {name}\r\nX-Long: {}\r\n\r\n", "x".repeat(70_000))
            }
            Some(AnswerFault::Unrequested101) => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                    .to_owned()
            }
            Some(AnswerFault::TooManyInterim) => "HTTP/1.1 100 Continue\r\n\r\n".repeat(9),
            Some(AnswerFault::BadChunk) => format!(
                "HTTP/1.1 200 OK\r\nX-Tag: {name}\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"
            ),
            Some(AnswerFault::Half | AnswerFault::HalfResets | AnswerFault::HalfStalls) | None => {
                return Some(None);
            }
        };
        Some(Some(text.into_bytes()))
    }
}

impl Answer {
    fn head(&self, name: &str) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Status\r\n", self.status);
        if !self.confirms {
            head += &format!("X-Tag: {name}\r\n");
        }
        self.sharing.iter().for_each(|sharing| head += &sharing.lines(name));
        match self.framing {
            Framing::Length(len) => head += &format!("Content-Length: {len}\r\n"),
            Framing::Chunked => head += "Transfer-Encoding: chunked\r\n",
            Framing::None | Framing::UntilClose => {}
        }
        match (self.then == Then::Close, self.hops) {
            (true, true) => head += "Connection: close, X-Hop\r\nX-Hop: 1\r\n",
            (true, false) => head += "Connection: close\r\n",
            (false, true) => head += "Connection: X-Hop\r\nX-Hop: 1\r\n",
            (false, false) => {}
        }
        (head + "\r\n").into_bytes()
    }

    /// Head and body.
    fn bytes(&self, name: &str, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.head(name);
        let payload = payload(name, self.len);
        if self.framing == Framing::Chunked {
            let mut rest = payload.as_slice();
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at(random.between(1, rest.len()));
                bytes.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
                rest = after;
            }
            let hop = if self.hops { "X-Hop: 1\r\n" } else { "" };
            bytes.extend_from_slice(format!("0\r\nX-Trailer: {name}\r\n{hop}\r\n").as_bytes());
        } else {
            bytes.extend_from_slice(&payload);
        }
        bytes
    }
}
