//! Properties that hold for any bytes, checked by property tests and fuzz targets. The functions panic if a property
//! does not hold.

use base::limits::{
    H2_CONNECTION_SEND_BYTES, H2_CONNECTION_WINDOW_BYTES, H2_TABLE_BYTES_MAX, HEAD_BYTES_MAX,
};

use super::hpack::Decoder;
use super::{Connection, Event, PREFACE, Reason, head_block};
use crate::http1::{Parsed, RequestHead};

/// What happens on a connection does not depend on how its bytes were split, a head that becomes a request is one of
/// HTTP/1.1 whole, and what is held stays within its limits. `bytes`: what follows the preface.
pub fn connection(bytes: &[u8]) {
    let whole = run(bytes, usize::MAX);
    for size in [1, 7, 100] {
        assert_eq!(run(bytes, size), whole, "in pieces of {size}");
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
    /// The events in order, the payload of each slot joined.
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
                let prefix = format!("{slot} data ");
                if !self.log.last().is_some_and(|last| last.starts_with(&prefix)) {
                    self.log.push(prefix);
                }
                if let Some(last) = self.log.last_mut() {
                    *last += &payload.escape_ascii().to_string();
                }
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
