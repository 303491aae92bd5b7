//! More connections than the gateway serves.

use harness::frames::{END_HEADERS, FrameClient, HEADERS, frame, header_block};
use harness::{Client, wait_until};

use crate::target::{MIB, Target};

const LIMIT: usize = 50;

#[test]
fn connections_above_the_limit_are_rejected_and_those_below_are_served() {
    let mut target = Target::with(&format!("connections_max = {LIMIT}\n"));
    // One connection is the other client's; all earlier ones have ended.
    target.wait_for_metric("penstock_connections", 1);
    let mut served: Vec<Client> = (1..LIMIT).map(|_| target.connect()).collect();
    for client in &mut served {
        assert_eq!(client.fetch("GET /a/x", "").status, 200);
    }
    for _ in 0..10 {
        let mut rejected: Vec<Client> = (0..100).map(|_| target.connect()).collect();
        for client in &mut rejected {
            assert_eq!(client.read().status, 503);
            client.expect_close();
        }
        for client in &mut served {
            assert_eq!(client.fetch("GET /a/x", "").text(), "in");
        }
    }
    drop(served);
    // One more would be rejected as long as those are counted.
    wait_until(|| target.metric("penstock_connections") <= 1);
    // On a slow machine the other client's was idle for so long that it has given way.
    target.reconnect();
    target.wait_for_metric("penstock_connections", 1);
    target.serves_others_within(16 * MIB);
}

/// Ending single streams of them would free no connection.
#[test]
fn the_slowest_connections_give_way_with_all_their_streams() {
    let mut target = Target::with("connections_max = 48\n");
    let mut attackers = Vec::new();
    for _ in 0..46 {
        let mut attacker = FrameClient::connect(target.http);
        for stream in 0..3 {
            let block = header_block("POST", "/b/y");
            attacker.send(&frame(HEADERS, END_HEADERS, 2 * stream + 1, &block));
        }
        attackers.push(attacker);
    }
    // One sixteenth is for others. The other client, which is idle, is the first that is closed.
    wait_until(|| target.metric("penstock_connections") <= 45);
    let timeouts = target.metric_with("penstock_requests_total", "status=\"408\"");
    assert_eq!(timeouts, 0, "no stream ends without its connection");
    target.reconnect();
    target.serves_others_within(16 * MIB);
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    let mut target = Target::new();
    for _ in 0..20 {
        let clients: Vec<Client> = (0..100).map(|_| target.connect()).collect();
        for mut client in clients {
            client.try_send("GET /b/y HTTP/1.1\r\n");
            client.reset();
        }
    }
    target.wait_for_metric("penstock_connections", 1);
    target.serves_others_within(16 * MIB);
}

#[test]
fn connections_that_are_gone_leave_the_count_of_their_client() {
    // The other client has the same address.
    let mut target = Target::with("client_connections_max = 20\n");
    for round in 1..=3 {
        let mut clients: Vec<Client> = (0..15).map(|_| target.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.fetch("GET /a/x", "").status, 200, "round {round}");
            client.send("GET /b/y HTTP/1.1\r\nHost: me\r\n\r\n");
        }
        // All have a request in progress at the same time.
        wait_until(|| target.silent.count("GET /y") >= 15 * round);
        drop(clients);
        target.wait_for_metric("penstock_connections", 1);
    }
    target.serves_others_within(16 * MIB);
}
