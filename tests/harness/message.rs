//! Requests and responses as received, parsed by `wire::http1`.

use base::Method;
use wire::http1::{
    BodyFraming, ChunkedDecoder, Parsed, Piece, RequestHead, ResponseFraming, ResponseHead, Side,
};

use crate::socket::Socket;

/// Bytes read from a socket and not yet consumed.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) socket: Socket,
    pub(crate) unread: Vec<u8>,
}

/// A request as the upstream received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Request line and fields with the empty line, byte for byte.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Trailer lines, each with its CRLF.
    pub trailers: String,
}

/// A response as the client received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Status line and fields with the empty line, byte for byte.
    pub head: String,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// Trailer lines, each with its CRLF.
    pub trailers: String,
}

impl Request {
    /// `GET /a?b HTTP/1.1`.
    #[must_use]
    pub fn line(&self) -> &str {
        self.head.split("\r\n").next().unwrap_or_default()
    }

    /// The target alone.
    #[must_use]
    pub fn target(&self) -> &str {
        self.line().split(' ').nth(1).unwrap_or_default()
    }

    /// The first value of the field called `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Response {
    /// The first value of the field called `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// All values of the field called `name`, joined by `, `.
    #[must_use]
    pub fn all(&self, name: &str) -> String {
        values(&self.head, name).collect::<Vec<_>>().join(", ")
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The status, and the `code` of a response of the gateway's own: `401 900902`.
    #[must_use]
    pub fn status_and_code(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        match body.get("code").and_then(serde_json::Value::as_str) {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    values(head, name).next()
}

pub(crate) fn values<'a>(head: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    head.split("\r\n").skip(1).filter_map(move |line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Incoming {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, unread: Vec::new() }
    }

    /// Reads once more; false at the end.
    pub(crate) fn more(&mut self) -> bool {
        let mut piece = [0; 64 * 1024];
        let count = self.socket.read_some(&mut piece).unwrap_or_else(|error| {
            panic!("{error} after {:?}", String::from_utf8_lossy(&self.unread))
        });
        self.unread.extend_from_slice(&piece[..count]);
        count > 0
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        self.unread.drain(..count).collect()
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    /// Drops `bytes` as they come.
    pub(crate) fn skip(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            if self.unread.is_empty() {
                assert!(self.more(), "the connection ended with {left} bytes to come");
            }
            let count = (self.unread.len() as u64).min(left);
            self.unread.drain(..usize::try_from(count).unwrap());
            left -= count;
        }
    }

    /// Exactly `count` bytes, or those before the end.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count && self.more() {}
        self.take(count.min(self.unread.len()))
    }

    /// A request head; `None` at the end of the connection.
    pub(crate) fn request_head(&mut self) -> Option<(String, BodyFraming)> {
        let mut head = RequestHead::default();
        loop {
            let found = if self.unread.is_empty() {
                Parsed::Partial
            } else {
                head.parse(&self.unread).unwrap_or_else(|error| {
                    panic!("{error:?} in {:?}", String::from_utf8_lossy(&self.unread))
                })
            };
            match found {
                Parsed::Complete => break,
                Parsed::Partial if self.more() => {}
                Parsed::Partial if self.unread.is_empty() => return None,
                Parsed::Partial => {
                    panic!("half a head: {:?}", String::from_utf8_lossy(&self.unread))
                }
            }
        }
        let framing = head.framing();
        Some((String::from_utf8(self.take(head.len())).expect("ASCII"), framing))
    }

    /// A whole request; `None` at the end of the connection.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let (head, framing) = self.request_head()?;
        let (body, trailers) = match framing {
            BodyFraming::None => Default::default(),
            BodyFraming::Length(bytes) => (self.exactly(usize::try_from(bytes).unwrap()), vec![]),
            BodyFraming::Chunked => self.chunked(Side::Request),
        };
        Some(Request { head, body, trailers: String::from_utf8(trailers).unwrap() })
    }

    /// A whole response to a request with `method`.
    pub(crate) fn response(&mut self, method: Method) -> Response {
        let (status, head, framing) = self.response_head(method);
        let (body, trailers) = match framing {
            ResponseFraming::None => Default::default(),
            ResponseFraming::Length(bytes) => {
                (self.exactly(usize::try_from(bytes).unwrap()), vec![])
            }
            ResponseFraming::Chunked => self.chunked(Side::Response),
            ResponseFraming::UntilClose => (self.rest(), vec![]),
        };
        Response { status, head, body, trailers: String::from_utf8(trailers).unwrap() }
    }

    /// A response head alone.
    pub(crate) fn response_head(&mut self, method: Method) -> (u16, String, ResponseFraming) {
        let mut head = ResponseHead::default();
        loop {
            let found = if self.unread.is_empty() {
                Parsed::Partial
            } else {
                head.parse(&self.unread, method).unwrap_or_else(|error| {
                    panic!("{error:?} in {:?}", String::from_utf8_lossy(&self.unread))
                })
            };
            match found {
                Parsed::Complete => break,
                Parsed::Partial => assert!(
                    self.more(),
                    "the connection ended instead of a response, after {:?}",
                    String::from_utf8_lossy(&self.unread)
                ),
            }
        }
        let (status, framing) = (head.status(), head.framing());
        (status, String::from_utf8(self.take(head.len())).expect("ASCII"), framing)
    }

    fn chunked(&mut self, side: Side) -> (Vec<u8>, Vec<u8>) {
        let (mut decoder, mut body) = (ChunkedDecoder::new(side), Vec::new());
        loop {
            match decoder.next(&self.unread).unwrap() {
                Piece::Data { skip, take } => {
                    self.take(skip);
                    body.extend(self.take(take));
                }
                Piece::NeedMore { used } => {
                    self.take(used);
                    assert!(self.more(), "a chunked body broke off after {} bytes", body.len());
                }
                Piece::End { used } => {
                    self.take(used);
                    return (body, decoder.trailers().to_vec());
                }
            }
        }
    }
}
