//! The access log.

use harness::{Gateway, Upstream, api};
use model::AccessLog;
use serde_json::Value;

#[test]
fn the_sizes_of_both_bodies_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    let chunked = "POST /a/x HTTP/1.1\r\nHost: me\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = gateway.connect();
    // Read, in chunks, and long enough to be spliced.
    client.send(format!("{chunked}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"));
    assert_eq!(client.read().text(), "abcde");
    let long = 300_000;
    client.send(format!("POST /a/x HTTP/1.1\r\nHost: me\r\nContent-Length: {long}\r\n\r\n"));
    client.send("x".repeat(long));
    assert_eq!(client.read().body.len(), long);
    client.send("GET /a/x HTTP/1.1\r\nHost: me\r\nbroken\r\n\r\n");
    assert_eq!(client.read().status, 400);
    drop(client);
    assert!(gateway.drain());
    let lines = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let received: Vec<_> = lines.iter().map(|line| line["received_bytes"].as_u64()).collect();
    assert_eq!(received, [Some(5), Some(300_000), Some(0)]);
    let sent = lines[1]["sent_bytes"].as_u64().unwrap();
    assert!((300_000..301_000).contains(&sent), "head included: {sent}");
}

#[test]
fn a_tunnel_is_logged_when_it_ends_with_the_bytes_of_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::manual();
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream))
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    let mut client = gateway.connect();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    client.send(format!("GET /a/socket HTTP/1.1\r\nHost: me\r\n{upgrade}\r\n"));
    let mut connection = upstream.accept();
    connection.request();
    connection.send(format!("HTTP/1.1 101 Switching Protocols\r\n{upgrade}\r\n"));
    assert_eq!(client.read().status, 101);
    let (up, down) = ("u".repeat(70_000), "d".repeat(90_000));
    client.send(&up).half_close();
    assert_eq!(connection.read_until_close(), up);
    connection.send(&down).half_close();
    assert_eq!(client.read_until_close(), down);
    assert!(gateway.drain());
    let line: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        (line["status"].as_u64(), line["received_bytes"].as_u64()),
        (Some(101), Some(70_000))
    );
    let sent = line["sent_bytes"].as_u64().unwrap();
    assert!((90_001..91_000).contains(&sent), "head included: {sent}");
}

#[test]
fn a_rejected_head_is_logged_with_the_clients_address() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("access.log");
    let upstream = Upstream::refusing();
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream))
        .settings(|settings| settings.access_log = AccessLog::File(file.clone()))
        .start();
    let heads = [
        ("GET /a/x HTTP/1.1\r\nHost: me\r\nno colon\r\n\r\n".to_owned(), 400),
        (format!("GET /{} HTTP/1.1\r\nHost: me\r\n\r\n", "x".repeat(17 * 1024)), 414),
        (format!("GET / HTTP/1.1\r\nHost: me\r\n{}\r\n", "X-Many: 1\r\n".repeat(200)), 431),
        ("GET / HTTP/3.0\r\nHost: me\r\n\r\n".to_owned(), 505),
    ];
    for (head, status) in &heads {
        let mut client = gateway.connect();
        assert_eq!(client.try_send(head).read().status, *status);
        client.half_close().expect_close();
    }
    assert!(gateway.drain(), "no exchange is open");
    let lines = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> =
        lines.iter().map(|line| (line["client"].as_str(), line["status"].as_u64())).collect();
    let expect: Vec<_> =
        heads.iter().map(|(_, status)| (Some("127.0.0.1"), Some(*status))).collect();
    assert_eq!(seen, expect.iter().map(|(c, s)| (*c, s.map(u64::from))).collect::<Vec<_>>());
    let whole = lines.iter().map(Value::to_string).collect::<String>();
    assert!(
        !whole.contains("no colon") && !whole.contains("xxx"),
        "no part of a rejected head is logged"
    );
}
