//! The process log on stderr: a reader that is slow, or gone, stops nothing.

use std::net::SocketAddr;

use harness::{Client, Files, Process, Upstream, wait_until};
use nix::sys::signal::Signal::SIGTERM;
use socket2::{Domain, Socket, Type};

/// An address that refuses connections. It stays bound, so that no other program listens on it.
fn refused() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// An open API at `base_path`; `operations` belong to its paths.
fn description(base_path: &str, url: &str, operations: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: {base_path}\n\
         x-wso2-production-endpoints: {{urls: ['{url}']}}\nsecurity: []\npaths:\n  /*:\n    \
         get: {{responses: {{'200': {{description: ok}}}}}}\n{operations}"
    )
}

/// Requests to an upstream that refuses connections; each is logged.
fn provoke(process: &Process, requests: usize) {
    let mut client = Client::connect(process.address("http"));
    for _ in 0..requests {
        assert_eq!(client.fetch("GET /dead/x", "").status, 500);
    }
}

/// Lines lost so far.
fn lost(process: &Process) -> u64 {
    let metrics = Client::connect(process.address("admin")).fetch("GET /metrics", "").text();
    let line = metrics.lines().find(|line| line.starts_with("penstock_process_log_lost_total "));
    let (_, value) = line.expect("the metric").split_once(' ').unwrap();
    value.parse().unwrap()
}

/// The gateway serves `/a` although its log, which is not read, is full.
fn check_serves(process: &Process) {
    let mut client = Client::connect(process.address("http"));
    for _ in 0..100 {
        assert_eq!(client.fetch("GET /a/x", "").text(), "in");
    }
    provoke(process, 100);
}

/// A gateway with `/a` and `/dead`, and a log that is not read: full to the point of losing lines.
fn unread(upstream: &Upstream, dead: SocketAddr) -> (Files, Process) {
    let mut files = Files::new()
        .api("a.yaml", &description("/a", &upstream.url(), ""))
        .api("dead.yaml", &description("/dead", &format!("http://{dead}"), ""));
    let long = "x".repeat(200);
    let edited = |number: usize| (format!("{long}{number}.yaml"), format!("/edited/{number}"));
    for (name, base_path) in (0..12).map(edited) {
        files = files.api(&name, &description(&base_path, &upstream.url(), ""));
    }
    let process = Process::gateway(&files);
    process.pause(true);
    // Without a queue, a few hundred lines fill the pipe and stop the worker.
    provoke(&process, 1_000);
    check_serves(&process);
    // 1,000 diagnostics for each file, each on a line of its own with the name of its file.
    let broken: String = (0..1_000).map(|number| format!("  /{number}: {{get: 7}}\n")).collect();
    for (name, base_path) in (0..12).map(edited) {
        files.write(&format!("apis/{name}"), &description(&base_path, &upstream.url(), &broken));
    }
    wait_until(|| lost(&process) != 0);
    (files, process)
}

#[test]
fn a_log_that_nobody_reads_loses_lines_and_stops_nothing() {
    let (upstream, (_socket, dead)) = (Upstream::fixed("in"), refused());
    let (_files, mut process) = unread(&upstream, dead);
    check_serves(&process);
    process.pause(false);
    process.wait_for("process log lines were lost");
    check_serves(&process);
    process.signal(SIGTERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.text());
    assert!(process.text().contains("all requests finished"), "the log is written to its end");
}

#[test]
fn a_log_that_nobody_reads_does_not_delay_the_shutdown() {
    let (upstream, (_socket, dead)) = (Upstream::fixed("in"), refused());
    let (_files, mut process) = unread(&upstream, dead);
    process.signal(SIGTERM);
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn lines_that_repeat_are_counted_instead_of_written() {
    const REQUESTS: usize = 2_000;
    let (_socket, dead) = refused();
    let files = Files::new().api("dead.yaml", &description("/dead", &format!("http://{dead}"), ""));
    let mut process = Process::gateway(&files);
    provoke(&process, REQUESTS);
    process.signal(SIGTERM);
    assert_eq!(process.wait().code(), Some(0));
    let text = process.text();
    let written = text.lines().filter(|line| line.contains(" request=")).count();
    let repeated =
        text.lines().filter_map(|line| line.split_once(" repeated=")).map(|(_, count)| {
            let digits = count.split(' ').next().unwrap_or_default();
            digits.parse::<usize>().expect("a number")
        });
    let repeated: usize = repeated.sum();
    assert!(repeated > 0, "{text}");
    assert_eq!(written + repeated, REQUESTS, "each request is written or counted");
}
