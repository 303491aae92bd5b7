//! Upstreams that attack the gateway, and clients that attack an upstream's standing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::{CannedResponse, Client, Files, Upstream};

use crate::target::{MIB, Target, description, responding};

#[test]
fn paths_that_make_the_upstream_hang_up_leave_the_endpoint_to_others() {
    let upstream = responding(|_| CannedResponse::bytes("").then_close());
    let mut target = Target::of(Files::new(), upstream);
    let (http, done) = (target.http, Arc::new(AtomicBool::new(false)));
    let attackers: Vec<_> = (0..10)
        .map(|_| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                let mut attacker = Client::connect(http);
                let mut broken = 0;
                while broken < 20 || !done.load(Ordering::Relaxed) {
                    let response = attacker.fetch("POST /a/bad", "Content-Length: 0\r\n");
                    assert_eq!(response.status_and_code(), "500 101505");
                    broken += 1;
                }
            })
        })
        .collect();
    for _ in 0..100 {
        target.serves_others();
    }
    done.store(true, Ordering::Relaxed);
    attackers.into_iter().for_each(|attacker| attacker.join().unwrap());
    target.serves_others_within(16 * MIB);
}

#[test]
fn one_operation_that_makes_upstreams_hang_up_takes_no_endpoint_of_a_set_away() {
    let upstream = || {
        responding(|request| match request.target() {
            "/y" => CannedResponse::ok("y"),
            _ => CannedResponse::bytes("").then_close(),
        })
    };
    let (one, two) = (upstream(), upstream());
    let both = format!("{}', '{}", one.url(), two.url());
    let files = Files::new().api("c.yaml", &description("/c", &both));
    let mut target = Target::of(files, Upstream::fixed("in"));
    let (mut attacker, mut other) = (target.connect(), target.connect());
    for _ in 0..10 {
        for _ in 0..19 {
            let response = attacker.fetch("POST /c/bad", "Content-Length: 0\r\n");
            assert_eq!(response.status_and_code(), "500 101505");
        }
        assert_eq!(other.fetch("GET /c/y", "").text(), "y");
        assert_eq!(target.metric("penstock_endpoints_suspended"), 0);
    }
    target.serves_others_within(16 * MIB);
}

#[test]
fn the_log_line_of_a_broken_first_chunk_names_the_endpoint() {
    let upstream = responding(|_| {
        CannedResponse::bytes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    });
    let address = upstream.address();
    let target = Target::of(Files::new(), upstream);
    assert_eq!(target.connect().fetch("GET /a/y", "").status_and_code(), "500 101506");
    let line = target.process.wait_for("invalid HTTP response");
    assert!(line.contains(&address.to_string()), "{line}");
}

/// An upstream that sends `start`, then `more` until the gateway closes. The client gets `expect`: status and code, or
/// a response that is cut off.
#[track_caller]
fn check_hostile(start: &str, more: &str, expect: &str) {
    let (mut target, hostile) = (Files::new(), Upstream::manual());
    target = target.api("c.yaml", &description("/c", &hostile.url()));
    let mut target = Target::of(target, Upstream::fixed("in"));
    let more = if more.is_empty() { String::new() } else { more.repeat(1 + 4_096 / more.len()) };
    for _ in 0..3 {
        let mut client = target.connect();
        client.send("GET /c/x HTTP/1.1\r\nHost: me\r\nConnection: close\r\n\r\n");
        let mut connection = hostile.accept();
        connection.request();
        connection.try_send(start);
        if more.is_empty() {
            connection.half_close();
        } else {
            for _ in 0..200 {
                connection.try_send(&more);
            }
        }
        if expect == "cut off" {
            client.read_until_close();
        } else {
            assert_eq!(client.read().status_and_code(), expect, "{start:?}");
        }
        target.serves_others();
    }
    target.serves_others_within(16 * MIB);
}

#[test]
fn interim_responses_without_end_are_a_fault_of_the_upstream() {
    check_hostile("", "HTTP/1.1 100 Continue\r\n\r\n", "500 101506");
}

#[test]
fn a_response_head_without_end_is_a_fault_of_the_upstream() {
    check_hostile("HTTP/1.1 200 OK\r\nX-Long: ", "x", "500 101506");
    check_hostile("HTTP/1.1 200 OK\r\n", "X: y\r\n", "500 101506");
}

#[test]
fn ambiguous_responses_are_a_fault_of_the_upstream() {
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5",
        "Content-Length: -1",
        "Transfer-Encoding: gzip, chunked, chunked",
        "X: y\r\n folded",
        "X y",
    ] {
        check_hostile(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nhello"), "", "500 101506");
    }
}

#[test]
fn a_response_that_is_no_http_is_a_fault_of_the_upstream() {
    check_hostile("SSH-2.0-OpenSSH_9.2\r\n", "", "500 101506");
    check_hostile("HTTP/1.1 099 Low\r\n\r\n", "", "500 101506");
    check_hostile(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "",
        "500 101506",
    );
}

#[test]
fn trailers_and_chunk_extensions_without_end_are_cut_off() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    check_hostile(&format!("{head}0\r\n"), "X-Trailer: x\r\n", "cut off");
    check_hostile(&format!("{head}1;a="), "x", "cut off");
    check_hostile(&format!("{head}1"), "0", "cut off");
}

/// The state FIN-WAIT-2 of /proc/net/tcp. Source: include/net/tcp_states.h of Linux.
const FIN_WAIT_2: &str = "05";

/// Sockets of this machine in a state, with this remote port.
fn sockets_in(state: &str, port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(":{port:04X}");
    let found = table.lines().filter(|line| {
        let mut columns = line.split_whitespace().skip(2);
        let (to, found) = (columns.next().unwrap_or(""), columns.next().unwrap_or(""));
        to.ends_with(&remote) && found == state
    });
    found.count()
}

/// Connections that are closed with FIN hold their ports for a minute, as the upstream never closes its side.
#[test]
fn an_upstream_that_hangs_holds_no_local_ports() {
    const ROUNDS: usize = 10;
    let mut target = Target::with("response_head_ms = 1\n");
    for _ in 0..ROUNDS {
        let mut attackers: Vec<_> = (0..100).map(|_| target.connect()).collect();
        for attacker in &mut attackers {
            attacker.send("GET /b/y HTTP/1.1\r\nHost: me\r\n\r\n");
        }
        target.serves_others();
        for attacker in &mut attackers {
            assert_eq!(attacker.read().status_and_code(), "500 101504");
        }
    }
    assert_eq!(sockets_in(FIN_WAIT_2, target.silent.port()), 0);
    assert!(target.metric("penstock_local_ports_used") < 100, "those of the other upstream");
    target.serves_others_within(16 * MIB);
}

#[test]
fn clients_that_cancel_leave_no_local_ports_taken() {
    let mut target = Target::new();
    for _ in 0..10 {
        let attackers: Vec<_> = (0..100).map(|_| target.connect()).collect();
        for mut attacker in attackers {
            attacker.send("GET /b/cancelled HTTP/1.1\r\nHost: me\r\n\r\n");
            attacker.reset();
        }
        target.serves_others();
    }
    target.wait_for_metric("penstock_connections", 1);
    assert_eq!(sockets_in(FIN_WAIT_2, target.silent.port()), 0);
    target.serves_others_within(16 * MIB);
}
