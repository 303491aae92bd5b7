//! Policies of APIs: changes of the messages of an operation.

use harness::{CannedResponse, Files, Gateway, Issuer, Response, Upstream};
use serde_json::json;

/// A description at `/a` whose operations have these policies; `HERE` is the URL of `upstream`.
fn description(upstream: &Upstream, policies: &str) -> String {
    let policies = policies.replace("HERE", &upstream.url());
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
         x-wso2-production-endpoints: {{urls: ['{}/up']}}\npaths:\n  /pets/{{id}}:\n\
         \x20   get: &it {{x-penstock-policies: {policies}}}\n    head: *it\n    post: *it\n",
        upstream.url()
    )
}

fn gateway(upstream: &Upstream, policies: &str) -> Gateway {
    Files::new().api("a.yaml", &description(upstream, policies)).start()
}

/// An upstream that returns the head that it received as its body.
fn showing_heads() -> Upstream {
    Upstream::responding(|request| {
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nServer: up\r\nX-Kept: yes\r\nContent-Length: {}\r\n\r\n{}",
            request.head.len(),
            request.head
        ))
    })
}

fn post(gateway: &Gateway, fields: &str, body: &str) -> Response {
    let mut client = gateway.connect();
    let length = body.len();
    client.send(format!(
        "POST /a/pets/7 HTTP/1.1\r\nHost: me\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    ));
    client.read()
}

/// The request line that the upstream receives for `request`.
#[track_caller]
fn check_line(policies: &str, request: &str, expect: &str) {
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&upstream, policies);
    assert_eq!(gateway.fetch(request, "").status_and_code(), "200", "{policies}");
    assert_eq!(upstream.requests()[0].line(), format!("{expect} HTTP/1.1"), "{policies}");
}

#[test]
fn header_fields_are_set_and_removed_both_ways() {
    let upstream = showing_heads();
    let gateway = gateway(
        &upstream,
        "{request: [{name: addHeader, parameters: {headerName: X-New, headerValue: one}},
          {name: addHeader, parameters: {headerName: X-Old, headerValue: '${props.synapse.API_NAME} 2'}},
          {name: removeHeader, parameters: {headerName: x-gone}}],
          response: [{name: addHeader, parameters: {headerName: X-Back, headerValue: three}},
          {name: removeHeader, parameters: {headerName: server}}]}",
    );
    let response = gateway.fetch("GET /a/pets/7", "X-Old: 1\r\nX-Gone: 1\r\nX-Gone: 2\r\n");
    assert_eq!(response.status, 200);
    let forwarded = &upstream.requests()[0];
    assert_eq!(forwarded.line(), "GET /up/pets/7 HTTP/1.1");
    let fields = ["x-new", "x-old", "x-gone"].map(|name| forwarded.header(name));
    assert_eq!(fields, [Some("one"), Some("A 2"), None]);
    let fields = ["x-back", "server", "x-kept"].map(|name| response.header(name));
    assert_eq!(fields, [Some("three"), None, Some("yes")]);
}

#[test]
fn bodies_stream_through_policies_for_heads() {
    let upstream = Upstream::manual();
    let policies = "{request: [{name: removeHeader, parameters: {headerName: a}}],
                     response: [{name: removeHeader, parameters: {headerName: a}}]}";
    let gateway = gateway(&upstream, policies);
    let mut client = gateway.connect();
    client.send("POST /a/pets/7 HTTP/1.1\r\nHost: me\r\nContent-Length: 6\r\n\r\none");
    let mut connection = upstream.accept();
    let head = connection.request_head();
    assert!(head.starts_with("POST /up/pets/7 "), "{head}");
    assert_eq!(connection.read_exactly(3), b"one", "before the rest was sent");
    client.send("two");
    assert_eq!(connection.read_exactly(3), b"two");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nthr");
    assert_eq!((client.read_head().status, client.read_exactly(3)), (200, b"thr".to_vec()));
    connection.send("ee.");
    assert_eq!(client.read_exactly(3), b"ee.");
}

#[test]
fn the_target_and_the_method_of_the_forwarded_request_change() {
    let path = |path: &str| {
        format!(
            "{{request: [{{name: rewriteResourcePath, parameters: {{newResourcePath: '{path}'}}}}]}}"
        )
    };
    check_line(&path("/dogs"), "GET /a/pets/7?b=1", "GET /up/dogs?b=1");
    check_line(
        &path("/dogs/{id}/{query.param.b}?c=2"),
        "GET /a/pets/7?b=x%20y%2Fz",
        "GET /up/dogs/7/x%20y%2Fz?c=2&b=x%20y%2Fz",
    );
    check_line(
        "{request: [{name: rewriteResourcePath, parameters: {newResourcePath: /x, includeQueryParams: false}}]}",
        "GET /a/pets/7?b=1",
        "GET /up/x",
    );
    let add = "{name: addQueryParam, parameters: {paramKey: a b, paramValue: '${props.synapse.REST_API_CONTEXT}&'}}";
    check_line(&format!("{{request: [{add}]}}"), "GET /a/pets/7", "GET /up/pets/7?a%20b=%2Fa%26");
    check_line(
        &format!("{{request: [{add}]}}"),
        "GET /a/pets/7?c",
        "GET /up/pets/7?c&a%20b=%2Fa%26",
    );
    let method = "{request: [{name: changeHTTPMethod, parameters: {currentMethod: post, updatedMethod: put}}]}";
    check_line(method, "POST /a/pets/7", "PUT /up/pets/7");
    check_line(method, "GET /a/pets/7", "GET /up/pets/7");
}

#[test]
fn a_path_made_of_a_parameter_never_leaves_the_endpoint() {
    let upstream = Upstream::fixed("in");
    let gateway = gateway(
        &upstream,
        "{request: [{name: rewriteResourcePath, parameters: {newResourcePath: '/x/{query.param.b}'}}]}",
    );
    for query in [
        "b=..",
        "b=%2e%2e",
        "b=.",
        "b=%252e%252e%252fadmin",
        "b=%25252e%25252e",
        "b=..%2Fadmin",
        "b=a%5C..%5Cadmin",
        "b=..%3Badmin",
    ] {
        let response = gateway.fetch(&format!("GET /a/pets/7?{query}"), "");
        assert_eq!(response.status_and_code(), "500 0", "{query}");
    }
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_head_request_gets_no_body_whatever_its_method_becomes() {
    let upstream = Upstream::fixed("four");
    let gateway = gateway(
        &upstream,
        "{request: [{name: changeHTTPMethod, parameters: {updatedMethod: GET}}]}",
    );
    let mut client = gateway.connect();
    for _ in 0..2 {
        let response = client.fetch("HEAD /a/pets/7", "");
        assert_eq!((response.status, response.header("content-length")), (200, Some("4")));
    }
    assert_eq!(upstream.requests()[1].line(), "GET /up/pets/7 HTTP/1.1");
}

#[test]
fn a_request_goes_to_another_endpoint() {
    let (upstream, other) = (Upstream::fixed("one"), Upstream::fixed("other"));
    let policies =
        format!("{{request: [{{name: setToHeader, parameters: {{to: '{}/base'}}}}]}}", other.url());
    let gateway = gateway(&upstream, &policies);
    assert_eq!(gateway.fetch("GET /a/pets/7?b=1", "").text(), "other");
    assert_eq!(other.requests()[0].line(), "GET /base/pets/7?b=1 HTTP/1.1");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_mock_and_a_redirect_respond_instead_of_the_upstream() {
    let upstream = Upstream::fixed("in");
    let mock = gateway(
        &upstream,
        "{request: [{name: mock, parameters: {statusCode: 201, body: '{\"id\": \"${params.pathParams.id}\"}'}}],
          response: [{name: addHeader, parameters: {headerName: X-Back, headerValue: a}}]}",
    );
    let response = mock.fetch("GET /a/pets/7", "X-Secret: s\r\n");
    assert_eq!((response.status, response.text()), (201, "{\"id\": \"7\"}".to_owned()));
    let fields = ["content-type", "x-back", "x-secret"].map(|name| response.header(name));
    assert_eq!(fields, [Some("application/json"), Some("a"), None]);
    let redirect = gateway(
        &upstream,
        "{request: [{name: redirect, parameters: {url: 'https://b.example/x', statusCode: 307}}]}",
    );
    let response = redirect.fetch("GET /a/pets/7", "");
    let location = response.header("location");
    assert_eq!((response.status, location), (307, Some("https://b.example/x")));
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_mirror_gets_a_copy_and_no_fault_of_it_reaches_the_client() {
    let (upstream, mirror) = (Upstream::echo(), Upstream::manual());
    let policies = |url: &str| {
        format!("{{request: [{{name: requestMirror, parameters: {{url: '{url}/m'}}}}]}}")
    };
    let mirrored = gateway(&upstream, &policies(&mirror.url()));
    assert_eq!(post(&mirrored, "Content-Type: text/plain\r\n", "text").text(), "text");
    let copy = mirror.accept().request();
    assert_eq!((copy.line(), copy.text()), ("POST /m/pets/7 HTTP/1.1", "text".to_owned()));
    // The coding is not looked at.
    let encoded = "Content-Type: application/json\r\nContent-Encoding: br\r\n";
    assert_eq!(post(&mirrored, encoded, "no JSON").text(), "no JSON");
    let copy = mirror.accept().request();
    assert_eq!((copy.header("content-encoding"), copy.text()), (Some("br"), "no JSON".to_owned()));
    let refusing = Upstream::refusing();
    let unmirrored = gateway(&upstream, &policies(&refusing.url()));
    assert_eq!(post(&unmirrored, "Content-Type: text/plain\r\n", "text").text(), "text");
}

#[test]
fn bodies_are_converted_and_replaced() {
    let upstream = Upstream::responding(|request| {
        let body = request.text();
        let kind = request.header("content-type").unwrap_or_default();
        let length = body.len();
        CannedResponse::bytes(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    });
    let to_xml = gateway(&upstream, "{request: [{name: jsonToXML}]}");
    let json = "Content-Type: application/json\r\n";
    let response = post(&to_xml, json, "{\"a\":{\"b\":1}}");
    assert!(response.text().contains("<b>1</b>"), "{}", response.text());
    assert!(response.header("content-type").is_some_and(|it| it.starts_with("application/xml")));
    let there_and_back =
        gateway(&upstream, "{request: [{name: jsonToXML}], response: [{name: xmlToJson}]}");
    assert_eq!(post(&there_and_back, json, "{\"a\":{\"b\":1}}").text(), "{\"a\":{\"b\":1}}");
    let payload = gateway(
        &upstream,
        "{request: [{name: payloadFactory, parameters: {payload: '{\"it\": \"${payload.a}\"}'}}]}",
    );
    let response = post(&payload, json, "{\"a\":\"q\\\"uote\"}");
    assert_eq!(response.text(), "{\"it\": \"q\\\"uote\"}");
}

const THREAT: &str =
    "{\"code\":\"400\",\"message\":\"Bad Request\",\"description\":\"Threat detected in Payload\"}";

/// Whether a body is refused: with WSO2's response, and before the upstream sees it.
#[track_caller]
fn check_body(policy: &str, content_type: &str, body: &str, is_refused: bool) {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, &format!("{{request: [{policy}]}}"));
    let response = post(&gateway, &format!("Content-Type: {content_type}\r\n"), body);
    if is_refused {
        assert_eq!((response.status, response.text()), (400, THREAT.to_owned()), "{body}");
        assert_eq!(upstream.requests(), []);
    } else {
        assert_eq!((response.status, response.text()), (200, body.to_owned()));
    }
}

#[test]
fn json_threats_are_refused() {
    let json = "application/json";
    let policy = "{name: jsonValidator, parameters: {maxJsonDepth: 2, maxPropertyCount: 2, \
                  maxStringLength: 5, maxArrayElementCount: 3, maxKeyLength: 4}}";
    for body in ["{\"a\":[1,2,3],\"bcde\":\"fghij\"}", "7", "[]"] {
        check_body(policy, json, body, false);
    }
    for body in [
        "{\"a\":[[1]]}",
        "{\"a\":1,\"b\":2,\"c\":3}",
        "[\"abcdef\"]",
        "[1,2,3,4]",
        "{\"abcde\":1}",
        "{\"a\":1",
        "no json",
    ] {
        check_body(policy, json, body, true);
    }
    check_body(policy, "text/plain", "[1,2,3,4]", true);
    check_body(policy, "text/plain", "plain text is not looked at", false);
    let deep = "[".repeat(100_000);
    check_body(policy, json, &deep, true);
    check_body(policy, "application/json\r\nContent-Encoding: gzip", "{}", true);
    check_body(policy, "application/json\r\nContent-Encoding: identity", "{}", false);
    check_body(policy, "application/octet-stream", "\"abcdef\"", true);
}

#[test]
fn no_content_type_hides_a_body_from_a_validator() {
    let json = "{name: jsonValidator, parameters: {maxJsonDepth: 2}}";
    let xml = "{name: xmlValidator, parameters: {maxXMLDepth: 2}}";
    let multipart = "multipart/form-data; boundary=b";
    for (policy, body) in [(json, "[[[1]]]"), (xml, "<a><b><c/></b></a>")] {
        check_body(policy, multipart, body, true);
        check_body(policy, "text/plain", &format!(" \u{feff} {body}"), true);
        check_body(policy, "text/plain", "a\0b\0", true);
        check_body(policy, "text/plain\r\nContent-Type: image/png", "text", true);
        let encodings = "text/plain\r\nContent-Encoding: identity\r\nContent-Encoding: gzip";
        check_body(policy, encodings, "text", true);
        check_body(policy, multipart, "--b\r\n\r\n{<\r\n--b--\r\n", false);
    }
    // An envelope with attachments is judged by its root part, and a pattern by all.
    let package = "multipart/related; boundary=b; type=\"text/xml\"";
    let of = |root: &str| format!("--b\r\n\r\n{root}\r\n--b\r\nA: b\r\n\r\n{{bad\r\n--b--\r\n");
    let pattern = |regex: &str| format!("{{name: regexPolicy, parameters: {{regex: {regex}}}}}");
    for (policy, body, status) in [
        (xml, of("<a><b/></a>"), 200),
        (xml, of("<a><b><c/></b></a>"), 400),
        (xml, "<a/>".to_owned(), 400),
        (&pattern("worse"), of("<a>&#119;orse</a>"), 400),
        (&pattern("bad"), of("<a/>"), 400),
        (&pattern("good"), of("<a/>"), 200),
    ] {
        let upstream = Upstream::echo();
        let gateway = gateway(&upstream, &format!("{{request: [{policy}]}}"));
        let response = post(&gateway, &format!("Content-Type: {package}\r\n"), &body);
        assert_eq!(response.status, status, "{policy} {body}");
        assert_eq!(upstream.requests().len(), usize::from(status == 200));
    }
}

#[test]
fn xml_threats_are_refused() {
    let xml = "application/xml";
    let policy = "{name: xmlValidator, parameters: {maxXMLDepth: 3, maxElementCount: 5, \
                  maxAttributeCount: 1, maxAttributeLength: 4, maxChildrenPerElement: 3}}";
    check_body(policy, xml, "<a b=\"cdef\"><c/><d><e/></d></a>", false);
    for body in [
        "<a><b><c><d/></c></b></a>",
        "<a><b/><b/><c><b/><b/></c></a>",
        "<a b=\"\" c=\"\"/>",
        "<a b=\"cdefg\"/>",
        "<a><b/><b/><b/><b/></a>",
        "<a>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
        "<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
    ] {
        check_body(policy, xml, body, true);
    }
    check_body(policy, "text/plain", "<a>", true);
    let accepting = "{name: xmlValidator, parameters: {dtdEnabled: true}}";
    check_body(accepting, xml, "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", false);
    check_body(
        accepting,
        xml,
        "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><a>&b;</a>",
        true,
    );
}

#[test]
fn patterns_of_attacks_are_found_under_every_escape() {
    let policy = "{name: regexPolicy, parameters: {threatType: SQL, regex: '(?i)drop\\s+table'}}";
    check_body(policy, "text/plain", "a drop in the table", false);
    for (content_type, body) in [
        ("text/plain", "x; DROP  table y"),
        ("application/json", "{\"a\":[\"dr\\u006fp table\"]}"),
        ("application/json", "{\"dr\\u006fp table\":1}"),
        ("application/xml", "<a>dr&#111;p table</a>"),
        ("application/xml", "<a b=\"dr&#111;p table\"/>"),
        ("application/x-www-form-urlencoded", "a=drop+t%61ble"),
        ("application/xml", "<a>dr<!-- -->op t<![CDATA[able]]></a>"),
        ("application/xml", "<a>dr<b/>op table</a>"),
        ("application/xml", "<a><!-- drop table --></a>"),
        ("application/json", "{\"a\":\"dr\\u006fp table\""),
        ("text/plain", "{\"a\":\"dr\\u006fp table\""),
        ("application/xml", "<a>dr&#111;p table"),
        ("text/plain", "<a>dr&#111;p table"),
        ("text/plain", "d\0r\0o\0p\0 \0t\0a\0b\0l\0e\0"),
    ] {
        check_body(policy, content_type, body, true);
    }
    let upstream = Upstream::fixed("in");
    let gateway = gateway(&upstream, &format!("{{request: [{policy}]}}"));
    let refused = |request: &str, field: &str| gateway.fetch(request, field).text();
    let text = refused("GET /a/pets/7?q=dr%6fp%20table", "");
    assert!(text.contains("Threat detected in Query Parameters"), "{text}");
    let text = refused("GET /a/pets/7", "X-A: drop table\r\n");
    assert!(text.contains("Threat detected in HTTP Headers"), "{text}");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_token_needs_a_claim_with_its_value() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let gateway = |more: &str| {
        let policies = format!(
            "{{request: [{{name: jwtClaimBasedAccessValidator, parameters: \
             {{accessVerificationClaim: aut, accessVerificationClaimValue: APPLICATION{more}}}}}]}}"
        );
        let text = description(&upstream, &policies).replace("security: []\n", "");
        Files::new().api("a.yaml", &text).issuer("resident", &issuer).start()
    };
    let token = |aut: serde_json::Value| {
        format!("Authorization: {}\r\n", issuer.token().claim("aut", aut).bearer())
    };
    let plain = gateway("");
    for (aut, expect) in [
        (json!("APPLICATION"), "200"),
        (json!(["x", "APPLICATION"]), "200"),
        (json!("APPLICATION_USER"), "403 900912"),
        (json!(" "), "403 900913"),
        (json!(null), "403 900913"),
    ] {
        let response = plain.fetch("GET /a/pets/7", &token(aut.clone()));
        assert_eq!(response.status_and_code(), expect, "{aut}");
    }
    let pattern = gateway(", accessVerificationClaimValueRegex: 'APP.*'");
    let user = token(json!("APPLICATION_USER"));
    assert_eq!(pattern.fetch("GET /a/pets/7", &user).status_and_code(), "200");
    let lenient = gateway(", shouldAllowValidation: true");
    assert_eq!(lenient.fetch("GET /a/pets/7", &user).status_and_code(), "200");
    let without = token(json!(null));
    assert_eq!(lenient.fetch("GET /a/pets/7", &without).status_and_code(), "403 900913");
}

#[test]
fn claims_that_nobody_verified_do_not_count() {
    let upstream = Upstream::fixed("in");
    let policies = "{request: [{name: jwtClaimBasedAccessValidator, parameters: \
        {accessVerificationClaim: aut, accessVerificationClaimValue: APPLICATION}}]}";
    let gateway = gateway(&upstream, policies);
    let forged = "Authorization: Bearer e30.eyJhdXQiOiJBUFBMSUNBVElPTiJ9.e30\r\n";
    assert_eq!(gateway.fetch("GET /a/pets/7", forged).status_and_code(), "403 900913");
    assert!(upstream.requests().is_empty());
}

#[test]
fn a_query_with_a_url_is_forwarded() {
    let add = "{request: [{name: addHeader, parameters: {headerName: X-New, headerValue: one}}]}";
    let line = "GET /up/pets/7?next=https://x.example/";
    check_line(add, "GET /a/pets/7?next=https://x.example/", line);
}

#[test]
fn policies_for_faults_change_the_response_to_every_fault_after_routing() {
    let refusing = Upstream::refusing();
    let policies = "{fault: [{name: addHeader, parameters: {headerName: X-Fault, \
                     headerValue: '${props.synapse.ERROR_CODE}'}}]}";
    let plain = gateway(&refusing, policies);
    let response = plain.fetch("GET /a/pets/7", "");
    let body = "{\"code\":\"101503\",\"type\":\"Status report\",\"message\":\"Runtime Error\",\
                \"description\":\"Error connecting to the back end\"}";
    assert_eq!((response.status, response.text()), (500, body.to_owned()));
    assert_eq!(response.header("x-fault"), Some("101503"));
    assert_eq!(plain.fetch("GET /a/none", "").header("x-fault"), None, "no operation, no policy");
    let text = description(&refusing, policies).replace("security: []\n", "");
    let secured =
        Files::new().api("a.yaml", &text).issuer("resident", &Issuer::new("resident")).start();
    let response = secured.fetch("GET /a/pets/7", "");
    assert_eq!(response.status_and_code(), "401 900902");
    assert_eq!(response.header("x-fault"), Some("900902"));
    let replaced = gateway(
        &refusing,
        "{request: [{name: removeHeader, parameters: {headerName: a}}], fault: [
          {name: payloadFactory, parameters: {mediaType: text, payload: 'failed: ${payload.code}'}}]}",
    );
    let response = replaced.fetch("GET /a/pets/7", "");
    assert_eq!((response.status, response.text()), (500, "failed: 101503".to_owned()));
}

#[test]
fn the_policies_of_an_api_run_before_those_of_an_operation() {
    let upstream = showing_heads();
    let text =
        "{request: [{name: addHeader, parameters: {headerName: X-A, headerValue: operation}}]}";
    let api = "x-penstock-policies: {request: [\
               {name: addHeader, parameters: {headerName: X-A, headerValue: api}}, \
               {name: addHeader, parameters: {headerName: X-B, headerValue: api}}]}\npaths:";
    let text = description(&upstream, text).replace("paths:", api);
    let gateway = Files::new().api("a.yaml", &text).start();
    assert_eq!(gateway.fetch("GET /a/pets/7", "").status, 200);
    let forwarded = &upstream.requests()[0];
    assert_eq!(["x-a", "x-b"].map(|name| forwarded.header(name)), [Some("operation"), Some("api")]);
}

#[test]
fn what_is_not_forwarded_without_policies_is_not_forwarded_with_them() {
    let (upstream, issuer) = (showing_heads(), Issuer::new("resident"));
    let policies = "{request: [{name: removeHeader, parameters: {headerName: a}}]}";
    let text = description(&upstream, policies).replace("security: []\n", "");
    let gateway = Files::new().api("a.yaml", &text).issuer("resident", &issuer).start();
    let token = format!("Authorization: {}\r\n", issuer.token().bearer());
    let fields =
        format!("{token}X-JWT-Assertion: forged\r\nX-Real-IP: 1.2.3.4\r\nTE: trailers\r\n");
    assert_eq!(gateway.fetch("GET /a/pets/7", &fields).status, 200);
    let forwarded = &upstream.requests()[0];
    let names = ["authorization", "x-jwt-assertion", "x-real-ip", "te"];
    assert_eq!(names.map(|name| forwarded.header(name)), [None, None, None, Some("trailers")]);
    assert_eq!(forwarded.header("x-forwarded-for"), Some("127.0.0.1"));
}

#[test]
fn the_example_of_every_policy_is_served() {
    let upstream = Upstream::echo();
    let local = |text: &str| text.replace("http://127.0.0.1:8688", &upstream.url());
    let policies = local(include_str!("../../examples/policies.yaml"));
    let schemas = local(include_str!("../../examples/schemas.yaml"));
    // The line of the problem, where it can be read.
    let (log, field) =
        ("addLogMessage, parameters: {logMessage:", "headerName: X-Log, headerValue:");
    let logs = policies.replace("/policies", "/logs").replace("title: Policies", "title: Logs");
    let logs = logs.replace(log, &format!("addHeader, parameters: {{{field}"));
    let issuer = Issuer::new("resident");
    let files = Files::new().api("a.yaml", &policies).api("b.yaml", &schemas).api("c.yaml", &logs);
    let gateway = files.issuer("resident", &issuer).start();
    let paths = |text: &str, base: &str| -> Vec<String> {
        let paths = text.lines().filter_map(|line| line.strip_prefix("  /")?.strip_suffix(':'));
        paths.map(|path| format!("{base}/{path}")).collect()
    };
    let mut served = 0;
    for target in [paths(&policies, "/policies"), paths(&schemas, "/schemas")].concat() {
        let path = target.rsplit('/').next().unwrap_or_default();
        let body = "{\"a\":[1,2]}";
        let mut client = gateway.connect();
        let token = issuer.token().claim("sub", "sample-user").bearer();
        let fields = match path {
            "jwtClaimBasedAccessValidator" => format!("Authorization: {token}\r\n"),
            _ => String::new(),
        } + "Content-Type: application/json\r\n";
        let response = client.fetch_with_body(&format!("POST {target}"), &fields, body);
        let expect = match path {
            "mock" => 201,
            "redirect" => 308,
            _ => 200,
        };
        assert_eq!(response.status, expect, "{path}: {}", response.text());
        let tenant = (path == "addHeader").then_some("blue");
        assert_eq!(response.header("x-tenant"), tenant, "{path}");
        served += 1;
    }
    assert!(served >= 17, "{served}");
    assert_eq!(gateway.fetch("GET /logs/addLogMessage", "").status, 200);
    let line = upstream.requests().last().and_then(|last| last.header("x-log").map(str::to_owned));
    assert_eq!(line.as_deref(), Some("Logs was asked for /addLogMessage"));
}
