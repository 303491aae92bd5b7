//! The load generator against well-behaved and misbehaving backends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use echo::Echo;
use penstock_lab::load::{
    self, LoadError, Options, Payload, Report, SeriesPoint, Shape, Think, Trust,
};
use penstock_lab::payload::JsonShape;
use tempfile::TempDir;
use wire::tls::{CertificateSet, PemPair, ServerCertificates, generate_self_signed, server_config};

#[test]
fn the_count_agrees_with_the_backends() {
    let echo = start_echo(None);
    for threads in [1, 3] {
        let before = echo.requests();
        let report = run(Options { users: 7, threads, ..post(&echo) });
        assert_eq!(report.requests_in_all, echo.requests() - before, "{threads} threads");
        assert!(report.requests > 0 && report.requests < report.requests_in_all);
        assert_eq!((report.errors, report.errors_in_all), (0, 0));
        let response_bytes = report.received_bytes / report.requests;
        assert_eq!(report.received_bytes % report.requests, 0);
        assert!(response_bytes > 1_024 && response_bytes < 1_200, "{response_bytes}");
    }
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    let echo = start_echo(None);
    let open = Shape::Arrivals { rate_per_s: 1_000.0 };
    for (threads, shape, warm_up_ms) in
        [(1, Shape::default(), 0), (3, Shape::default(), 200), (2, open.clone(), 0), (1, open, 200)]
    {
        let before = echo.requests();
        let options = Options {
            users: 7,
            threads,
            shape,
            requests: Some(101),
            duration: load::LONGEST,
            warm_up: Duration::from_millis(warm_up_ms),
            ..post(&echo)
        };
        let report = run(options);
        assert_eq!((report.requests, report.errors_in_all), (101, 0));
        assert_eq!(report.requests_in_all, echo.requests() - before);
        assert_eq!(warm_up_ms == 0, report.requests_in_all == 101);
        assert!(report.seconds > 0.0 && report.throughput_per_s > 0.0);
        assert_eq!(report.json()["options"]["duration_s"], serde_json::Value::Null);
    }
}

#[test]
fn a_number_of_requests_ends_with_the_last_response() {
    let echo = start_echo(None);
    let at = |rate_per_s| Shape::Arrivals { rate_per_s };
    let pause = Shape::Closed { think: Think::Constant { us: 60_000_000 } };
    // Users without a request neither wait for the time of the next one nor think.
    for (users, requests, shape, least_s, most_s) in [
        (100, 100, at(50.0), 1.979, 3.97),
        (3, 1, at(1.0 / 60.0), 0.0, 30.0),
        (2, 2, pause, 0.0, 30.0),
    ] {
        let report = run(Options {
            users,
            shape: shape.clone(),
            requests: Some(requests),
            duration: load::LONGEST,
            warm_up: Duration::ZERO,
            ..post(&echo)
        });
        assert_eq!((report.requests, report.errors), (requests, 0));
        let seconds = report.seconds;
        assert!(least_s <= seconds && seconds < most_s, "{shape:?}: {seconds} s");
    }
}

#[test]
fn a_connection_per_request_says_so_and_its_cost_is_reported() {
    let closing = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    let backend = Backend::start_with(move |request, _| {
        let own = if request.contains("\r\nConnection: close\r\n") { closing } else { "" };
        own.as_bytes().to_vec()
    });
    let once = Options { requests: Some(9), connection_per_request: true, ..get(backend.addr) };
    let report = run(Options { warm_up: Duration::ZERO, ..once });
    assert_eq!((report.requests, report.errors), (9, 0));
    assert_eq!((report.connects.0, backend.requests()), (9, 9));
    assert!(report.table().contains("handshake p99"));
    let kept = run(Options { requests: Some(9), ..post(&start_echo(None)) });
    assert!(kept.connects.0 <= 4, "a connection per user, or none after the warm-up");
}

#[test]
fn a_large_payload_is_transferred_completely() {
    let echo = start_echo(None);
    let payload = Payload::Made { shape: JsonShape::Array, bytes: 700_000 };
    let report = run(Options { payload, expect: Some("}".to_owned()), ..post(&echo) });
    assert_eq!(report.errors_in_all, 0);
    assert_eq!(report.requests_in_all, echo.requests());
}

#[test]
fn a_body_without_the_text_is_a_body_mismatch() {
    let echo = start_echo(None);
    let report = run(Options { expect: Some("no such text".to_owned()), ..post(&echo) });
    assert_eq!(kinds(&report), ["body-mismatch"]);
    assert_eq!(report.errors, report.requests);
    let good = run(Options { expect: Some("\"0123456789\"".to_owned()), ..post(&echo) });
    assert_eq!(good.errors_in_all, 0);
}

#[test]
fn a_status_other_than_2xx_is_an_error() {
    let backend = Backend::start(|_| b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec());
    let report = run(get(backend.addr));
    assert_eq!(kinds(&report), ["status-503"]);
    assert_eq!(report.errors, report.requests);
    assert_eq!(report.requests_in_all, backend.requests());
    assert!(names(&report).iter().any(|code| code == "errors"));
}

#[test]
fn an_announced_close_is_not_an_error() {
    let backend = Backend::start(|_| {
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi".to_vec()
    });
    let report = run(get(backend.addr));
    assert_eq!(report.errors_in_all, 0);
    assert_eq!(report.requests_in_all, backend.requests());
}

#[test]
fn an_early_close_is_an_error_and_the_user_continues() {
    let backend = Backend::start(|_| Vec::new());
    let report = run(get(backend.addr));
    assert_eq!(kinds(&report), ["closed"]);
    assert!(report.requests > 1);
}

#[test]
fn a_truncated_body_is_an_error() {
    let backend = Backend::start(|turn| {
        let close = if turn % 2 == 0 { "" } else { "Connection: close\r\n" };
        format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 9\r\n\r\nshort").into_bytes()
    });
    let options = Options { timeout: Duration::from_millis(400), ..get(backend.addr) };
    let report = run(options);
    for kind in kinds(&report) {
        assert!(["closed", "timeout"].contains(&kind), "{kind}");
    }
    assert_eq!(report.errors_in_all, report.requests_in_all);
}

#[test]
fn a_missing_response_is_a_timeout() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let timeout = Duration::from_millis(300);
    let options = get(listener.local_addr().unwrap());
    let report = run(Options { timeout, warm_up: Duration::ZERO, ..options });
    assert_eq!(kinds(&report), ["timeout"]);
    assert!(report.latency.min_ms >= 300.0);
}

#[test]
fn chunked_and_unframed_responses_are_supported() {
    for response in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ] {
        let backend = Backend::start(|_| response.as_bytes().to_vec());
        let report = run(Options { expect: Some("hello".to_owned()), ..get(backend.addr) });
        assert_eq!(report.errors_in_all, 0, "{response}");
        assert_eq!(report.requests_in_all, backend.requests(), "{response}");
    }
}

#[test]
fn invalid_responses_are_protocol_errors() {
    let backend = Backend::start(|_| b"220 mail.example ESMTP\r\n\r\n".to_vec());
    assert_eq!(kinds(&run(get(backend.addr))), ["protocol"]);
}

#[test]
fn an_unreachable_target_is_an_error() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let error = load::run(&get(addr), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}

#[test]
fn tokens_rotate_over_all_users() {
    let seen = Arc::new(std::sync::Mutex::new(std::collections::BTreeMap::<String, u64>::new()));
    let record = Arc::clone(&seen);
    let backend = Backend::start_with(move |request, _| {
        let token = request.lines().find_map(|line| line.strip_prefix("Authorization: Bearer "));
        *record.lock().unwrap().entry(token.unwrap().to_owned()).or_default() += 1;
        b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()
    });
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tokens.csv");
    std::fs::write(&path, "alpha\r\nbeta\n\ngamma\n").unwrap();
    let report = run(Options { users: 5, tokens: Some(path), ..get(backend.addr) });
    assert_eq!((report.errors_in_all, report.settings.tokens), (0, 3));
    let seen = seen.lock().unwrap();
    let counts: Vec<u64> = seen.values().copied().collect();
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["alpha", "beta", "gamma"]);
    assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
}

#[test]
fn invalid_files_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tokens.csv");
    let missing = Options { tokens: Some(path.clone()), ..Options::new("http://127.0.0.1:1/") };
    assert!(load::run(&missing, &mut |_| {}).unwrap_err().to_string().contains("tokens.csv"));
    for (text, expect) in [("\n\n", "no tokens"), ("good\nnot good\n", ":2: invalid token")] {
        std::fs::write(&path, text).unwrap();
        let error = load::run(&missing, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn tls_is_verified_unless_disabled() {
    let folder = TempDir::new().unwrap();
    let (tls, ca) = server_tls(&folder);
    let echo = start_echo(Some(tls));
    let url = format!("https://localhost:{}/", echo.addr().port());
    let with = |trust| Options { url: url.clone(), trust, ..post(&echo) };
    for trust in [Trust::Ca(ca), Trust::Insecure] {
        let before = echo.requests();
        let report = run(with(trust));
        assert_eq!(report.errors_in_all, 0);
        assert_eq!(report.requests_in_all, echo.requests() - before);
    }
    let (_, other_ca) = server_tls(&folder);
    let error = load::run(&with(Trust::Ca(other_ca)), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
}

#[test]
fn a_stop_ends_the_measurement_early() {
    let echo = start_echo(None);
    let options = Options { duration: Duration::from_secs(3_600), ..post(&echo) };
    let stop = options.stop.clone();
    let mut progresses = Vec::new();
    let report = load::run(&options, &mut |progress| {
        progresses.push(*progress);
        stop.stop();
    })
    .unwrap();
    assert!(names(&report).iter().any(|code| code == "interrupted"));
    assert!(report.seconds < 3_600.0 && report.requests > 0);
    let first = progresses.first().unwrap();
    assert!(first.requests > 0 && !first.warming_up && first.rate_per_s > 0.0);
    assert!(first.p50_ms.is_some() && first.p99_ms.is_some(), "{first}");
    assert!(first.to_string().starts_with("measuring: "));
}

#[test]
fn the_json_has_every_documented_key() {
    let echo = start_echo(None);
    let report = run(post(&echo));
    let json = report.json();
    for key in "requests errors seconds throughput_per_s mean_ms sd_ms min_ms p50_ms p75_ms p90_ms \
                p95_ms p98_ms p99_ms p999_ms p9999_ms max_ms users_by_littles_law generator_cpu_us_per_request \
                generator_peak_rss_bytes"
        .split_whitespace()
    {
        assert!(json[key].is_number(), "{key}: {json}");
    }
    for key in ["errors_by_kind", "options"] {
        assert!(json[key].is_object(), "{key}");
    }
    assert!(json["warnings"].is_array());
    assert!(json["generator_peak_rss_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20));
    assert_eq!(json["requests"], report.requests);
    assert_eq!(json["options"]["users"], 4);
}

#[test]
fn the_time_series_adds_up_to_the_totals() {
    let echo = start_echo(None);
    let mut seen = Vec::new();
    let options = Options { duration: Duration::from_millis(3_500), ..post(&echo) };
    let report = load::run(&options, &mut |progress| seen.push(*progress)).unwrap();
    let sum = |of: fn(&SeriesPoint) -> u64| report.series.iter().map(of).sum::<u64>();
    assert_eq!((sum(|point| point.requests), sum(|point| point.errors)), (report.requests, 0));
    assert!(report.series.len() >= 2, "{:?}", report.series);
    assert!(report.series.is_sorted_by(|one, next| one.from_s < next.from_s));
    for point in &report.series {
        assert!(point.p50_ms <= point.p99_ms && point.p99_ms <= point.max_ms, "{point:?}");
    }
    assert_eq!(report.json()["series"].as_array().unwrap().len(), report.series.len());
    // The live view has the last second's percentiles, once there is one.
    assert!(seen.iter().any(|progress| progress.p99_ms.is_some()), "{seen:?}");
}

#[test]
fn a_second_without_a_response_has_no_latency() {
    let stalled = Arc::new(AtomicBool::new(false));
    let stalls = Arc::clone(&stalled);
    let backend = Backend::start(move |_| {
        while stalls.load(Ordering::Relaxed) {
            thread::park();
        }
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()
    });
    let options = Options { duration: Duration::from_secs(3_600), ..get(backend.addr) };
    let (stop, mut lines) = (options.stop.clone(), Vec::new());
    let report = load::run(&options, &mut |progress| {
        let is_stalled = stalled.fetch_or(progress.p99_ms.is_some(), Ordering::Relaxed);
        if is_stalled && progress.p99_ms.is_none() {
            lines.push(progress.to_string());
            stop.stop();
        }
    })
    .unwrap();
    assert!(lines[0].contains("p50 -, p99 -, "), "{lines:?}");
    let json = report.json();
    let seconds = json["series"].as_array().unwrap();
    for second in seconds {
        let latencies = ["p50_ms", "p99_ms", "max_ms"].map(|key| second[key].is_null());
        assert_eq!(latencies, [second["requests"] == 0; 3], "{second}");
    }
    assert!(seconds.iter().any(|second| second["requests"] == 0), "{json}");
}

#[test]
fn the_table_ends_with_warnings() {
    let echo = start_echo(None);
    let mut report = run(post(&echo));
    (report.throughput_per_s, report.latency.mean_ms) = (100.0, 30.0);
    let table = report.table();
    assert!(table.contains("throughput") && table.contains("latency p99"), "{table}");
    assert!(table.contains("error: littles-law: "), "{table}");
}

fn names(report: &Report) -> Vec<String> {
    report.warnings().iter().map(|warning| warning.code.clone()).collect()
}

fn kinds(report: &Report) -> Vec<&str> {
    report.errors_by_kind.iter().map(|(kind, _)| kind.as_str()).collect()
}

fn run(options: Options) -> Report {
    load::run(&options, &mut |_| {}).unwrap()
}

fn post(echo: &Echo) -> Options {
    let payload = Payload::Made { shape: JsonShape::Array, bytes: 1_024 };
    Options { payload, ..get(echo.addr()) }
}

fn get(addr: SocketAddr) -> Options {
    Options {
        users: 4,
        warm_up: Duration::from_millis(300),
        // Long enough that a busy machine gives the generator some of it.
        duration: Duration::from_millis(1_200),
        ..Options::new(format!("http://{addr}/"))
    }
}

fn start_echo(tls: Option<Arc<rustls::ServerConfig>>) -> Echo {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Echo::start(echo::Options { listen, delay_ms: 0, tls, workers: Some(1) }).unwrap()
}

/// A certificate for localhost, and the CA file to trust it.
fn server_tls(folder: &TempDir) -> (Arc<rustls::ServerConfig>, std::path::PathBuf) {
    let now_s = base::Clock::now(&base::SystemClock::new()).unix_s;
    let (certificate, key) = generate_self_signed(&["localhost"], now_s).unwrap();
    let pair: PemPair<'_> = (certificate.as_bytes(), key.as_bytes());
    let set = CertificateSet::load(Some(pair), Vec::new()).unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, &certificate).unwrap();
    (server_config(Arc::new(ServerCertificates::new(set)), false), path)
}

/// A backend that responds to GET requests as the test requires, one thread per connection. Closes after an
/// empty response and after `Connection: close`.
struct Backend {
    addr: SocketAddr,
    requests: Arc<AtomicU64>,
}

type Handler = Arc<dyn Fn(&str, u64) -> Vec<u8> + Send + Sync>;

impl Backend {
    fn start(response: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start_with(move |_, turn| response(turn))
    }

    fn start_with(handler: impl Fn(&str, u64) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let handler: Handler = Arc::new(handler);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (handler, count) = (Arc::clone(&handler), Arc::clone(&count));
                thread::spawn(move || serve(stream, &handler, &count));
            }
        });
        Self { addr, requests }
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, handler: &Handler, count: &AtomicU64) {
    let mut request = Vec::new();
    let mut buffer = [0; 4_096];
    while let Ok(read) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..read]);
        if read == 0 {
            return;
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        let turn = count.fetch_add(1, Ordering::Relaxed);
        let response = handler(&String::from_utf8_lossy(&request), turn);
        request.clear();
        let text = String::from_utf8_lossy(&response);
        if stream.write_all(&response).is_err()
            || response.is_empty()
            || text.contains("Connection: close")
        {
            return;
        }
    }
}
