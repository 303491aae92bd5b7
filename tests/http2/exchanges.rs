//! Exchanges over HTTP/2: the same rules as over HTTP/1.1.

use std::future::poll_fn;

use harness::{CannedResponse, Gateway, Issuer, Upstream, api};

use crate::client::{Http2Client, wait};

#[test]
fn a_request_reaches_the_upstream_as_http_1_1_and_its_response_comes_back() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let fields = [("content-length", "2"), ("x-y", "z"), ("cookie", "a=1"), ("cookie", "b=2")];
    let mut stream = client.open("POST /a/b/../c?d=e", &fields);
    stream.send("hi").end();
    let mut connection = upstream.accept();
    let request = connection.request();
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
    connection.send(
        "HTTP/1.1 201 Whatever\r\nX-Own: kept\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
         Connection: X-Hop\r\nX-Hop: dropped\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhello",
    );
    let response = stream.response();
    assert_eq!((response.status, response.text()), (201, "hello".to_owned()));
    assert_eq!(response.field("x-own"), Some("kept"));
    assert_eq!(response.field("content-length"), Some("5"));
    assert_eq!(response.fields.get_all("set-cookie").iter().count(), 2);
    for dropped in ["connection", "x-hop", "keep-alive"] {
        assert_eq!(response.field(dropped), None, "{dropped}");
    }
}

#[test]
fn alpn_selects_http_2() {
    let upstream = Upstream::responding(|request| {
        CannedResponse::ok(request.header("x-forwarded-proto").unwrap_or("none"))
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let client = Http2Client::connect_tls(&gateway);
    assert_eq!(client.fetch("GET /a/b", &[]).text(), "https");
    assert_eq!(client.fetch("GET /a/b", &[]).text(), "https");
    assert_eq!(gateway.connect_tls().fetch("GET /a/b", "").text(), "https", "HTTP/1.1 still works");
    assert_eq!(upstream.connections(), 1, "both protocols share the upstream's connections");
}

#[test]
fn every_rejection_is_the_same_as_over_http_1_1() {
    let upstream = Upstream::refusing();
    let issuer = Issuer::new("one");
    let gateway = Gateway::of(api("/open").open("GET /*").to(&upstream))
        .api(api("/shut").secured("GET /*, POST /x").to(&upstream))
        .issuer(&issuer)
        .start();
    let client = Http2Client::connect(&gateway);
    let rejected = |request: &str, token: Option<&str>, status_and_code: &str| {
        let fields: Vec<(&str, &str)> =
            token.into_iter().map(|token| ("authorization", token)).collect();
        let response = client.fetch(request, &fields);
        let lines = token.map_or(String::new(), |token| format!("Authorization: {token}\r\n"));
        let same = gateway.fetch(request, &lines);
        assert_eq!(same.status_and_code(), status_and_code, "{request}");
        assert_eq!((response.status, response.text()), (same.status, same.text()), "{request}");
        for name in ["content-type", "content-length", "www-authenticate", "allow"] {
            assert_eq!(response.field(name), same.header(name), "{request} {name}");
        }
    };
    rejected("GET /shut/a", None, "401 900902");
    rejected("GET /shut/a", Some("Bearer no-token"), "401 900901");
    rejected("GET /nowhere", None, "404 404");
    rejected("PUT /shut/x", None, "405 405");
    rejected("GET /open/a", None, "500 101503");
    rejected("GET /open/%00", None, "400 400");
    rejected("GET /open/%zz", None, "400 400");
    rejected("GET /open/a\\b", None, "400 400");
    rejected("GET /../open", None, "400 400");
    let token = issuer.token().bearer();
    rejected("GET /shut/a", Some(&token), "500 101503");
}

#[test]
fn a_bad_head_ends_its_stream_and_no_other() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let mut other = client.open("POST /a/b", &[]);
    other.send("one ");
    let lying = client.request("POST /a/b", &[("host", "elsewhere")]);
    assert_eq!(client.start(lying, true).unwrap().response().status, 400);
    let expecting = client.request("POST /a/b", &[("expect", "miracles")]);
    assert_eq!(client.start(expecting, true).unwrap().response().status, 417);
    other.send("two").end();
    assert_eq!(other.response().text(), "one two");
}

#[test]
fn an_api_is_found_by_authority_or_by_host() {
    let upstream = Upstream::fixed("found");
    let gateway = Gateway::of(
        api("/a").open("GET /*").to(&upstream).with(|api| api.hosts = vec!["shop.test".to_owned()]),
    )
    .start();
    let client = Http2Client::connect(&gateway);
    let check = |uri: &str, host: Option<&str>, status: u16| {
        let mut request = client.request("GET /a/b", &[]);
        *request.uri_mut() = uri.parse().unwrap();
        if let Some(host) = host {
            request.headers_mut().insert("host", host.parse().unwrap());
        }
        let response = client.start(request, true).unwrap().response();
        assert_eq!(response.status, status, "{uri} {host:?}");
    };
    check("http://shop.test/a/b", None, 200);
    check("http://shop.test:8280/a/b", None, 200);
    check("http://shop.test/a/b", Some("shop.test"), 200);
    check("http://shop.test/a/b", Some("other.test"), 400);
    check("http://other.test/a/b", None, 404);
}

#[test]
fn a_response_without_a_body_ends_with_its_head() {
    let upstream = Upstream::responding(|request| {
        CannedResponse::bytes(match request.target() {
            "/no-content" => "HTTP/1.1 204 No Content\r\nX-A: b\r\nContent-Length: 0\r\n\r\n",
            "/not-modified" => {
                "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 7\r\n\r\n"
            }
            "/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
        })
    });
    let gateway = Gateway::of(api("/a").open("GET /*, HEAD /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let check = |request: &str, status: u16, length: Option<&str>| {
        let response = client.start(client.request(request, &[]), true).unwrap().head();
        assert!(response.down.is_end_stream(), "{request}: nothing may follow the head");
        let response = response.rest();
        assert_eq!(
            (response.status, response.field("content-length")),
            (status, length),
            "{request}"
        );
    };
    check("GET /a/no-content", 204, None);
    check("GET /a/not-modified", 304, Some("7"));
    check("GET /a/empty", 200, Some("0"));
    check("HEAD /a/full", 200, Some("7"));
    check("HEAD /nowhere", 404, gateway.fetch("GET /nowhere", "").header("content-length"));
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn expect_100_continue_is_honoured() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let client = Http2Client::connect(&gateway);
    let mut stream = client.open("POST /a/b", &[("expect", "100-continue")]);
    let informational = wait(poll_fn(|cx| stream.response.poll_informational(cx)));
    assert_eq!(informational.unwrap().unwrap().status().as_u16(), 100);
    stream.send("now").end();
    assert_eq!(stream.response().text(), "now");
    assert_eq!(upstream.requests()[0].header("expect"), None);
}

#[test]
fn no_100_is_sent_before_admission() {
    let upstream = Upstream::refusing();
    let gateway =
        Gateway::of(api("/a").secured("POST /*").to(&upstream)).issuer(&Issuer::new("one")).start();
    let client = Http2Client::connect(&gateway);
    let mut stream = client.open("POST /a/b", &[("expect", "100-continue")]);
    let informational = wait(poll_fn(|cx| stream.response.poll_informational(cx)));
    assert!(informational.is_none(), "{informational:?}");
    assert_eq!(stream.response().status, 401);
}

#[test]
fn cors_rules_replace_those_of_the_upstream() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
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
    let response =
        Http2Client::connect(&gateway).fetch("GET /a/b", &[("origin", "https://good.test")]);
    let allowed = response.fields.get_all("access-control-allow-origin");
    assert_eq!(allowed.iter().collect::<Vec<_>>(), ["https://good.test"]);
}

#[test]
fn an_upstream_cannot_switch_protocols() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\n\r\n",
        )
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let response = Http2Client::connect(&gateway).fetch("GET /a/b", &[]);
    assert_eq!(response.status, 500);
    assert!(response.text().contains("\"101506\""), "{}", response.text());
}

#[test]
fn streams_of_one_connection_and_of_several_share_one_quota() {
    let upstream = Upstream::fixed("in");
    let limited = api("/a").open("GET /*").to(&upstream).with(|api| api.plan = Some("Five".into()));
    let plans = "[[plan]]\nname = \"Five\"\nlimits = [{ requests = 5, per = \"1y\" }]\n";
    let gateway = Gateway::of(limited).plans(plans).start();
    let clients = [Http2Client::connect(&gateway), Http2Client::connect(&gateway)];
    let open = |number: usize| {
        let client = &clients[number % 2];
        client.start(client.request("GET /a/x", &[]), true).unwrap()
    };
    let streams: Vec<_> = (0..8).map(open).collect();
    let mut statuses: Vec<_> = streams.into_iter().map(|stream| stream.response().status).collect();
    statuses.push(gateway.fetch("GET /a/x", "").status);
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429), "over HTTP/1.1, too");
    assert_eq!(upstream.requests().len(), 5);
}
