//! An HTTP/1.1 connection of the echo backend: responds to each request with its own body, and to WebSocket messages.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Duration;

use base::Method;

use super::websocket;
use super::{Asked, Counts, INPUT_BYTES};
use crate::limits;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::http1::{
    BodyFraming, ChunkedDecoder, Known, Parsed, Piece, Rejection, RequestHead, Side, Upgrade,
};
use wire::stream::Stream;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub(super) struct Connection<'a> {
    stream: Stream,
    delay: Duration,
    counts: &'a Counts,
    head: RequestHead,
    /// Bytes read; those before `done` belong to finished requests.
    input: Vec<u8>,
    done: usize,
    /// The decoded body of a chunked request.
    unchunked: Vec<u8>,
    /// The response head, or WebSocket frames.
    output: Vec<u8>,
    asked: Asked,
    /// The current request opens a WebSocket.
    is_websocket: bool,
}

/// The location of the current request's body.
enum Body {
    Input(Range<usize>),
    Unchunked,
}

/// Why a connection ends.
pub(super) enum End {
    /// The client closed it or requested the close.
    Closed,
    Rejected(Rejection),
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Rejection> for End {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl<'a> Connection<'a> {
    /// `input`: bytes already read from `stream`.
    pub(super) fn new(stream: Stream, input: Vec<u8>, delay: Duration, counts: &'a Counts) -> Self {
        Self {
            stream,
            delay,
            counts,
            head: RequestHead::default(),
            input,
            done: 0,
            unchunked: Vec::new(),
            output: Vec::new(),
            asked: Asked::Echo,
            is_websocket: false,
        }
    }

    /// Serves requests until the client closes the connection. Invalid requests get an error response.
    pub(super) async fn run(mut self) -> io::Result<()> {
        loop {
            match self.exchange().await {
                Ok(()) => {}
                Err(End::Closed) => return self.stream.shutdown().await,
                Err(End::Rejected(rejection)) => return self.reject(rejection).await,
                Err(End::Broken(error)) => return Err(error),
            }
        }
    }

    async fn exchange(&mut self) -> Result<(), End> {
        self.read_head().await?;
        if self.is_websocket {
            return self.messages().await;
        }
        let body = match self.head.framing() {
            BodyFraming::None => Body::Input(0..0),
            BodyFraming::Length(length) => self.read_length(length).await?,
            BodyFraming::Chunked => self.read_chunks().await?,
        };
        self.delay().await;
        self.respond(&body).await?;
        if !self.head.keep_alive() {
            return Err(End::Closed);
        }
        match body {
            Body::Input(range) => self.done = self.done.max(range.end),
            Body::Unchunked => self.unchunked.clear(),
        }
        if self.done == self.input.len() {
            self.input.clear();
            self.done = 0;
        }
        Ok(())
    }

    async fn delay(&self) {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
    }

    /// Accepts the WebSocket, and echoes its messages until the connection ends.
    async fn messages(&mut self) -> Result<(), End> {
        loop {
            write_both(&mut self.stream, &self.output, &[]).await?;
            self.output.clear();
            let unread = self.input.get(self.done..).unwrap_or_default();
            let echoed = websocket::echo(unread, &mut self.output);
            self.done += echoed.used;
            if echoed.messages > 0 {
                self.delay().await;
                self.counts.add(echoed.messages);
            }
            if echoed.is_closed {
                write_both(&mut self.stream, &self.output, &[]).await?;
                return Err(End::Closed);
            }
            if self.output.is_empty() {
                self.read_more(INPUT_BYTES).await?;
            }
        }
    }

    /// On return, `done` is the end of the head, and the head's offsets are relative to its start.
    async fn read_head(&mut self) -> Result<(), End> {
        loop {
            let unread = self.input.get(self.done..).unwrap_or_default();
            if !unread.is_empty() && self.head.parse(unread)? == Parsed::Complete {
                self.compose_head(self.done)?;
                self.done += self.head.len();
                return Ok(());
            }
            self.read_more(INPUT_BYTES).await?;
        }
    }

    /// Writes the response head except for its length, while the request head is in the buffer.
    fn compose_head(&mut self, start: usize) -> Result<(), Rejection> {
        let request = self.input.get(start..).unwrap_or_default();
        self.asked = Asked::of(&self.head, request);
        self.is_websocket = self.head.upgrade(request) == Upgrade::WebSocket;
        self.output.clear();
        if self.is_websocket {
            return websocket::accept(&self.head, request, &mut self.output);
        }
        self.output.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        let field = self.head.find(Known::ContentType).map(|field| field.value.of(request));
        if let Some(value) = self.asked.own_content_type().or(field) {
            self.output.extend_from_slice(b"content-type: ");
            self.output.extend_from_slice(value);
            self.output.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    async fn read_length(&mut self, length: u64) -> Result<Body, End> {
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= limits::ECHO_BODY_BYTES_MAX)
            .ok_or(TOO_LARGE)?;
        let missing =
            |connection: &Self| (connection.done + length).saturating_sub(connection.input.len());
        if missing(self) > 0 {
            self.allow_body().await?;
        }
        while missing(self) > 0 {
            self.read_more(missing(self)).await?;
        }
        Ok(Body::Input(self.done..self.done + length))
    }

    async fn read_chunks(&mut self) -> Result<Body, End> {
        let mut decoder = ChunkedDecoder::new(Side::Request);
        if self.done == self.input.len() {
            self.allow_body().await?;
        }
        loop {
            let unread = self.input.get(self.done..).unwrap_or_default();
            match decoder.next(unread)? {
                Piece::NeedMore { used } => {
                    self.done += used;
                    self.read_more(INPUT_BYTES).await?;
                }
                Piece::Data { skip, take } => {
                    let data = unread.get(skip..skip + take).unwrap_or_default();
                    if self.unchunked.len() + data.len() > limits::ECHO_BODY_BYTES_MAX {
                        return Err(TOO_LARGE.into());
                    }
                    self.unchunked.extend_from_slice(data);
                    self.done += skip + take;
                }
                Piece::End { used } => {
                    self.done += used;
                    return Ok(Body::Unchunked);
                }
            }
        }
    }

    /// Sends 100 Continue if the client expects it.
    async fn allow_body(&mut self) -> Result<(), End> {
        if self.head.expects_continue() {
            self.stream.write_all(CONTINUE).await?;
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Reads once, with room for at least `room` bytes.
    async fn read_more(&mut self, room: usize) -> Result<(), End> {
        // Drops finished requests, so the buffer holds one request at a time.
        self.input.drain(..self.done);
        self.done = 0;
        self.input.reserve(room);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(End::Closed),
            _ => Ok(()),
        }
    }

    async fn respond(&mut self, body: &Body) -> Result<(), End> {
        let own = self.asked.own_body(self.counts);
        let body = match (&own, body) {
            (Some(own), _) => own.as_bytes(),
            (None, Body::Input(range)) => self.input.get(range.clone()).unwrap_or_default(),
            (None, Body::Unchunked) => &self.unchunked,
        };
        self.output.extend_from_slice(b"content-length: ");
        push_decimal(&mut self.output, body.len());
        self.output.extend_from_slice(if self.head.keep_alive() {
            b"\r\nconnection: keep-alive\r\n\r\n"
        } else {
            b"\r\nconnection: close\r\n\r\n"
        });
        let body = if self.head.method() == Method::Head { &[] } else { body };
        if self.asked == Asked::Echo {
            self.counts.add(1);
        }
        write_both(&mut self.stream, &self.output, body).await?;
        Ok(())
    }

    /// Responds with an error status and then drains the connection: closing it while the client is still
    /// sending would reset it, and the response would be lost.
    async fn reject(&mut self, rejection: Rejection) -> io::Result<()> {
        let status = rejection.status;
        let response = format!(
            "HTTP/1.1 {status} {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            rejection.reason
        );
        self.stream.write_all(response.as_bytes()).await?;
        self.stream.shutdown().await?;
        let wait = Duration::from_millis(u64::from(limits::DRAIN_MS_MAX));
        // Running out of time is as good as having drained everything.
        let _ = tokio::time::timeout(wait, self.drain()).await;
        Ok(())
    }

    async fn drain(&mut self) -> io::Result<()> {
        let mut left = limits::DRAIN_BYTES_MAX as usize;
        while left > 0 {
            self.input.clear();
            let read = self.stream.read_buf(&mut self.input).await?;
            if read == 0 {
                break;
            }
            left = left.saturating_sub(read);
        }
        Ok(())
    }
}

const TOO_LARGE: Rejection = Rejection::new(413, "body too large");

/// Writes both with one system call if possible.
async fn write_both(stream: &mut Stream, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < head.len() + body.len() {
        let rest = [
            IoSlice::new(head.get(written..).unwrap_or_default()),
            IoSlice::new(body.get(written.saturating_sub(head.len())..).unwrap_or_default()),
        ];
        let count = write_some(stream, &rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        written += count;
    }
    // Needed over TLS, where the last record may still be buffered.
    stream.flush().await
}

async fn write_some(stream: &mut Stream, rest: &[IoSlice<'_>]) -> io::Result<usize> {
    std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_write_vectored(cx, rest)).await
}

fn push_decimal(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}
