//! Endpoints of artefacts: groups, suspension of members, repeated requests, and responses of the gateway itself.

use std::sync::Arc;

use harness::{Builder, CannedResponse, Gateway, Response, Upstream, artefact, wait_until};
use model::{ArtefactSet, CompositeApplication, Resource};

fn proxy(target: &str) -> Gateway {
    Gateway::mediating(&format!("<proxy name=\"it\"><target>{target}</target></proxy>")).start()
}

fn post(gateway: &Gateway, fields: &str, body: &str) -> Response {
    let mut client = gateway.connect();
    let fields = format!("{fields}Content-Length: {}\r\n", body.len());
    client.send(format!("POST /services/it HTTP/1.1\r\nHost: me\r\n{fields}\r\n{body}"));
    client.read()
}

fn plain(gateway: &Gateway) -> Response {
    post(gateway, "Content-Type: text/plain\r\n", "x")
}

/// An endpoint with these children.
fn address(upstream: &Upstream, children: &str) -> String {
    let uri = format!("http://{}/", upstream.address());
    format!("<endpoint><address uri=\"{uri}\">{children}</address></endpoint>")
}

/// Closes the connection instead of responding.
fn closing() -> Upstream {
    Upstream::responding(|_| CannedResponse::bytes("").then_close())
}

#[test]
fn an_http_endpoint_gets_a_token_by_each_grant_and_all_messages_share_it() {
    let common = "<clientId>me</clientId><clientSecret>s&amp;t</clientSecret>";
    let parameter =
        "<requestParameters><parameter name=\"audience\">a b</parameter></requestParameters>";
    for (grant, inside, expect) in [
        ("clientCredentials", parameter.to_owned(), "grant_type=client_credentials&audience=a%20b"),
        (
            "passwordCredentials",
            "<username>u</username><password>p+</password>".to_owned(),
            "grant_type=password&username=u&password=p%2B",
        ),
        (
            "authorizationCode",
            "<refreshToken>r</refreshToken><authMode>Payload</authMode>".to_owned(),
            "grant_type=refresh_token&refresh_token=r&client_id=me&client_secret=s%26t",
        ),
    ] {
        let upstream = Upstream::fixed("in");
        let server = Upstream::responding(|_| {
            CannedResponse::ok(r#"{"access_token":"t0","expires_in":3600}"#)
        });
        let url = format!("<tokenUrl>{}/token</tokenUrl>", server.url());
        let gateway = proxy(&format!(
            "<endpoint><http method=\"post\" uri-template=\"http://{}/x\"><authentication><oauth><{grant}>\
             {common}{url}{inside}</{grant}></oauth></authentication></http></endpoint>",
            upstream.address()
        ));
        for _ in 0..3 {
            let response =
                post(&gateway, "Content-Type: text/plain\r\nAuthorization: Bearer own\r\n", "x");
            assert_eq!((response.status, response.text().as_str()), (200, "in"), "{grant}");
        }
        for request in upstream.requests() {
            assert_eq!(request.header("Authorization"), Some("Bearer t0"), "{grant}");
            assert_eq!(request.head.matches("uthorization").count(), 1, "{}", request.head);
        }
        let asked = server.requests();
        assert_eq!(asked.len(), 1, "{grant}: a token is asked for once");
        assert_eq!(asked[0].text(), expect);
        let in_header = (!expect.contains("client_id")).then_some("Basic bWU6cyUyNnQ=");
        assert_eq!(asked[0].header("Authorization"), in_header);
    }
}

#[test]
fn without_a_token_an_endpoint_is_not_asked() {
    let (upstream, server) = (Upstream::fixed("in"), Upstream::fixed("no JSON"));
    let gateway = proxy(&format!(
        "<inSequence><call><endpoint><http method=\"post\" uri-template=\"http://{}/x\"><authentication><oauth>\
         <clientCredentials><clientId>me</clientId><clientSecret>s</clientSecret><tokenUrl>{}/token</tokenUrl>\
         </clientCredentials></oauth></authentication></http></endpoint></call><respond/></inSequence>\
         <faultSequence><payloadFactory media-type=\"text\"><format>$1</format><args><arg expression=\"$ctx:ERROR_CODE\"/>\
         </args></payloadFactory><respond/></faultSequence>",
        upstream.address(),
        server.url()
    ));
    assert_eq!(plain(&gateway).text(), "303003");
    assert!(upstream.requests().is_empty());
}

#[test]
fn a_value_of_the_client_does_not_lead_to_another_path() {
    let upstream = Upstream::echo();
    let uri = format!("http://{}/items/{{uri.var.id}}/{{query.param.n}}/all", upstream.address());
    let gateway = Gateway::mediating(&format!(
        "<api name=\"it\" context=\"/it\"><resource methods=\"GET\" uri-template=\"/{{id}}\"><inSequence>\
         <call><endpoint><http method=\"get\" uri-template=\"{uri}\"/></endpoint></call><respond/>\
         </inSequence></resource></api>"
    ))
    .start();
    for (value, is_sent) in [
        ("a", true),
        ("a.b", true),
        (".a", true),
        ("a%2Fb", true),
        (".", false),
        ("..", false),
        ("%2e.", false),
        ("..%2Fa", false),
        ("a%2F..", false),
        ("..%5Ca", false),
        ("..;a", true),
        ("%252e%252e", false),
    ] {
        let response = gateway.fetch(&format!("GET /it/7?n={value}"), "");
        let expect = if is_sent { "200" } else { "500 101503" };
        assert_eq!(response.status_and_code(), expect, "{value}: {}", response.text());
    }
    assert_eq!(upstream.requests().len(), 5);
}

/// A condition is evaluated again for the error handler, on the same message.
#[test]
fn a_request_that_passes_through_and_fails_goes_to_its_own_error_handler() {
    let endpoint = address(&Upstream::refusing(), "");
    let handled = |text: &str| {
        format!(
            "<payloadFactory media-type=\"text\"><format>{text} $1</format>\
             <args><arg expression=\"get-property('ERROR_CODE')\"/></args></payloadFactory><respond/>"
        )
    };
    let gateway = proxy(&format!(
        "<inSequence><filter source=\"get-property('MESSAGE_FORMAT')\" regex=\"get\">\
         <then><send>{endpoint}</send></then><else>{}</else></filter></inSequence>\
         <faultSequence>{}</faultSequence>",
        handled("no GET"),
        handled("failed")
    ));
    let response = gateway.fetch("GET /services/it", "");
    assert_eq!(response.text(), "failed 101503");
    let with_body = proxy(&format!(
        "<inSequence><send>{endpoint}</send></inSequence><faultSequence>{}</faultSequence>",
        handled("failed")
    ));
    assert_eq!(plain(&with_body).text(), "failed 101503");
    let by_body = proxy(&format!(
        "<inSequence><filter xpath=\"//order\"><then><send>{endpoint}</send></then><else>{}</else></filter>\
         </inSequence><faultSequence>{}</faultSequence>",
        handled("no order"),
        "<payloadFactory media-type=\"text\"><format>failed $1</format>\
         <args><arg expression=\"//order\"/></args></payloadFactory><respond/>"
    ));
    let xml = "Content-Type: application/xml\r\n";
    assert_eq!(post(&by_body, xml, "<order>7</order>").text(), "failed 7");
    assert_eq!(post(&by_body, xml, "<offer>7</offer>").text(), "no order ");
}

/// A POST of 10 bytes, or one whose body ends with its last chunk.
fn posts() -> [&'static str; 2] {
    [
        "Content-Length: 10\r\n\r\n0123456789",
        "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
    ]
}

#[test]
fn a_failure_after_the_body_was_sent_reaches_its_error_handler() {
    let closing = closing();
    let silent = Upstream::manual();
    let broken = Upstream::responding(|_| {
        CannedResponse::bytes("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").then_close()
    });
    let limit = "<timeout><duration>1</duration><responseAction>fault</responseAction></timeout>";
    let (closed, late, half) =
        (address(&closing, ""), address(&silent, limit), address(&broken, ""));
    // Something that does not pass through.
    let run = "<property name=\"a\" value=\"b\"/>";
    let direct = |to: &str| to.to_owned();
    let send = |to: &str| format!("<inSequence>{run}<send>{to}</send></inSequence>");
    let call = |to: &str| format!("<inSequence>{run}<call>{to}</call><respond/></inSequence>");
    let read = "<log level=\"full\"/>";
    let made = "<payloadFactory media-type=\"text\"><format>$1</format><args>\
                <arg expression=\"get-property('ERROR_CODE')\"/></args></payloadFactory>";
    let handlers = [("", ""), (read, ""), (made, "CODE")];
    for (target, code) in [
        (direct(&closed), "101505"),
        (send(&closed), "101505"),
        (call(&closed), "101505"),
        (direct(&late), "101504"),
        (send(&late), "101504"),
        (call(&late), "101504"),
        (call(&half).replace("<respond/>", "<log level=\"full\"/><respond/>"), "101505"),
    ] {
        for (steps, text) in handlers {
            let gateway = proxy(&format!(
                "{target}<faultSequence>{steps}<property name=\"HTTP_SC\" value=\"418\" scope=\"axis2\"/><respond/>\
                 </faultSequence>"
            ));
            let expect = (418, text.replace("CODE", code));
            for rest in posts() {
                let mut client = gateway.connect();
                client.send(format!("POST /services/it HTTP/1.1\r\nHost: me\r\n{rest}"));
                let response = client.read();
                assert_eq!((response.status, response.text()), expect, "{target} {steps} {rest}");
            }
        }
    }
}

#[test]
fn a_body_that_chooses_the_way_is_sent_whole() {
    let (first, second) = (Upstream::echo(), Upstream::echo());
    let gateway = proxy(&format!(
        "<inSequence><switch source=\"//to\"><case regex=\"a\"><send>{}</send></case>\
         <case regex=\"b\"><send>{}</send></case><default><drop/></default></switch></inSequence>",
        address(&first, ""),
        address(&second, ""),
    ));
    let xml = "Content-Type: application/xml\r\n";
    let sent = || (first.requests().len(), second.requests().len());
    for (to, count, expect) in
        [("a", 1, (1, 0)), ("b", 20_000, (1, 1)), ("a", 200_000, (2, 1)), ("c", 1, (2, 1))]
    {
        let order = format!("<order><to>{to}</to>{}</order>", "<line/>".repeat(count));
        let response = post(&gateway, xml, &order);
        let expect_text = if to == "c" { "" } else { &*order };
        assert_eq!((response.text().as_str(), sent()), (expect_text, expect), "{to}");
    }
}

#[test]
fn a_soap_request_gets_a_soap_fault_and_any_other_json() {
    let gateway = proxy(&address(&Upstream::refusing(), ""));
    let fault = |content_type: &str| {
        let response = post(&gateway, &format!("Content-Type: {content_type}\r\n"), "<a/>");
        assert_eq!(response.status, 500, "{content_type}");
        (response.header("content-type").unwrap_or_default().to_owned(), response.text())
    };
    let (content_type, soap11) = fault("text/xml");
    assert_eq!(content_type, "text/xml; charset=UTF-8");
    for part in [
        "http://schemas.xmlsoap.org/soap/envelope/",
        "<faultcode>soapenv:Server</faultcode><faultstring>Runtime Error</faultstring><detail>",
        "<am:fault xmlns:am=\"http://wso2.org/apimanager\"><am:code>101503</am:code>",
        "<am:description>Error connecting to the back end</am:description></am:fault></detail>",
    ] {
        assert!(soap11.contains(part), "{part}: {soap11}");
    }
    let (content_type, soap12) = fault("application/soap+xml; action=\"urn:x\"");
    assert_eq!(content_type, "application/soap+xml; charset=UTF-8");
    assert!(soap12.contains("<soapenv:Value>soapenv:Receiver</soapenv:Value>"), "{soap12}");
    assert!(soap12.contains("http://www.w3.org/2003/05/soap-envelope"), "{soap12}");
    assert!(fault("application/xml").1.starts_with("{\"code\":\"101503\""));
}

#[test]
fn the_message_of_an_error_is_fit_for_clients_and_its_detail_names_the_address() {
    let refusing = Upstream::refusing();
    let gateway = proxy(&format!(
        "<inSequence><call blocking=\"true\">{}</call></inSequence><faultSequence><payloadFactory media-type=\"text\">\
         <format>$1|$2|$3</format><args><arg expression=\"$ctx:ERROR_CODE\"/><arg expression=\"$ctx:ERROR_MESSAGE\"/>\
         <arg expression=\"$ctx:ERROR_DETAIL\"/></args></payloadFactory><respond/></faultSequence>",
        address(&refusing, "")
    ));
    let text = plain(&gateway).text();
    let detail = format!("no connection to {}: ", refusing.address());
    let expect = format!("401001|Error connecting to the back end|{detail}");
    assert!(text.starts_with(&expect), "{text}");
}

/// Codes of the responses to as many requests.
fn codes(gateway: &Gateway, count: usize) -> Vec<String> {
    (0..count).map(|_| plain(gateway).status_and_code()).collect()
}

#[test]
fn an_error_suspends_an_endpoint_at_once_and_one_that_marks_it_after_its_retries() {
    const REFUSED: &str = "500 101503";
    const CLOSED: &str = "500 101505";
    const SUSPENDED: &str = "500 303001";
    let refusing = Upstream::refusing();
    let closing = closing();
    let mark = |codes: &str, retries: u32| {
        format!(
            "<markForSuspension>{codes}<retriesBeforeSuspension>{retries}</retriesBeforeSuspension></markForSuspension>"
        )
    };
    let codes_of = |codes: &str| format!("<errorCodes>{codes}</errorCodes>");
    let suspend = |inner: &str| format!("<suspendOnFailure>{inner}</suspendOnFailure>");
    let cases: [(&Upstream, String, &[&str]); 7] = [
        // Written as the default is.
        (&refusing, suspend("<initialDuration>-1</initialDuration>"), &[REFUSED, SUSPENDED]),
        (&refusing, suspend(&codes_of("101505")), &[REFUSED, REFUSED]),
        (&refusing, suspend(&codes_of("-1")), &[REFUSED, REFUSED]),
        (&refusing, suspend("<initialDuration>0</initialDuration>"), &[REFUSED, REFUSED]),
        // A request that is refused is tried twice, and each try counts.
        (&refusing, mark(&codes_of("101503"), 2), &[REFUSED, REFUSED, SUSPENDED]),
        (&refusing, mark(&codes_of("101504"), 2), &[REFUSED, SUSPENDED]),
        // A connection that is closed marks it without being named.
        (&closing, mark("", 1), &[CLOSED, CLOSED, SUSPENDED]),
    ];
    for (upstream, rule, expect) in cases {
        let gateway = proxy(&address(upstream, &rule));
        assert_eq!(gateway.diagnostics(), "", "{rule}");
        assert_eq!(codes(&gateway, expect.len()), expect, "{rule}");
    }
}

#[test]
fn a_group_repeats_a_post_only_after_an_error_that_its_member_lists() {
    let retry = |codes: &str| {
        let closing = closing();
        let working = Upstream::fixed("second");
        let rule = match codes {
            "" => String::new(),
            codes => {
                format!("<retryConfig><enabledErrorCodes>{codes}</enabledErrorCodes></retryConfig>")
            }
        };
        let members = format!("{}{}", address(&closing, &rule), address(&working, ""));
        ["failover", "loadbalance"].map(|group| {
            let gateway = proxy(&format!("<endpoint><{group}>{members}</{group}></endpoint>"));
            let response = plain(&gateway);
            if response.status == 200 { response.text() } else { response.status_and_code() }
        })
    };
    assert_eq!(retry("101505"), ["second", "second"]);
    assert_eq!(retry("101504"), ["500 101505", "500 101505"]);
    assert_eq!(retry(""), ["500 101505", "500 101505"], "a POST may have had its effect");
}

#[test]
fn each_recipient_has_a_response_and_an_aggregate_joins_them() {
    let from = |body: &'static str| {
        Upstream::responding(move |_| {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n";
            CannedResponse::bytes(format!("{head}{body}"))
        })
    };
    let (one, two) = (from("{\"from\":1}"), from("{\"from\":2}"));
    let dynamic = format!("http://{}/,http://{}/", one.address(), two.address());
    let lists = [
        format!("{}{}", address(&one, ""), address(&two, "")),
        format!("<endpoints value=\"{dynamic}\"/>"),
        "<endpoints value=\"{$ctx:all}\"/>".to_owned(),
    ];
    for list in lists {
        let endpoint = format!("<endpoint><recipientlist>{list}</recipientlist></endpoint>");
        let join = "<property name=\"messageType\" value=\"application/json\" scope=\"axis2\"/>\
                    <aggregate><completeCondition><messageCount min=\"2\" max=\"2\"/></completeCondition>\
                    <onComplete expression=\"json-eval($.from)\"><respond/></onComplete></aggregate>";
        let all = format!("<property name=\"all\" value=\"{dynamic}\"/>");
        let sent = format!(
            "<inSequence>{all}<send>{endpoint}</send></inSequence><outSequence>{join}</outSequence>"
        );
        let called = format!("<inSequence>{all}<call>{endpoint}</call>{join}</inSequence>");
        for target in [sent, called] {
            let gateway = proxy(&target);
            let response = post(&gateway, "Content-Type: application/json\r\n", "1");
            assert_eq!(response.text(), "[1,2]", "{target}");
        }
    }
}

/// They are written on threads for heavy work.
#[test]
fn each_of_many_recipients_gets_a_large_body_in_its_format() {
    for count in [2, 5] {
        let upstreams: Vec<_> = (0..count).map(|_| Upstream::fixed("1")).collect();
        let member = |of: &Upstream| {
            let url = format!("http://{}/", of.address());
            format!("<endpoint><address uri=\"{url}\" format=\"pox\"/></endpoint>")
        };
        let list: String = upstreams.iter().map(member).collect();
        let gateway = proxy(&format!(
            "<inSequence><send><endpoint><recipientlist>{list}</recipientlist></endpoint></send></inSequence>\
             <outSequence><aggregate><completeCondition><messageCount min=\"{count}\" max=\"{count}\"/>\
             </completeCondition><onComplete expression=\"$body\"><payloadFactory media-type=\"text\">\
             <format>all</format></payloadFactory><respond/></onComplete></aggregate></outSequence>"
        ));
        let body = format!("{{\"a\":\"{}\"}}", "x".repeat(200_000));
        let response = post(&gateway, "Content-Type: application/json\r\n", &body);
        assert_eq!((response.status, &*response.text()), (200, "all"), "{count}");
        for upstream in upstreams {
            assert!(upstream.requests()[0].text().starts_with("<jsonObject><a>xx"), "{count}");
        }
    }
}

#[test]
fn a_failover_that_is_not_dynamic_stays_with_the_member_that_works() {
    for (dynamic, tries) in [("true", 3), ("false", 1)] {
        let (first, second) = (closing(), Upstream::fixed("second"));
        let never = "<suspendOnFailure><errorCodes>-1</errorCodes></suspendOnFailure>\
                     <markForSuspension><errorCodes>-1</errorCodes></markForSuspension>\
                     <retryConfig><enabledErrorCodes>101505</enabledErrorCodes></retryConfig>";
        let members = format!("{}{}", address(&first, never), address(&second, ""));
        let gateway = proxy(&format!(
            "<endpoint><failover dynamic=\"{dynamic}\">{members}</failover></endpoint>"
        ));
        let texts: Vec<_> = (0..3).map(|_| plain(&gateway).text()).collect();
        assert_eq!(texts, ["second"; 3], "{dynamic}");
        assert_eq!(first.requests().len(), tries, "{dynamic}");
    }
}

/// Responds with this envelope.
fn soap(envelope: &str) -> Upstream {
    let len = envelope.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len}\r\n\r\n");
    let response = head + envelope;
    Upstream::responding(move |_| CannedResponse::bytes(&response))
}

/// A SOAP fault of this reason.
fn fault_of(reason: &str) -> String {
    format!(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><s:Fault>\
         <faultcode>s:Server</faultcode><faultstring>{reason}</faultstring></s:Fault></s:Body></s:Envelope>"
    )
}

/// Responds with a SOAP fault of this reason.
fn faulty(reason: &str) -> Upstream {
    soap(&fault_of(reason))
}

/// A proxy to which SOAP faults are failures. It responds with their codes and reasons.
fn faults_fail(endpoint: &str) -> Builder {
    Gateway::mediating(&format!(
        "<proxy name=\"it\"><target><inSequence><property name=\"FORCE_ERROR_ON_SOAP_FAULT\" value=\"true\"/><call>{endpoint}</call>\
         <respond/></inSequence><faultSequence><payloadFactory media-type=\"text\"><format>$1 $2</format><args>\
         <arg expression=\"$ctx:ERROR_CODE\"/><arg expression=\"$ctx:ERROR_MESSAGE\"/></args></payloadFactory>\
         <respond/></faultSequence></target></proxy>"
    ))
}

const ENVELOPE: &str = "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><a/></s:Body></s:Envelope>";
const SOAP_FIELDS: &str = "Content-Type: text/xml\r\nSOAPAction: \"urn:a\"\r\n";

#[test]
fn a_soap_fault_that_is_a_failure_is_one_of_its_endpoint() {
    const FAULT: &str = "500000 sorry";
    const SUSPENDED: &str = "303001 ";
    let rule = |name: &str, inner: &str| format!("<{name}>{inner}</{name}>");
    let codes = |code: &str| rule("errorCodes", code);
    let retry = "<retriesBeforeSuspension>1</retriesBeforeSuspension>";
    let upstream = faulty("sorry");
    let cases: [(String, &[&str]); 4] = [
        (rule("suspendOnFailure", ""), &[FAULT, SUSPENDED]),
        (rule("suspendOnFailure", &codes("500000")), &[FAULT, SUSPENDED]),
        (rule("suspendOnFailure", &codes("101503")), &[FAULT, FAULT, FAULT]),
        // The heads of the responses are no successes in between.
        (rule("markForSuspension", &(codes("500000") + retry)), &[FAULT, FAULT, SUSPENDED]),
    ];
    for (rules, expect) in cases {
        let gateway = faults_fail(&address(&upstream, &rules)).start();
        for expect in expect {
            let text = post(&gateway, SOAP_FIELDS, ENVELOPE).text();
            assert!(text.starts_with(expect), "{rules}: {text}");
        }
    }
    let good = soap(ENVELOPE);
    let members = address(&upstream, "<suspendOnFailure/>") + &address(&good, "");
    let gateway =
        faults_fail(&format!("<endpoint><failover>{members}</failover></endpoint>")).start();
    let before = upstream.requests().len();
    let texts = [0, 1].map(|_| post(&gateway, SOAP_FIELDS, ENVELOPE).text());
    assert_eq!(texts, [ENVELOPE; 2]);
    assert_eq!(upstream.requests().len() - before, 1, "it is suspended after the first");
}

#[test]
fn a_probe_lasts_until_the_body_of_its_response_was_searched_for_a_fault() {
    let upstream = Upstream::manual();
    let rule = "<suspendOnFailure><initialDuration>1</initialDuration></suspendOnFailure>";
    let gateway = faults_fail(&address(&upstream, rule)).start();
    let send = || {
        let (mut client, len) = (gateway.connect(), ENVELOPE.len());
        client.send(format!(
            "POST /services/it HTTP/1.1\r\nHost: me\r\n{SOAP_FIELDS}Content-Length: {len}\r\n\r\n{ENVELOPE}"
        ));
        client
    };
    let fault = fault_of("sorry");
    let (first, second) = fault.split_at(fault.len() / 2);
    let len = fault.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n"
    );
    let mut client = send();
    let mut connection = upstream.accept();
    connection.request();
    connection.send(format!("{head}{fault}"));
    assert_eq!(client.read().text(), "500000 sorry");
    let (mut client, mut probe) = loop {
        let mut client = send();
        let connection = upstream.accept_or(|| client.has_response());
        match connection {
            Some(connection) => break (client, connection),
            None => assert!(client.read().text().starts_with("303001 ")),
        }
    };
    probe.request();
    probe.send(format!("{head}{first}"));
    // Until the head was read.
    wait_until(|| gateway.metric("penstock_held_body_bytes", "") >= len as u64);
    let mut other = send();
    assert!(upstream.accept_or(|| other.has_response()).is_none(), "there is a second probe");
    assert!(other.read().text().starts_with("303001 "));
    probe.send(second);
    assert_eq!(client.read().text(), "500000 sorry");
}

#[test]
fn a_long_response_is_searched_for_a_fault_on_a_thread_for_heavy_work() {
    let large = faulty(&"x".repeat(1_000_000));
    let gateway = faults_fail(&address(&large, "")).start();
    let text = post(&gateway, SOAP_FIELDS, ENVELOPE).text();
    assert!(text.starts_with("500000 xxx"), "{}", text.len());
    assert!(gateway.metric("penstock_heavy_work_total", "") > 0);
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
}

#[test]
fn looking_for_a_soap_fault_uses_no_more_memory_than_the_message_may() {
    let good = soap(ENVELOPE);
    for (elements, expect) in [(10, ENVELOPE), (20_000, "evaluation stopped")] {
        let large = faulty(&"<a/>".repeat(elements));
        let members = address(&large, "") + &address(&good, "");
        let group = format!("<endpoint><failover>{members}</failover></endpoint>");
        let gateway =
            faults_fail(&group).settings(|settings| settings.gateway.held_bytes_max = 500_000);
        let gateway = gateway.start();
        let text = post(&gateway, SOAP_FIELDS, ENVELOPE).text();
        assert!(text.contains(expect), "{elements}: {text}");
        assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
    }
}

#[test]
fn a_soap_fault_that_is_a_failure_sends_the_message_to_the_next_member() {
    let (first, second) = (faulty("first"), faulty("second"));
    let good = soap(ENVELOPE);
    let member = |upstream: &Upstream| address(upstream, "");
    let both = format!("{}{}", member(&first), member(&second));
    let never = "<retryConfig><disabledErrorCodes>500000</disabledErrorCodes></retryConfig>";
    let failover = |members: &str| format!("<failover>{members}</failover>");
    let nested = format!("<endpoint>{}</endpoint>{}", failover(&both), member(&good));
    let works = format!("{both}{}", member(&good));
    for (group, expect, tried) in [
        (failover(&works), ENVELOPE, [1, 1, 1]),
        (format!("<failover dynamic=\"false\">{works}</failover>"), ENVELOPE, [1, 1, 1]),
        (format!("<loadbalance>{works}</loadbalance>"), ENVELOPE, [1, 1, 1]),
        (failover(&nested), ENVELOPE, [1, 1, 1]),
        (failover(&both), "500000 second", [1, 1, 0]),
        (failover(&format!("{}{works}", address(&first, never))), "500000 first", [1, 0, 0]),
        (
            format!("<loadbalance failover=\"false\">{works}</loadbalance>"),
            "500000 first",
            [1, 0, 0],
        ),
    ] {
        let before = [&first, &second, &good].map(|upstream| upstream.requests().len());
        let gateway = faults_fail(&format!("<endpoint>{group}</endpoint>")).start();
        assert_eq!(post(&gateway, SOAP_FIELDS, ENVELOPE).text(), expect, "{group}");
        for ((upstream, before), tried) in
            [&first, &second, &good].into_iter().zip(before).zip(tried)
        {
            let requests = upstream.requests();
            assert_eq!(requests.len() - before, tried, "{group}");
            assert!(requests.iter().all(|request| request.text() == ENVELOPE), "{group}");
        }
    }
}

#[test]
fn a_member_by_host_gets_the_path_of_the_message() {
    let upstream = Upstream::fixed("member");
    let (host, port) = (upstream.address().ip(), upstream.address().port());
    let gateway = proxy(&format!(
        "<endpoint><loadbalance><member hostName=\"{host}\" httpPort=\"{port}\"/></loadbalance></endpoint>"
    ));
    assert_eq!(gateway.fetch("GET /services/it/a/b?c=d", "").text(), "member");
    assert_eq!(upstream.requests()[0].line(), "GET /services/it/a/b?c=d HTTP/1.1");
    let fields = "Content-Type: text/xml\r\nSOAPAction: \"urn:a\"\r\n";
    assert_eq!(post(&gateway, fields, "<a/>").text(), "member");
    assert!(upstream.requests()[1].line().starts_with("POST /services/it"), "a SOAP call, too");
}

#[test]
fn each_member_that_is_tried_gets_its_own_address_and_all_the_same_message_id() {
    let (first, second) = (closing(), Upstream::fixed("second"));
    let children = "<enableAddressing version=\"submission\"/>\
                    <suspendOnFailure><errorCodes>-1</errorCodes></suspendOnFailure>\
                    <markForSuspension><errorCodes>-1</errorCodes></markForSuspension>\
                    <retryConfig><enabledErrorCodes>101505</enabledErrorCodes></retryConfig>";
    let members = format!("{}{}", address(&first, children), address(&second, children));
    let gateway = proxy(&format!("<endpoint><failover>{members}</failover></endpoint>"));
    assert_eq!(gateway.diagnostics(), "");
    let envelope =
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body/></s:Envelope>";
    let fields = "Content-Type: text/xml\r\nSOAPAction: \"urn:a\"\r\n";
    let mut ids = Vec::new();
    for _ in 0..2 {
        assert_eq!(post(&gateway, fields, envelope).text(), "second");
        for upstream in [&first, &second] {
            let text = upstream.requests().last().unwrap().text();
            let block = |name: &str| {
                let after = text.split_once(&format!("<wsa:{name}"))?.1.split_once('>')?.1;
                Some(after.split_once('<')?.0.to_owned())
            };
            assert_eq!(block("To"), Some(format!("http://{}/", upstream.address())), "{text}");
            assert_eq!(block("Action").as_deref(), Some("urn:a"), "{text}");
            ids.push(block("MessageID").unwrap());
        }
    }
    assert!(ids.iter().all(|id| id.starts_with("urn:uuid:")), "{ids:?}");
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[1], ids[2]);
}

#[test]
fn an_endpoint_has_a_format() {
    let upstream = Upstream::echo();
    for (format, line, content_type) in [
        ("pox", "POST / HTTP/1.1", Some("application/xml; charset=UTF-8")),
        ("soap11", "POST / HTTP/1.1", Some("text/xml; charset=UTF-8")),
        ("get", "GET /?a=1 HTTP/1.1", None),
    ] {
        let uri = format!("http://{}/", upstream.address());
        let gateway =
            proxy(&format!("<endpoint><address uri=\"{uri}\" format=\"{format}\"/></endpoint>"));
        post(&gateway, "Content-Type: application/json\r\n", "{\"a\":1}");
        let requests = upstream.requests();
        let request = requests.last().unwrap();
        assert_eq!(request.line(), line, "{format}");
        assert_eq!(request.header("content-type"), content_type, "{format}");
    }
}

#[test]
fn what_no_resource_serves_goes_to_the_handlers() {
    let handler = |name: &str, text: &str| {
        format!(
            "<sequence name=\"{name}\"><payloadFactory media-type=\"text\"><format>{text}</format><args/>\
             </payloadFactory><property name=\"HTTP_SC\" value=\"418\" scope=\"axis2\"/><respond/></sequence>"
        )
    };
    let gateway = Gateway::mediating(&format!(
        "<api name=\"pets\" context=\"/pets\"><resource methods=\"GET\" uri-template=\"/{{id}}\"><inSequence><respond/>\
         </inSequence></resource></api>{}{}",
        handler("_resource_mismatch_handler_", "no such resource"),
        handler("_method_not_allowed_handler_", "no such method"),
    ))
    .start();
    let of = |request: &str| {
        let response = gateway.fetch(request, "");
        (response.status, response.text())
    };
    assert_eq!(of("GET /pets/1/2"), (418, "no such resource".to_owned()));
    assert_eq!(of("DELETE /pets/1"), (418, "no such method".to_owned()));
}

#[test]
fn properties_of_the_transport_shape_status_line_and_request() {
    let upstream = Upstream::echo();
    let set = |name: &str, value: &str| {
        format!("<property name=\"{name}\" value=\"{value}\" scope=\"axis2\"/>")
    };
    let uri = format!("http://{}/orders", upstream.address());
    let gateway = proxy(&format!(
        "<inSequence>{}{}<call><endpoint><address uri=\"{uri}\"/></endpoint></call>{}{}<respond/></inSequence>",
        set("NO_KEEPALIVE", "true"),
        set("POST_TO_URI", "true"),
        set("HTTP_SC", "409"),
        set("HTTP_SC_DESC", "Out of stock"),
    ));
    let mut client = gateway.connect();
    client.send(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
    );
    let whole = client.read_until_close();
    assert!(whole.starts_with("HTTP/1.1 409 Out of stock\r\n"), "{whole}");
    let request = &upstream.requests()[0];
    assert_eq!(request.line(), format!("POST {uri} HTTP/1.1"));
    assert_eq!(request.header("connection"), Some("close"));
}

#[test]
fn an_endpoint_gets_http_1_0_if_it_should() {
    let upstream = Upstream::echo();
    let gateway = proxy(&format!(
        "<inSequence><property name=\"FORCE_HTTP_1.0\" value=\"true\" scope=\"axis2\"/>\
         <call><endpoint><address uri=\"http://{}/old\"/></endpoint></call><respond/></inSequence>",
        upstream.address(),
    ));
    let mut client = gateway.connect();
    client.send(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\n",
    );
    let whole = client.read_until_close();
    assert!(whole.starts_with("HTTP/1.1 200 ") && whole.contains("abc"), "{whole}");
    let request = &upstream.requests()[0];
    assert_eq!(request.line(), "POST /old HTTP/1.0");
    let framing = ["content-length", "transfer-encoding", "connection"];
    assert_eq!(framing.map(|name| request.header(name)), [Some("3"), None, Some("close")]);
}

#[test]
fn artefacts_read_the_environment() {
    let path = std::env::var("PATH").unwrap();
    let gateway = proxy(
        "<inSequence><payloadFactory media-type=\"text\"><format>$1 $2 $3</format><args><arg expression=\"$env:PATH\"/>\
         <arg expression=\"get-property('system', 'PATH')\"/><arg expression=\"$env:NO_SUCH_VARIABLE\"/></args>\
         </payloadFactory><respond/></inSequence>",
    );
    assert_eq!(gateway.fetch("GET /services/it", "").text(), format!("{path} {path} "));
}

/// An archive with a proxy of this name, which responds with a resource, and another artefact.
fn archive(name: &str, text: &str, other: &str) -> ArtefactSet {
    let application = Arc::new(CompositeApplication {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        file: format!("{name}.car").into(),
    });
    let entry = format!("/_system/governance/{name}/text");
    let proxy = format!(
        "<proxy name=\"{name}\"><target><inSequence><payloadFactory media-type=\"text\"><format key=\"{entry}\"/><args/>\
         </payloadFactory><respond/></inSequence></target></proxy>"
    );
    let parts = [("proxy", &*proxy), ("other", other)];
    let artefacts = parts.map(|(part, text)| {
        let mut artefact = artefact(&format!("{name}.car!/{part}.xml"), text);
        artefact.application = Some(Arc::clone(&application));
        artefact
    });
    let resource = Resource {
        file: format!("{name}.car!/text").into(),
        media_type: "text/plain".to_owned(),
        bytes: text.as_bytes().into(),
        ..Resource::default()
    };
    ArtefactSet {
        artefacts: artefacts.to_vec(),
        resources: [(format!("gov:/{name}/text"), resource)].into(),
    }
}

#[test]
fn an_archive_with_an_error_is_not_served_at_all_or_as_it_was() {
    const FINE: &str = "<sequence name=\"s\"/>";
    const BROKEN: &str = "<sequence name=\"s\"><nothing/></sequence>";
    let gateway = Gateway::mediating("<sequence name=\"unused\"/>").start();
    let response = || {
        let response = gateway.fetch("GET /services/it", "");
        (response.status, response.text())
    };
    gateway.apply_set(archive("it", "first", BROKEN));
    assert_eq!(response().0, 404, "its proxy has no error");
    gateway.apply_set(archive("it", "first", FINE));
    assert_eq!(response(), (200, "first".to_owned()));
    gateway.apply_set(archive("it", "second", BROKEN));
    assert_eq!(response(), (200, "first".to_owned()), "with its own resources");
    gateway.apply_set(archive("it", "third", FINE));
    assert_eq!(response(), (200, "third".to_owned()));
}
