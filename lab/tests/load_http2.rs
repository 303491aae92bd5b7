//! The load generator's HTTP/2 against a server in this process.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use echo::Echo;
use penstock_lab::agent::{self, Agent};
use penstock_lab::load::{self, LoadError, Options, Payload, Protocol, Report, Shape, Trust};
use penstock_lab::payload::JsonShape;
use wire::h2::{Connection, Event, head_block, trailer_block};
use wire::tls::{CertificateSet, PemPair, ServerCertificates, generate_self_signed, server_config};

#[test]
fn the_count_agrees_with_the_servers() {
    for tls in [false, true] {
        let server = Server::start(tls, |_| Reply::Body(200, b"hello".to_vec()));
        for (users, connections, threads) in [(7, 3, 1), (8, 2, 2), (3, 3, 3)] {
            let (before, opened) = (server.requests(), server.connections());
            let protocol = Protocol::Http2 { connections };
            let expect = Some("hello".to_owned());
            let report = run(Options { users, threads, protocol, expect, ..get(&server) });
            assert_eq!(report.requests_in_all, server.requests() - before, "{users} users");
            assert!(report.requests > 0 && report.requests < report.requests_in_all);
            assert_eq!((report.errors, report.errors_in_all), (0, 0));
            let opened = server.connections() - opened;
            assert_eq!(opened, connections as u64 + 1, "one is the probe's");
        }
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
    let timeout = Duration::from_secs(2);
    let report = run(Options { timeout, warm_up: Duration::ZERO, ..get(&server) });
    assert_eq!((kinds(&report), report.errors), (vec!["timeout"], 1));
    assert_eq!(server.connections(), 2, "the probe's and the users'");
}

#[test]
fn a_connection_on_which_nothing_arrives_for_a_whole_timeout_is_replaced() {
    // The first connection of the users is silent from its third request on; the next one answers.
    let (silent_from, unanswered) = (AtomicU64::new(u64::MAX), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&unanswered);
    let server = Server::start_with(false, move |turn, connection| {
        if turn >= 2 {
            silent_from.fetch_min(connection, Ordering::Relaxed);
        }
        if silent_from.load(Ordering::Relaxed) == connection {
            count.fetch_add(1, Ordering::Relaxed);
            return Reply::Nothing;
        }
        Reply::Body(200, Vec::new())
    });
    let timeout = Duration::from_secs(2);
    let requests = Some(100);
    let duration = load::LONGEST;
    let report =
        run(Options { timeout, requests, duration, warm_up: Duration::ZERO, ..get(&server) });
    // A user of the four tries the connection once more: its request was sent before the last response came.
    let unanswered = unanswered.load(Ordering::Relaxed);
    assert_eq!((kinds(&report), report.errors), (vec!["timeout"], unanswered));
    assert!((4..=7).contains(&unanswered), "{unanswered}");
    assert_eq!(server.connections(), 3, "the probe's, the silent one, and its replacement");
}

#[test]
fn a_timeout_ends_the_connection_of_its_request() {
    let silent = |turn| if turn == 1 { Reply::Nothing } else { Reply::Body(200, Vec::new()) };
    let server = Server::start(false, silent);
    let report = run(Options {
        users: 1,
        connection_per_request: true,
        requests: Some(3),
        duration: load::LONGEST,
        timeout: Duration::from_secs(2),
        warm_up: Duration::ZERO,
        ..get(&server)
    });
    assert_eq!((report.requests, report.errors), (3, 1));
    assert_eq!(server.connections(), 4, "the probe's, and one per request");
}

#[test]
fn a_server_that_only_closes_connections_is_not_flooded() {
    for greeting in [&[][..], &[SETTINGS, GO_AWAY].concat()] {
        let greeting = greeting.to_vec();
        let server = Server::start_raw(false, move |peer, number, _| {
            // The first connection is the probe's.
            peer.write_all(if number == 0 { SETTINGS } else { &greeting }).unwrap();
            if number == 0 || !greeting.is_empty() {
                _ = peer.read_to_end(&mut Vec::new());
            }
        });
        let report = run(Options { warm_up: Duration::ZERO, ..get(&server) });
        assert!(kinds(&report).iter().all(|kind| ["closed", "write"].contains(kind)));
        assert!(report.errors >= 4 && report.errors == report.requests);
        // One each 100 ms at most, and the probe's.
        let most = Duration::from_secs_f64(report.seconds).as_millis() / 100 + 3;
        let opened = u128::from(server.connections());
        assert!(opened <= most, "{opened} of {most}");
    }
}

/// An empty SETTINGS; one that allows as many bytes as there are, for stream and connection; GOAWAY.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const NO_LIMITS: &[u8] = &[
    0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff, // INITIAL_WINDOW_SIZE
    0, 0, 4, 8, 0, 0, 0, 0, 0, 0x70, 0, 0, 0, // WINDOW_UPDATE
];
const GO_AWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn the_end_of_a_large_body_reaches_a_slow_reader() {
    for tls in [false, true] {
        let server = Server::start_raw(tls, |peer, _, counts| {
            peer.write_all(NO_LIMITS).unwrap();
            _ = read_slowly(peer, counts);
        });
        let report = run(Options {
            payload: Payload::Made { shape: JsonShape::Array, bytes: 300_000 },
            requests: Some(8),
            duration: load::LONGEST,
            timeout: Duration::from_secs(10),
            warm_up: Duration::ZERO,
            ..get(&server)
        });
        assert_eq!((report.requests, report.errors), (8, 0), "TLS: {tls}");
        assert_eq!(server.requests(), 8);
    }
}

/// Reads in small pieces, and responds to each complete request.
fn read_slowly(peer: &mut dyn Peer, counts: &Counts) -> std::io::Result<()> {
    let mut unread = vec![0; 24];
    peer.read_exact(&mut unread)?;
    let mut header = [0; 9];
    loop {
        peer.read_exact(&mut header)?;
        let [a, b, c, kind, flags, stream @ ..] = header;
        let mut left = u32::from_be_bytes([0, a, b, c]) as usize;
        while left > 0 {
            let piece = left.min(1_024);
            peer.read_exact(&mut vec![0; piece])?;
            thread::yield_now();
            left -= piece;
        }
        let is_end = kind == 0 && flags & 1 > 0;
        if is_end {
            counts.requests.fetch_add(1, Ordering::Relaxed);
            // HEADERS with `:status: 200`, END_HEADERS and END_STREAM.
            peer.write_all(&[&[0, 0, 1, 1, 5][..], &stream, &[0x88]].concat())?;
            peer.flush()?;
        }
    }
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
fn agents_divide_the_connections() {
    let server = Server::start(false, |_| Reply::Body(200, Vec::new()));
    let secret = || agent::Secret::new(b"the secret of these tests").unwrap();
    let agents = [(); 2].map(|()| {
        Agent::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), secret(), true).unwrap()
    });
    let names = agents.each_ref().map(|agent| agent.addr().to_string());
    let protocol = Protocol::Http2 { connections: 3 };
    let options = Options { users: 7, protocol, ..get(&server) };
    let report = agent::run(&options, &names, &secret(), &mut |_| {}).unwrap();
    assert_eq!(report.requests_in_all, server.requests());
    assert_eq!((report.errors_in_all, report.agents.len()), (0, 2));
    assert_eq!(server.connections(), 3 + 2, "each agent probes once");
    let protocol = Protocol::Http2 { connections: 1 };
    let error = agent::run(&Options { protocol, ..options }, &names, &secret(), &mut |_| {});
    assert!(error.unwrap_err().to_string().contains("more --connections"));
}

#[test]
fn grpc_calls_succeed_by_the_status_in_their_trailers() {
    // Two messages for each call, independent of its own.
    let body = || [&[0, 0, 0, 0, 3][..], b"one", &[0, 0, 0, 0, 0]].concat();
    let server = Server::start(false, move |turn| match turn % 4 {
        0 => Reply::Grpc(200, body(), "0"),
        1 => Reply::Grpc(200, body(), "0"),
        2 => Reply::Grpc(200, Vec::new(), "14"),
        _ => Reply::Grpc(503, Vec::new(), "14"),
    });
    let folder = tempfile::TempDir::new().unwrap();
    let message = folder.path().join("message.bin");
    std::fs::write(&message, b"\x0a\x01x").unwrap();
    for count in [1, 5] {
        let before = server.body_bytes();
        let report = run(Options {
            grpc_messages: Some(count),
            payload: Payload::File(message.clone()),
            warm_up: Duration::ZERO,
            requests: Some(40),
            duration: load::LONGEST,
            ..get(&server)
        });
        assert_eq!(kinds(&report), ["status-503", "grpc-14"]);
        assert_eq!((report.requests, report.errors, report.messages_received), (40, 20, 40));
        assert_eq!(server.body_bytes() - before, 40 * 8 * count as u64);
    }
}

#[test]
fn a_connection_per_request_is_opened_and_its_cost_reported() {
    for tls in [false, true] {
        let server = Server::start(tls, |_| Reply::Body(200, Vec::new()));
        let report = run(Options {
            protocol: Protocol::Http2 { connections: 4 },
            requests: Some(20),
            connection_per_request: true,
            warm_up: Duration::ZERO,
            ..get(&server)
        });
        assert_eq!((report.errors, report.requests), (0, 20));
        assert_eq!((server.requests(), server.connections()), (20, 21), "one is the probe's");
        let (opened, handshake) = report.connects;
        assert!(opened == 20 && handshake.min_ms > 0.0, "{opened}");
        assert!(handshake.mean_ms < report.latency.mean_ms);
    }
}

#[test]
fn a_server_without_http2_is_an_error_at_the_start() {
    let clear = Server::start_raw(false, |peer, _, _| {
        peer.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").unwrap();
        _ = peer.read_to_end(&mut Vec::new());
    });
    let error = load::run(&get(&clear), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("does not speak HTTP/2"), "{error}");
    let echo = echo(0, Some(server_tls(false)));
    let error = load::run(&options(true, echo.addr()), &mut |_| {}).unwrap_err().to_string();
    let is_refused =
        error.contains("did not agree to HTTP/2") || error.contains("NoApplicationProtocol");
    assert!(is_refused, "{error}");
}

#[test]
fn the_echo_backend_speaks_http2() {
    for tls in [false, true] {
        for (bytes, delay_ms) in [(0, 0), (1_000, 30), (700_000, 0)] {
            let echo = echo(delay_ms, tls.then(|| server_tls(true)));
            let payload = match bytes {
                0 => Payload::None,
                _ => Payload::Made { shape: JsonShape::Array, bytes },
            };
            let expect = (bytes > 0).then(|| format!("{bytes}B"));
            let report = run(Options { payload, expect, ..forty(tls, &echo) });
            assert_eq!((kinds(&report), report.requests), (vec![], 40), "{bytes} bytes");
            assert_eq!(echo.requests(), 40);
            assert!(report.latency.min_ms >= delay_ms as f64);
            assert!(report.received_bytes / 40 >= bytes as u64);
        }
    }
}

#[test]
fn the_echo_backend_returns_the_messages_of_grpc_calls() {
    for tls in [false, true] {
        for (bytes, messages) in [(50, 1), (50, 20), (100_000, 20)] {
            let echo = echo(0, tls.then(|| server_tls(true)));
            let report = run(Options {
                grpc_messages: Some(messages),
                payload: Payload::Made { shape: JsonShape::Array, bytes },
                expect: Some(format!("{bytes}B")),
                ..forty(tls, &echo)
            });
            assert_eq!((kinds(&report), report.requests), (vec![], 40), "{bytes} bytes");
            assert_eq!(report.messages_received, 40 * messages as u64);
        }
    }
}

#[test]
fn the_echo_backend_rejects_what_is_too_large_and_serves_on() {
    let echo = echo(0, None);
    let payload = Payload::Made { shape: JsonShape::Array, bytes: 1_100_000 };
    let report = run(Options { payload, ..forty(false, &echo) });
    assert_eq!((kinds(&report), report.errors), (vec!["status-413"], 40));
    assert_eq!(run(forty(false, &echo)).errors, 0);
}

fn echo(delay_ms: u64, tls: Option<Arc<rustls::ServerConfig>>) -> Echo {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Echo::start(echo::Options { listen, delay_ms, tls, workers: Some(1) }).unwrap()
}

/// 40 requests by four users.
fn forty(tls: bool, echo: &Echo) -> Options {
    Options {
        requests: Some(40),
        duration: load::LONGEST,
        warm_up: Duration::ZERO,
        ..options(tls, echo.addr())
    }
}

#[test]
fn more_streams_than_the_server_allows_are_an_error_at_the_start() {
    let server = Server::start(false, |_| Reply::Nothing);
    let options =
        Options { users: 200, protocol: Protocol::Http2 { connections: 1 }, ..get(&server) };
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
        protocol: Protocol::Http2 { connections: 1 },
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

/// Reaction of the server to a request.
enum Reply {
    Body(u16, Vec<u8>),
    /// The same with `grpc-status` in trailers, or in the head if the body is empty.
    Grpc(u16, Vec<u8>, &'static str),
    Reset,
    /// A body that is shorter than announced.
    Malformed,
    Nothing,
    /// A response, and GOAWAY.
    Leave,
    Close,
}

/// A connection's bytes, clear or TLS.
trait Peer: Read + Write {}
impl<T: Read + Write> Peer for T {}

/// Serves a connection, given its number.
type Serve = Arc<dyn Fn(&mut dyn Peer, u64, &Counts) + Send + Sync>;

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
    /// `handler`: from the number of the request to the reply.
    fn start(tls: bool, handler: impl Fn(u64) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(tls, move |turn, _| handler(turn))
    }

    /// `handler`: from the numbers of the request and its connection to the reply.
    fn start_with(tls: bool, handler: impl Fn(u64, u64) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_raw(tls, move |peer, number, counts| {
            serve(peer, &|turn| handler(turn, number), counts);
        })
    }

    fn start_raw(
        tls: bool,
        serve: impl Fn(&mut dyn Peer, u64, &Counts) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // Small, so that a client of a slow reader has to wait, with little in its own buffer too.
        let socket = socket2::SockRef::from(&listener);
        socket.set_recv_buffer_size(8_192).unwrap();
        socket.set_tcp_mss(536).unwrap();
        let addr = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let serve: Serve = Arc::new(serve);
        let config = tls.then(|| server_tls(true));
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            for mut tcp in listener.incoming().flatten() {
                let (serve, counts) = (Arc::clone(&serve), Arc::clone(&shared));
                let number = counts.connections.fetch_add(1, Ordering::Relaxed);
                let config = config.clone();
                thread::spawn(move || match config {
                    None => serve(&mut tcp, number, &counts),
                    Some(config) => {
                        let session = rustls::ServerConnection::new(config).unwrap();
                        serve(&mut rustls::StreamOwned::new(session, tcp), number, &counts);
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

fn serve(stream: &mut dyn Peer, handler: &dyn Fn(u64) -> Reply, counts: &Counts) {
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
                Reply::Grpc(status, body, grpc) => {
                    let mut block = Vec::new();
                    let field = [(&b"grpc-status"[..], grpc.as_bytes())].into_iter();
                    let of_head = if body.is_empty() { field.clone().count() } else { 0 };
                    head_block(&mut block, status, field.clone().take(of_head), None).unwrap();
                    connection.send_head(slot, &block, body.is_empty());
                    if !body.is_empty() {
                        assert_eq!(connection.send_data(slot, &body), body.len());
                        let mut trailers = Vec::new();
                        trailer_block(&mut trailers, format!("grpc-status: {grpc}\r\n").as_bytes())
                            .unwrap();
                        connection.send_trailers(slot, &trailers);
                    }
                    connection.close(slot);
                    continue;
                }
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

/// Sends the rest of a body. `true` if it is complete.
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
