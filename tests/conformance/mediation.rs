//! Synapse's properties, sequences and endpoints, as a client and an endpoint see them.

use harness::{CannedResponse, Gateway, Upstream};

/// A gateway with these artefacts; `HERE` is the address of `upstream`.
fn serving(upstream: &Upstream, artefacts: &str) -> Gateway {
    Gateway::mediating(&artefacts.replace("HERE", &format!("http://{}", upstream.address())))
        .start()
}

const SEND: &str = "<send><endpoint><address uri=\"HERE/\"/></endpoint></send>";

fn proxy(steps: &str) -> String {
    format!("<proxy name=\"it\"><target><inSequence>{steps}</inSequence></target></proxy>")
}

const POST: &str = "POST /services/it HTTP/1.1\r\nHost: me\r\n";

#[test]
fn a_client_whose_message_is_accepted_does_not_wait() {
    for property in ["name=\"OUT_ONLY\"", "name=\"FORCE_SC_ACCEPTED\" scope=\"axis2\""] {
        let upstream = Upstream::manual();
        let gateway =
            serving(&upstream, &proxy(&format!("<property {property} value=\"true\"/>{SEND}")));
        let mut client = gateway.connect();
        client.send(format!("{POST}Content-Length: 5\r\n\r\nhello"));
        let response = client.read();
        assert_eq!((response.status, response.text()), (202, String::new()), "{property}");
        let mut connection = upstream.accept();
        assert_eq!(connection.request().text(), "hello", "{property}");
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
}

#[test]
fn parts_meet_behind_their_splitter() {
    let upstream = Upstream::responding(|request| {
        let (body, length) = (request.text(), request.body.len());
        let head = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\n{head}{body}"))
    });
    let steps = "<iterate expression=\"json-eval($)\"><target><sequence>\
        <call><endpoint><address uri=\"HERE/\"/></endpoint></call></sequence></target></iterate>\
        <aggregate><onComplete expression=\"json-eval($)\"><respond/></onComplete></aggregate>";
    let gateway = serving(&upstream, &proxy(steps));
    let mut client = gateway.connect();
    let body = "[1, 2, 3]";
    client.send(format!(
        "{POST}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let response = client.read();
    assert_eq!((response.status, response.text()), (200, "[1,2,3]".to_owned()));
}

/// The status and the body of the response to a request with `body`, JSON or XML.
fn post(gateway: &Gateway, body: &str) -> (u16, String) {
    let media = if body.starts_with('<') { "xml" } else { "json" };
    let mut client = gateway.connect();
    client.send(format!(
        "{POST}Content-Type: application/{media}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let response = client.read();
    (response.status, response.text())
}

/// Sequences that end with `call`: nothing has read their responses.
#[test]
fn what_calls_of_parts_return_is_put_together() {
    let upstream = Upstream::responding(|request| {
        let body = request.text();
        let (media, body) = if body.starts_with('<') {
            ("xml", format!("<got>{body}</got>"))
        } else {
            ("json", format!("{{\"got\":{body}}}"))
        };
        let length = body.len();
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/{media}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    });
    let call = "<sequence><call><endpoint><address uri=\"HERE/\"/></endpoint></call></sequence>";
    let variable = "<payloadFactory media-type=\"json\"><format>$1</format><args>\
        <arg expression=\"${vars.v}\"/></args></payloadFactory>";
    let each = |more: &str| format!("<foreach {more}>{call}</foreach>");
    let scatter = |more: &str, aggregation: &str| {
        let all = format!("<aggregation {aggregation}/>{call}{call}");
        format!("<scatter-gather {more}>{all}</scatter-gather>")
    };
    let (items, all) = (r#"{"items":[1,2]}"#, r#"{"items":[{"got":1},{"got":2}]}"#);
    let (sequential, collection) =
        ("parallel-execution=\"false\"", "collection=\"${payload.items}\"");
    let kept = "update-original=\"false\" target-variable=\"v\" result-content-type=\"JSON\"";
    let xml = "result-content-type=\"XML\" result-enclosing-element=\"all\"";
    let target = "target=\"Variable\" target-variable=\"v\"";
    let cases = [
        (each("expression=\"json-eval($.items)\""), items, all),
        (each(collection), items, all),
        (each(&format!("{collection} {sequential}")), items, all),
        (
            format!("{}{variable}", each(&format!("{collection} {kept}"))),
            items,
            r#"[{"got":1},{"got":2}]"#,
        ),
        (
            each("expression=\"//i\""),
            "<o><i>1</i><i>2</i></o>",
            "<o><got><i>1</i></got><got><i>2</i></got></o>",
        ),
        (scatter("", ""), "1", r#"[{"got":1},{"got":1}]"#),
        (scatter(sequential, "expression=\"${payload.got}\""), "1", "[1,1]"),
        (
            scatter("", "condition=\"${payload.got == 1}\" expression=\"json-eval($.got)\""),
            "1",
            "[1,1]",
        ),
        (format!("{}{variable}", scatter(target, "")), "1", r#"[{"got":1},{"got":1}]"#),
        (scatter(xml, ""), "<x/>", "<all><got><x/></got><got><x/></got></all>"),
    ];
    for (steps, body, expect) in cases {
        let gateway = serving(&upstream, &proxy(&format!("{steps}<respond/>")));
        assert_eq!(post(&gateway, body), (200, expect.to_owned()), "{steps}");
    }
}

#[test]
fn a_get_has_no_body() {
    let upstream = Upstream::fixed("ok");
    let payload = "<payloadFactory media-type=\"json\"><format>{\"q\":1}</format></payloadFactory>";
    let method = "<property name=\"HTTP_METHOD\" value=\"GET\" scope=\"axis2\"/>";
    let to = |endpoint: &str| format!("<call><endpoint>{endpoint}</endpoint></call>");
    let (get, address) = (
        to("<http method=\"get\" uri-template=\"HERE/a\"/>"),
        to("<address uri=\"HERE/a\" format=\"pox\"/>"),
    );
    let group =
        "<failover><endpoint><http method=\"get\" uri-template=\"HERE/a\"/></endpoint></failover>";
    for steps in [
        get.clone(),
        format!("{payload}{get}"),
        format!("<log level=\"full\"/>{method}{address}"),
        format!("{payload}{}", to(group)),
        format!("{}{get}", to("<http method=\"post\" uri-template=\"HERE/first\"/>")),
    ] {
        let before = upstream.requests().len();
        let gateway = serving(&upstream, &proxy(&format!("{steps}<respond/>")));
        assert_eq!(post(&gateway, "{\"a\":1}"), (200, "ok".to_owned()), "{steps}");
        let sent = upstream.requests().split_off(before).pop().unwrap();
        assert!(sent.head.starts_with("GET /a HTTP/1.1\r\n"), "{steps}: {}", sent.head);
        let head = sent.head.to_ascii_lowercase();
        assert!(!head.contains("content-") && !head.contains("transfer-"), "{steps}: {head}");
        assert!(sent.body.is_empty(), "{steps}");
    }
}

#[test]
fn a_get_that_left_the_body_behind_can_be_followed_by_a_post() {
    let (upstream, refusing) = (Upstream::echo(), Upstream::refusing());
    let get = format!(
        "<call><endpoint><http method=\"get\" uri-template=\"{}/\"/></endpoint></call>",
        refusing.url()
    );
    let artefacts = format!(
        "<proxy name=\"it\"><target><inSequence>{get}<respond/></inSequence><faultSequence>{}</faultSequence>\
         </target></proxy>",
        "<call><endpoint><http method=\"post\" uri-template=\"HERE/\"/></endpoint></call><respond/>"
    );
    let gateway = serving(&upstream, &artefacts);
    let (status, text) = post(&gateway, "{\"a\":1}");
    assert_eq!(status, 200, "{text}");
    assert_eq!(upstream.requests()[0].text(), "{\"a\":1}");
}

#[test]
fn the_children_of_a_form_are_the_query_of_a_get() {
    let upstream = Upstream::fixed("ok");
    let form = "<property name=\"messageType\" value=\"application/x-www-form-urlencoded\" scope=\"axis2\"/>";
    let method = "<property name=\"HTTP_METHOD\" value=\"GET\" scope=\"axis2\"/>";
    let to = |endpoint: &str| format!("<call><endpoint>{endpoint}</endpoint></call>");
    let get = to("<address uri=\"HERE/a\" format=\"get\"/>");
    let group =
        "<failover><endpoint><address uri=\"HERE/a\" format=\"get\"/></endpoint></failover>";
    let xml = "<q><a>1</a><b>x y&amp;&#10;z</b></q>";
    for (steps, body, expect) in [
        (get.clone(), xml, "/a?a=1&b=x+y%26%0Az"),
        (get, r##"{"a":1,"b":"#2"}"##, "/a?a=1&b=%232"),
        (to(group), xml, "/a?a=1&b=x+y%26%0Az"),
        (to("<address uri=\"HERE/a?k=v\" format=\"get\"/>"), "<q><a>1</a></q>", "/a?k=v&a=1"),
        (format!("{form}{method}{}", to("<address uri=\"HERE/a\"/>")), "<q><a>1</a></q>", "/a?a=1"),
        (format!("{form}{}", to("<address uri=\"HERE/a\"/>")), "<q><a>1</a></q>", "/a"),
    ] {
        let before = upstream.requests().len();
        let gateway = serving(&upstream, &proxy(&format!("{steps}<respond/>")));
        assert_eq!(post(&gateway, body), (200, "ok".to_owned()), "{steps}");
        let sent = upstream.requests().split_off(before).pop().unwrap();
        let target = sent.head.split(' ').nth(1);
        assert_eq!((target, sent.body.is_empty()), (Some(expect), expect != "/a"), "{steps}");
    }
}

#[test]
fn a_response_does_not_tell_the_next_service_of_its_server() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 200 OK\r\nServer: s\r\nDate: d\r\nX-Kept: k\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let call = "<call><endpoint><http method=\"post\" uri-template=\"HERE/\"/></endpoint></call>";
    let gateway = serving(&upstream, &proxy(&format!("{call}{call}<respond/>")));
    assert_eq!(post(&gateway, "1").0, 200);
    let head = &upstream.requests()[1].head;
    assert!(head.contains("X-Kept: k\r\n"), "{head}");
    assert!(!head.contains("Server:") && !head.contains("Date:"), "{head}");
}

#[test]
fn a_post_may_go_without_its_body() {
    let upstream = Upstream::fixed("ok");
    let empty = "<property name=\"FORCE_POST_PUT_NOBODY\" value=\"true\" scope=\"axis2\"/>";
    let gateway = serving(&upstream, &proxy(&format!("{empty}{SEND}")));
    assert_eq!(post(&gateway, "{\"a\":1}"), (200, "ok".to_owned()));
    let sent = &upstream.requests()[0];
    assert!(sent.head.contains("Content-Length: 0\r\n"), "{}", sent.head);
    assert!(!sent.head.contains("Content-Type"), "{}", sent.head);
}

#[test]
fn the_sequence_main_gets_what_no_service_takes() {
    let upstream = Upstream::echo();
    let artefacts = "<api name=\"a\" context=\"/a\"><resource methods=\"GET\" uri-template=\"/x\"><inSequence>\
        <respond/></inSequence></resource></api><sequence name=\"main\"><payloadFactory media-type=\"text\">\
        <format>main got $1</format><args><arg expression=\"get-property('To')\"/></args></payloadFactory>\
        <property name=\"HTTP_SC\" value=\"404\" scope=\"axis2\"/><respond/></sequence>";
    let gateway = serving(&upstream, artefacts);
    let response = gateway.fetch("GET /elsewhere?x=1", "");
    assert_eq!((response.status, response.text()), (404, "main got /elsewhere?x=1".to_owned()));
    assert_eq!(gateway.fetch("GET /a/x", "").status, 200);
    assert_eq!(gateway.fetch("GET /a/y", "").status_and_code(), "404 404", "the API has the path");
}

/// The statuses and codes of so many requests on one connection.
fn fetch(gateway: &Gateway, times: usize) -> Vec<String> {
    let mut client = gateway.connect();
    let mut responses = Vec::new();
    for _ in 0..times {
        client.send(format!("{POST}Content-Length: 0\r\n\r\n"));
        let response = client.read();
        responses.push(match response.status {
            200 => response.text(),
            _ => response.status_and_code(),
        });
    }
    responses
}

/// A proxy whose endpoint has this inside.
fn endpoint(inside: &str) -> String {
    format!("<proxy name=\"it\"><target><endpoint>{inside}</endpoint></target></proxy>")
}

fn address(upstream: &Upstream, more: &str) -> String {
    format!("<endpoint><address uri=\"http://{}/\">{more}</address></endpoint>", upstream.address())
}

#[test]
fn a_group_inside_a_group_is_tried_like_a_member() {
    let (refusing, works) = (Upstream::refusing(), Upstream::fixed("works"));
    let inner = format!("<failover>{}{}</failover>", address(&refusing, ""), address(&works, ""));
    for group in ["failover", "loadbalance", "recipientlist"] {
        let gateway =
            serving(&works, &endpoint(&format!("<{group}><endpoint>{inner}</endpoint></{group}>")));
        assert_eq!(fetch(&gateway, 2), ["works", "works"], "{group}");
    }
}

#[test]
fn members_get_turns_by_their_weights() {
    let (often, seldom) = (Upstream::fixed("often"), Upstream::fixed("seldom"));
    let member = |upstream: &Upstream, weight: u32| {
        let property =
            format!("<property name=\"loadbalance.weight\" value=\"{weight}\"/></endpoint>");
        address(upstream, "").replace("</endpoint>", &property)
    };
    let members = [member(&often, 3), member(&seldom, 1)].concat();
    for (algorithm, expect) in [
        ("org.apache.synapse.endpoints.algorithms.WeightedRoundRobin", (6, 2)),
        ("org.apache.synapse.endpoints.algorithms.RoundRobin", (4, 4)),
    ] {
        let group = format!("<loadbalance algorithm=\"{algorithm}\">{members}</loadbalance>");
        let gateway = serving(&often, &endpoint(&group));
        let got = fetch(&gateway, 8);
        let count = |text: &str| got.iter().filter(|body| *body == text).count();
        assert_eq!((count("often"), count("seldom")), expect, "{algorithm}: {got:?}");
    }
}

#[test]
fn each_group_has_turns_of_its_own() {
    let upstreams = [(); 4].map(|()| Upstream::fixed("ok"));
    let calls = upstreams.chunks(2).map(|pair| {
        let members: String = pair.iter().map(|upstream| address(upstream, "")).collect();
        format!("<call><endpoint><loadbalance>{members}</loadbalance></endpoint></call>")
    });
    let calls: String = calls.collect();
    let gateway = serving(&upstreams[0], &proxy(&format!("{calls}<respond/>")));
    assert_eq!(fetch(&gateway, 4), ["ok"; 4]);
    assert_eq!(upstreams.each_ref().map(|upstream| upstream.requests().len()), [2; 4]);
}

#[test]
fn only_the_listed_errors_suspend_an_endpoint_or_go_to_the_next_member() {
    let (refusing, works) = (Upstream::refusing(), Upstream::fixed("works"));
    let suspend = |codes: &str| {
        let rule = format!(
            "<suspendOnFailure><errorCodes>{codes}</errorCodes><initialDuration>60000</initialDuration></suspendOnFailure>"
        );
        let inside = address(&refusing, &rule);
        let inside = inside.trim_start_matches("<endpoint>").trim_end_matches("</endpoint>");
        fetch(&serving(&works, &endpoint(inside)), 2)
    };
    assert_eq!(suspend("101503,101504"), ["500 101503", "500 303001"]);
    assert_eq!(suspend("101504"), ["500 101503", "500 101503"]);
    let retry = |config: &str| {
        let first = address(&refusing, &format!("<retryConfig>{config}</retryConfig>"));
        let group = format!("<failover>{first}{}</failover>", address(&works, ""));
        fetch(&serving(&works, &endpoint(&group)), 1)
    };
    assert_eq!(retry("<disabledErrorCodes>101503</disabledErrorCodes>"), ["500 101503"]);
    assert_eq!(retry("<enabledErrorCodes>101503</enabledErrorCodes>"), ["works"]);
}

#[test]
fn an_endpoint_gets_its_own_credentials_and_the_host_that_the_message_names() {
    let upstream = Upstream::fixed("ok");
    let steps = "<property name=\"REQUEST_HOST_HEADER\" value=\"shop.example:81\" scope=\"axis2\"/>\
        <send><endpoint><http uri-template=\"HERE/\"><authentication><basicAuth><username>Aladdin</username>\
        <password>open sesame</password></basicAuth></authentication></http></endpoint></send>";
    let gateway = serving(&upstream, &proxy(steps));
    let fields = "Authorization: Bearer of-the-client\r\n";
    assert_eq!(gateway.fetch("GET /services/it", fields).status, 200);
    let sent = &upstream.requests()[0];
    assert_eq!(sent.header("authorization"), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    assert_eq!(sent.header("host"), Some("shop.example:81"));
}
