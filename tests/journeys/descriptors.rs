//! A process that may open few files sheds clients before it has none left for upstreams and the admin port.

use std::time::Instant;

use harness::{Client, Files, PATIENCE, Process, Upstream};

const OPEN_FILES: u32 = 400;
/// More than it can accept.
const CONNECTIONS: usize = 300;

#[test]
fn near_the_limit_of_descriptors_clients_get_503_and_readyz_fails() {
    let upstream = Upstream::fixed("served");
    let files = Files::new().api(
        "a.yaml",
        &format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
             servers: [{{url: '{}'}}]\nsecurity: []\n\
             paths:\n  /*:\n    get: {{responses: {{}}}}\n",
            upstream.url()
        ),
    );
    let process = Process::gateway_with_open_files(&files, OPEN_FILES);
    let (http, admin) = (process.address("http"), process.address("admin"));
    let readyz = || Client::connect(admin).fetch("GET /readyz", "");
    assert_eq!(readyz().status, 200);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| Client::connect(http)).collect();
    // Noticed by the next sweep.
    until(|| readyz().status == 503);
    assert_eq!(readyz().text(), "too many connections\n");
    let count = |mut client: Client| {
        // One that was rejected has its response.
        let request = "GET /a/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n";
        client.try_send(request).read_until_close().get(9..12).unwrap_or("none").to_owned()
    };
    let statuses: Vec<String> = clients.into_iter().map(count).collect();
    let of = |status: &str| statuses.iter().filter(|found| *found == status).count();
    assert!(of("200") > 0 && of("200") < OPEN_FILES as usize / 2, "half are for upstreams");
    assert!(of("503") > 0 && of("500") == 0, "{statuses:?}");
    let metrics = Client::connect(admin).fetch("GET /metrics", "").text();
    let refused = "penstock_connections_refused_total{limit=\"descriptors\"} ";
    assert!(!metrics.contains(&format!("{refused}0\n")) && metrics.contains(refused), "{metrics}");
    assert!(!process.text().contains("cannot accept"), "{}", process.text());
    until(|| readyz().status == 200);
    assert_eq!(Client::connect(http).fetch("GET /a/x", "").text(), "served");
}

/// Each request has up to 64 upstream connections, and keeps them when its client has left.
#[test]
fn requests_that_are_sent_to_many_endpoints_leave_descriptors_for_clients_and_the_admin_port() {
    let upstream = Upstream::manual();
    let targets = "<target><sequence><send><endpoint><address uri=\"HERE/\"/></endpoint></send></sequence></target>";
    let targets = targets.replace("HERE", &upstream.url()).repeat(64);
    let files = Files::new()
        .toml("[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"integration/\"]\n");
    std::fs::create_dir(files.path("integration")).unwrap();
    files.write(
        "integration/fan.xml",
        &format!(
            "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><proxy name=\"fan\"><target><inSequence>\
             <clone>{targets}</clone></inSequence></target></proxy></definitions>"
        ),
    );
    let process = Process::gateway_with_open_files(&files, OPEN_FILES);
    let (http, admin) = (process.address("integration_http"), process.address("admin"));
    let upstreams = |state: &str| {
        let page = Client::connect(admin).fetch("GET /metrics", "").text();
        let state = format!("state=\"{state}\"");
        let lines = page.lines().filter(|line| line.starts_with("penstock_upstream_connections{"));
        let lines = lines.filter(|line| line.contains(&state));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok()).sum::<usize>()
    };
    for _ in 0..20 {
        let mut client = Client::connect(http);
        client.send("POST /services/fan HTTP/1.1\r\nHost: me\r\nContent-Length: 1\r\n\r\nx");
    }
    until(|| upstreams("waited_for") > 0);
    assert!(upstreams("in_use") < OPEN_FILES as usize / 2, "half are for clients");
    for _ in 0..20 {
        assert_eq!(Client::connect(http).fetch("GET /services/none", "").status, 404);
    }
    assert_eq!(Client::connect(admin).fetch("GET /readyz", "").status, 200);
    assert!(!process.text().contains("cannot accept"), "{}", process.text());
}

/// Waits for an event; a hang fails the test.
#[track_caller]
fn until(mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "it did not happen");
        std::thread::yield_now();
    }
}
