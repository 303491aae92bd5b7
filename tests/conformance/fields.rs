//! Header fields that are forwarded, removed or added.

use harness::{CannedResponse, Gateway, Issuer, Upstream, api};

/// The fields of `sent` (whole lines) that the upstream receives, besides `Host` and the gateway's own.
#[track_caller]
fn check(trusted: bool, sent: &str, expect: &str) {
    let upstream = Upstream::fixed("seen");
    let mut gateway = Gateway::of(api("/a").open("* /*").to(&upstream));
    if trusted {
        gateway = gateway.trusting_loopback_clients();
    }
    let gateway = gateway.start();
    assert_eq!(gateway.fetch("GET /a/x", sent).status, 200, "{sent}");
    let head = upstream.requests()[0].head.clone();
    let seen: String = head
        .split_inclusive("\r\n")
        .skip(1)
        .filter(|line| *line != "\r\n" && !line.starts_with("Host: 127.0.0.1:"))
        .collect();
    assert_eq!(seen, expect, "{sent}");
}

const OURS: &str =
    "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: gateway\r\n";

#[test]
fn ordinary_fields_are_forwarded_byte_for_byte_in_order() {
    let sent = "Accept: a/b;q=0.5\r\nx-LOWER-upper:  spaced\t\r\nCookie: a=b; c=d\r\n\
                X-Twice: 1\r\nX-Twice: 2\r\nX-Empty:\r\n";
    let seen = "Accept: a/b;q=0.5\r\nx-LOWER-upper: spaced\r\nCookie: a=b; c=d\r\n\
                X-Twice: 1\r\nX-Twice: 2\r\nX-Empty: \r\n";
    check(false, sent, &format!("{seen}{OURS}"));
    check(
        false,
        "traceparent: 00-1-2-01\r\ntracestate: a=b\r\n",
        &format!("traceparent: 00-1-2-01\r\ntracestate: a=b\r\n{OURS}"),
    );
}

#[test]
fn hop_by_hop_fields_and_those_named_by_connection_are_removed() {
    let sent = "Connection: keep-alive, X-Mine\r\nKeep-Alive: timeout=5\r\nX-Mine: private\r\n\
                Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: gzip\r\n\
                Upgrade: h2c\r\nTrailer: X-Sum\r\nX-Kept: yes\r\n";
    check(false, sent, &format!("X-Kept: yes\r\n{OURS}"));
    let sent = "Connection: x-one\r\nConnection: X-TWO\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\n";
    check(false, sent, &format!("X-Three: 3\r\n{OURS}"));
}

#[test]
fn forwarded_fields_of_an_untrusted_client_are_removed() {
    let sent = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
                X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /p\r\nForwarded: for=6.6.6.6\r\n\
                X-JWT-Assertion: forged\r\nx-jwt-assertion: forged too\r\n";
    check(false, sent, OURS);
}

/// Fields in which proxies pass on facts about a client, and which upstreams behind them believe, grouped by claim.
/// Sources: RFC 9440, and the manuals of Apache, nginx, HAProxy, Envoy, IIS, Cloudflare, Fastly, Akamai and Azure Front
/// Door; Symfony and Rack for methods and URLs.
#[rustfmt::skip]
const CLAIMS: &[(&str, &[&str])] = &[
    ("an address", &[
        "CF-Connecting-IP", "Client-IP", "Fastly-Client-IP", "True-Client-IP", "X-Azure-ClientIP",
        "X-Client-IP", "X-Cluster-Client-IP", "X-Envoy-External-Address", "X-Forwarded", "X-Originating-IP",
        "X-ProxyUser-IP", "X-Real-IP", "X-Remote-Addr", "X-Remote-IP"
    ]),
    ("a user or a certificate", &[
        "Client-Cert", "Client-Cert-Chain", "Remote-User", "SSL-Client-Cert", "SSL-Client-I-DN",
        "SSL-Client-Issuer-DN", "SSL-Client-S-DN", "SSL-Client-Subject-DN", "SSL-Client-Verify",
        "X-ARR-ClientCert", "X-Client-Cert", "X-Remote-User", "X-SSL-Client-CN", "X-SSL-Client-Cert",
        "X-SSL-Client-DN", "X-SSL-Client-I-DN", "X-SSL-Client-Issuer-DN", "X-SSL-Client-S-DN",
        "X-SSL-Client-Subject-DN", "X-SSL-Client-Verify", "X-WSO2-CLIENT-CERTIFICATE"
    ]),
    ("a URL or its host, or a scheme", &[
        "Front-End-Https", "X-HTTP-Host-Override", "X-Host", "X-Original-Host", "X-Original-URI",
        "X-Original-URL", "X-Override-URL", "X-Rewrite-URL", "X-Scheme", "X-Url-Scheme"
    ]),
    ("a method", &[
        "X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override", "X-Original-Method"
    ]),
    ("a proxy for the upstream's own requests", &[
        "Proxy"
    ]),
];

#[test]
fn fields_that_claim_an_identity_are_removed_unless_the_api_lists_them() {
    let sent: String = CLAIMS
        .iter()
        .flat_map(|(_, names)| names.iter().map(|name| format!("{name}: forged\r\n")))
        .collect();
    let listed: String =
        model::IDENTITY_FIELDS.iter().map(|name| format!("{name}: forged\r\n")).collect();
    check(false, &listed, OURS);
    check(false, &sent, OURS);
    check(true, &sent, &sent);
    let upstream = Upstream::fixed("in");
    let api = api("/a").open("GET /*").forward_fields(&["x-real-ip"]).to(&upstream);
    let gateway = Gateway::of(api).start();
    let sent = "X-Real-IP: 1.2.3.4\r\nX-Original-URL: /admin\r\nX-JWT-Assertion: x\r\n";
    assert_eq!(gateway.fetch("GET /a/x", sent).status, 200);
    let head = &upstream.requests()[0].head;
    assert!(head.contains("\r\nX-Real-IP: 1.2.3.4\r\n"), "{head}");
    assert!(!head.contains("Original") && !head.contains("Assertion"), "{head}");
}

/// A CGI upstream reads `_` as `-`.
#[test]
fn look_alikes_of_known_fields_are_removed_whoever_sends_them() {
    let sent = "Transfer_Encoding: chunked\r\ncontent_length: 5\r\nX_Forwarded_For: 6.6.6.6\r\n\
                X-Forwarded_Host: evil\r\nX_JWT_Assertion: forged\r\nProxy_Authorization: Basic x\r\n\
                Content_Type: a/b\r\nmy_field: kept\r\n";
    check(false, sent, &format!("my_field: kept\r\n{OURS}"));
    check(true, sent, "my_field: kept\r\n");
}

#[test]
fn forwarded_fields_of_a_trusted_proxy_are_kept() {
    let sent = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop\r\n\
                Forwarded: for=6.6.6.6\r\n";
    check(true, sent, sent);
}

#[test]
fn response_fields_are_forwarded_except_hop_by_hop_ones() {
    let upstream = Upstream::responding(|_| {
        CannedResponse::bytes(
            "HTTP/1.1 201 Made It\r\nDate: now\r\nServer: theirs\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
             Connection: keep-alive, X-Mine\r\nKeep-Alive: timeout=5\r\nX-Mine: private\r\n\
             Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nLocation: http://inside/x\r\n\
             Content-Length: 2\r\n\r\nok",
        )
    });
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    assert_eq!(
        gateway.fetch("GET /a/x", "").head,
        "HTTP/1.1 201 Made It\r\nDate: now\r\nServer: theirs\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
         Location: http://inside/x\r\ncontent-length: 2\r\n\r\n"
    );
}

#[test]
fn a_response_without_date_gets_one() {
    let own = |head: &str| {
        let dates = head.lines().filter(|line| line.starts_with("Date: ")).collect::<Vec<_>>();
        assert_eq!(dates.len(), 1, "{head}");
        assert!(dates[0].len() == "Date: Sun, 06 Nov 1994 08:49:37 GMT".len(), "{head}");
    };
    let gateway = Gateway::of(api("/a").open("* /*").to(&Upstream::fixed("in"))).start();
    own(&gateway.fetch("GET /a/x", "").head);
    own(&gateway.fetch("GET /none", "").head);
}

#[test]
fn options_of_the_server_itself_gets_an_empty_200() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let response = gateway.fetch("OPTIONS *", "");
    assert_eq!((response.status, response.text()), (200, String::new()));
    assert_eq!(upstream.connections(), 0);
}

/// Whether the upstream receives the credential that the client sends in `field`.
#[track_caller]
fn check_credential(field: &str, forwarded: bool, expect: bool) {
    let issuer = Issuer::new("resident");
    let upstream = Upstream::fixed("seen");
    let api = api("/a").secured("* /*").to(&upstream).with(|api| {
        api.auth_header = field.to_ascii_lowercase();
        api.forward_auth_header = forwarded;
    });
    let gateway = Gateway::of(api).issuer(&issuer).start();
    let bearer = issuer.token().bearer();
    let response = gateway.fetch("GET /a/x", &format!("X-A: b\r\n{field}: {bearer}\r\nX-C: d\r\n"));
    assert_eq!(response.status, 200, "{field}");
    let request = &upstream.requests()[0];
    assert_eq!(request.header(field).is_some(), expect, "{field} {forwarded}");
    assert_eq!((request.header("x-a"), request.header("x-c")), (Some("b"), Some("d")));
}

#[test]
fn the_credential_is_not_forwarded_unless_the_api_says_so() {
    check_credential("Authorization", false, false);
    check_credential("Authorization", true, true);
    check_credential("X-Api-Token", false, false);
    check_credential("X-Api-Token", true, true);
}

#[test]
fn with_another_credential_header_authorization_is_forwarded() {
    let issuer = Issuer::new("resident");
    let upstream = Upstream::fixed("seen");
    let api = api("/a").secured("* /*").to(&upstream);
    let api = api.with(|api| api.auth_header = "x-api-token".to_owned());
    let gateway = Gateway::of(api).issuer(&issuer).start();
    let bearer = issuer.token().bearer();
    let fields = format!("X-Api-Token: {bearer}\r\nAuthorization: Basic bWU6eW91\r\n");
    assert_eq!(gateway.fetch("GET /a/x", &fields).status, 200);
    let request = &upstream.requests()[0];
    assert_eq!(request.header("authorization"), Some("Basic bWU6eW91"));
    assert_eq!(request.header("x-api-token"), None);
}
