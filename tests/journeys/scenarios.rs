//! Every scenario of suites/micro-integrator.toml, once: the response, and how many requests its upstream got.

use std::path::{Path, PathBuf};

use harness::{CannedResponse, Client, Files, Process, Request, Response, Upstream};
use lab::suite::definition::Suite;
use lab::suite::scenario::Scenario;

const ORDERS: usize = 3;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A SOAP message with the header that scenarios route by.
fn soap() -> String {
    let order = "<order><symbol>IBM</symbol><buyerID>john</buyerID><price>140.34</price><volume>2000</volume></order>\n";
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Header>\
         <routing xmlns=\"http://someuri\">xadmin;server1;community#1.0##</routing></soapenv:Header><soapenv:Body>\
         <m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n{}</m:buyStocks></soapenv:Body></soapenv:Envelope>",
        order.repeat(ORDERS)
    )
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
    match scenario.path.as_str() {
        "/echo" => String::new(),
        "/services/JsonToSOAPProxy" => "{\"payload\":{\"symbol\":[\"json\"]}}".to_owned(),
        _ => soap(),
    }
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

/// What the upstream gets of a scenario that changes the request, and its client does not send. The responses of `enrich`
/// are the requests again.
const SENT: [(&str, &str); 9] = [
    ("xslt", "<redro><lobmys>"),
    ("xslt-enhanced", "<lobmys>"),
    ("message-building", "<payload"),
    ("enrich", "<hello"),
    ("xslt-transform", "XYZ"),
    ("datamapper", "XYZ"),
    ("payload-factory-20", "XYZ"),
    ("iterate", "<order"),
    ("json-to-soap", "http://www.w3.org/2003/05/soap-envelope"),
];

/// Scenarios whose response is what was sent: they forward, or route.
fn is_unchanged(name: &str) -> bool {
    name.starts_with("direct-") || name.starts_with("cbr") || name == "enrich" || name == "echo-api"
}

#[test]
fn every_scenario_is_answered_after_as_many_requests_as_it_says() {
    let suite = Suite::read(&root().join("suites/micro-integrator.toml")).unwrap();
    // `forward` is what the others are compared with.
    let scenarios: Vec<_> = suite.scenarios.iter().filter(|one| one.name != "forward").collect();
    assert_eq!(scenarios.len(), 21);
    let (files, upstream) = (Files::new(), Upstream::responding(echoed));
    copy_examples(&root().join("examples/micro-integrator"), &files.path("artifacts"), &upstream);
    files.write(
        "penstock.toml",
        "[gateway]\nworkers = 1\n[integration]\nhttp = \"127.0.0.1:0\"\nartifacts = [\"artifacts/\"]\n",
    );
    let process = Process::start(files.folder(), &["gateway", "--config", "penstock.toml"]);
    process.wait_for(" serving ");
    for scenario in scenarios {
        let before = upstream.requests().len();
        let body = payload(scenario);
        let response = send(&process, scenario, &body);
        let (name, text) = (&scenario.name, response.text());
        assert_eq!(response.status, 200, "{name}: {text}");
        let expect = scenario.expect.as_deref().unwrap_or_default();
        assert!(text.contains(expect), "{name}: no {expect} in {text}");
        let is_plain = body.contains(expect);
        assert_eq!(is_plain, is_unchanged(name), "{name}: a mediator that does nothing passes");
        let sent_body = upstream.requests().last().map(Request::text).unwrap_or_default();
        if let Some((_, part)) = SENT.iter().find(|(of, _)| of == name) {
            assert!(sent_body.contains(part), "{name}: no {part} in {sent_body}");
        }
        // Those of suites/scenarios.toml are proxies.
        let declared = scenario.upstream_requests.as_ref();
        let sent = declared.map_or(1, |declared| declared.of(&body));
        assert_eq!((upstream.requests().len() - before) as u64, sent, "{name}: {text}");
    }
    routes_by_what_a_request_says(&process, &suite, upstream.requests().len(), &upstream);
}

/// Without the header, or with another block, a router sends nothing.
fn routes_by_what_a_request_says(
    process: &Process,
    suite: &Suite,
    before: usize,
    upstream: &Upstream,
) {
    let scenario =
        |name: &str| suite.scenarios.iter().find(|one| one.name == name).unwrap().clone();
    let mut by_field = scenario("cbr-header");
    by_field.headers.retain(|name, _| name != "routing");
    let by_block = scenario("cbr-soap-header");
    for (scenario, body) in [(by_field, soap()), (by_block, soap().replace("server1", "server2"))] {
        let text = send(process, &scenario, &body).text();
        assert!(text.contains("Invalid routing header"), "{}: {text}", scenario.name);
    }
    assert_eq!(upstream.requests().len(), before);
}
