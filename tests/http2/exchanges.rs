//! Requests and answers: the same as over HTTP/1.1, from both ends.

use std::future::poll_fn;

use harness::{Answer, Gateway, Issuer, Upstream, api};

use crate::caller::{Caller, wait};

#[test]
fn a_request_reaches_the_backend_as_http_1_1_and_its_answer_comes_back() {
    let upstream = Upstream::by_hand();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let fields = [("content-length", "2"), ("x-y", "z"), ("cookie", "a=1"), ("cookie", "b=2")];
    let mut exchange = caller.open("POST /a/b/../c?d=e", &fields);
    exchange.send("hi").end();
    let mut visit = upstream.accept();
    let request = visit.request();
    let authority = upstream.endpoint().authority;
    assert_eq!(
        request.head,
        format!(
            "POST /c?d=e HTTP/1.1\r\nHost: {authority}\r\nx-y: z\r\ncookie: a=1; b=2\r\n\
             X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: gateway\r\n\
             Content-Length: 2\r\n\r\n"
        )
    );
    assert_eq!(request.text(), "hi");
    visit.send(
        "HTTP/1.1 201 Whatever\r\nX-Own: kept\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
         Connection: X-Hop\r\nX-Hop: dropped\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhello",
    );
    let answer = exchange.answer();
    assert_eq!((answer.status, answer.text()), (201, "hello".to_owned()));
    assert_eq!(answer.field("x-own"), Some("kept"));
    assert_eq!(answer.field("content-length"), Some("5"));
    assert_eq!(answer.fields.get_all("set-cookie").iter().count(), 2);
    for dropped in ["connection", "x-hop", "keep-alive"] {
        assert_eq!(answer.field(dropped), None, "{dropped}");
    }
}

#[test]
fn tls_agrees_on_http_2_where_the_caller_speaks_it() {
    let upstream = Upstream::answering(|request| {
        Answer::ok(request.header("x-forwarded-proto").unwrap_or("none"))
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let caller = Caller::connect_tls(&gateway);
    assert_eq!(caller.ask("GET /a/b", &[]).text(), "https");
    assert_eq!(caller.ask("GET /a/b", &[]).text(), "https");
    assert_eq!(gateway.connect_tls().ask("GET /a/b", "").text(), "https", "HTTP/1.1 still works");
    assert_eq!(upstream.connections(), 1, "both protocols share the backend's connections");
}

#[test]
fn every_refusal_reads_as_over_http_1_1() {
    let upstream = Upstream::refusing();
    let issuer = Issuer::new("one");
    let gateway = Gateway::of(api("/open").open("GET /*").to(&upstream))
        .api(api("/shut").secured("GET /*, POST /x").to(&upstream))
        .issuer(&issuer)
        .start();
    let caller = Caller::connect(&gateway);
    let refused = |request: &str, token: Option<&str>, verdict: &str| {
        let fields: Vec<(&str, &str)> =
            token.into_iter().map(|token| ("authorization", token)).collect();
        let answer = caller.ask(request, &fields);
        let lines = token.map_or(String::new(), |token| format!("Authorization: {token}\r\n"));
        let same = gateway.ask(request, &lines);
        assert_eq!(same.verdict(), verdict, "{request}");
        assert_eq!((answer.status, answer.text()), (same.status, same.text()), "{request}");
        for name in ["content-type", "content-length", "www-authenticate", "allow"] {
            assert_eq!(answer.field(name), same.header(name), "{request} {name}");
        }
    };
    refused("GET /shut/a", None, "401 900902");
    refused("GET /shut/a", Some("Bearer no-token"), "401 900901");
    refused("GET /nowhere", None, "404 404");
    refused("PUT /shut/x", None, "405 405");
    refused("GET /open/a", None, "500 101503");
    refused("GET /open/%00", None, "400 400");
    refused("GET /open/%zz", None, "400 400");
    refused("GET /open/a\\b", None, "400 400");
    refused("GET /../open", None, "400 400");
    let token = issuer.token().bearer();
    refused("GET /shut/a", Some(&token), "500 101503");
}

#[test]
fn a_bad_head_ends_its_stream_and_no_other() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let mut other = caller.open("POST /a/b", &[]);
    other.send("one ");
    let lying = caller.request("POST /a/b", &[("host", "elsewhere")]);
    assert_eq!(caller.start(lying, true).unwrap().answer().status, 400);
    let expecting = caller.request("POST /a/b", &[("expect", "miracles")]);
    assert_eq!(caller.start(expecting, true).unwrap().answer().status, 417);
    other.send("two").end();
    assert_eq!(other.answer().text(), "one two");
}

#[test]
fn an_api_is_found_by_authority_or_by_host() {
    let upstream = Upstream::saying("found");
    let gateway = Gateway::of(
        api("/a").open("GET /*").to(&upstream).with(|api| api.hosts = vec!["shop.test".to_owned()]),
    )
    .start();
    let caller = Caller::connect(&gateway);
    let check = |uri: &str, host: Option<&str>, status: u16| {
        let mut request = caller.request("GET /a/b", &[]);
        *request.uri_mut() = uri.parse().unwrap();
        if let Some(host) = host {
            request.headers_mut().insert("host", host.parse().unwrap());
        }
        let answer = caller.start(request, true).unwrap().answer();
        assert_eq!(answer.status, status, "{uri} {host:?}");
    };
    check("http://shop.test/a/b", None, 200);
    check("http://shop.test:8280/a/b", None, 200);
    check("http://shop.test/a/b", Some("shop.test"), 200);
    check("http://shop.test/a/b", Some("other.test"), 400);
    check("http://other.test/a/b", None, 404);
}

#[test]
fn an_answer_without_a_body_ends_with_its_head() {
    let upstream = Upstream::answering(|request| {
        Answer::bytes(match request.target() {
            "/no-content" => "HTTP/1.1 204 No Content\r\nX-A: b\r\nContent-Length: 0\r\n\r\n",
            "/not-modified" => {
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n"
            }
            "/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        })
    });
    let gateway = Gateway::of(api("/a").open("GET /*, HEAD /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let check = |request: &str, status: u16, length: Option<&str>| {
        let begun = caller.start(caller.request(request, &[]), true).unwrap().begun();
        assert!(begun.down.is_end_stream(), "{request}: nothing may follow the head");
        let answer = begun.rest();
        assert_eq!((answer.status, answer.field("content-length")), (status, length), "{request}");
    };
    check("GET /a/no-content", 204, None);
    check("GET /a/not-modified", 304, Some("7"));
    check("GET /a/empty", 200, Some("0"));
    check("HEAD /a/full", 200, Some("7"));
    check("HEAD /nowhere", 404, gateway.ask("GET /nowhere", "").header("content-length"));
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_caller_that_expects_to_be_told_to_continue_is() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let caller = Caller::connect(&gateway);
    let mut exchange = caller.open("POST /a/b", &[("expect", "100-continue")]);
    let told = wait(poll_fn(|cx| exchange.response.poll_informational(cx)));
    assert_eq!(told.unwrap().unwrap().status().as_u16(), 100);
    exchange.send("now").end();
    assert_eq!(exchange.answer().text(), "now");
    assert_eq!(upstream.requests()[0].header("expect"), None);
}

#[test]
fn nobody_is_told_to_continue_before_being_admitted() {
    let upstream = Upstream::refusing();
    let gateway =
        Gateway::of(api("/a").secured("POST /*").to(&upstream)).issuer(&Issuer::new("one")).start();
    let caller = Caller::connect(&gateway);
    let mut exchange = caller.open("POST /a/b", &[("expect", "100-continue")]);
    let told = wait(poll_fn(|cx| exchange.response.poll_informational(cx)));
    assert!(told.is_none(), "{told:?}");
    assert_eq!(exchange.answer().status, 401);
}

#[test]
fn cross_origin_rules_replace_the_backends() {
    let upstream = Upstream::answering(|_| {
        Answer::bytes(
            "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://evil.test\r\n\
             Content-Length: 0\r\n\r\n",
        )
    });
    let rules = model::Cors {
        allow_origins: vec!["https://good.test".to_owned()],
        allow_methods: Vec::new(),
        allow_headers: Vec::new(),
        expose_headers: Vec::new(),
        allow_credentials: false,
    };
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream).cors(rules)).start();
    let answer = Caller::connect(&gateway).ask("GET /a/b", &[("origin", "https://good.test")]);
    let allowed = answer.fields.get_all("access-control-allow-origin");
    assert_eq!(allowed.iter().collect::<Vec<_>>(), ["https://good.test"]);
}

#[test]
fn a_backend_cannot_switch_protocols() {
    let upstream = Upstream::answering(|_| {
        Answer::bytes(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\n\r\n",
        )
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let answer = Caller::connect(&gateway).ask("GET /a/b", &[]);
    assert_eq!(answer.status, 500);
    assert!(answer.text().contains("\"101506\""), "{}", answer.text());
}
