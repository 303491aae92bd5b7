//! Properties that hold for any bytes, checked by property tests and fuzz targets. The functions panic if a property
//! does not hold.

use std::sync::Arc;

use base::limits::{
    H2_CONNECTION_SEND_BYTES, H2_CONNECTION_WINDOW_BYTES, H2_TABLE_BYTES_MAX, HEAD_BYTES_MAX,
};

use super::client::{Client, ClientEvent, RequestFields};
use super::hpack::Decoder;
use super::{Connection, Event, PREFACE, Reason, head_block};
use crate::http1::{Parsed, RequestHead};

/// The events of a connection do not depend on how its bytes were split, the head of a request is a complete HTTP/1.1
/// head, and memory stays within the limits. `bytes` are the input after the preface.
pub fn connection(bytes: &[u8]) {
    let whole = run(bytes, usize::MAX);
    for size in [1, 7, 100] {
        assert_eq!(run(bytes, size), whole, "in pieces of {size}");
    }
}

/// The events and output of the client do not depend on how the server's bytes were split, and it never uses more bytes
/// than it was given. It keeps up to three requests with bodies in flight.
pub fn client(bytes: &[u8]) {
    let whole = run_client(bytes, usize::MAX);
    for size in [1, 7, 100] {
        assert_eq!(run_client(bytes, size), whole, "in pieces of {size}");
    }
}

/// The events in order, with the payload of each slot joined, and the output.
fn run_client(bytes: &[u8], size: usize) -> (Vec<String>, Vec<u8>) {
    const BODY: &[u8] = b"body";
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    let mut client = Client::new(Arc::new(RequestFields::new(pseudo)));
    let (mut log, mut sent, mut unread) = (Vec::<String>::new(), Vec::new(), Vec::new());
    let mut open = Vec::new();
    for piece in bytes.chunks(size.min(bytes.len()).max(1)) {
        unread.extend_from_slice(piece);
        loop {
            let step = match client.receive(&unread) {
                Ok(step) => step,
                Err(reason) => {
                    log.push(format!("{reason:?}"));
                    sent.extend_from_slice(client.output());
                    return (log, sent);
                }
            };
            assert!(step.used <= unread.len(), "it used bytes that were not there");
            if step.used == 0 && step.event.is_none() {
                break;
            }
            if let Some(slot) = step.event.and_then(|event| log_event(&mut log, event, &unread)) {
                client.close(slot);
                open.retain(|known| *known != slot);
            }
            unread.drain(..step.used);
            while open.len() < 3
                && let Some(slot) = client.open(None, Some(b"token"), Some(BODY.len()))
            {
                open.push(slot);
            }
            for slot in &open {
                client.send_body(*slot, BODY);
            }
            sent.extend_from_slice(client.output());
            client.written(client.output().len());
        }
    }
    (log, sent)
}

/// Returns the slot of a stream that has ended.
fn log_event(log: &mut Vec<String>, event: ClientEvent, input: &[u8]) -> Option<usize> {
    match event {
        ClientEvent::Head { slot, status, ends } => {
            log.push(format!("{slot} head {status}"));
            ends.then_some(slot)
        }
        ClientEvent::Data { slot, at, ends } => {
            let payload = input.get(at).expect("the payload is in the input");
            join_payload(log, slot, payload);
            ends.then_some(slot)
        }
        ClientEvent::Reset { slot } => {
            log.push(format!("{slot} reset"));
            Some(slot)
        }
        ClientEvent::Malformed { slot } => {
            // The payload up to the fault depends on the reads.
            log.pop_if(|last| last.starts_with(&format!("{slot} data ")));
            log.push(format!("{slot} malformed"));
            Some(slot)
        }
        ClientEvent::GoAway => {
            log.push("leaving".to_owned());
            None
        }
    }
}

fn join_payload(log: &mut Vec<String>, slot: usize, payload: &[u8]) {
    let prefix = format!("{slot} data ");
    if !log.last().is_some_and(|last| last.starts_with(&prefix)) {
        log.push(prefix);
    }
    if let Some(last) = log.last_mut() {
        *last += &payload.escape_ascii().to_string();
    }
}

/// Any sequence of blocks, each after a byte with its length, leaves the dynamic table within its limit.
pub fn hpack(bytes: &[u8]) {
    let mut decoder = Decoder::new();
    let mut rest = bytes;
    while let [len, after @ ..] = rest {
        let (block, after) = after.split_at(usize::from(*len).min(after.len()));
        let mut fields = 0_usize;
        let decoded = decoder.decode(block, |_, _| fields += 1);
        assert!(fields <= block.len(), "a field has at least one byte");
        let (size, held) = decoder.table_bytes();
        assert!(size <= H2_TABLE_BYTES_MAX && held <= 2 * H2_TABLE_BYTES_MAX, "{size} {held}");
        if decoded.is_err() {
            break;
        }
        rest = after;
    }
}

/// A connection and its handlers.
struct Run {
    engine: Connection,
    /// The events in order, with the payload of each slot joined.
    log: Vec<String>,
    sent: Vec<u8>,
    /// Payload in each slot that was not consumed.
    held: Vec<usize>,
}

fn run(bytes: &[u8], size: usize) -> (Vec<String>, Vec<u8>, Option<Reason>) {
    let engine = Connection::new();
    let mut run = Run { engine, log: Vec::new(), sent: Vec::new(), held: vec![0; super::SLOTS] };
    let mut unread = PREFACE.to_vec();
    for piece in bytes.chunks(size.min(bytes.len()).max(1)) {
        unread.extend_from_slice(piece);
        loop {
            let step = match run.engine.receive(&unread) {
                Ok(step) => step,
                Err(reason) => {
                    run.drain();
                    return (run.log, run.sent, Some(reason));
                }
            };
            assert!(step.used <= unread.len(), "it used bytes that were not there");
            if step.used == 0 && step.event.is_none() {
                break;
            }
            if let Some(event) = step.event {
                run.apply(event, &unread);
            }
            unread.drain(..step.used);
        }
        let held: usize = run.held.iter().sum();
        assert!(held <= H2_CONNECTION_WINDOW_BYTES as usize, "{held} bytes of payload");
    }
    run.drain();
    (run.log, run.sent, None)
}

impl Run {
    fn apply(&mut self, event: Event, input: &[u8]) {
        match event {
            Event::Request { slot, head, is_all, .. } => {
                if head.is_ok() {
                    let (mut bytes, mut head) = (Vec::new(), RequestHead::default());
                    self.engine.swap_head(&mut bytes);
                    if let Ok(parsed) = head.parse(&bytes) {
                        assert_eq!((parsed, head.len()), (Parsed::Complete, bytes.len()));
                    }
                    // A field's name and value may each be at the limit.
                    assert!(bytes.len() < 3 * HEAD_BYTES_MAX as usize, "the head is too large");
                    self.log.push(String::from_utf8_lossy(&bytes).into_owned());
                }
                self.log.push(format!("{slot} opened {head:?}"));
                if is_all {
                    self.respond(slot);
                }
            }
            Event::Data { slot, at } => {
                let payload = input.get(at).unwrap_or_default();
                if let Some(held) = self.held.get_mut(slot) {
                    *held += payload.len();
                }
                join_payload(&mut self.log, slot, payload);
            }
            Event::End { slot } => self.respond(slot),
            Event::Trailers { slot, lines } => {
                self.log.push(format!("{slot} {lines:?}"));
                self.respond(slot);
            }
            Event::Reset { slot } => {
                self.log.push(format!("{slot} reset"));
                self.close(slot);
            }
            Event::Window => {}
        }
    }

    /// Answers with a short body.
    fn respond(&mut self, slot: usize) {
        self.log.push(format!("{slot} complete"));
        if let Some(held) = self.held.get(slot) {
            self.engine.consumed(slot, *held);
        }
        let mut head = Vec::new();
        let fields: [(&[u8], &[u8]); 1] = [(b"X", b"y")];
        head_block(&mut head, 200, fields.into_iter(), None).expect("the status is valid");
        self.engine.send_head(slot, &head, false);
        let count = self.engine.send_data(slot, b"response");
        assert!(count <= 8, "it sent more than there was");
        self.engine.finish(slot);
        self.close(slot);
    }

    fn close(&mut self, slot: usize) {
        self.engine.close(slot);
        if let Some(held) = self.held.get_mut(slot) {
            *held = 0;
        }
        self.drain();
    }

    fn drain(&mut self) {
        let output = self.engine.output();
        assert!(output.len() < 3 * H2_CONNECTION_SEND_BYTES, "the output is too large");
        self.sent.extend_from_slice(output);
        self.engine.written(output.len());
    }
}
