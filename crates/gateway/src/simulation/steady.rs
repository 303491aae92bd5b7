//! The steady state: connections that have served a few rounds of requests. From then on nothing is allocated, and all
//! ready data is written at once.

use std::cell::Cell;
use std::rc::Rc;

use model::Settings;
use wire::stream::Stream;
use wire::tls::ClientTls;

use super::executor::{Executor, Role};
use super::message::{Reader, write};
use super::network::{End, Network};
use super::random::Random;
use super::services::{self, Service};
use super::state::Weather;
use super::world::start_worker;
use super::{NETWORK, issuer};
use crate::forward::Shared;
use crate::listen::{OpenConnection, serve_stream};
use crate::message::Peer;
use crate::worker::compiled::Live;

const ROUNDS: usize = 60;
/// Rounds after which everything has the size that it keeps.
const WARM_UP: usize = 40;
/// Requests of one round, which are sent at once.
const STREAMS: usize = 10;
/// The upstreams' responses of a round are sent at one time.
const ROUND_US: u64 = 1_000;

/// The client's protocol.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    /// The requests of a round are concurrent.
    Http2,
}

/// The cost of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Took {
    allocations: u64,
    /// To the client and to upstreams.
    writes: [usize; 2],
}

/// Calls `serve` for a round of requests at a time. Returns the highest cost of a round after the warm-up.
fn measure(protocol: Protocol, service: Service, payload: usize) -> Took {
    let weather = Weather {
        latency_us: 1,
        capacity: 1 << 20,
        cut: 0,
        again: 0,
        breaks: 0,
        refused: 0,
        unanswered: 0,
    };
    let network = Network::new(weather, Random::new(7, 0), false);
    NETWORK.set(Some(network.clone()));
    let live = Live::new(&Settings::default(), ClientTls::insecure());
    let upstreams = Shared::new(1, &Random::new(7, 2));
    let (worker, _asked) = start_worker(&network, services::compiled(live, true), 100, upstreams);
    let executor = Executor::default();
    let (ours, theirs) = network.accept();
    let connection = theirs.connection;
    let peer = Rc::new(Peer::new(([192, 0, 2, 1], 1_024).into(), false, &[]));
    executor.spawn(Role::Gateway, {
        let open = OpenConnection::new(&worker);
        let stream = Stream::Simulated(Box::new(theirs));
        async move { serve_stream(open, stream, peer, true).await }
    });
    let finished = Rc::new(Cell::new(0));
    executor.spawn(Role::Client, {
        let (finished, request) = (Rc::clone(&finished), Request { protocol, service, payload });
        async move { request.rounds(&ours, &finished).await }
    });
    let mut random = Random::new(7, 1);
    let mut most = Took::default();
    let mut before = (0, Took::default());
    while finished.get() < ROUNDS {
        while let Some((_, end)) = network.next_upstream() {
            executor.spawn(Role::Upstream, answer(network.clone(), end, payload));
        }
        if !executor.step(&mut random) {
            let next_us = network.next_event_us().expect("a round does not end");
            network.advance(next_us);
        }
        if finished.get() > before.0 {
            let [client, upstream] = network.writes(connection);
            let now = Took { allocations: executor.allocations(), writes: [client, upstream] };
            if before.0 >= WARM_UP {
                most.allocations = most.allocations.max(now.allocations - before.1.allocations);
                for (most, (now, before)) in
                    most.writes.iter_mut().zip(now.writes.into_iter().zip(before.1.writes))
                {
                    *most = (*most).max(now - before);
                }
            }
            before = (finished.get(), now);
        }
    }
    drop(executor);
    NETWORK.set(None);
    most
}

/// An upstream that answers each request with a body of `payload` bytes, at the beginning of the next millisecond.
async fn answer(network: Network, end: End, payload: usize) {
    let mut reader = Reader::new(&end);
    let response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {payload}\r\n\r\n{}", "x".repeat(payload));
    while let Ok(head) = reader.head().await {
        let len = head.field("content-length").map_or(0, |len| len.parse().unwrap());
        if reader.take(len).await.is_err() {
            return;
        }
        network.sleep(ROUND_US - network.now_us() % ROUND_US).await;
        if write(&end, response.as_bytes()).await.is_err() {
            return;
        }
    }
}

struct Request {
    protocol: Protocol,
    service: Service,
    payload: usize,
}

impl Request {
    async fn rounds(&self, end: &End, finished: &Cell<usize>) {
        let mut reader = Reader::new(end);
        if self.protocol == Protocol::Http2 {
            let settings = frame(4, 0, 0, &[]);
            write(end, &[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat())
                .await
                .unwrap();
        }
        let mut stream = 1;
        for round in 1..=ROUNDS {
            match self.protocol {
                Protocol::Http1 => {
                    for _ in 0..STREAMS {
                        write(end, &self.http1()).await.unwrap();
                        assert_eq!(reader.head().await.unwrap().status(), 200);
                        reader.take(self.payload).await.unwrap();
                    }
                }
                Protocol::Http2 => {
                    let mut bytes = Vec::new();
                    for _ in 0..STREAMS {
                        self.http2(stream, &mut bytes);
                        stream += 2;
                    }
                    // As much as is received, for the connection.
                    let received = u32::try_from((self.payload * STREAMS).max(1)).unwrap();
                    bytes.extend(frame(8, 0, 0, &received.to_be_bytes()));
                    write(end, &bytes).await.unwrap();
                    let mut ended = 0;
                    while ended < STREAMS {
                        let head = reader.take(9).await.unwrap();
                        let len = usize::from(head[1]) << 8 | usize::from(head[2]);
                        reader.take(len).await.unwrap();
                        assert!(matches!(head[3], 0 | 1 | 4 | 8), "a frame of type {}", head[3]);
                        ended += usize::from(matches!(head[3], 0 | 1) && head[4] & 1 == 1);
                    }
                }
            }
            finished.set(round);
        }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let token = (self.service == Service::Jwt).then(issuer::lasting_token);
        let mut fields: Vec<_> =
            token.map(|token| ("authorization", format!("Bearer {token}"))).into_iter().collect();
        if self.payload > 0 {
            fields.push(("content-length", self.payload.to_string()));
        }
        fields
    }

    fn method(&self) -> &'static str {
        if self.payload > 0 { "POST" } else { "GET" }
    }

    fn http1(&self) -> Vec<u8> {
        let (method, base_path) = (self.method(), self.service.base_path());
        let mut head = format!("{method} {base_path}/e HTTP/1.1\r\nHost: gw\r\n");
        for (name, value) in self.fields() {
            head += &format!("{name}: {value}\r\n");
        }
        (head + "\r\n" + &"x".repeat(self.payload)).into_bytes()
    }

    /// HEADERS with literal fields, without an index and Huffman code, and DATA.
    fn http2(&self, stream: u32, bytes: &mut Vec<u8>) {
        let path = format!("{}/e", self.service.base_path());
        let mut fields = vec![
            (":method", self.method().to_owned()),
            (":scheme", "http".to_owned()),
            (":path", path),
            (":authority", "gw".to_owned()),
        ];
        fields.extend(self.fields());
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(0);
            [name, &value].into_iter().for_each(|text| literal(text.as_bytes(), &mut block));
        }
        let ends = u8::from(self.payload == 0);
        bytes.extend(frame(1, 4 | ends, stream, &block));
        if self.payload > 0 {
            bytes.extend(frame(0, 1, stream, &vec![b'x'; self.payload]));
        }
    }
}

/// A string of RFC 7541 section 5.2.
fn literal(text: &[u8], block: &mut Vec<u8>) {
    match text.len().checked_sub(127) {
        None => block.push(u8::try_from(text.len()).unwrap()),
        Some(mut rest) => {
            block.push(127);
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap() | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap());
        }
    }
    block.extend_from_slice(text);
}

/// A frame of RFC 9113 section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[track_caller]
fn check(protocol: Protocol, service: Service, payload: usize, writes_to_client: usize) {
    let expected = Took { allocations: 0, writes: [writes_to_client, STREAMS] };
    assert_eq!(measure(protocol, service, payload), expected);
}

#[test]
fn exchanges_over_http1_allocate_nothing_and_take_two_writes() {
    for payload in [0, 1_000] {
        check(Protocol::Http1, Service::One, payload, STREAMS);
        check(Protocol::Http1, Service::Jwt, payload, STREAMS);
    }
}

#[test]
fn streams_of_http2_allocate_nothing_and_leave_together() {
    for service in [Service::One, Service::Jwt] {
        check(Protocol::Http2, service, 0, 1);
        // A second one when the window is given back.
        check(Protocol::Http2, service, 1_000, 2);
    }
}
