//! The load generator's HTTP/2 against a server in this process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use penstock_lab::echo::{self, Echo};
use penstock_lab::load::{self, LoadError, Options, Payload, Protocol, Report, Shape, Trust};
use penstock_lab::payload::JsonShape;
use wire::h2::{Connection, Event, head_block};
use wire::tls::{CertificateSet, PemPair, ServerCertificates, generate_self_signed, server_config};

#[test]
fn the_count_agrees_with_the_servers() {
    for tls in [false, true] {
        let server = Server::start(tls, |_| Reply::Body(200, b"hello".to_vec()));
        for (users, streams, threads) in [(7, 3, 1), (8, 4, 2), (3, 1, 3)] {
            let before = server.requests();
            let protocol = Protocol::Http2 { streams };
            let expect = Some("hello".to_owned());
            let report = run(Options { users, threads, protocol, expect, ..get(&server) });
            assert_eq!(report.requests_in_all, server.requests() - before, "{users} users");
            assert!(report.requests > 0 && report.requests < report.requests_in_all);
            assert_eq!((report.errors, report.errors_in_all), (0, 0));
        }
        let most = if tls { 3 + 4 + 6 } else { 4 + 3 + 4 };
        assert!(server.connections() <= most + 3, "a connection per {:?} users", (3, 4, 1));
    }
}

#[test]
fn large_bodies_are_transferred_completely_in_both_directions() {
    let server =
        Server::start(false, |_| Reply::Body(200, [&[b'x'; 300_000][..], b"end"].concat()));
    let payload = Payload::Made { shape: JsonShape::Array, bytes: 700_000 };
    let report = run(Options { payload, expect: Some("xend".to_owned()), ..get(&server) });
    assert_eq!(report.errors_in_all, 0);
    assert_eq!(report.requests_in_all, server.requests());
    assert_eq!(server.body_bytes() % 700_000, 0);
    assert!(report.sent_bytes / report.requests > 700_000);
    assert!(report.received_bytes / report.requests > 300_000);
}

#[test]
fn errors_are_counted_by_kind_and_the_others_go_on() {
    let server = Server::start(false, |turn| match turn % 5 {
        0 => Reply::Reset,
        1 => Reply::Body(503, Vec::new()),
        2 => Reply::Body(200, b"other".to_vec()),
        3 => Reply::Malformed,
        _ => Reply::Body(200, b"hello".to_vec()),
    });
    let report = run(Options { expect: Some("hello".to_owned()), ..get(&server) });
    assert_eq!(kinds(&report), ["protocol", "reset", "body-mismatch", "status-503"]);
    assert!(report.errors < report.requests);
    assert_eq!(report.requests_in_all, server.requests());
    let wrong = report.errors_in_all as f64 / report.requests_in_all as f64;
    assert!((0.7..=0.9).contains(&wrong), "{wrong}");
}

#[test]
fn a_missing_response_is_a_timeout_and_the_connection_is_kept() {
    let silent = |turn| if turn == 3 { Reply::Nothing } else { Reply::Body(200, Vec::new()) };
    let server = Server::start(false, silent);
    let timeout = Duration::from_millis(400);
    let report = run(Options { timeout, warm_up: Duration::ZERO, ..get(&server) });
    assert_eq!((kinds(&report), report.errors), (vec!["timeout"], 1));
    assert_eq!(server.connections(), 2, "the probe's and the users'");
}

#[test]
fn a_server_that_leaves_loses_no_request() {
    let server = Server::start(false, |turn| {
        if turn % 50 == 49 { Reply::Leave } else { Reply::Body(200, b"hello".to_vec()) }
    });
    let report = run(get(&server));
    assert_eq!(report.errors_in_all, 0);
    assert_eq!(report.requests_in_all, server.requests());
    assert!(report.requests_in_all < 100 || server.connections() > 2);
}

#[test]
fn a_connection_that_breaks_ends_its_requests_as_closed() {
    let server = Server::start(false, |turn| {
        if turn % 20 == 19 { Reply::Close } else { Reply::Body(200, Vec::new()) }
    });
    let report = run(get(&server));
    assert_eq!(kinds(&report), ["closed"]);
    assert!(report.requests > report.errors);
}

#[test]
fn an_open_loop_sends_each_request_that_is_due() {
    let server = Server::start(false, |_| Reply::Body(200, Vec::new()));
    let shape = Shape::Arrivals { rate_per_s: 200.0 };
    let report = run(Options { shape, ..get(&server) });
    assert_eq!(report.requests, 240, "1.2 s at 200/s");
    assert_eq!(report.requests_in_all, server.requests());
}

#[test]
fn a_server_without_http2_is_an_error_at_the_start() {
    for (tls, expect) in [(false, "does not speak HTTP/2"), (true, "did not agree to HTTP/2")] {
        let config = tls.then(|| server_tls(false));
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let echo =
            Echo::start(echo::Options { listen, delay_ms: 0, tls: config, workers: Some(1) });
        let echo: Echo = echo.unwrap();
        let error = load::run(&options(tls, echo.addr()), &mut |_| {}).unwrap_err().to_string();
        let refused = error.contains(expect) || tls && error.contains("NoApplicationProtocol");
        assert!(refused, "{error}");
    }
}

#[test]
fn more_streams_than_the_server_allows_are_an_error_at_the_start() {
    let server = Server::start(false, |_| Reply::Nothing);
    let options =
        Options { users: 200, protocol: Protocol::Http2 { streams: 200 }, ..get(&server) };
    let error = load::run(&options, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Connect { .. }));
    assert!(error.to_string().contains("use --streams 128"), "{error}");
}

fn run(options: Options) -> Report {
    load::run(&options, &mut |_| {}).unwrap()
}

fn kinds(report: &Report) -> Vec<&str> {
    report.errors_by_kind.iter().map(|(kind, _)| kind.as_str()).collect()
}

fn get(server: &Server) -> Options {
    options(server.tls, server.addr)
}

/// Four users on one connection.
fn options(tls: bool, addr: SocketAddr) -> Options {
    let scheme = if tls { "https" } else { "http" };
    Options {
        users: 4,
        protocol: Protocol::Http2 { streams: 4 },
        trust: Trust::Insecure,
        warm_up: Duration::from_millis(300),
        // Long enough that a busy machine gives the generator some of it.
        duration: Duration::from_millis(1_200),
        ..Options::new(format!("{scheme}://{addr}/"))
    }
}

fn server_tls(http2: bool) -> Arc<rustls::ServerConfig> {
    let now_s = base::Clock::now(&base::SystemClock::new()).unix_s;
    let (certificate, key) = generate_self_signed(&["localhost"], now_s).unwrap();
    let pair: PemPair<'_> = (certificate.as_bytes(), key.as_bytes());
    let set = CertificateSet::load(Some(pair), Vec::new()).unwrap();
    server_config(Arc::new(ServerCertificates::new(set)), http2)
}

/// What the server does with a request.
enum Reply {
    Body(u16, Vec<u8>),
    Reset,
    /// A body that is shorter than announced.
    Malformed,
    Nothing,
    /// A response, and GOAWAY.
    Leave,
    Close,
}

type Handler = Arc<dyn Fn(u64) -> Reply + Send + Sync>;

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    connections: AtomicU64,
    body_bytes: AtomicU64,
}

/// A server with one thread per connection.
struct Server {
    addr: SocketAddr,
    tls: bool,
    counts: Arc<Counts>,
}

impl Server {
    fn start(tls: bool, handler: impl Fn(u64) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let handler: Handler = Arc::new(handler);
        let config = tls.then(|| server_tls(true));
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (handler, counts) = (Arc::clone(&handler), Arc::clone(&shared));
                counts.connections.fetch_add(1, Ordering::Relaxed);
                let config = config.clone();
                thread::spawn(move || match config {
                    None => serve(tcp, &handler, &counts),
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        serve(rustls::StreamOwned::new(session, tcp), &handler, &counts);
                    }
                });
            }
        });
        Self { addr, tls, counts }
    }

    fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::Relaxed)
    }

    fn body_bytes(&self) -> u64 {
        self.counts.body_bytes.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: impl Read + Write, handler: &Handler, counts: &Counts) {
    let mut connection = Connection::new();
    let mut unread = Vec::new();
    let mut bodies: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut buffer = [0; 16_384];
    loop {
        loop {
            bodies.retain_mut(|(slot, body)| !send(&mut connection, *slot, body));
            let output = connection.output().to_vec();
            if output.is_empty() {
                break;
            }
            if stream.write_all(&output).is_err() || stream.flush().is_err() {
                return;
            }
            connection.written(output.len());
        }
        if connection.has_left() {
            return;
        }
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        unread.extend_from_slice(&buffer[..count]);
        loop {
            let Ok(step) = connection.receive(&unread) else { return };
            if step.used == 0 && step.event.is_none() {
                break;
            }
            unread.drain(..step.used);
            let slot = match step.event {
                Some(Event::Request { slot, is_all: true, .. } | Event::End { slot }) => slot,
                Some(Event::Data { slot, at }) => {
                    counts.body_bytes.fetch_add(at.len() as u64, Ordering::Relaxed);
                    connection.consumed(slot, at.len());
                    continue;
                }
                Some(Event::Reset { slot }) => {
                    bodies.retain(|(known, _)| *known != slot);
                    connection.close(slot);
                    continue;
                }
                Some(Event::Request { .. } | Event::Trailers { .. } | Event::Window) | None => {
                    continue;
                }
            };
            let reply = handler(counts.requests.fetch_add(1, Ordering::Relaxed));
            let mut length = None;
            let (status, body) = match reply {
                Reply::Body(status, body) => (status, body),
                Reply::Leave => {
                    connection.leave();
                    (200, b"hello".to_vec())
                }
                Reply::Malformed => {
                    length = Some(9);
                    (200, b"hello".to_vec())
                }
                Reply::Reset => {
                    connection.reset(slot, wire::h2::Reason::InternalError);
                    connection.close(slot);
                    continue;
                }
                Reply::Nothing => continue,
                Reply::Close => return,
            };
            let mut block = Vec::new();
            let length = length.unwrap_or(body.len() as u64);
            head_block(&mut block, status, std::iter::empty(), Some(length)).unwrap();
            connection.send_head(slot, &block, body.is_empty());
            bodies.push((slot, body));
        }
    }
}

/// Sends what is left of a body. `true` if nothing is.
fn send(connection: &mut Connection, slot: usize, body: &mut Vec<u8>) -> bool {
    while !body.is_empty() {
        let count = connection.send_data(slot, body);
        if count == 0 {
            return false;
        }
        body.drain(..count);
    }
    connection.finish(slot);
    connection.close(slot);
    true
}
