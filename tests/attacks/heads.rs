//! Messages that are too large, or too slow.

use harness::{Client, Files, Upstream};

use crate::target::{MIB, Target};

/// Connections of one attack.
const MANY: usize = 100;

/// Sends `start`, then `more` until the gateway responds; the status is `expect`. Meanwhile others are served.
#[track_caller]
fn check_endless(start: &str, more: &str, expect: u16) {
    let mut target = Target::new();
    let more = more.repeat(1 + 4_096 / more.len());
    let mut attackers: Vec<Client> = (0..20).map(|_| target.connect()).collect();
    for attacker in &mut attackers {
        attacker.send(start);
        while !attacker.has_response() {
            attacker.try_send(&more);
        }
    }
    target.serves_others_within(16 * MIB);
    for attacker in &mut attackers {
        assert_eq!(attacker.read().status, expect, "{start:?}");
    }
}

#[test]
fn a_head_without_end_is_rejected() {
    check_endless("GET /b/y HTTP/1.1\r\nHost: me\r\nX-Long: ", "x", 431);
}

#[test]
fn a_head_with_too_many_fields_is_rejected() {
    check_endless("GET /b/y HTTP/1.1\r\nHost: me\r\n", "X: y\r\n", 431);
}

#[test]
fn a_target_without_end_is_rejected() {
    let mut target = Target::new();
    let mut attacker = target.connect();
    attacker.send(format!("GET /a/{} HTTP/1.1\r\nHost: me\r\n\r\n", "y".repeat(20_000)));
    assert_eq!(attacker.read().status, 414);
    target.serves_others_within(8 * MIB);
}

#[test]
fn trailers_without_end_are_rejected() {
    let post =
        "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    check_endless(post, "X-Trailer: x\r\n", 431);
}

#[test]
fn a_chunk_extension_without_end_is_rejected() {
    let post = "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1;a=";
    check_endless(post, "x", 400);
}

#[test]
fn a_body_of_one_byte_chunks_with_long_extensions_is_rejected() {
    let post = "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("1;{}\r\nx\r\n", "a".repeat(200));
    check_endless(post, &chunk, 400);
}

/// `MANY` clients send `start`, and nothing more. They get `expect`, or are closed without a response if that is 0;
/// meanwhile others are served.
#[track_caller]
fn check_slow(start: &str, expect: u16) {
    let mut target = Target::of(
        Files::new().gateway("head_ms = 2500\nstall_ms = 2500\nidle_ms = 2500\n"),
        Upstream::fixed("in"),
    );
    let mut attackers: Vec<Client> = (0..MANY).map(|_| target.connect()).collect();
    for attacker in &mut attackers {
        attacker.send(start);
    }
    // On new connections only: one that is idle for longer is closed.
    assert_eq!(target.connect().fetch("GET /a/x", "").text(), "in");
    for attacker in &mut attackers {
        if expect == 0 {
            attacker.expect_close();
        } else {
            assert_eq!(attacker.read().status, expect, "{start:?}");
        }
    }
    target.reconnect();
    target.serves_others_within(16 * MIB);
}

#[test]
fn a_head_that_never_ends_times_out() {
    check_slow("GET /b/y HTTP/1.1\r\nHost: me\r\nX-Slow: ", 408);
}

#[test]
fn connections_that_send_nothing_are_closed() {
    check_slow("", 0);
}

#[test]
fn a_body_that_never_comes_times_out() {
    check_slow("POST /b/y HTTP/1.1\r\nHost: me\r\nContent-Length: 1000\r\n\r\n", 408);
}

#[test]
fn a_body_that_stops_times_out() {
    let post = "POST /b/y HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    check_slow(post, 408);
}
