//! Scenarios against a server that checks the requests, over HTTP/1.1 and HTTP/2.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use penstock_lab::agent::{self, Agent, Secret};
use penstock_lab::load::{self, Options, Protocol, Report, Scenario};
use penstock_lab::recording::Recordings;
use tempfile::TempDir;
use wire::h2::{Connection, Event, head_block};

const ORDERS: &str = r#"
[[data]]
file = "items.csv"

[[request]]
name = "list"
weight = 3
path = "/list"

[[sequence]]
[[sequence.request]]
name = "create, with a comma"
path = "/orders"
status = 201
body = '{"item": "{{item}}"}'
extract.id = { json = "$.id" }
extract.tag = { header = "ETag" }
extract.word = { regex = 'word=(\w+)' }

[[sequence.request]]
name = "read"
path = "/orders/{{id}}?word={{word}}"
headers = { If-Match = "{{tag}}", X-Item = "{{item}}" }
expect = "order of {{item}}"
"#;

#[test]
fn sequences_pass_values_on_and_results_are_reported_by_name() {
    for protocol in [Protocol::Http1, Protocol::Http2 { connections: 2 }] {
        let shop = Shop::start(protocol);
        let folder = TempDir::new().unwrap();
        let jtl = folder.path().join("results.jtl");
        let recordings = Recordings { jtl: Some(jtl.clone()), ..Recordings::default() };
        let report = run(Options { recordings, ..options(&shop, &folder, ORDERS) });
        assert_eq!((report.requests, report.errors), (600, 0), "{:?}", report.errors_by_kind);
        let names: Vec<_> = report.by_request.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["list", "create, with a comma", "read"]);
        let [list, created, read] = [0, 1, 2].map(|at| report.by_request[at].requests);
        assert_eq!(list + created + read, 600);
        // At most one for each user is created and not read yet.
        assert!(created >= read && created - read <= 4, "{created} {read}");
        // The weights are 3 to 1, and a sequence has two requests: 360 of 600 on average.
        assert!((280..=440).contains(&list), "{list}");
        let seen =
            |text: &str| shop.seen.lock().unwrap().iter().filter(|one| one.contains(text)).count();
        assert_eq!(seen("/base/list") as u64, list);
        assert_eq!(seen("/base/orders ") as u64, created);
        // Each pass, that of a single request too, takes the next row of the data file.
        let rows = [seen("\"item\": \"A\""), seen("\"item\": \"B C\"")];
        assert!(
            rows.iter().all(|count| *count > 0) && rows.iter().sum::<usize>() as u64 == created,
            "{rows:?}"
        );
        assert_eq!(report.json()["by_request"][2]["requests"], read);
        assert!(report.table().contains("0 errors, p50"), "{}", report.table());
        let text = std::fs::read_to_string(&jtl).unwrap();
        let lines = |label: &str, path: &str| {
            let ends = format!(",http://{}/base{path},", shop.addr);
            let of = |line: &&str| line.contains(&format!(",{label},")) && line.contains(&ends);
            text.lines().filter(of).count() as u64
        };
        assert_eq!(lines("create%2C with a comma", "/orders"), created);
        assert_eq!(lines("read", "/orders/{{id}}?word={{word}}"), read);
    }
}

#[test]
fn a_request_that_fails_ends_its_sequence() {
    for (change, kind) in [
        (("$.id", "$.missing"), "extract"),
        (("'word=(\\w+)'", "'word=(\\d+)'"), "extract"),
        (("status = 201", "status = 200"), "status-201"),
        (("path = \"/orders\"", "path = \"/nowhere\""), "status-404"),
    ] {
        let shop = Shop::start(Protocol::Http1);
        let folder = TempDir::new().unwrap();
        let report = run(options(&shop, &folder, &ORDERS.replacen(change.0, change.1, 1)));
        let counts: Vec<_> =
            report.by_request.iter().map(|one| (one.errors, one.requests)).collect();
        assert!(counts[1].0 > 0 && counts[1].0 == counts[1].1, "{counts:?}");
        assert_eq!((counts[0].0, counts[2]), (0, (0, 0)), "{kind}");
        assert_eq!(report.errors_by_kind, [(kind.to_owned(), counts[1].0)]);
    }
}

#[test]
fn a_value_that_makes_a_request_invalid_is_an_error_and_the_request_is_not_sent() {
    let shop = Shop::start(Protocol::Http1);
    let folder = TempDir::new().unwrap();
    // The header field would not be ASCII.
    let text = ORDERS.replacen("X-Item = \"{{item}}\"", "X-Item = \"{{word}}\"", 1);
    let text = text.replacen("'word=(\\w+)'", "'name=(.)'", 1);
    let report = run(Options { requests: Some(60), ..options(&shop, &folder, &text) });
    let read = &report.by_request[2];
    assert!(read.requests > 0 && read.errors == read.requests, "{read:?}");
    assert!(shop.seen.lock().unwrap().iter().all(|one| !one.starts_with("GET /base/orders")));
}

#[test]
fn think_times_of_requests_enter_littles_law_and_need_a_closed_loop() {
    let shop = Shop::start(Protocol::Http1);
    let folder = TempDir::new().unwrap();
    let text = ORDERS.replacen("weight = 3", "weight = 30000\nthink_time = \"1ms..3ms\"", 1);
    let report = run(options(&shop, &folder, &text));
    assert!((1.5..=2.0).contains(&report.mean_pause_ms), "{}", report.mean_pause_ms);
    assert_eq!(report.json()["mean_pause_ms"], report.mean_pause_ms);
    let shape = load::Shape::Arrivals { rate_per_s: 10.0 };
    let error = load::run(&Options { shape, ..options(&shop, &folder, &text) }, &mut |_| {});
    assert!(
        error.unwrap_err().to_string().starts_with("scenario: request `list` has a think time")
    );
}

#[test]
fn agents_share_a_scenario() {
    let shop = Shop::start(Protocol::Http1);
    let folder = TempDir::new().unwrap();
    let secret = || Secret::new(b"the secret of these tests").unwrap();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let agents = [(); 2].map(|()| Agent::start(listen, secret(), false).unwrap());
    let names = agents.each_ref().map(|agent| agent.addr().to_string());
    let report =
        agent::run(&options(&shop, &folder, ORDERS), &names, &secret(), &mut |_| {}).unwrap();
    assert_eq!((report.requests, report.errors), (600, 0), "{:?}", report.errors_by_kind);
    assert_eq!(report.by_request.iter().map(|one| one.requests).sum::<u64>(), 600);
    assert_eq!(shop.seen.lock().unwrap().len(), 600);
}

fn run(options: Options) -> Report {
    load::run(&options, &mut |_| {}).unwrap()
}

/// 600 requests by four users.
fn options(shop: &Shop, folder: &TempDir, text: &str) -> Options {
    let file = folder.path().join("orders.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("items.csv"), "item\nA\nB C\n").unwrap();
    Options {
        users: 4,
        protocol: shop.protocol,
        warm_up: Duration::ZERO,
        requests: Some(600),
        duration: load::LONGEST,
        scenario: Some(Arc::new(Scenario::read(&file).unwrap())),
        ..Options::new(format!("http://{}/base/", shop.addr))
    }
}

/// Creates orders, and returns one to who knows its tag.
struct Shop {
    addr: SocketAddr,
    protocol: Protocol,
    /// Heads and bodies of all requests.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&shared);
                thread::spawn(move || match protocol {
                    Protocol::Http1 | Protocol::WebSocket => serve_http1(stream, &seen),
                    Protocol::Http2 { .. } => serve_http2(stream, &seen),
                });
            }
        });
        Self { addr, protocol, seen }
    }
}

/// Status, `ETag` and body of the response.
fn respond(request: &str, seen: &Mutex<Vec<String>>) -> (u16, String, String) {
    seen.lock().unwrap().push(request.to_owned());
    let item = |name: &str| {
        let lower = request.to_lowercase();
        let from = lower.find(name)? + name.len();
        request[from..].split(['"', '\r']).next()
    };
    let target = request.split(' ').nth(1).unwrap();
    match (request.split(' ').next().unwrap(), target.split('?').next().unwrap()) {
        ("GET", "/base/list") => (200, String::new(), "[]".to_owned()),
        ("POST", "/base/orders") => {
            let item = item("\"item\": \"").unwrap();
            let body =
                format!("{{\"id\": \"of {item}\", \"text\": \"word=w_{item}, name=\u{e9}\"}}");
            (201, format!("\"tag {item}\""), body)
        }
        ("GET", path) => {
            let item = item("x-item: ").unwrap_or_default();
            let encoded = item.replace(' ', "%20");
            // An expression takes a word only.
            let word = item.split(' ').next().unwrap();
            let is_right = path == format!("/base/orders/of%20{encoded}")
                && target.ends_with(&format!("?word=w_{word}"))
                && request
                    .to_lowercase()
                    .contains(&format!("if-match: \"tag {}\"", item.to_lowercase()));
            let status = if is_right { 200 } else { 404 };
            (status, String::new(), format!("order of {item}"))
        }
        _ => (404, String::new(), String::new()),
    }
}

fn serve_http1(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut unread = String::new();
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        unread.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        let Some(head) = unread.find("\r\n\r\n").map(|at| at + 4) else { continue };
        let length =
            unread.split("Content-Length: ").nth(1).and_then(|rest| rest.split('\r').next());
        if unread.len() < head + length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        let (status, tag, body) = respond(&unread, seen);
        unread.clear();
        let length = body.len();
        let response =
            format!("HTTP/1.1 {status} X\r\nETag: {tag}\r\nContent-Length: {length}\r\n\r\n{body}");
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn serve_http2(mut stream: TcpStream, seen: &Mutex<Vec<String>>) {
    let mut connection = Connection::new();
    let mut unread = Vec::new();
    let mut requests: Vec<(usize, String)> = Vec::new();
    let mut buffer = [0; 16_384];
    loop {
        let output = connection.output().to_vec();
        if stream.write_all(&output).is_err() {
            return;
        }
        connection.written(output.len());
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        unread.extend_from_slice(&buffer[..count]);
        while let Ok(step) = connection.receive(&unread) {
            let ended = match step.event {
                Some(Event::Request { slot, is_all, .. }) => {
                    let mut head = Vec::new();
                    connection.swap_head(&mut head);
                    requests.push((slot, String::from_utf8(head).unwrap()));
                    is_all.then_some(slot)
                }
                Some(Event::Data { slot, ref at }) => {
                    connection.consumed(slot, at.len());
                    let (_, request) = requests.iter_mut().find(|(own, _)| *own == slot).unwrap();
                    request.push_str(std::str::from_utf8(&unread[at.clone()]).unwrap());
                    None
                }
                Some(Event::End { slot }) => Some(slot),
                Some(_) => None,
                None if step.used == 0 => break,
                None => None,
            };
            unread.drain(..step.used);
            let Some(slot) = ended else { continue };
            let at = requests.iter().position(|(own, _)| *own == slot).unwrap();
            let (status, tag, body) = respond(&requests.swap_remove(at).1, seen);
            let mut block = Vec::new();
            let fields = [(&b"etag"[..], tag.as_bytes())];
            head_block(&mut block, status, fields.into_iter(), Some(body.len() as u64)).unwrap();
            connection.send_head(slot, &block, body.is_empty());
            if !body.is_empty() {
                assert_eq!(connection.send_data(slot, body.as_bytes()), body.len());
                connection.finish(slot);
            }
            connection.close(slot);
        }
    }
}
