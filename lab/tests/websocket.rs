//! WebSocket messages against a server of another library.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use penstock_lab::load::{self, Options, Payload, Protocol, Report};
use penstock_lab::payload::JsonShape;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::{Message, WebSocket};

#[test]
fn messages_are_echoed_on_one_connection_per_user() {
    for bytes in [64, 70_000] {
        let server = Server::start(|socket, message, _| socket.send(message));
        let payload = Payload::Made { shape: JsonShape::Array, bytes };
        let expect = Some("\"0123456789\"".to_owned());
        let report = run(Options { payload, expect, ..options(&server) });
        assert_eq!((report.requests, report.errors), (100, 0), "{:?}", report.errors_by_kind);
        assert_eq!(server.messages(), 100);
        // One more is the check that the target is reachable, without a WebSocket.
        assert_eq!(server.connections.load(Ordering::Relaxed), 3);
        assert!(report.received_bytes / report.requests > bytes as u64);
        assert_eq!(report.json()["options"]["protocol"], "WebSocket");
    }
}

#[test]
fn pings_are_answered_and_do_not_count_as_responses() {
    let server = Server::start(|socket, message, turn| {
        if turn % 2 == 0 {
            socket.send(Message::Ping(b"are you there".to_vec().into()))?;
        }
        socket.send(message)
    });
    let report = run(Options { users: 1, ..options(&server) });
    assert_eq!((report.requests, report.errors), (100, 0), "{:?}", report.errors_by_kind);
    assert_eq!((server.messages(), server.pongs.load(Ordering::Relaxed)), (100, 50));
}

#[test]
fn failures_are_counted_by_kind() {
    let closing = Server::start(|socket, _, _| socket.close(None));
    assert_eq!(kinds(&run(Options { requests: Some(5), ..options(&closing) })), ["closed"]);
    let silent = Server::start(|_, _, _| Ok(()));
    let timeout = Duration::from_millis(100);
    let report = run(Options { requests: Some(4), timeout, ..options(&silent) });
    assert_eq!(kinds(&report), ["timeout"]);
    let other = Server::start(|socket, _, _| socket.send(Message::text("other")));
    let expect = Some("hello".to_owned());
    assert_eq!(kinds(&run(Options { expect, ..options(&other) })), ["body-mismatch"]);
    let rejected = Server::start(|_, _, _| Ok(()));
    let url = format!("ws://{}/rejected", rejected.addr);
    let report = run(Options { url, requests: Some(2), ..options(&rejected) });
    assert_eq!(kinds(&report), ["status-404"]);
}

fn run(options: Options) -> Report {
    load::run(&options, &mut |_| {}).unwrap()
}

fn kinds(report: &Report) -> Vec<&str> {
    assert_eq!(report.errors, report.requests);
    report.errors_by_kind.iter().map(|(kind, _)| kind.as_str()).collect()
}

/// 100 messages by two users.
fn options(server: &Server) -> Options {
    Options {
        users: 2,
        protocol: Protocol::WebSocket,
        warm_up: Duration::ZERO,
        requests: Some(100),
        duration: load::LONGEST,
        ..Options::new(format!("ws://{}/chat", server.addr))
    }
}

struct Server {
    addr: SocketAddr,
    connections: Arc<AtomicU64>,
    messages: Arc<AtomicU64>,
    pongs: Arc<AtomicU64>,
}

type Answer = fn(&mut WebSocket<TcpStream>, Message, u64) -> tungstenite::Result<()>;

impl Server {
    /// `answer`: to the message of this number.
    fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let counts = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let [connections, messages, pongs] = counts.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                let (messages, pongs) = (Arc::clone(&messages), Arc::clone(&pongs));
                thread::spawn(move || serve(stream, answer, &messages, &pongs));
            }
        });
        let [connections, messages, pongs] = counts;
        Self { addr, connections, messages, pongs }
    }

    fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

fn serve(stream: TcpStream, answer: Answer, messages: &AtomicU64, pongs: &AtomicU64) {
    #[expect(clippy::result_large_err, reason = "the library's callback")]
    let check = |request: &Request, response: Response| {
        if request.uri().path() == "/rejected" {
            let mut rejection = tungstenite::http::Response::new(None);
            *rejection.status_mut() = tungstenite::http::StatusCode::NOT_FOUND;
            return Err(rejection);
        }
        Ok(response)
    };
    let Ok(mut socket) = tungstenite::accept_hdr(stream, check) else { return };
    while let Ok(message) = socket.read() {
        match message {
            Message::Text(_) | Message::Binary(_) => {
                let turn = messages.fetch_add(1, Ordering::Relaxed);
                if answer(&mut socket, message, turn).is_err() {
                    return;
                }
            }
            Message::Pong(_) => drop(pongs.fetch_add(1, Ordering::Relaxed)),
            Message::Ping(_) | Message::Close(_) | Message::Frame(_) => {}
        }
    }
}
