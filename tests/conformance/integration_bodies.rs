//! Bodies in mediation: held, read, and unread.

use harness::{CannedResponse, Gateway, Response, Upstream, UpstreamConnection, wait_until};

/// A gateway with the proxy `it`, whose target has these children; `HERE` is the address of `upstream`.
fn proxy(upstream: &Upstream, target: &str) -> Gateway {
    proxy_with(upstream, target, 64 << 20)
}

/// The same; bodies may use as many bytes.
fn proxy_with(upstream: &Upstream, target: &str, held_bytes_max: usize) -> Gateway {
    let target = target.replace("HERE", &format!("http://{}", upstream.address()));
    let proxy = format!("<proxy name=\"it\"><target>{target}</target></proxy>");
    let builder = Gateway::mediating(&proxy);
    builder.settings(move |settings| settings.gateway.held_bytes_max = held_bytes_max).start()
}

fn post(gateway: &Gateway, fields: &str, body: &str) -> Response {
    let length = body.len();
    let mut client = gateway.connect();
    client.send(format!(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ));
    client.read()
}

const XML: &str = "Content-Type: application/xml\r\n";
const COUNT: &str = "<inSequence><payloadFactory media-type=\"text\"><format>$1</format><args>\
    <arg expression=\"string(count(//item))\"/></args></payloadFactory><respond/></inSequence>";

fn items(count: usize) -> String {
    format!("<all>{}</all>", "<item>x</item>".repeat(count))
}

#[test]
fn what_mediators_make_of_bodies_counts_as_held() {
    let upstream = Upstream::echo();
    let gateway = proxy_with(&upstream, COUNT, 500_000);
    assert_eq!(post(&gateway, XML, &items(1_000)).text(), "1000");
    let large = post(&gateway, XML, &items(20_000));
    assert_eq!(large.status, 500, "it may never take so much: {}", large.text());
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
    assert_eq!(post(&gateway, XML, &items(1_000)).text(), "1000");
}

/// With any `fault_status`: neither is an upstream's fault in WSO2's sense.
#[test]
fn a_response_that_cannot_be_held_is_a_502_or_a_503() {
    let upstream = Upstream::fixed(Box::leak("x".repeat(600_000).into_boxed_str()));
    let read = "<inSequence><call><endpoint><address uri=\"HERE/\"/></endpoint></call>\
        <log level=\"full\"/><respond/></inSequence>";
    let check = |change: fn(&mut model::Settings), expect: &str| {
        let target = read.replace("HERE", &upstream.url());
        let proxy = format!("<proxy name=\"it\"><target>{target}</target></proxy>");
        let gateway = Gateway::mediating(&proxy).settings(change).start();
        assert_eq!(gateway.fetch("GET /services/it", "").status_and_code(), expect);
        assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0);
    };
    check(|settings| settings.gateway.held_body_bytes_max = 500_000, "502 502001");
    check(|settings| settings.gateway.held_bytes_max = 500_000, "503 503001");
}

#[test]
fn messages_that_wait_count_until_they_are_done() {
    let upstream = Upstream::manual();
    let target = "<inSequence><property name=\"a\" expression=\"count(//item)\"/><call><endpoint>\
        <address uri=\"HERE/\"/></endpoint></call><respond/></inSequence>";
    let gateway = proxy_with(&upstream, target, 500_000);
    let body = items(2_000);
    let request = format!(
        "POST /services/it HTTP/1.1\r\nHost: me\r\n{XML}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // Each holds its body while its upstream has not responded.
    let mut waiting = Vec::new();
    let mut rejected = 0;
    for _ in 0..30 {
        let mut client = gateway.connect();
        client.send(&request);
        match upstream.accept_or(|| client.has_response()) {
            Some(mut connection) => {
                connection.request();
                waiting.push((client, connection));
            }
            None => {
                assert_eq!(client.read().status_and_code(), "503 503001");
                rejected += 1;
            }
        }
    }
    let used = gateway.metric("penstock_held_body_bytes", "");
    assert!(used <= 500_000 && used >= (waiting.len() * body.len()) as u64, "{used}");
    assert!(!waiting.is_empty() && rejected > 0, "{} wait", waiting.len());
    for (client, connection) in &mut waiting {
        connection.ok("done");
        assert_eq!(client.read().text(), "done");
    }
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0);
}

#[test]
fn a_response_that_nobody_reads_leaves_its_connection_to_the_next_request() {
    let upstream = Upstream::fixed("unread");
    let gateway = proxy(
        &upstream,
        "<inSequence><call><endpoint><address uri=\"HERE/\"/></endpoint></call><drop/></inSequence>",
    );
    for _ in 0..3 {
        assert_eq!(gateway.fetch("GET /services/it", "").status, 202);
    }
    assert_eq!((upstream.requests().len(), upstream.connections()), (3, 1));
}

#[test]
fn a_response_that_is_read_early_does_not_cut_the_upload() {
    let upstream = Upstream::manual();
    let gateway = proxy(
        &upstream,
        "<endpoint><address uri=\"HERE/\"/></endpoint><outSequence><log level=\"full\"/><respond/>\
         </outSequence>",
    );
    // More than fits the buffers of the sockets.
    let length = 16 << 20;
    let (mut client, rest) = (gateway.connect(), vec![b'x'; length]);
    client.send(format!(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: {length}\r\n\r\n"
    ));
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            client.send(rest);
            client
        });
        let mut connection = upstream.accept();
        connection.request_head();
        connection.ok("early");
        connection.skip(length as u64);
        assert_eq!(sent.join().unwrap().read().text(), "early");
    });
}

/// A request of which the client has sent little, and half of the response to it, which mediation reads.
const UPLOAD: &str =
    "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: 16000000\r\n\r\nsome";
const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\nhalf";

/// Mediation of `sequence` that never gives up by itself.
fn patient(upstream: &Upstream, sequence: &str) -> Gateway {
    let sequence = sequence.replace("HERE", &upstream.url());
    let proxy =
        format!("<proxy name=\"it\"><target><inSequence>{sequence}</inSequence></target></proxy>");
    Gateway::mediating(&proxy).settings(|settings| settings.gateway.stall_ms = 3_600_000).start()
}

const CALL_AND_READ: &str = "<call><endpoint><address uri=\"HERE/main\"/></endpoint></call>\
    <log level=\"full\"/><respond/>";

#[test]
fn a_client_that_leaves_while_it_uploads_ends_the_reading_of_the_response() {
    let upstream = Upstream::manual();
    let gateway = patient(&upstream, CALL_AND_READ);
    let mut client = gateway.connect();
    client.send(UPLOAD);
    let mut connection = upstream.accept();
    connection.request_head();
    connection.send(HALF);
    // The response is being read.
    wait_until(|| gateway.metric("penstock_held_body_bytes", "") >= 10_000);
    client.reset();
    connection.read_until_close();
    wait_until(|| gateway.metric("penstock_held_body_bytes", "") == 0);
}

/// Mediation in two branches: one reads and returns the response of `upstream`, the other one calls `beside` `calls`
/// times.
fn branches(upstream: &Upstream, (beside, calls): (&Upstream, usize)) -> Gateway {
    let call = format!("<call><endpoint><address uri=\"{}/\"/></endpoint></call>", beside.url());
    let sequence = format!(
        "<clone><target><sequence>{CALL_AND_READ}</sequence></target>\
         <target><sequence>{}</sequence></target></clone>",
        call.repeat(calls)
    );
    patient(upstream, &sequence)
}

const GET: &str = "GET /services/it HTTP/1.1\r\nHost: me\r\n\r\n";

/// Sends a half of the response on `connection`, and waits until it is being read.
fn send_half(gateway: &Gateway, connection: &mut UpstreamConnection) {
    connection.request();
    connection.send(HALF);
    wait_until(|| gateway.metric("penstock_held_body_bytes", "") >= 10_000);
}

#[test]
fn the_exchange_of_another_branch_goes_on_while_a_response_is_read() {
    let (upstream, beside) = (Upstream::manual(), Upstream::manual());
    let gateway = branches(&upstream, (&beside, 1));
    let mut client = gateway.connect();
    client.send(GET);
    let (mut reading, mut other) = (upstream.accept(), beside.accept());
    for connection in [&mut reading, &mut other] {
        connection.request();
        connection.ok("");
    }
    client.read();
    gateway.wait_for_metric("penstock_upstream_connections", "state=\"idle\"", 2);
    client.send(GET);
    send_half(&gateway, &mut reading);
    other.request();
    // The connection was used before, so the request is sent again.
    drop(other);
    beside.accept().request();
    let rest = "x".repeat(10_000 - 4);
    reading.send(&rest);
    assert_eq!(client.read().text(), format!("half{rest}"));
}

#[test]
fn another_branch_makes_its_next_call_while_a_response_is_read() {
    let (upstream, beside) = (Upstream::manual(), Upstream::manual());
    let gateway = branches(&upstream, (&beside, 2));
    let mut client = gateway.connect();
    client.send(GET);
    let (mut reading, mut other) = (upstream.accept(), beside.accept());
    send_half(&gateway, &mut reading);
    for _ in 0..2 {
        other.request();
        other.ok("");
    }
    let rest = "x".repeat(10_000 - 4);
    reading.send(&rest);
    assert_eq!(client.read().text(), format!("half{rest}"));
}

#[test]
fn a_client_that_leaves_while_a_response_is_read_ends_all_branches() {
    let (upstream, beside) = (Upstream::manual(), Upstream::manual());
    let gateway = branches(&upstream, (&beside, 1));
    let mut client = gateway.connect();
    client.send(GET);
    let (mut reading, mut other) = (upstream.accept(), beside.accept());
    send_half(&gateway, &mut reading);
    other.request();
    client.reset();
    reading.expect_close();
    other.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
    wait_until(|| gateway.metric("penstock_held_body_bytes", "") == 0);
}

#[test]
fn an_encoded_body_passes_and_is_not_misread() {
    let upstream = Upstream::echo();
    let fields = format!("{XML}Content-Encoding: gzip\r\n");
    let passing = proxy(&upstream, "<endpoint><address uri=\"HERE/\"/></endpoint>");
    assert_eq!(post(&passing, &fields, "not read").text(), "not read");
    assert_eq!(upstream.requests()[0].header("content-encoding"), Some("gzip"));
    let reading = proxy(&upstream, COUNT);
    let response = post(&reading, &fields, "<all/>");
    assert_eq!(response.status_and_code(), "500 601000", "{}", response.text());
    assert_eq!(
        post(&reading, &format!("{XML}Content-Encoding: identity\r\n"), "<all/>").text(),
        "0"
    );
}

#[test]
fn fields_of_the_bytes_do_not_describe_a_rewritten_body() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-MD5: x\r\nAccept-Ranges: bytes\r\nX-Mine: 1\r\n\
             Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        )
    });
    let endpoint = "<endpoint><address uri=\"HERE/\"/></endpoint>";
    let of = |gateway: &Gateway| {
        let response = gateway.fetch("GET /services/it", "Range: bytes=0-1\r\n");
        let names = ["etag", "content-md5", "accept-ranges", "x-mine"];
        names.map(|name| response.header(name).is_some())
    };
    let passing = proxy(&upstream, endpoint);
    assert_eq!(of(&passing), [true; 4]);
    let rewriting = proxy(
        &upstream,
        &format!(
            "{endpoint}<outSequence><payloadFactory media-type=\"json\"><format>{{\"b\":2}}</format>\
             <args/></payloadFactory><respond/></outSequence>"
        ),
    );
    assert_eq!(of(&rewriting), [false, false, false, true]);
    let ranges: Vec<_> =
        upstream.requests().iter().map(|request| request.header("range").is_some()).collect();
    assert_eq!(ranges, [true, false], "a part cannot be rewritten");
}

#[test]
fn an_expression_reads_what_is_configured() {
    let artefacts = "<proxy name=\"it\"><target><inSequence><payloadFactory media-type=\"json\">\
        <format>{\"at\": ${configs.region}}</format></payloadFactory><respond/></inSequence></target></proxy>";
    let gateway = Gateway::mediating(artefacts).config("region", "north").start();
    assert_eq!(gateway.diagnostics(), "");
    assert_eq!(gateway.fetch("GET /services/it", "").text(), "{\"at\": \"north\"}");
}

#[test]
fn a_broken_version_of_an_artefact_leaves_the_last_good_one_in_service() {
    let says = |text: &str| {
        format!(
            "<proxy name=\"it\"><target><inSequence><payloadFactory media-type=\"text\">\
             <format>{text}</format><args/></payloadFactory><respond/></inSequence></target></proxy>"
        )
    };
    let broken = "<proxy name=\"it\"><target><inSequence><nothing/></inSequence></target></proxy>";
    let other = says("other").replace("\"it\"", "\"other\"");
    let gateway = Gateway::mediating(&says("first")).start();
    let text = |path: &str| gateway.fetch(&format!("GET /services/{path}"), "").text();
    assert_eq!((text("it").as_str(), gateway.diagnostics().as_str()), ("first", ""));
    for _ in 0..2 {
        gateway.apply_artefacts(&[("test.xml", broken), ("other.xml", &other)]);
        assert_eq!([text("it"), text("other")], ["first", "other"]);
        let found = gateway.diagnostics();
        assert!(found.starts_with("test.xml:1:") && found.contains("nothing"), "{found}");
    }
    gateway.apply_artefacts(&[("test.xml", &says("second"))]);
    assert_eq!((text("it").as_str(), gateway.diagnostics().as_str()), ("second", ""));
    let broken_too = broken.replace("\"it\"", "\"new\"");
    gateway.apply_artefacts(&[("test.xml", &broken_too), ("moved.xml", &says("third"))]);
    assert_eq!(text("it"), "third", "another file has the name now");
    gateway.apply_artefacts(&[("test.xml", broken)]);
    assert_eq!(gateway.fetch("GET /services/it", "").status, 404, "it never was good");
}

#[test]
fn xml_becomes_json_as_configured() {
    let upstream = Upstream::echo();
    let target = "<inSequence><property name=\"messageType\" value=\"application/json\" scope=\"axis2\"/>\
        <call><endpoint><address uri=\"HERE/\"/></endpoint></call><respond/></inSequence>";
    let default = proxy(&upstream, target);
    let artefact = format!("<proxy name=\"it\"><target>{target}</target></proxy>")
        .replace("HERE", &format!("http://{}", upstream.address()));
    let configured = Gateway::mediating(&artefact).settings(|settings| {
        let json = [
            ("synapse.commons.json.output.disableAutoPrimitive.regex", "0.*"),
            ("synapse.commons.enableXmlNullForEmptyElement", "false"),
        ];
        settings.integration.rules.json = json.map(|(name, value)| (name, value.to_owned())).into();
    });
    let configured = configured.start();
    let xml = "<a><b>0.50</b><c/></a>";
    assert_eq!(post(&default, XML, xml).text(), r#"{"a":{"b":0.50,"c":null}}"#);
    assert_eq!(post(&configured, XML, xml).text(), r#"{"a":{"b":"0.50","c":""}}"#);
}

#[test]
fn what_no_mediator_edits_survives_byte_for_byte() {
    let upstream = Upstream::echo();
    // Every view is read: XML by XPath, JSON by path, text.
    let gateway = proxy(
        &upstream,
        "<inSequence><property name=\"x\" expression=\"count(//*)\"/>\
         <property name=\"j\" expression=\"json-eval($.b)\"/><log level=\"full\"/>\
         <call><endpoint><address uri=\"HERE/\"/></endpoint></call>\
         <property name=\"x\" expression=\"count(//*)\"/><respond/></inSequence>",
    );
    for body in [
        r#" {"z": 1.10, "a":[ 1E+2 ], "b" : [], "e":{}, "n":null, "s":"\u00e9\/", "z":-0} "#,
        "[123456789012345678901234567890.5,\n[[1]], {}]",
    ] {
        let response = post(&gateway, "Content-Type: application/json\r\n", body);
        assert_eq!((response.status, response.text()), (200, body.to_owned()));
    }
}
