//! An ordinary exchange, seen from both ends.

use harness::{CannedResponse, Gateway, Identity, Upstream, api};

#[test]
fn a_request_passes_through_and_back() {
    let upstream = Upstream::manual();
    let gateway = Gateway::of(
        api("/echo/1.0.0")
            .open("POST /*")
            .to(&upstream)
            .with(|api| api.upstreams[0].endpoints[0].path = "/base".to_owned()),
    )
    .start();
    let mut client = gateway.connect();
    client.send(
        "POST /echo/1.0.0/a?b=c HTTP/1.1\r\nHost: me\r\nContent-Length: 2\r\nX-Y: z\r\n\r\nhi",
    );
    let mut connection = upstream.accept();
    let request = connection.request();
    let authority = upstream.endpoint().authority;
    assert_eq!(
        request.head,
        format!(
            "POST /base/a?b=c HTTP/1.1\r\nHost: {authority}\r\nX-Y: z\r\n\
             X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: me\r\n\
             Content-Length: 2\r\n\r\n"
        )
    );
    assert_eq!(request.text(), "hi");
    connection
        .send("HTTP/1.1 200 OK\r\nDate: now\r\nX-Own: kept\r\nContent-Length: 5\r\n\r\nhello");
    let response = client.read();
    assert_eq!(
        response.head,
        "HTTP/1.1 200 OK\r\nDate: now\r\nX-Own: kept\r\ncontent-length: 5\r\n\r\n"
    );
    assert_eq!(response.text(), "hello");
}

#[test]
fn a_request_passes_through_tls_on_both_sides() {
    let identity = Identity::of(&["localhost"]);
    let upstream = Upstream::responding_tls(&identity, |request| {
        CannedResponse::ok(request.header("x-forwarded-proto").unwrap_or("none"))
    });
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).trusting(&identity).start();
    let mut client = gateway.connect_tls();
    assert_eq!(client.fetch("GET /a/b", "").text(), "https");
    assert_eq!(client.fetch("GET /a/b", "").text(), "https");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn an_upstream_with_an_untrusted_certificate_gets_nothing() {
    let (theirs, trusted) = (Identity::of(&["localhost"]), Identity::of(&["localhost"]));
    let upstream = Upstream::responding_tls(&theirs, |_| CannedResponse::ok("reached"));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).trusting(&trusted).start();
    assert_eq!(gateway.fetch("GET /a/b", "").status_and_code(), "500 101503");
    drop(gateway);
    assert_eq!(upstream.finish(), []);
}
