//! Synapse's proxies and APIs on a listener of their own: each test is a sequence and the fate of a message.

use harness::{CannedResponse, Gateway, Response, Upstream};
use model::Http2Listeners;

/// A gateway with the proxy `it`, whose target has these children; `HERE` is the address of `upstream`.
fn proxy(upstream: &Upstream, target: &str) -> Gateway {
    let target = target.replace("HERE", &format!("http://{}", upstream.address()));
    let proxy = format!("<proxy name=\"it\"><target>{target}</target></proxy>");
    Gateway::mediating(&proxy).start()
}

fn post(gateway: &Gateway, content_type: &str, body: &str) -> Response {
    let fields = format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len());
    let mut client = gateway.connect();
    client.send(format!("POST /services/it HTTP/1.1\r\nHost: me\r\n{fields}\r\n{body}"));
    client.read()
}

const ENDPOINT: &str = "<endpoint><address uri=\"HERE/orders\"/></endpoint>";

#[test]
fn a_proxy_passes_a_message_on_as_it_is() {
    let upstream = Upstream::echo();
    let gateway = proxy(&upstream, ENDPOINT);
    let response = post(&gateway, "application/json", "{\"a\": 1.50}");
    assert_eq!((response.status, response.text()), (200, "{\"a\": 1.50}".to_owned()));
}

#[test]
fn a_fault_that_mediation_made_is_500_and_a_response_keeps_the_status_of_its_upstream() {
    let fault = "<makefault version=\"soap11\" response=\"true\"><code value=\"s:Server\" \
                 xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"/><reason value=\"broken\"/></makefault>";
    let dead = "<inSequence><call><endpoint><address uri=\"http://127.0.0.1:1/\"/></endpoint></call></inSequence>";
    for (target, status) in [
        (format!("<inSequence>{fault}<respond/></inSequence>"), 500),
        (format!("{dead}<faultSequence>{fault}<send/></faultSequence>"), 500),
        (format!("{dead}<faultSequence>{fault}<respond/></faultSequence>"), 500),
        (format!("<inSequence><call>{ENDPOINT}</call>{fault}<respond/></inSequence>"), 200),
    ] {
        let upstream = Upstream::fixed("1");
        let gateway = proxy(&upstream, &target);
        let response = post(&gateway, "application/json", "{}");
        assert_eq!(response.status, status, "{target}");
        assert!(response.text().contains("<faultstring>broken</faultstring>"), "{target}");
    }
}

#[test]
fn a_message_is_sent_to_the_address_in_its_envelope() {
    let upstream = Upstream::echo();
    let envelope = |to: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Header><To \
             xmlns=\"http://www.w3.org/2005/08/addressing\">{to}</To></s:Header><s:Body><q/></s:Body></s:Envelope>"
        )
    };
    let here = format!("http://{}/shop", upstream.address());
    let reads = "<property name=\"to\" expression=\"get-property('To')\"/>";
    let says = "<header name=\"X-To\" expression=\"$ctx:to\" scope=\"transport\"/>";
    let edits =
        "<enrich><source type=\"inline\"><r xmlns=\"\"/></source><target type=\"body\"/></enrich>";
    for (steps, said) in [
        (format!("{reads}<call/>{says}<respond/>"), "/services/it"),
        (format!("{reads}{edits}<call/>{says}<respond/>"), &*here),
        ("<send><endpoint><default/></endpoint></send>".to_owned(), ""),
    ] {
        let gateway = proxy(&upstream, &format!("<inSequence>{steps}</inSequence>"));
        let response = post(&gateway, "text/xml", &envelope(&here));
        assert_eq!(response.status, 200, "{steps}");
        assert_eq!(response.header("X-To").unwrap_or_default(), said, "{steps}");
        assert!(response.text().contains("<s:Envelope"), "{steps}");
        let anonymous = "http://www.w3.org/2005/08/addressing/anonymous";
        for nowhere in ["/shop", "", anonymous] {
            let response = post(&gateway, "text/xml", &envelope(nowhere));
            assert_eq!(response.status, 500, "{steps}: {}", response.text());
        }
    }
}

#[test]
fn a_proxy_has_the_addresses_of_its_ports() {
    let respond = |text: &str| {
        format!(
            "<target><inSequence><payloadFactory media-type=\"text\"><format>{text} $1</format><args><arg \
             expression=\"$axis2:REST_URL_POSTFIX\"/></args></payloadFactory><respond/></inSequence></target>"
        )
    };
    let artefacts = format!(
        "<proxy name=\"a\">{}</proxy><proxy name=\"a.b\">{}</proxy><api name=\"x\" context=\"/\"><resource><inSequence>\
         <respond/></inSequence></resource></api>",
        respond("a"),
        respond("a.b")
    );
    let gateway = Gateway::mediating(&artefacts).start();
    let get = |path: &str| gateway.fetch(&format!("GET /services/{path}"), "").text();
    assert_eq!(get("a.aHttpSoap11Endpoint/buy?q=1"), "a /buy?q=1");
    assert_eq!(get("a.aHttpsSoap12Endpoint"), "a ");
    assert_eq!(get("a.b"), "a.b ", "the proxy of that name");
    assert_eq!(get("b.aHttpSoap11Endpoint"), "", "the API");
}

#[test]
fn a_message_is_routed_by_a_header_and_by_its_body() {
    let (first, second) = (Upstream::fixed("first"), Upstream::fixed("second"));
    let to = |upstream: &Upstream| {
        format!(
            "<send><endpoint><address uri=\"http://{}/\"/></endpoint></send>",
            upstream.address()
        )
    };
    let (first_to, second_to) = (to(&first), to(&second));
    let out = "<outSequence><send/></outSequence>";
    let on_header = proxy(
        &first,
        &format!(
            "<inSequence><filter source=\"$trp:Route\" regex=\"one\"><then>{first_to}</then>\
             <else>{second_to}</else></filter></inSequence>{out}"
        ),
    );
    let fetch = |route: &str| on_header.fetch("GET /services/it", route).text();
    assert_eq!([fetch("Route: one\r\n"), fetch("Route: two\r\n")], ["first", "second"]);
    let on_body = proxy(
        &first,
        &format!(
            "<inSequence><switch source=\"//symbol\"><case regex=\"IBM\">{first_to}</case>\
             <default>{second_to}</default></switch></inSequence>{out}"
        ),
    );
    let send = |symbol: &str| {
        post(&on_body, "application/xml", &format!("<o><symbol>{symbol}</symbol></o>")).text()
    };
    assert_eq!([send("IBM"), send("SUN")], ["first", "second"]);
    let json = "{\"o\":{\"symbol\":\"IBM\"}}";
    assert_eq!(post(&on_body, "application/json", json).text(), "first");
}

#[test]
fn a_payload_is_made_of_parts_of_the_message() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><payloadFactory media-type=\"json\"><format>{\"order\":{\"id\":$1,\"by\":\"$2\"}}\
         </format><args><arg evaluator=\"json\" expression=\"$.id\"/>\
         <arg expression=\"$trp:User\"/></args></payloadFactory>\
         <call><endpoint><address uri=\"HERE/\"/></endpoint></call><respond/></inSequence>",
    );
    let body = "{\"id\": 7}";
    let fields =
        format!("User: me\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    let mut client = gateway.connect();
    client.send(format!("POST /services/it HTTP/1.1\r\nHost: me\r\n{fields}\r\n{body}"));
    assert_eq!(client.read().text(), "{\"order\":{\"id\":7,\"by\":\"me\"}}");
    let forwarded = &upstream.requests()[0];
    assert_eq!(forwarded.header("user"), Some("me"), "header fields are forwarded");
}

#[test]
fn the_address_of_the_client_is_that_of_its_connection() {
    let target = "<inSequence><payloadFactory media-type=\"text\"><format>$1 $2</format><args>\
        <arg expression=\"get-property('axis2', 'REMOTE_ADDR')\"/><arg expression=\"$axis2:REMOTE_HOST\"/></args>\
        </payloadFactory><respond/></inSequence>";
    let gateway = proxy(&Upstream::refusing(), target);
    let claims = "X-Forwarded-For: 10.1.1.1\r\n";
    assert_eq!(gateway.fetch("GET /services/it", claims).text(), "127.0.0.1 127.0.0.1");
}

#[test]
fn options_of_the_whole_server_is_an_empty_200() {
    let gateway = proxy(&Upstream::refusing(), "<inSequence><respond/></inSequence>");
    let response = gateway.fetch("OPTIONS *", "");
    assert_eq!((response.status, response.text().as_str()), (200, ""));
}

#[test]
fn http2_is_switched_off_apart_from_that_of_apis() {
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let service = "<proxy name=\"it\"><target><inSequence><respond/></inSequence></target></proxy>";
    for (of_apis, own, accepted) in [
        (Http2Listeners::ALL, None, true),
        (Http2Listeners::NONE, None, false),
        (Http2Listeners::ALL, Some(Http2Listeners::NONE), false),
        (Http2Listeners::NONE, Some(Http2Listeners::ALL), true),
    ] {
        let gateway = Gateway::mediating(service)
            .settings(|settings| {
                settings.gateway.http2 = of_apis;
                settings.integration.http2 = own;
            })
            .start();
        let mut client = gateway.connect();
        client.try_send(PREFACE);
        if accepted {
            client.send([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            assert_eq!(client.read_exactly(9)[3], 4);
        } else {
            assert_eq!(client.read().status, 505);
        }
    }
}

#[test]
fn an_api_finds_its_resource() {
    let upstream = Upstream::echo();
    let gateway = Gateway::mediating(
        "<api name=\"pets\" context=\"/pets\">\
         <resource methods=\"GET\" uri-template=\"/{id}\"><inSequence>\
         <payloadFactory media-type=\"text\"><format>$1 $2</format><args>\
         <arg expression=\"$ctx:uri.var.id\"/><arg expression=\"$ctx:query.param.x\"/></args>\
         </payloadFactory><respond/></inSequence></resource>\
         <resource methods=\"POST\" url-mapping=\"/new\"><inSequence><respond/></inSequence>\
         </resource></api>",
    )
    .start();
    drop(upstream);
    assert_eq!(gateway.fetch("GET /pets/7?x=8", "").text(), "7 8");
    let rejected = ["GET /pets/7/8", "DELETE /pets/7", "GET /dogs", "GET /services/it"];
    let found = rejected.map(|request| gateway.fetch(request, "").status_and_code());
    assert_eq!(found, ["404 404", "405 405", "404 404", "404 404"]);
    assert_eq!(gateway.fetch("DELETE /pets/7", "").header("allow"), Some("GET"));
    assert_eq!(gateway.metric("penstock_requests_total", "api=\"pets\",status=\"200\""), 1);
}

#[test]
fn versions_of_an_api_are_served_side_by_side() {
    let api = |version: &str| {
        format!(
            "<api name=\"Orders\" context=\"/orders\" version=\"{version}\" version-type=\"url\"><resource>\
             <inSequence><payloadFactory media-type=\"text\"><format>$1</format><args>\
             <arg expression=\"$ctx:SYNAPSE_REST_API\"/></args></payloadFactory><respond/></inSequence></resource></api>"
        )
    };
    let gateway = Gateway::mediating("<sequence name=\"unused\"/>").start();
    gateway.apply_artefacts(&[("one.xml", &api("1.0.0")), ("two.xml", &api("2.0.0"))]);
    assert_eq!(gateway.diagnostics(), "");
    let of = |version: &str| gateway.fetch(&format!("GET /orders/{version}/x"), "").text();
    assert_eq!([of("1.0.0"), of("2.0.0")], ["Orders:v1.0.0", "Orders:v2.0.0"]);
    let labels = "api=\"Orders\",version=\"2.0.0\",status=\"200\"";
    assert_eq!(gateway.metric("penstock_requests_total", labels), 1);
}

#[test]
fn what_an_api_does_not_admit_goes_to_the_next_longest_context() {
    let api = |name: &str, attributes: &str| {
        format!(
            "<api name=\"{name}\" {attributes}><resource><inSequence><payloadFactory media-type=\"text\"><format>{name} $1\
             </format><args><arg expression=\"$axis2:REST_URL_POSTFIX\"/></args></payloadFactory><respond/></inSequence>\
             </resource></api>"
        )
    };
    let artefacts = [
        api("inner", "context=\"/a/b\" hostname=\"shop.example\""),
        api("outer", "context=\"/a\""),
    ];
    let gateway = Gateway::mediating(&artefacts.concat()).start();
    let get = |host: &str| {
        let mut client = gateway.connect();
        client.send(format!("GET /a/b/x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.read().text()
    };
    assert_eq!([get("shop.example"), get("other.example:80")], ["inner /x", "outer /b/x"]);
}

#[test]
fn sequences_read_where_a_request_came_in() {
    let upstream = Upstream::echo();
    let read = |names: &[&str]| {
        let arguments =
            names.iter().map(|name| format!("<arg expression=\"get-property('{name}')\"/>"));
        let format = (1..=names.len()).map(|at| format!("${at}")).collect::<Vec<_>>().join(" ");
        format!(
            "<payloadFactory media-type=\"text\"><format>{format}</format><args>{}</args></payloadFactory>",
            arguments.collect::<String>()
        )
    };
    let names = [
        "TRANSPORT_IN_NAME",
        "SYNAPSE_REST_API",
        "SYNAPSE_REST_API_VERSION",
        "SYNAPSE_REST_API_VERSION_STRATEGY",
        "REST_API_CONTEXT",
        "rest.url.pattern",
        "REST_SUB_REQUEST_PATH",
    ];
    // The response has them, too.
    let artefacts = format!(
        "<api name=\"Orders\" context=\"/orders\" version=\"1.0\" version-type=\"url\"><resource url-mapping=\"/x\"/>\
         <resource uri-template=\"/{{id}}\"><inSequence><call><endpoint><address uri=\"http://{}/\"/></endpoint></call>\
         {}<respond/></inSequence></resource><resource methods=\"PUT\"><inSequence>{}<respond/></inSequence></resource></api>\
         <proxy name=\"it\"><target><inSequence>{}<respond/></inSequence></target></proxy>",
        upstream.address(),
        read(&names),
        read(&["REST_URL_PREFIX"]),
        read(&["proxy.name", "TRANSPORT_IN_NAME"]),
    );
    let gateway = Gateway::mediating(&artefacts).start();
    let expect = "http Orders:v1.0 1.0 url /orders /{id} /7?x=8";
    assert_eq!(gateway.fetch("GET /orders/1.0/7?x=8", "").text(), expect);
    assert_eq!(gateway.fetch("PUT /orders/1.0/7/8", "").text(), "http://gateway");
    assert_eq!(gateway.fetch("GET /services/it", "").text(), "it http");
    let secure = gateway.connect_tls().fetch("GET /services/it", "").text();
    assert_eq!(secure, "it https");
}

#[test]
fn a_failure_runs_the_fault_sequence_and_without_one_gets_its_code() {
    let refusing = Upstream::refusing();
    let plain = proxy(&refusing, ENDPOINT);
    assert_eq!(post(&plain, "text/plain", "x").status_and_code(), "500 101503");
    let empty = proxy(&refusing, &format!("{ENDPOINT}<faultSequence/>"));
    assert_eq!(post(&empty, "text/plain", "x").status_and_code(), "500 101503");
    // The fault sequence of a new project for Micro Integrator.
    let fault = "<sequence name=\"fault\"><log level=\"full\"><property name=\"MESSAGE\" value=\"Executing default sequence\"/>\
                 <property name=\"ERROR_CODE\" expression=\"get-property('ERROR_CODE')\"/></log><drop/></sequence>";
    let default = Gateway::mediating(&format!(
        "{fault}<proxy name=\"it\"><target><endpoint><address uri=\"http://{}/\"/></endpoint></target></proxy>",
        refusing.address()
    ))
    .start();
    assert_eq!(post(&default, "text/plain", "x").status_and_code(), "500 101503");
    let handled = proxy(
        &refusing,
        &format!(
            "{ENDPOINT}<faultSequence><payloadFactory media-type=\"json\">\
             <format>{{\"code\":$1}}</format><args><arg expression=\"$ctx:ERROR_CODE\"/></args>\
             </payloadFactory><property name=\"HTTP_SC\" value=\"503\" scope=\"axis2\"/><respond/>\
             </faultSequence>"
        ),
    );
    let response = post(&handled, "text/plain", "x");
    assert_eq!((response.status, response.text()), (503, "{\"code\":101503}".to_owned()));
    let upstream = Upstream::echo();
    let reading = proxy(
        &upstream,
        "<inSequence><log level=\"custom\"><property name=\"a\" expression=\"//a\"/></log>\
         <respond/></inSequence>",
    );
    assert_eq!(post(&reading, "application/xml", "<a>").status_and_code(), "500 601000");
}

#[test]
fn a_malformed_body_is_the_fault_of_whoever_sent_it() {
    let reads = "<property name=\"a\" expression=\"json-eval($.a)\"/>";
    let makes = |script: &str| format!("<script language=\"js\"><![CDATA[{script}]]></script>");
    let calls = format!("<call>{ENDPOINT}</call>");
    let template = "<payloadFactory media-type=\"json\" template-type=\"freemarker\"><format><![CDATA[{\"a\":]]>\
        </format></payloadFactory>";
    let to_xml =
        "<property name=\"messageType\" value=\"application/xml\" scope=\"axis2\"/>".to_owned();
    let clones = format!("<clone><target><sequence>{reads}<respond/></sequence></target></clone>");
    let inward = |steps: &str| format!("<inSequence>{steps}<respond/></inSequence>");
    let malformed = "<html>oop";
    for (target, body, blame) in [
        (inward(reads), malformed, "client"),
        (inward(&clones), malformed, "client"),
        (format!("{ENDPOINT}<outSequence>{reads}<send/></outSequence>"), "{}", "upstream"),
        (inward(&format!("{calls}{reads}")), "{}", "upstream"),
        (inward(&format!("{calls}{clones}")), "{}", "upstream"),
        (inward(&makes("mc.setPayloadXML('<a>')")), "{}", "gateway"),
        (inward(template), "{}", "gateway"),
        (inward(&to_xml), "{\"a\":\"\\u0001\"}", "gateway"),
    ] {
        let upstream = Upstream::responding(move |_| {
            let fields =
                format!("Content-Type: application/json\r\nContent-Length: {}", malformed.len());
            CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{malformed}"))
        });
        let gateway = proxy(&upstream, &target);
        let response = post(&gateway, "application/json", body);
        assert_eq!(response.status_and_code(), "500 601000", "{target}");
        let description = match blame {
            "client" => "The body is not what its content type says",
            "upstream" => "The response of the back end is not what its content type says",
            _ => "The message could not be processed",
        };
        assert!(response.text().contains(description), "{target}: {}", response.text());
        gateway.wait_for_metric("penstock_faults_total", &format!("blame=\"{blame}\""), 1);
    }
}

#[test]
fn a_body_that_is_too_large_to_be_read_is_413_and_one_that_is_only_passed_on_is_not() {
    let upstream = Upstream::echo();
    let target = format!("http://{}", upstream.address());
    let gateway = Gateway::mediating(&format!(
        "<proxy name=\"it\"><target><inSequence><filter xpath=\"//a\"><then/></filter><respond/>\
         </inSequence></target></proxy><proxy name=\"on\"><target><endpoint>\
         <address uri=\"{target}/\"/></endpoint></target></proxy>"
    ))
    .settings(|settings| settings.gateway.held_body_bytes_max = 1_000)
    .start();
    let body = format!("<a>{}</a>", "x".repeat(2_000));
    assert_eq!(post(&gateway, "application/xml", &body).status_and_code(), "413 413");
    let mut client = gateway.connect();
    let length = body.len();
    client.send(format!(
        "POST /services/on HTTP/1.1\r\nHost: me\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!(client.read().text(), body);
}

#[test]
fn a_client_that_leaves_ends_what_was_sent_for_it() {
    let upstream = Upstream::manual();
    let gateway = proxy(
        &upstream,
        "<inSequence><property name=\"a\" expression=\"//a\"/><call><endpoint>\
         <address uri=\"HERE/\"/></endpoint></call><respond/></inSequence>",
    );
    let mut client = gateway.connect();
    client.send(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Type: application/xml\r\n\
         Content-Length: 4\r\n\r\n<a/>",
    );
    let mut connection = upstream.accept();
    connection.request();
    client.reset();
    connection.expect_close();
    gateway.wait_for_metric("penstock_requests_total", "status=\"499\"", 1);
}
#[test]
fn messages_are_split_sent_at_once_and_put_together() {
    let upstream = Upstream::responding(|request| {
        let (body, length) = (request.text(), request.body.len());
        let head = format!("Content-Type: text/xml\r\nContent-Length: {length}\r\n\r\n");
        CannedResponse::bytes(format!("HTTP/1.1 200 OK\r\n{head}{body}"))
    });
    let gateway = proxy(
        &upstream,
        "<inSequence><iterate expression=\"//item\"><target><sequence><send>\
         <endpoint><address uri=\"HERE/\"/></endpoint></send></sequence></target></iterate></inSequence>\
         <outSequence><aggregate><completeCondition><messageCount min=\"-1\" max=\"-1\"/>\
         </completeCondition><onComplete expression=\"//item\"><send/></onComplete></aggregate>\
         </outSequence><faultSequence><payloadFactory media-type=\"text\"><format>$1</format><args><arg expression=\"$ctx:ERROR_MESSAGE\"/></args></payloadFactory><respond/></faultSequence>",
    );
    let items: String = (0..20).map(|number| format!("<item>{number}</item>")).collect();
    let body = format!(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>\
         <all>{items}</all></s:Body></s:Envelope>"
    );
    let response = post(&gateway, "text/xml", &body);
    let text = response.text();
    assert_eq!((response.status, text.matches("<item").count()), (200, 20), "{text}");
    assert_eq!(upstream.requests().len(), 20);
}

#[test]
fn the_client_gets_the_first_response_and_the_other_branches_go_on() {
    let (first, second, third) = (Upstream::fixed("first"), Upstream::manual(), Upstream::manual());
    let call = |upstream: &Upstream| {
        format!(
            "<call><endpoint><address uri=\"http://{}/\"/></endpoint></call>",
            upstream.address()
        )
    };
    let gateway = proxy(
        &first,
        &format!(
            "<inSequence><clone><target><sequence>{}{}</sequence></target>\
             <target><sequence>{}<respond/></sequence></target></clone></inSequence>",
            call(&second),
            call(&third),
            call(&first)
        ),
    );
    assert_eq!(post(&gateway, "text/plain", "x").text(), "first");
    let mut connection = second.accept();
    connection.request();
    connection.ok("second");
    third.accept().request();
}

/// The fields of a response that `names` lists, with their values.
fn fields(response: &Response, names: &[&str]) -> String {
    let found = names.iter().map(|name| response.header(name).unwrap_or("-").to_owned());
    found.collect::<Vec<_>>().join(" ")
}

#[test]
fn responses_without_a_body_keep_their_framing_and_their_connection() {
    let upstream = Upstream::responding(|request| {
        let is_head = request.head.starts_with("HEAD");
        CannedResponse::bytes(if is_head {
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
        } else {
            "HTTP/1.1 204 No Content\r\nX-Mine: 1\r\n\r\n"
        })
    });
    let gateway = proxy(&upstream, ENDPOINT);
    let mut client = gateway.connect();
    for _ in 0..2 {
        let head = client.fetch("HEAD /services/it", "");
        assert_eq!((head.status, fields(&head, &["content-length"])), (200, "7".to_owned()));
        let empty = client.fetch("GET /services/it", "");
        let named = ["content-length", "x-mine"];
        assert_eq!((empty.status, fields(&empty, &named)), (204, "- 1".to_owned()));
    }
    assert_eq!(upstream.connections(), 1, "it is used again");
}

#[test]
fn the_status_of_a_response_decides_whether_it_has_a_body() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><payloadFactory media-type=\"text\"><format>text</format><args/></payloadFactory>\
         <property name=\"HTTP_SC\" expression=\"$trp:Status\" scope=\"axis2\"/><respond/></inSequence>",
    );
    let mut client = gateway.connect();
    for (status, body) in [(304, ""), (204, ""), (201, "text"), (500, "text")] {
        let response = client.fetch("GET /services/it", &format!("Status: {status}\r\n"));
        assert_eq!((response.status, response.text().as_str()), (status, body));
        assert_eq!(response.head.matches("Date: ").count(), 1, "{}", response.head);
    }
}

#[test]
fn what_a_mediator_reads_is_not_compressed() {
    let upstream = Upstream::fixed("<a/>");
    let accept = "Accept-Encoding: gzip\r\n";
    let reading = proxy(
        &upstream,
        &format!("{ENDPOINT}<outSequence><log level=\"full\"/><respond/></outSequence>"),
    );
    let _ = reading.fetch("GET /services/it", accept);
    for passing in [
        ENDPOINT,
        // The body decides which way it goes. The way that changes it is not taken.
        "<inSequence><filter xpath=\"//a\"><then><log level=\"full\"/></then><else><send>\
         <endpoint><address uri=\"HERE/orders\"/></endpoint></send></else></filter></inSequence>",
    ] {
        let _ = proxy(&upstream, passing).fetch("GET /services/it", accept);
    }
    let sent: Vec<_> = upstream
        .requests()
        .iter()
        .map(|request| request.header("accept-encoding").is_some())
        .collect();
    assert_eq!(sent, [false, true, true]);
    // A filter before the request sees it as it is sent.
    let to =
        |path: &str| format!("<send><endpoint><address uri=\"HERE/{path}\"/></endpoint></send>");
    let choosing = proxy(
        &upstream,
        &format!(
            "<inSequence><filter source=\"$trp:Accept-Encoding\" regex=\"gzip\"><then>{}</then>\
             <else>{}</else></filter></inSequence><outSequence><log level=\"full\"/><respond/></outSequence>",
            to("gzip"),
            to("identity")
        ),
    );
    let _ = choosing.fetch("GET /services/it", accept);
    let sent = upstream.requests();
    assert!(sent.last().unwrap().head.starts_with("GET /identity"), "{sent:?}");
}

#[test]
fn heavy_work_runs_on_its_own_threads_and_held_bytes_are_released() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><payloadFactory media-type=\"xml\"><format><n xmlns=\"\">$1</n></format><args>\
         <arg expression=\"string(count(//item))\"/></args></payloadFactory><respond/></inSequence>",
    );
    let body = format!("<all>{}</all>", "<item>text</item>".repeat(100_000));
    assert_eq!(post(&gateway, "application/xml", &body).text(), "<n>100000</n>");
    assert!(gateway.metric("penstock_heavy_work_total", "") > 0);
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "they are released");
}

#[test]
fn a_body_of_which_a_part_was_sent_is_not_sent_to_another_receiver() {
    let (first, second) = (Upstream::manual(), Upstream::echo());
    let new = "<payloadFactory media-type=\"text\"><format>new</format><args/></payloadFactory>";
    let none = "<property name=\"NO_ENTITY_BODY\" value=\"true\" scope=\"axis2\"/>";
    for (steps, expect) in [
        ("", None),
        // It was read, but it is still not the client's.
        ("<log level=\"full\"/>", None),
        (new, Some("new")),
        (none, Some("")),
    ] {
        let gateway = proxy(
            &first,
            &format!(
                "{ENDPOINT}<faultSequence>{steps}<call><endpoint><address uri=\"http://{}/\"/></endpoint></call>\
                 <respond/></faultSequence>",
                second.address()
            ),
        );
        let mut client = gateway.connect();
        client.send("POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: 1000000\r\n\r\n");
        client.send("x".repeat(500_000));
        let mut connection = first.accept();
        connection.request_head();
        connection.read_exactly(100_000);
        connection.reset();
        client.try_send("x".repeat(500_000));
        let response = client.read();
        let found = Some(response.text()).filter(|_| response.status == 200);
        assert_eq!(found.as_deref(), expect, "{steps}: {}", response.text());
    }
    assert_eq!(second.requests().len(), 2);
}

#[test]
fn fields_of_framing_are_the_gateways_whatever_a_mediator_sets() {
    let upstream = Upstream::echo();
    let set = |name: &str| {
        format!("<property name=\"{name}\" scope=\"transport\" expression=\"$trp:X-Set\"/>")
    };
    let gateway = proxy(
        &upstream,
        &format!(
            "<inSequence>{}{}{}{}</inSequence>{ENDPOINT}<outSequence>{}<respond/></outSequence>",
            set("Host"),
            set("Content-Length"),
            set("Transfer-Encoding"),
            set("X-Copy"),
            set("Content-Length"),
        ),
    );
    let response = gateway.fetch("GET /services/it", "X-Set: 3\r\n");
    let head = response.head.to_ascii_lowercase();
    assert_eq!(head.matches("content-length").count(), 1, "{head}");
    let forwarded = &upstream.requests()[0];
    let host = upstream.address().to_string();
    assert_eq!(forwarded.header("host"), Some(host.as_str()));
    assert_eq!((forwarded.header("content-length"), forwarded.header("x-copy")), (None, Some("3")));
}

#[test]
fn no_artefact_believes_what_a_client_says_of_itself() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><payloadFactory media-type=\"text\"><format>[$1]</format><args>\
         <arg expression=\"$trp:X-Forwarded-For\"/></args></payloadFactory><respond/></inSequence>",
    );
    assert_eq!(gateway.fetch("GET /services/it", "X-Forwarded-For: 10.0.0.1\r\n").text(), "[]");
}

#[test]
fn an_address_without_a_path_gets_one() {
    let upstream = Upstream::echo();
    let gateway = proxy(&upstream, "<endpoint><address uri=\"HERE\"/></endpoint>");
    assert_eq!(gateway.fetch("GET /services/it?x=1", "").status, 200);
    assert_eq!(upstream.requests()[0].line(), "GET /?x=1 HTTP/1.1");
}

#[test]
fn a_group_sends_to_as_many_members_as_it_says() {
    let (first, second, refusing) = (Upstream::manual(), Upstream::manual(), Upstream::refusing());
    let member = |upstream: &Upstream| {
        format!("<endpoint><address uri=\"http://{}/\"/></endpoint>", upstream.address())
    };
    let members = format!("{}{}", member(&first), member(&second));
    let all =
        proxy(&first, &format!("<endpoint><recipientlist>{members}</recipientlist></endpoint>"));
    std::thread::scope(|scope| {
        let response = scope.spawn(|| post(&all, "text/plain", "x").text());
        let mut connections = [&first, &second].map(Upstream::accept);
        // Both have the request before one of them responds.
        connections.iter_mut().for_each(|connection| drop(connection.request()));
        let [first, second] = &mut connections;
        second.ok("second");
        assert_eq!(response.join().unwrap(), "second", "what comes first");
        first.try_send("HTTP/1.1 204 No Content\r\n\r\n");
    });
    let second = Upstream::fixed("second");
    let broken = format!("{}{}", member(&refusing), member(&second));
    let next = proxy(&first, &format!("<endpoint><failover>{broken}</failover></endpoint>"));
    assert_eq!(post(&next, "text/plain", "x").text(), "second", "nothing of it was sent");
}

#[test]
fn aggregates_that_wait_do_not_keep_messages_from_being_sent() {
    let upstream = Upstream::fixed("sent");
    let gateway = proxy(
        &upstream,
        "<inSequence><clone><target><sequence><iterate expression=\"//item\"><target><sequence>\
         <aggregate><correlateOn expression=\"//item\"/><completeCondition timeout=\"600\">\
         <messageCount min=\"2\" max=\"2\"/></completeCondition><onComplete expression=\"//item\"><drop/>\
         </onComplete></aggregate></sequence></target></iterate></sequence></target>\
         <target><sequence><call><endpoint><address uri=\"HERE/\"/></endpoint></call><respond/></sequence>\
         </target></clone></inSequence>",
    );
    let items: String = (0..200).map(|number| format!("<item>{number}</item>")).collect();
    assert_eq!(post(&gateway, "application/xml", &format!("<all>{items}</all>")).text(), "sent");
}

#[test]
fn a_script_changes_the_message() {
    let upstream = Upstream::echo();
    let script = "<script language=\"js\"><![CDATA[var order = mc.getPayloadJSON(); order.total = order.price * 2;\
                  mc.setPayloadJSON(order); mc.setProperty('X-Total', String(order.total), 'transport');]]></script>";
    let gateway = proxy(&upstream, &format!("<inSequence>{script}<respond/></inSequence>"));
    let response = post(&gateway, "application/json", "{\"price\":1.5}");
    assert_eq!(response.text(), "{\"price\":1.5,\"total\":3}");
    assert_eq!(response.header("X-Total"), Some("3"));
}

#[test]
fn a_script_without_an_end_fails_its_message_alone() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><filter source=\"//loop\" regex=\"1\"><then><script language=\"js\">for (;;);</script></then>\
         </filter><respond/></inSequence>",
    );
    assert_eq!(post(&gateway, "application/json", "{\"loop\":1}").status, 500);
    assert_eq!(post(&gateway, "application/json", "{\"loop\":0}").status, 200);
}

#[test]
fn a_cached_response_is_not_fetched_again_by_any_worker() {
    let upstream = Upstream::fixed("fetched");
    let gateway = proxy(
        &upstream,
        "<inSequence><cache/><send><endpoint><address uri=\"HERE/\"/></endpoint></send></inSequence>\
         <outSequence><cache collector=\"true\"/><send/></outSequence>",
    );
    for _ in 0..4 {
        // Each connection may get another worker.
        assert_eq!(post(&gateway, "application/json", "{}").text(), "fetched");
    }
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(post(&gateway, "application/json", "{\"other\":1}").text(), "fetched");
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn the_response_of_a_call_is_cached_too() {
    let upstream = Upstream::fixed("fetched");
    let gateway = proxy(
        &upstream,
        "<inSequence><cache/><call><endpoint><address uri=\"HERE/\"/></endpoint></call>\
         <cache collector=\"true\"/><respond/></inSequence>",
    );
    let fetched = [(); 2].map(|()| post(&gateway, "application/json", "{}").text());
    assert_eq!(
        (fetched, upstream.requests().len()),
        (["fetched", "fetched"].map(str::to_owned), 1)
    );
}

#[test]
fn a_client_over_its_rate_is_rejected() {
    let upstream = Upstream::fixed("accepted");
    let gateway = proxy(
        &upstream,
        "<inSequence><throttle id=\"t\"><policy><p:Policy xmlns:p=\"http://schemas.xmlsoap.org/ws/2004/09/policy\" \
         xmlns:t=\"http://www.wso2.org/products/wso2commons/throttle\"><t:MediatorThrottleAssertion>\
         <t:MaximumConcurrentAccess>1</t:MaximumConcurrentAccess><p:Policy><t:ID t:type=\"IP\">other</t:ID><p:Policy>\
         <t:Control><p:Policy><t:MaximumCount>2</t:MaximumCount><t:UnitTime>3600000</t:UnitTime></p:Policy></t:Control>\
         </p:Policy></p:Policy></t:MediatorThrottleAssertion></p:Policy></policy><onReject>\
         <property name=\"HTTP_SC\" scope=\"axis2\" value=\"429\"/><respond/></onReject></throttle>\
         <call><endpoint><address uri=\"HERE/\"/></endpoint></call><respond/></inSequence>",
    );
    let statuses = [(); 3].map(|()| post(&gateway, "application/json", "{}").status);
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(upstream.requests().len(), 2);
}
