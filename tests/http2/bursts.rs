//! Many requests in one piece.

use harness::frames::{END_HEADERS, END_STREAM, FrameClient, HEADERS, frame};
use harness::{Gateway, Upstream, api};

/// Requests with heads of 3 KB, more than the gateway reads before other connections get their turn.
#[test]
fn a_burst_of_large_heads_is_read_to_its_end() {
    let upstream = Upstream::fixed("in");
    let gateway = Gateway::of(api("/a").open("GET /*").to(&upstream)).start();
    let mut client = FrameClient::connect(gateway.http());
    let mut stream = 1;
    for _ in 0..20 {
        let mut burst = Vec::new();
        for _ in 0..100 {
            burst.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block()));
            stream += 2;
        }
        client.send(&burst);
        for _ in 0..100 {
            while client.read().expect("the connection stays open").0 != HEADERS {}
        }
    }
}

/// Literal fields, the last of 3,000 bytes. Source: RFC 7541 section 6.2.2.
fn block() -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in
        [(":method", "GET"), (":scheme", "http"), (":path", "/a/x"), (":authority", "me")]
    {
        for text in [name, value] {
            let length = u8::try_from(text.len()).unwrap();
            if text == name {
                block.push(0);
            }
            block.push(length);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block.extend_from_slice(&[0, 1, b'x', 0x7f, 0xb9, 0x16]);
    block.extend_from_slice(&[b'a'; 3_000]);
    block
}
