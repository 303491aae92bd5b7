//! The client's side against our server's side, and against single frames.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::h2::{Connection, Event, head_block};

const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// `:status: 200` and END_HEADERS.
const OK: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];

#[test]
fn requests_and_responses_pass_between_client_and_server() {
    let mut pair = Pair::new(&[("x-a", "b")]);
    for token in [None, Some(&b"one"[..]), Some(b"two")] {
        let slot = pair.client.open(None, token, Some(5)).unwrap();
        assert!(pair.client.send_body(slot, b"hello"));
        let head = pair.exchange(200, b"response");
        let bearer = token.map(|token| format!("Bearer {}", String::from_utf8_lossy(token)));
        assert!(head.contains("POST /p?q HTTP/") && head.contains("x-a: b"), "{head}");
        assert_eq!(head.contains("authorization: "), bearer.is_some());
        assert!(bearer.is_none_or(|bearer| head.contains(&bearer)), "{head}");
        assert_eq!(pair.seen(), "head 200, data response, end");
        pair.client.close(slot);
    }
}

#[test]
fn fields_are_sent_once_and_then_referred_to() {
    let long = "v".repeat(500);
    let mut pair = Pair::new(&[("x-long", &long)]);
    let sizes = [(); 3].map(|()| {
        let slot = pair.client.open(None, None, None).unwrap();
        let sent = pair.client.traffic(slot).0;
        assert!(pair.exchange(204, b"").contains(&long));
        pair.client.close(slot);
        sent
    });
    assert!(sizes[0] > 500 && sizes[1] < 30 && sizes[1] == sizes[2], "{sizes:?}");
}

#[test]
fn a_request_with_fields_of_its_own_leaves_the_others_as_they_are() {
    let mut pair = Pair::new(&[("x-a", "shared")]);
    let own = RequestFields::new([(":method", "GET"), (":scheme", "http"), (":path", "/own")]);
    for (own, line) in
        [(None, "POST /p?q HTTP/"), (Some(&own), "GET /own HTTP/"), (None, "x-a: shared")]
    {
        let slot = pair.client.open(own, None, None).unwrap();
        let head = pair.exchange(204, b"");
        assert!(head.contains(line), "{head}");
        pair.client.close(slot);
    }
}

#[test]
fn the_fields_of_heads_and_trailers_are_kept_on_request() {
    for (client, head, trailers) in
        [(client(), "", ""), (client().keeping_fields(), ":status: 200\r\n", "t: v\r\n")]
    {
        let mut client = client;
        receive(&mut client, SETTINGS);
        client.open(None, None, None).unwrap();
        for (bytes, expect) in [
            (OK, head),
            (&frame(0, 0, b"hi"), ""),
            (&frame(1, 5, &[0, 1, b't', 1, b'v']), trailers),
        ] {
            assert!(client.receive(bytes).unwrap().event.is_some());
            assert_eq!(client.fields(), expect.as_bytes());
        }
    }
}

#[test]
fn a_table_that_is_too_small_is_not_used() {
    let no_table = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    let mut client = client();
    receive(&mut client, &no_table);
    for expect in [[0x20, 0x83], [0x83, 0x86]] {
        let before = client.output().len();
        client.open(None, None, None).unwrap();
        assert_eq!(client.output()[before + 9..before + 11], expect);
    }
}

#[test]
fn a_long_body_waits_for_windows_and_output() {
    let mut pair = Pair::new(&[]);
    let body = vec![b'x'; 1_000_000];
    let slot = pair.client.open(None, None, Some(body.len())).unwrap();
    let mut rounds = 0;
    while !pair.client.send_body(slot, &body) {
        pair.transfer();
        rounds += 1;
        assert!(rounds < 1_000);
    }
    pair.exchange(200, b"");
    assert_eq!(pair.received, body.len());
}

#[test]
fn a_head_of_many_frames_is_complete() {
    let long = "v".repeat(40_000);
    let mut pair = Pair::new(&[("x-long", &long)]);
    pair.client.open(None, Some(&[b't'; 4_000]), None).unwrap();
    assert!(pair.exchange(200, b"").contains(&long));
}

#[test]
fn responses_that_break_the_rules_are_malformed() {
    let length = |digits: &str| {
        let mut block = vec![0x88, 0x0f, 0x0d, u8::try_from(digits.len()).unwrap()];
        block.extend_from_slice(digits.as_bytes());
        frame(1, 4, &block)
    };
    check(&[OK, &frame(0, 1, b"hi")], "head 200, data hi, end");
    check(&[&length("2"), &frame(0, 0, b"h"), &frame(0, 1, b"i")], "head 200, data h, data i, end");
    check(&[&length("2"), &frame(0, 1, b"h")], "head 200, malformed");
    check(&[&length("0"), &frame(0, 1, b"h")], "head 200, malformed");
    check(&[&length("x")], "malformed");
    check(&[&frame(0, 1, b"hi")], "malformed");
    check(&[&frame(1, 5, &[0x88])], "head 200, end");
    check(&[&frame(1, 5, &[0x88]), OK], "head 200, end");
    check(&[&frame(1, 5, &[0x0f, 0x0d, 1, b'0'])], "malformed");
    check(&[&frame(1, 4, &[0x08, 3, b'1', b'0', b'3']), OK], "head 200");
    check(&[&frame(1, 4, &[0x08, 3, b'1', b'0', b'1'])], "malformed");
    check(&[OK, &frame(1, 5, &[0, 1, b't', 1, b'v'])], "head 200, end");
    check(&[OK, OK], "head 200, malformed");
    check(&[OK, &frame(0, 9, &[2, b'h', b'i', 0, 0])], "head 200, data hi, end");
    check(&[OK, &frame(3, 0, &[0, 0, 0, 8])], "head 200, reset");
    check(&[&frame(1, 5, &[0x88]), &frame(3, 0, &[0; 4])], "head 200, end");
}

#[test]
fn servers_that_break_the_protocol_end_the_connection() {
    check(&[&frame(0, 9, &[3, b'h'])], "ProtocolError");
    check(&[&frame(1, 5, &[0xff, 0xff, 0xff, 0xff, 0xff])], "CompressionError");
    check(&[&frame(5, 4, &[0, 0, 0, 2, 0x82])], "ProtocolError");
    check(&[&frame(3, 0, &[0; 3])], "FrameSizeError");
    check(&[&frame(6, 0, &[0; 8])], "ProtocolError");
    check(&[&frame(1, 0, &[0x88]), OK], "ProtocolError");
    check(&[&frame(1, 0, &[]), &frame(9, 0, &[])], "EnhanceYourCalm");
    check(&[&frame(1, 0, &[0x88]), &frame(9, 0, &[])], "EnhanceYourCalm");
    check(&[&frame(1, 0, &[0x88]), &frame(9, 4, &[])], "head 200");
    let mut client = client();
    assert_eq!(client.receive(OK).unwrap_err(), Reason::ProtocolError, "before SETTINGS");
}

#[test]
fn a_server_that_leaves_names_what_it_ignores() {
    let mut client = client();
    receive(&mut client, SETTINGS);
    let slots = [(); 2].map(|()| client.open(None, None, None).unwrap());
    let seen = receive(&mut client, &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(seen, "leaving");
    assert_eq!(slots.map(|slot| client.is_unprocessed(slot)), [false, true]);
    assert!(client.is_leaving() && client.open(None, None, None).is_none());
    assert_eq!(receive(&mut client, &[OK, &frame(0, 1, b"hi")].concat()), "head 200, data hi, end");
}

#[test]
fn the_servers_limit_of_streams_is_kept() {
    let mut client = client();
    assert!(client.open(None, None, None).is_none(), "before SETTINGS");
    receive(&mut client, &[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1]);
    let slot = client.open(None, None, None).unwrap();
    assert!(client.open(None, None, None).is_none());
    client.close(slot);
    assert!(client.output().ends_with(&[0, 0, 0, 8]), "the open request is cancelled");
    assert_eq!(client.open(None, None, None), Some(slot));
}

proptest! {
    /// Frames of three streams, most of them of a kind that a server sends.
    #[test]
    fn any_frames_are_handled_alike_however_they_are_split(
        frames in proptest::collection::vec(
            (0_u8..10, any::<u8>(), 0_u8..8, proptest::collection::vec(any::<u8>(), 0..20)), 0..30),
    ) {
        let mut bytes = SETTINGS.to_vec();
        for (kind, flags, stream, payload) in frames {
            let block = [&[0x88][..], &payload].concat();
            let payload = if kind == 1 && flags % 4 > 0 { &block } else { &payload };
            let len = u8::try_from(payload.len()).unwrap();
            bytes.extend([0, 0, len, kind, flags, 0, 0, 0, stream]);
            bytes.extend(payload);
        }
        crate::h2::properties::client(&bytes);
    }
}

/// A frame of stream 1.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    [&[0, 0, len, kind, flags, 0, 0, 0, 1], payload].concat()
}

fn client() -> Client {
    Client::new(Arc::new(fields(&[])))
}

fn fields(more: &[(&str, &str)]) -> RequestFields {
    let pseudo =
        [(":method", "POST"), (":scheme", "http"), (":authority", "a.test"), (":path", "/p?q")];
    RequestFields::new(pseudo.into_iter().chain(more.iter().copied()))
}

/// Checks the events of a client with one open request, with the frames whole and byte by byte.
#[track_caller]
fn check(frames: &[&[u8]], expect: &str) {
    let input = frames.concat();
    let mut client = client();
    receive(&mut client, SETTINGS);
    client.open(None, None, None).unwrap();
    assert_eq!(receive(&mut client, &input), expect);

    let mut client = self::client();
    receive(&mut client, SETTINGS);
    client.open(None, None, None).unwrap();
    let (mut unread, mut words) = (Vec::new(), Vec::new());
    for byte in input {
        unread.push(byte);
        let used = take(&mut client, &unread, &mut words);
        unread.drain(..used);
    }
    let words = words.join(", ");
    let joined = words.replace("data h, data i", "data hi");
    assert_eq!(joined, expect.replace("data h, data i", "data hi"));
}

fn receive(client: &mut Client, input: &[u8]) -> String {
    let mut words = Vec::new();
    take(client, input, &mut words);
    words.join(", ")
}

/// Processes `input` and describes the events. Returns the used bytes.
fn take(client: &mut Client, input: &[u8], words: &mut Vec<String>) -> usize {
    let mut used = 0;
    loop {
        let step = match client.receive(&input[used..]) {
            Ok(step) => step,
            Err(reason) => {
                words.push(format!("{reason:?}"));
                return input.len();
            }
        };
        if step.used == 0 && step.event.is_none() {
            return used;
        }
        let mut end = false;
        match step.event {
            Some(ClientEvent::Head { status, ends, .. }) => {
                words.push(format!("head {status}"));
                end = ends;
            }
            Some(ClientEvent::Data { at, ends, .. }) => {
                if !at.is_empty() {
                    let data = String::from_utf8_lossy(&input[used..][at]).into_owned();
                    words.push(format!("data {data}"));
                }
                end = ends;
            }
            Some(ClientEvent::Reset { .. }) => words.push("reset".to_owned()),
            Some(ClientEvent::Malformed { .. }) => words.push("malformed".to_owned()),
            Some(ClientEvent::GoAway) => words.push("leaving".to_owned()),
            None => {}
        }
        if end {
            words.push("end".to_owned());
        }
        used += step.used;
    }
}

/// A client and our server.
struct Pair {
    client: Client,
    server: Connection,
    /// Bytes on their way to the server, and to the client.
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    words: Vec<String>,
    /// The slot of the request at the server.
    slot: usize,
    head: Vec<u8>,
    is_complete: bool,
    /// Bytes of request bodies.
    received: usize,
}

impl Pair {
    fn new(more: &[(&str, &str)]) -> Self {
        let mut pair = Self {
            client: Client::new(Arc::new(fields(more))),
            server: Connection::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            words: Vec::new(),
            slot: 0,
            head: Vec::new(),
            is_complete: false,
            received: 0,
        };
        pair.transfer();
        pair
    }

    /// Exchanges the output of both sides until neither has any.
    fn transfer(&mut self) {
        for _ in 0..2 {
            self.to_server.extend_from_slice(self.client.output());
            self.client.written(self.client.output().len());
            self.serve();
            self.to_client.extend_from_slice(self.server.output());
            self.server.written(self.server.output().len());
            let used = take(&mut self.client, &self.to_client, &mut self.words);
            self.to_client.drain(..used);
        }
    }

    fn serve(&mut self) {
        loop {
            let step = self.server.receive(&self.to_server).unwrap();
            match &step.event {
                Some(Event::Request { slot, head, is_all, .. }) => {
                    assert!(head.is_ok());
                    (self.slot, self.is_complete) = (*slot, *is_all);
                    self.server.swap_head(&mut self.head);
                }
                Some(Event::Data { slot, at }) => {
                    self.received += at.len();
                    self.server.consumed(*slot, at.len());
                }
                Some(Event::End { .. }) => self.is_complete = true,
                Some(Event::Trailers { .. } | Event::Reset { .. } | Event::Window) | None => {}
            }
            let used = step.used;
            self.to_server.drain(..used);
            if used == 0 && step.event.is_none() {
                return;
            }
        }
    }

    /// Serves the open request. Returns its head.
    fn exchange(&mut self, status: u16, body: &[u8]) -> String {
        self.transfer();
        assert!(self.is_complete);
        let mut block = Vec::new();
        head_block(&mut block, status, std::iter::empty(), Some(body.len() as u64)).unwrap();
        self.server.send_head(self.slot, &block, body.is_empty());
        self.server.send_data(self.slot, body);
        self.server.finish(self.slot);
        self.server.close(self.slot);
        self.transfer();
        String::from_utf8(std::mem::take(&mut self.head)).unwrap()
    }

    fn seen(&mut self) -> String {
        std::mem::take(&mut self.words).join(", ")
    }
}
