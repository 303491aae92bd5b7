//! Messages that two parsers could read differently. Hidden parts must never be served as a request.

use crate::target::{MIB, Target};

/// Sends `attack`, which hides a request for `/b/hidden` from some parsers. The connection gets one response with
/// `status`, and is closed; the upstream never sees the hidden request.
#[track_caller]
fn check(target: &Target, attack: &str, status: u16) {
    let mut attacker = target.connect();
    attacker.try_send(attack);
    let response = attacker.read();
    assert_eq!(response.status, status, "{attack:?}");
    attacker.half_close();
    assert_eq!(attacker.read_until_close(), "", "more than one response to {attack:?}");
}

const HIDDEN: &str = "GET /b/hidden HTTP/1.1\r\nHost: me\r\n\r\n";

#[test]
fn a_request_hidden_by_ambiguous_framing_is_never_served() {
    let mut target = Target::new();
    let framings = [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Content-Length: 0\r\nContent-Length: 44",
        "Content-Length: 44\r\nContent-Length: 44",
        "Content-Length: 0, 44",
        "Content-Length: +0",
        "Content-Length: 0x0",
        "Content-Length: 00000000000000000000000000000000000000000000000000000000a",
        "Content-Length: 18446744073709551616",
        "Content-Length: 9007199254740992",
        "Content-Length:",
        "Content-Length : 0",
        "Content-Length\t: 0",
        " Content-Length: 0",
        "X: y\r\n Content-Length: 0",
        "Transfer-Encoding: chunked\r\n\tx",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "X: y\0\r\nTransfer-Encoding: chunked",
        "Connection: Content-Length\r\nContent-Length: 44",
    ];
    for framing in framings {
        let attack =
            format!("POST /b/y HTTP/1.1\r\nHost: me\r\n{framing}\r\n\r\n0\r\n\r\n{HIDDEN}");
        check(&target, &attack, 400);
    }
    for coding in ["xchunked", "identity", "chunked, identity"] {
        let attack = format!(
            "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n{HIDDEN}"
        );
        check(&target, &attack, 501);
    }
    check_nothing_hidden(&mut target);
}

#[test]
fn a_request_hidden_by_a_malformed_chunk_is_never_served() {
    let mut target = Target::new();
    let bodies = [
        "0\n\n",
        "0\r\n\n",
        "0x0\r\n\r\n",
        "+0\r\n\r\n",
        " 0\r\n\r\n",
        "0 \r\n\r\n",
        "-1\r\n\r\n",
        "\r\n0\r\n\r\n",
        "1\r\nxx\r\n0\r\n\r\n",
        "1\nx\r\n0\r\n\r\n",
        "1\r\nx0\r\n\r\n",
        "10000000000000000\r\nx\r\n0\r\n\r\n",
        "0;\n\r\n\r\n",
        "0;a=\"\r\n\"\r\n\r\n",
        "0\r\nContent Length: 1\r\n\r\n",
        "0\r\n x\r\n\r\n",
        "0\r\nx\r\n\r\n",
    ];
    for body in bodies {
        let head = "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&target, &format!("{head}{body}{HIDDEN}"), 400);
    }
    check_nothing_hidden(&mut target);
}

#[test]
fn a_request_hidden_in_a_head_is_never_served() {
    let mut target = Target::new();
    let heads = [
        "GET /b/y HTTP/1.1\r\nHost: me\r\nHost: other\r\n\r\n",
        "GET http://other/b/y HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/y HTTP/1.1\r\n\r\n",
        "GET /b/y HTTP/1.1\nHost: me\n\n",
        "GET /b/y HTTP/1.1\r\nHost: me\r\nX: \n\n",
        "GET  /b/y HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/y x HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/y#z HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/..%2fy HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/%2e%2e%5cy HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/%00 HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b\\y HTTP/1.1\r\nHost: me\r\n\r\n",
        "G\0T /b/y HTTP/1.1\r\nHost: me\r\n\r\n",
        "GET /b/y HTTP/1.1\r\nHo st: me\r\n\r\n",
    ];
    for head in heads {
        check(&target, &format!("{head}{HIDDEN}"), 400);
    }
    check(&target, &format!("GET /b/y HTTP/1.2\r\nHost: me\r\n\r\n{HIDDEN}"), 505);
    check_nothing_hidden(&mut target);
}

#[test]
fn a_name_that_an_upstream_could_take_for_framing_is_not_forwarded() {
    let mut target = Target::new();
    let mut attacker = target.connect();
    attacker.send(format!(
        "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer_Encoding: chunked\r\nContent-Length: {}\r\n\r\n0\r\n\r\n{HIDDEN}",
        5 + HIDDEN.len()
    ));
    // It is a body, and sent as one.
    while target.silent.count("/hidden") == 0 {
        target.serves_others();
    }
    assert_eq!(target.silent.count("POST /y "), 1);
    assert_eq!(target.silent.count("Transfer_Encoding"), 0);
}

#[test]
fn with_strict_paths_no_path_has_two_readings() {
    let target = Target::with("strict_paths = true\n");
    for path in ["/b/x//y", "/b/x;v=1", "/b/x%2Fy", "/b/./x", "/b/%78"] {
        check(
            &target,
            &format!("GET {path} HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n"),
            400,
        );
    }
    assert_eq!(target.silent.count("GET "), 0);
}

#[track_caller]
fn check_nothing_hidden(target: &mut Target) {
    target.serves_others_within(8 * MIB);
    assert_eq!(target.silent.count("/hidden"), 0, "requests for /b/hidden");
}
