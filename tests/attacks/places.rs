//! Exchanges that hold their places and do nothing: tunnels, waits for a slow upstream, unread responses.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use harness::frames::{
    END_HEADERS, END_STREAM, FrameClient, HEADERS, PING, RST_STREAM, frame, header_block,
};
use harness::{CannedResponse, Client, Files, Upstream, wait_until};

use crate::target::{MIB, Target, description, responding};

/// Places for requests to one API; a client may have half of them. Requests may wait for a place for long.
const LIMITS: &str =
    "api_requests_max = 60\nclient_requests_max = 30\nconnect_ms = 20000\nmin_rate = 0\n";
const CLIENTS: u8 = 3;
const REQUESTS: usize = 30;

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                         Upgrade: websocket\r\n\r\n";
const RESPONSE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin";

/// An upstream that responds to `/x`, switches to WebSocket, and otherwise never responds. The threads end with the
/// gateway.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || serve(tcp));
        }
    });
    address
}

fn serve(mut tcp: TcpStream) {
    let mut lines = BufReader::new(tcp.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let fields: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let upgrades = fields.iter().any(|line| line.to_ascii_lowercase().starts_with("upgrade:"));
        let response = if upgrades { SWITCHING } else { RESPONSE };
        if (upgrades || first.contains("/x")) && tcp.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn attacker(number: u8) -> IpAddr {
    IpAddr::from([127, 0, 1, number])
}

/// A gateway with an API at `/c` for such an upstream.
fn target() -> Target {
    let files = Files::new().gateway(LIMITS);
    let files = files.api("c.yaml", &description("/c", &format!("http://{}", upstream())));
    Target::of(files, Upstream::fixed("in"))
}

/// Others are served by the same API, though three clients send more of these requests than there are places.
#[track_caller]
fn check(head: &str) {
    let mut target = target();
    let mut attackers = Vec::new();
    for number in 1..=CLIENTS {
        for _ in 0..REQUESTS {
            let mut client = Client::connect_from(attacker(number), target.http);
            client.send(head);
            attackers.push(client);
        }
    }
    for _ in 0..10 {
        assert_eq!(target.connect().fetch("GET /c/x", "").text(), "in");
    }
    target.serves_others();
    let open = usize::try_from(target.metric("penstock_connections")).unwrap();
    assert!(open > attackers.len() / 2, "few had to give way: {open} are open");
}

#[test]
fn idle_tunnels_give_way() {
    check(
        "GET /c/y HTTP/1.1\r\nHost: me\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
}

#[test]
fn requests_that_wait_for_their_upstream_give_way() {
    check("GET /c/y HTTP/1.1\r\nHost: me\r\n\r\n");
}

#[test]
fn streams_that_wait_for_their_upstream_give_way() {
    let mut target = target();
    let mut attackers = Vec::new();
    for number in 1..=CLIENTS {
        let mut attacker = FrameClient::connect_from(attacker(number), target.http);
        for stream in 0..30 {
            let block = header_block("GET", "/c/y");
            attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, &block));
        }
        attackers.push(attacker);
    }
    for _ in 0..10 {
        assert_eq!(target.connect().fetch("GET /c/x", "").text(), "in");
    }
    target.serves_others();
    drop(attackers);
}

/// Requests of many clients that all wait for a slow upstream are legitimate: none is given up for another.
#[test]
fn requests_within_an_even_share_do_not_give_way() {
    let files = Files::new().gateway("api_requests_max = 20\nconnect_ms = 2000\n");
    let hostile = Upstream::manual();
    let files = files.api("c.yaml", &description("/c", &hostile.url()));
    let target = Target::of(files, Upstream::fixed("in"));
    let mut clients: Vec<_> =
        (1..=20).map(|number| Client::connect_from(attacker(number), target.http)).collect();
    for client in &mut clients {
        client.send("GET /c/y HTTP/1.1\r\nHost: me\r\n\r\n");
    }
    let mut connections: Vec<_> = clients.iter().map(|_| hostile.accept()).collect();
    assert_eq!(target.connect().fetch("GET /c/y", "").status, 503);
    for connection in &mut connections {
        connection.request_head();
        connection.send(RESPONSE);
    }
    for client in &mut clients {
        assert_eq!(client.read().text(), "in");
    }
}

/// The client sends a field of 3.9 KB once, and refers to it fifteen times in the head of each request.
#[test]
fn heads_that_repeat_a_large_field_hold_little() {
    const ENTRY: usize = 3_900;
    let value = vec![b'x'; ENTRY];
    let rest = ENTRY - 127;
    let [low, high] = [rest & 0x7f, rest >> 7].map(|part| u8::try_from(part).unwrap());
    let length = [0x7f, 0x80 | low, high];
    // Literal, to be remembered; then indexed.
    let field = [&[0x40, 1, b'a'][..], &length, &value].concat();
    // Neither path nor authority is remembered: the field stays the newest.
    let pseudo = [&[0x82, 0x86, 0x04, 4][..], b"/b/y", &[0x01, 2], b"me"].concat();
    let first = [&pseudo[..], &field, &[0xbe; 14]].concat();
    let other = [&pseudo[..], &[0xbe; 15]].concat();
    let mut target = Target::new();
    let mut attackers = Vec::new();
    for _ in 0..20 {
        let mut attacker = FrameClient::connect_from(attacker(1), target.http);
        for stream in 0..128 {
            let block = if stream == 0 { &first } else { &other };
            attacker.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, block));
        }
        attackers.push(attacker);
        target.serves_others();
    }
    for attacker in &mut attackers {
        attacker.send(&frame(PING, 0, 0, &[0; 8]));
        attacker.read_until(|kind| kind == PING);
        target.serves_others();
    }
    target.serves_others_within(48 * MIB);
    // Others may open streams, too.
    let mut other = FrameClient::connect(target.http);
    other.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &header_block("GET", "/a/x")));
    let (kind, _) = other.read_until(|kind| matches!(kind, HEADERS | RST_STREAM));
    assert_eq!(kind, HEADERS);
}

#[test]
fn clients_that_do_not_read_hold_little() {
    const CLIENTS: usize = 1_000;
    let body = "x".repeat(1024 * 1024);
    let upstream = responding(move |_| CannedResponse::ok(&body));
    let mut target = Target::of(Files::new(), upstream);
    let mut attackers = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = Client::connect_with_buffer(attacker(1), target.http, 4_096);
        client.send("GET /a/y HTTP/1.1\r\nHost: me\r\n\r\n");
        attackers.push(client);
    }
    // Each response has begun, and goes no further.
    for client in &mut attackers {
        wait_until(|| client.has_response());
    }
    target.serves_others_within(48 * MIB);
}
