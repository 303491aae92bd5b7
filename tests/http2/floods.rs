//! Frames that cost work and carry nothing.

use std::io::{Read, Write};
use std::net::TcpStream;

use harness::{CannedResponse, Gateway, PATIENCE, Upstream, api};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A connection after the preface and empty settings.
fn connect(gateway: &Gateway) -> TcpStream {
    let mut tcp = TcpStream::connect(gateway.http()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).unwrap();
    tcp
}

/// The next frame: its type and payload.
fn read(tcp: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 9];
    tcp.read_exact(&mut header).ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
    tcp.read_exact(&mut payload).ok()?;
    Some((header[3], payload))
}

/// The error code of the GOAWAY that ends the connection.
fn last_code(tcp: &mut TcpStream) -> Option<u32> {
    let mut code = None;
    while let Some((kind, payload)) = read(tcp) {
        if kind == GOAWAY {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    code
}

#[test]
fn a_flood_of_any_control_frame_ends_its_connection_and_no_other() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("* /*").to(&upstream)).start();
    let floods = [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("PING ACK that answers nothing", frame(PING, 1, 0, &[7; 8])),
        ("SETTINGS", frame(4, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(8, 0, 0, &1_u32.to_be_bytes())),
        ("PRIORITY", frame(2, 0, 5, &[0, 0, 0, 0, 1])),
        ("unknown", frame(0xee, 0, 0, &[])),
    ];
    for (count, (name, flood)) in (1..).zip(floods) {
        let mut tcp = connect(&gateway);
        // The gateway may close before everything is sent.
        let _ = tcp.write_all(&flood.repeat(5_000));
        assert_eq!(last_code(&mut tcp), Some(ENHANCE_YOUR_CALM), "{name}");
        gateway.wait_for_metric("penstock_http2_floods_total", "", count);
        assert_eq!(gateway.fetch("GET /a/x", "").text(), "in");
    }
}

#[test]
fn control_frames_that_payload_earns_are_no_flood() {
    let upstream = Upstream::echo();
    let gateway = Gateway::of(api("/a").open("POST /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let mut block = vec![0x83, 0x86, 0x44, 4];
    block.extend_from_slice(b"/a/x");
    block.extend_from_slice(&[0x41, 2]);
    block.extend_from_slice(b"me");
    tcp.write_all(&frame(1, 4, 1, &block)).unwrap();
    // As gRPC clients do: a ping for each message, here 3,000 of them, each answered before the next.
    for round in 0..3_000_u32 {
        let message = [frame(0, 0, 1, b"m"), frame(PING, 0, 0, &u64::from(round).to_be_bytes())];
        tcp.write_all(&message.concat()).unwrap();
        loop {
            let (kind, _) = read(&mut tcp).expect("the connection stays open");
            assert_ne!(kind, GOAWAY);
            if kind == PING {
                break;
            }
        }
    }
    tcp.write_all(&frame(0, 1, 1, &[])).unwrap();
    let mut echoed = 0;
    while echoed < 3_000 {
        let (kind, payload) = read(&mut tcp).expect("the response");
        echoed += if kind == 0 { payload.len() } else { 0 };
    }
}

#[test]
fn a_client_that_updates_its_windows_for_every_4_kib_is_no_flood() {
    const BYTES: usize = 8 << 20;
    let upstream = Upstream::responding(|_| CannedResponse::ok(&"x".repeat(BYTES)));
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut tcp = connect(&gateway);
    let block = [&[0x82, 0x86, 0x44, 4][..], b"/a/x", &[0x41, 2], b"me"].concat();
    tcp.write_all(&frame(1, 5, 1, &block)).unwrap();
    let (mut received, mut updated) = (0, 0);
    while received < BYTES {
        let (kind, payload) = read(&mut tcp).expect("the connection stays open");
        assert_ne!(kind, GOAWAY);
        received += if kind == 0 { payload.len() } else { 0 };
        while received - updated >= 4_096 {
            updated += 4_096;
            let increment = 4_096_u32.to_be_bytes();
            let updates = [frame(8, 0, 0, &increment), frame(8, 0, 1, &increment)];
            tcp.write_all(&updates.concat()).unwrap();
        }
    }
}
