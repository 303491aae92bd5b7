mod flow;
mod frames;
mod heads;

use crate::h2::*;
use crate::http1::{Parsed, RequestHead};

// Frame types and flags. Source: RFC 9113 section 6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;
const WHOLE: u8 = END_STREAM | END_HEADERS;

/// A serialised frame. Source: RFC 9113 section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field block without indexing or Huffman coding. Source: RFC 7541 section 6.2.2.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let string = |text: &str| {
        let mut bytes = vec![u8::try_from(text.len().min(0x7f)).unwrap()];
        if let Some(mut rest) = text.len().checked_sub(0x7f) {
            while rest >= 0x80 {
                bytes.push(rest.to_le_bytes()[0] | 0x80);
                rest >>= 7;
            }
            bytes.push(rest.to_le_bytes()[0]);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    let field = |&(name, value): &(&str, &str)| [vec![0], string(name), string(value)].concat();
    fields.iter().flat_map(field).collect()
}

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "http");
const PATH: (&str, &str) = (":path", "/p");
const HOST: (&str, &str) = (":authority", "a.test");
const CONNECT: (&str, &str) = (":method", "CONNECT");
const WEBSOCKET: (&str, &str) = (":protocol", "websocket");

/// A request's HEADERS frame.
fn request(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, flags, stream, &block(&[METHOD, SCHEME, HOST, PATH]))
}

/// The start of every connection.
fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A connection, with its events and its output.
struct Server {
    engine: Connection,
    unread: Vec<u8>,
    /// The events, in words.
    events: Vec<String>,
    failure: Option<Reason>,
}

impl Server {
    /// A connection that has been established.
    fn new() -> Self {
        let mut server = Self {
            engine: Connection::new(),
            unread: Vec::new(),
            events: Vec::new(),
            failure: None,
        };
        server.receive(&hello());
        server.sent();
        server
    }

    /// Processes `bytes` after the unused bytes of the last call.
    fn receive(&mut self, bytes: &[u8]) -> &mut Self {
        self.unread.extend_from_slice(bytes);
        loop {
            let step = match self.engine.receive(&self.unread) {
                Ok(step) => step,
                Err(reason) => {
                    self.failure = Some(reason);
                    break;
                }
            };
            if step.used == 0 && step.event.is_none() {
                break;
            }
            if let Some(event) = step.event {
                let text = self.describe(event);
                self.events.push(text);
            }
            self.unread.drain(..step.used);
        }
        self
    }

    fn describe(&mut self, event: Event) -> String {
        match event {
            Event::Request { slot, head: Err(rejection), .. } => {
                format!("{slot}: {}", rejection.status)
            }
            Event::Request { slot, head: Ok(()), is_all, .. } => {
                let (mut bytes, mut head) = (Vec::new(), RequestHead::default());
                self.engine.swap_head(&mut bytes);
                match head.parse(&bytes) {
                    Ok(parsed) => {
                        assert_eq!((parsed, head.len()), (Parsed::Complete, bytes.len()));
                        let text = String::from_utf8_lossy(&bytes).replace("\r\n", "|");
                        format!("{slot}: {text}{}", if is_all { "." } else { "" })
                    }
                    Err(rejection) => format!("{slot}: {}", rejection.status),
                }
            }
            Event::Data { slot, at } => {
                format!("{slot}: {}", String::from_utf8_lossy(&self.unread[at]))
            }
            Event::End { slot } => format!("{slot}: end"),
            Event::Trailers { slot, lines: Ok(lines) } => {
                format!("{slot}: end {}", String::from_utf8_lossy(&lines).replace("\r\n", "|"))
            }
            Event::Trailers { slot, lines: Err(rejection) } => {
                format!("{slot}: end {}", rejection.status)
            }
            Event::Reset { slot } => format!("{slot}: reset"),
            Event::Window => "window".to_owned(),
        }
    }

    fn events(&mut self) -> String {
        std::mem::take(&mut self.events).join("; ")
    }

    /// The frames that were sent since the last call, in words.
    fn sent(&mut self) -> String {
        let mut frames = Vec::new();
        let mut rest = self.engine.output();
        while let [a, b, c, kind, flags, d, e, f, g, after @ ..] = rest {
            let (payload, after) = after.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
            let stream = u32::from_be_bytes([*d, *e, *f, *g]);
            let number =
                |from: usize| u32::from_be_bytes(payload[from..from + 4].try_into().unwrap());
            let end = if flags & END_STREAM == 0 { "" } else { " end" };
            frames.push(match *kind {
                DATA => format!("DATA {stream} {}{end}", payload.len()),
                HEADERS => format!("HEADERS {stream}{end}"),
                RST_STREAM => format!("RST {stream} {}", number(0)),
                SETTINGS if flags & ACK == 0 => "SETTINGS".to_owned(),
                SETTINGS => "SETTINGS ACK".to_owned(),
                PING => format!("PING{}", if flags & ACK == 0 { "" } else { " ACK" }),
                GOAWAY => format!("GOAWAY {} {}", number(0), number(4)),
                WINDOW_UPDATE => format!("WINDOW {stream} {}", number(0)),
                CONTINUATION => format!("CONTINUATION {stream}"),
                other => format!("type {other}"),
            });
            rest = after;
        }
        assert_eq!(rest, b"");
        let count = self.engine.output().len();
        self.engine.written(count);
        frames.join("; ")
    }
}
