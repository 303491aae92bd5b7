//! Every scenario of suites/micro-integrator.toml, once: the request at the upstream, and the whole response
//! (scenarios.txt).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use harness::{CannedResponse, Client, Files, Process, Request, Response, Upstream};
use lab::suite::definition::Suite;
use lab::suite::scenario::Scenario;

/// The size of the payloads, which have few orders then.
const BYTES: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the body, with its content type.
fn echoed(request: &Request) -> CannedResponse {
    let content_type = request.head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    });
    let (content_type, body) = (content_type.unwrap_or_default(), request.text());
    let len = body.len();
    CannedResponse::bytes(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n\r\n{body}"
    ))
}

/// The examples, in a folder of their own, with this endpoint.
fn copy_examples(from: &Path, to: &Path, upstream: &Upstream) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
        if path.is_dir() {
            copy_examples(&path, &to.join(name), upstream);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            let address = upstream.address().to_string();
            std::fs::write(to.join(name), text.replace("127.0.0.1:8688", &address)).unwrap();
        }
    }
}

fn payload(scenario: &Scenario) -> String {
    scenario.payload.file(BYTES).map(|made| made.unwrap().1).unwrap_or_default()
}

fn send(process: &Process, scenario: &Scenario, body: &str) -> Response {
    let fields = scenario.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let (fields, len) = (fields.collect::<String>(), body.len());
    let (method, path) = (&scenario.method, &scenario.path);
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: me\r\n{fields}Content-Length: {len}\r\n\r\n");
    let mut client = Client::connect(process.address("integration_http"));
    client.send(head + body);
    client.read()
}

/// The requests at the upstream, of which there may be several at once, and the client's response.
fn shown(title: &str, body: &str, sent: &[Request], response: &Response) -> String {
    let mut text = format!("== {title}\n");
    let mut bodies: Vec<_> = sent.iter().map(Request::text).collect();
    bodies.sort();
    for same in bodies.chunk_by(|one, other| one == other) {
        let is_request = same[0] == body;
        let sent = if is_request { "the request\n" } else { &format!("\n{}\n", same[0]) };
        let _ = write!(text, "-- sent {} times: {sent}", same.len());
    }
    let of = response.header("content-type").unwrap_or_default();
    let _ = writeln!(text, "-- {} {of}", response.status);
    match response.text() {
        response if response == body => text.push_str("the request\n"),
        response if bodies.first() == Some(&response) => text.push_str("what was sent\n"),
        response => {
            let _ = writeln!(text, "{response}");
        }
    }
    text
}

#[test]
fn every_scenario_has_its_whole_response_after_as_many_requests_as_it_says() {
    let suite = Suite::read(&root().join("suites/micro-integrator.toml")).unwrap();
    // The others are compared with `forward`.
    let scenarios: Vec<_> = suite.scenarios.iter().filter(|one| one.name != "forward").collect();
    assert_eq!(scenarios.len(), 23);
    let (files, upstream) = (Files::new(), Upstream::responding(echoed));
    copy_examples(&root().join("examples/micro-integrator"), &files.path("artifacts"), &upstream);
    files.write(
        "penstock.toml",
        "[gateway]\nworkers = 1\n[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"artifacts/\"]\n",
    );
    let process = Process::start(files.folder(), &["gateway", "--config", "penstock.toml"]);
    process.wait_for(" serving ");
    let mut all = String::new();
    let run = |title: &str, scenario: &Scenario, body: &str| {
        let before = upstream.requests().len();
        let response = send(&process, scenario, body);
        let sent = upstream.requests().split_off(before);
        (shown(title, body, &sent, &response), sent.len() as u64, response.text())
    };
    for scenario in scenarios {
        let body = payload(scenario);
        let (shown, sent, text) = run(&scenario.name, scenario, &body);
        let expect = scenario.expect.as_deref().unwrap_or_default();
        assert!(text.contains(expect), "{}: no {expect} in {text}", scenario.name);
        // Proxies need not say it.
        let declared = scenario.upstream_requests.as_ref();
        let expect = declared.map_or(1, |declared| declared.of(&body));
        assert_eq!(sent, expect, "{}", scenario.name);
        all.push_str(&shown);
    }
    // Without the header, or with another block, a router sends nothing.
    let named = |name: &str| suite.scenarios.iter().find(|one| one.name == name).unwrap().clone();
    let (mut by_field, by_block) = (named("cbr-header"), named("cbr-soap-header"));
    by_field.headers.retain(|name, _| name != "routing");
    let soap = payload(&by_field);
    all.push_str(&run("cbr-header, without the header", &by_field, &soap).0);
    let other = soap.replace("server1", "server2");
    all.push_str(&run("cbr-soap-header, with another block", &by_block, &other).0);

    let file = root().join("tests/journeys/scenarios.txt");
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        std::fs::write(&file, &all).unwrap();
    }
    let expect = std::fs::read_to_string(&file).unwrap();
    assert!(all == expect, "PENSTOCK_BLESS=1 writes {}, to compare:\n{all}", file.display());
}
