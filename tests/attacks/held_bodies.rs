//! Bodies that are held, or whose length is announced, and never complete.

use std::net::IpAddr;

use harness::Client;

use crate::mediation::target_with;
use crate::target::{MIB, Target};

const READS: (&str, &str) = (
    "reads",
    "<inSequence><property name=\"a\" expression=\"count(//item)\"/><respond/></inSequence>",
);

/// Bytes of a body that is as large as it may be.
const LARGE: usize = 1024 * 1024;

/// With memory for four of these.
const LIMITS: &str = "held_body_bytes_max = 1048576\nheld_bytes_max = 4194304\n";

fn attacker(number: u8) -> IpAddr {
    IpAddr::from([127, 0, 1, number])
}

/// Sends the head of a request from a client, and the first bytes of its body.
fn begin(target: &Target, client: IpAddr, length: usize, sent: usize) -> Client {
    let address = target.process.address("integration_http");
    let mut client = Client::connect_from(client, address);
    client.send(format!(
        "POST /services/reads HTTP/1.1\r\nHost: me\r\nContent-Type: application/xml\r\n\
         Content-Length: {length}\r\n\r\n{}",
        &body(length)[..sent]
    ));
    client
}

/// A document of so many bytes.
fn body(length: usize) -> String {
    let (begin, end) = ("<all>", "</all>");
    format!("{begin}{}{end}", "x".repeat(length - begin.len() - end.len()))
}

/// The status of the response to a whole body of another client.
#[track_caller]
fn posts(target: &Target, length: usize) {
    let mut client = begin(target, IpAddr::from([127, 0, 0, 1]), length, length);
    assert_eq!(client.read().status, 200, "{length} bytes");
}

#[test]
fn announced_lengths_reserve_nothing() {
    let mut target = target_with(&[READS], "", "");
    let attackers: Vec<_> = (0..90).map(|_| begin(&target, attacker(1), 10 * LARGE, 5)).collect();
    for length in [100, 3_000, 100_000, 5 * LARGE] {
        posts(&target, length);
    }
    target.serves_others();
    // The arrived part of each body, and a step.
    assert!(target.metric("penstock_held_body_bytes") < 90 * 20 * 1024);
    drop(attackers);
    target.wait_for_metric("penstock_held_body_bytes", 0);
    target.serves_others_within(64 * MIB);
}

#[test]
fn a_client_whose_bodies_stop_leaves_room_for_others() {
    let mut target = target_with(&[READS], "", LIMITS);
    let attackers: Vec<_> =
        (0..20).map(|_| begin(&target, attacker(1), LARGE, LARGE / 2)).collect();
    for _ in 0..4 {
        posts(&target, LARGE / 4);
    }
    target.serves_others();
    drop(attackers);
    target.wait_for_metric("penstock_held_body_bytes", 0);
    posts(&target, LARGE);
}

#[test]
fn bodies_that_stop_give_way_to_others_from_however_many_clients_they_come() {
    let mut target = target_with(&[READS], "", LIMITS);
    let attackers: Vec<_> =
        (1..=20).map(|number| begin(&target, attacker(number), LARGE, LARGE / 2)).collect();
    for _ in 0..4 {
        posts(&target, LARGE / 4);
    }
    target.serves_others();
    drop(attackers);
    target.wait_for_metric("penstock_held_body_bytes", 0);
}

/// All of them together need three times as much as there is, and none gives up.
#[test]
fn bodies_that_wait_for_each_other_do_not_wait_for_ever() {
    let mut target = target_with(&[READS], "", LIMITS);
    let whole = body(LARGE);
    let mut clients: Vec<_> =
        (1..=12).map(|number| begin(&target, attacker(number), LARGE, LARGE / 2)).collect();
    for client in &mut clients {
        client.try_send(&whole[LARGE / 2..]);
    }
    let statuses: Vec<_> = clients.iter_mut().map(|client| client.read().status).collect();
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| [200, 408, 503].contains(status)), "{statuses:?}");
    assert!(served >= 3, "{statuses:?}");
    target.serves_others();
    target.wait_for_metric("penstock_held_body_bytes", 0);
    posts(&target, LARGE);
}
