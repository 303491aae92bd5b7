//! Interceptor services: the contract of Choreo Connect, from the policy and from its extensions.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use harness::{CannedResponse, Files, Gateway, Issuer, Response, Upstream};
use serde_json::{Value, json};

/// A service that returns this for every message.
fn service(status: &str, answer: &str) -> Upstream {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", answer.len());
    let answer = if status.starts_with("204") {
        format!("HTTP/1.1 {status}\r\n\r\n")
    } else {
        head + answer
    };
    Upstream::responding(move |_| CannedResponse::bytes(answer.clone()))
}

fn answering(answer: &Value) -> Upstream {
    service("200 OK", &answer.to_string())
}

/// A gateway whose API has these lines at its top level.
fn gateway(upstream: &Upstream, lines: &str) -> Gateway {
    Files::new().api("a.yaml", &description(upstream, lines)).start()
}

fn description(upstream: &Upstream, lines: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
         x-wso2-production-endpoints: {{urls: ['{}/up']}}\n{lines}\n\
         paths: {{'/pets/{{id}}': {{get: {{}}, post: {{}}}}}}\n",
        upstream.url()
    )
}

fn before(service: &Upstream, includes: &str) -> String {
    format!(
        "x-wso2-request-interceptor: {{serviceURL: '{}', includes: [{includes}]}}",
        service.url()
    )
}

fn after(service: &Upstream, includes: &str) -> String {
    format!(
        "x-wso2-response-interceptor: {{serviceURL: '{}', includes: [{includes}]}}",
        service.url()
    )
}

fn post(gateway: &Gateway, fields: &str, body: &str) -> Response {
    gateway.connect().fetch_with_body("POST /a/pets/7?q=1", fields, body)
}

/// The only request that the service received.
#[track_caller]
fn received(service: &Upstream, line: &str) -> Value {
    let requests = service.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].line(), format!("POST {line} HTTP/1.1"));
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    serde_json::from_str(&requests[0].text()).unwrap()
}

#[test]
fn a_service_gets_the_parts_of_a_request_that_are_listed() {
    let upstream = Upstream::echo();
    let all = answering(&json!({}));
    let first = gateway(&upstream, &before(&all, "request_headers, request_body"));
    let fields = "X-Twice: 1\r\nX-Twice: 2\r\nX-JWT-Assertion: forged\r\n";
    assert_eq!(post(&first, fields, "four").text(), "four");
    let got = received(&all, "/api/v1/handle-request");
    assert_eq!(got["requestBody"], BASE64_STANDARD.encode("four"));
    assert_eq!(got["requestHeaders"]["x-twice"], "1, 2");
    assert_eq!(got["requestHeaders"]["x-jwt-assertion"], Value::Null, "no service believes it");
    assert_eq!(got.as_object().unwrap().len(), 2, "{got}");
    let none = answering(&json!({}));
    let second = gateway(&upstream, &before(&none, ""));
    assert_eq!(post(&second, "", "four").text(), "four");
    assert_eq!(received(&none, "/api/v1/handle-request"), json!({}));
}

#[test]
fn a_body_that_is_not_listed_streams() {
    let (upstream, service) = (Upstream::manual(), answering(&json!({})));
    let gateway = gateway(&upstream, &before(&service, "request_headers"));
    let mut client = gateway.connect();
    client.send("POST /a/pets/7 HTTP/1.1\r\nHost: me\r\nContent-Length: 6\r\n\r\none");
    let mut connection = upstream.accept();
    connection.request_head();
    assert_eq!(connection.read_exactly(3), b"one", "before the rest was sent");
    client.send("two");
    assert_eq!(connection.read_exactly(3), b"two");
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(client.read().text(), "ok");
}

#[test]
fn a_service_changes_a_request() {
    let upstream = Upstream::fixed("in");
    let service = answering(&json!({
        "headersToRemove": ["x-gone"],
        "headersToReplace": {"X-Old": "new", "Content-Type": "text/plain", "content-length": "1"},
        "headersToAdd": {"X-More": "2"},
        "body": BASE64_STANDARD.encode("other body"),
    }));
    let gateway = gateway(&upstream, &before(&service, "request_body"));
    let fields = "X-Gone: 1\r\nX-Old: 1\r\nX-More: 1\r\nContent-Encoding: gzip\r\n";
    assert_eq!(post(&gateway, fields, "{}").status, 200);
    let forwarded = &upstream.requests()[0];
    assert_eq!(forwarded.text(), "other body");
    let names = ["x-gone", "x-old", "content-type", "content-encoding", "content-length"];
    let expect = [None, Some("new"), Some("text/plain"), None, Some("10")];
    assert_eq!(names.map(|name| forwarded.header(name)), expect);
    assert!(forwarded.head.contains("X-More: 1\r\n"), "{}", forwarded.head);
    assert!(forwarded.head.contains("X-More: 2\r\n"), "{}", forwarded.head);
}

#[test]
fn a_service_responds_itself() {
    let upstream = Upstream::fixed("in");
    let service = answering(&json!({
        "directRespond": true,
        "responseCode": 403,
        "headersToAdd": {"Content-Type": "application/json", "X-Reason": "none"},
        "body": BASE64_STANDARD.encode("{\"no\":1}"),
    }));
    let forbidding = gateway(&upstream, &before(&service, ""));
    let response = post(&forbidding, "X-Secret: 1\r\n", "four");
    assert_eq!((response.status, response.text()), (403, "{\"no\":1}".to_owned()));
    let fields = ["content-type", "x-reason", "x-secret"].map(|name| response.header(name));
    assert_eq!(fields, [Some("application/json"), Some("none"), None]);
    let service = answering(&json!({
        "directRespond": true,
        "headersToAdd": {"Content-Type": "text/plain", "Content-Encoding": "gzip", "ETag": "\"7\""},
        "body": BASE64_STANDARD.encode("compressed"),
    }));
    let encoding = gateway(&upstream, &before(&service, ""));
    let response = post(&encoding, "", "four");
    let fields = ["content-encoding", "etag"].map(|name| response.header(name));
    assert_eq!(fields, [Some("gzip"), Some("\"7\"")], "what it says of its own body");
    let service = answering(&json!({"directRespond": true}));
    let empty = gateway(&upstream, &before(&service, ""));
    assert_eq!(post(&empty, "", "four").status, 204);
    assert_eq!(upstream.requests(), []);
}

#[test]
fn a_service_gets_and_changes_a_response() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 404 Not Found\r\nX-Up: yes\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nnone",
        )
    });
    let first = answering(&json!({"interceptorContext": {"key": "value"}}));
    let second = answering(&json!({
        "responseCode": 200,
        "headersToRemove": ["X-Up"],
        "headersToAdd": {"X-Down": "yes"},
        "body": BASE64_STANDARD.encode("some"),
    }));
    let includes = "request_headers, request_body, response_headers, response_body";
    let lines = format!("{}\n{}", before(&first, ""), after(&second, includes));
    let gateway = gateway(&upstream, &lines);
    let response = post(&gateway, "X-In: yes\r\n", "sent");
    assert_eq!((response.status, response.text()), (200, "some".to_owned()));
    assert_eq!(["x-up", "x-down"].map(|name| response.header(name)), [None, Some("yes")]);
    let got = received(&second, "/api/v1/handle-response");
    assert_eq!(got["responseCode"], 404);
    assert_eq!(got["responseHeaders"]["x-up"], "yes");
    assert_eq!(got["responseBody"], BASE64_STANDARD.encode("none"));
    assert_eq!(got["requestHeaders"]["x-in"], "yes");
    assert_eq!(got["requestBody"], BASE64_STANDARD.encode("sent"));
    assert_eq!(got["interceptorContext"], json!({"key": "value"}));
}

#[test]
fn a_service_learns_what_was_invoked_and_by_which_token() {
    let (upstream, issuer) = (Upstream::fixed("in"), Issuer::new("resident"));
    let service = answering(&json!({}));
    let text = description(&upstream, &before(&service, "request_headers, invocation_context"));
    let text = text.replace("security: []\n", "");
    let gateway = Files::new().api("a.yaml", &text).issuer("resident", &issuer).start();
    let token = issuer.token().bearer();
    let fields = format!("Authorization: {token}\r\nX-Request-Id: r7\r\n");
    assert_eq!(gateway.fetch("GET /a/pets/7?q=1", &fields).status, 200);
    let got = received(&service, "/api/v1/handle-request");
    assert_eq!(got["requestHeaders"]["authorization"], Value::Null);
    let invocation = &got["invocationContext"];
    for (name, expect) in [
        ("requestId", "r7"),
        ("scheme", "http"),
        ("apiName", "A"),
        ("apiVersion", "1"),
        ("method", "GET"),
        ("basePath", "/a"),
        ("path", "/a/pets/7?q=1"),
        ("pathTemplate", "/pets/{id}"),
        ("supportedMethods", "GET POST"),
        ("source", "127.0.0.1"),
    ] {
        assert_eq!(invocation[name], expect, "{name}");
    }
    let raw = token.strip_prefix("Bearer ").unwrap();
    let expect = json!({"tokenType": "JWT", "keyType": "PRODUCTION", "token": raw});
    assert_eq!(invocation["authenticationContext"], expect);
}

#[test]
fn a_service_chooses_among_the_named_endpoints() {
    let (upstream, other) = (Upstream::fixed("own"), Upstream::fixed("other"));
    let choosing = |name: &str| {
        let service = answering(&json!({"dynamicEndpoint": {"endpointName": name}}));
        let named = format!("x-wso2-endpoints: [{{second: {{urls: ['{}/x']}}}}]", other.url());
        let lines = format!("{named}\n{}", before(&service, ""));
        (gateway(&upstream, &lines), service)
    };
    let (chosen, _service) = choosing("second");
    assert_eq!(chosen.fetch("GET /a/pets/7?q=1", "").text(), "other");
    assert_eq!(other.requests()[0].line(), "GET /x/pets/7?q=1 HTTP/1.1");
    let (unknown, _service) = choosing("third");
    assert_eq!(unknown.fetch("GET /a/pets/7", "").status_and_code(), "500 103501");
    assert_eq!(upstream.requests(), []);
}

#[test]
fn without_its_service_no_request_passes() {
    let upstream = Upstream::fixed("in");
    let body = BASE64_STANDARD.encode("other");
    for (service, expect) in [
        (Upstream::refusing(), "500 103500"),
        (service("503 Service Unavailable", ""), "500 103500"),
        (service("302 Found\r\nLocation: /x", ""), "500 103500"),
        (service("200 OK", "no json"), "500 103501"),
        (service("200 OK", "[]"), "500 103501"),
        (answering(&json!({"body": "no base64!"})), "500 103501"),
        (answering(&json!({"body": body})), "500 103501"),
        (answering(&json!({"directRespond": true, "responseCode": 99})), "500 103501"),
        (answering(&json!({"headersToAdd": {"a b": "c"}})), "500 103501"),
        (answering(&json!({"headersToAdd": {"a": "b\r\nc: d"}})), "500 103501"),
        (answering(&json!({"headersToRemove": [1]})), "500 103501"),
        (answering(&json!({"interceptorContext": 1})), "500 103501"),
    ] {
        let gateway = gateway(&upstream, &before(&service, "request_headers"));
        assert_eq!(gateway.fetch("GET /a/pets/7", "").status_and_code(), expect);
    }
    assert_eq!(upstream.requests(), []);
    let service = service("204 No Content", "");
    let gateway = gateway(&upstream, &before(&service, ""));
    assert_eq!(gateway.fetch("GET /a/pets/7", "").status, 200, "nothing to change");
}

#[test]
fn a_service_has_its_own_limit_of_time() {
    let (upstream, silent) = (Upstream::fixed("in"), Upstream::manual());
    let gateway = gateway(
        &upstream,
        &format!(
            "x-penstock-policies: {{request: [{{name: callInterceptorService, parameters: \
             {{interceptorServiceURL: '{}', requestTimeout: 1}}}}]}}",
            silent.url()
        ),
    );
    assert_eq!(gateway.fetch("GET /a/pets/7", "").status_and_code(), "500 103500");
    assert_eq!(silent.accept().request().line(), "POST /api/v1/handle-request HTTP/1.1");
}

#[test]
fn a_failed_service_for_responses_hides_the_response() {
    let upstream = Upstream::fixed("secret");
    let gateway = gateway(&upstream, &after(&Upstream::refusing(), "response_body"));
    let response = gateway.fetch("GET /a/pets/7", "");
    assert_eq!(response.status_and_code(), "500 103500");
    assert!(!response.text().contains("secret"));
}

#[test]
fn the_interceptor_of_an_operation_overrides_that_of_the_api() {
    let upstream = Upstream::fixed("in");
    let (api, own) = (answering(&json!({})), answering(&json!({})));
    let text = description(&upstream, &before(&api, ""))
        .replace("post: {}", &format!("post: {{{}}}", before(&own, "")));
    let gateway = Files::new().api("a.yaml", &text).start();
    assert_eq!(post(&gateway, "", "").status, 200);
    assert_eq!((api.requests().len(), own.requests().len()), (0, 1));
    assert_eq!(gateway.fetch("GET /a/pets/7", "").status, 200);
    assert_eq!((api.requests().len(), own.requests().len()), (1, 1));
}
