//! One connection of the echo backend: requests in, their bodies back, one after the other.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Method;

use crate::limits;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::http1::{
    BodyFraming, ChunkedDecoder, Known, Parsed, Piece, Rejection, RequestHead, Side,
};
use wire::stream::Stream;

/// Room for the first read; a body that is longer makes it grow to its size, once.
const INPUT_BYTES: usize = 8 * 1024;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

pub(super) struct Connection<'a> {
    stream: Stream,
    delay: Duration,
    count: &'a AtomicU64,
    head: RequestHead,
    /// What was read; the part before `done` is answered.
    input: Vec<u8>,
    done: usize,
    /// The body of a chunked request, without its framing.
    unchunked: Vec<u8>,
    /// The answer's head.
    output: Vec<u8>,
}

/// Where the body of the current request is.
enum Body {
    Input(Range<usize>),
    Unchunked,
}

/// Why a connection ends.
pub(super) enum End {
    /// The caller closed it, or asked for it.
    Asked,
    Refused(Rejection),
    Broken(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Rejection> for End {
    fn from(refusal: Rejection) -> Self {
        Self::Refused(refusal)
    }
}

impl<'a> Connection<'a> {
    pub(super) fn new(stream: Stream, delay: Duration, count: &'a AtomicU64) -> Self {
        Self {
            stream,
            delay,
            count,
            head: RequestHead::default(),
            input: Vec::with_capacity(INPUT_BYTES),
            done: 0,
            unchunked: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Answers until the caller leaves. What was wrong is answered before it is left.
    pub(super) async fn run(mut self) -> io::Result<()> {
        loop {
            match self.exchange().await {
                Ok(()) => {}
                Err(End::Asked) => return self.stream.shutdown().await,
                Err(End::Refused(refusal)) => return self.refuse(refusal).await,
                Err(End::Broken(error)) => return Err(error),
            }
        }
    }

    async fn exchange(&mut self) -> Result<(), End> {
        self.read_head().await?;
        let body = match self.head.framing() {
            BodyFraming::None => Body::Input(0..0),
            BodyFraming::Length(length) => self.read_length(length).await?,
            BodyFraming::Chunked => self.read_chunks().await?,
        };
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        self.answer(&body).await?;
        if !self.head.keep_alive() {
            return Err(End::Asked);
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

    /// Afterwards `done` is the head's end, and the head's offsets count from the head's start.
    async fn read_head(&mut self) -> Result<(), End> {
        loop {
            let unread = self.input.get(self.done..).unwrap_or_default();
            if !unread.is_empty() && self.head.parse(unread)? == Parsed::Complete {
                self.compose_head(self.done);
                self.done += self.head.len();
                return Ok(());
            }
            self.read_more(INPUT_BYTES).await?;
        }
    }

    /// The answer's head but for its length, while the request's is at hand.
    fn compose_head(&mut self, start: usize) {
        let request = self.input.get(start..).unwrap_or_default();
        self.output.clear();
        self.output.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        if let Some(field) = self.head.find(Known::ContentType) {
            self.output.extend_from_slice(b"content-type: ");
            self.output.extend_from_slice(field.value.of(request));
            self.output.extend_from_slice(b"\r\n");
        }
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

    /// For a caller that waits with its body until it is told to go on.
    async fn allow_body(&mut self) -> Result<(), End> {
        if self.head.expects_continue() {
            self.stream.write_all(CONTINUE).await?;
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Reads once, with room for at least `room` bytes.
    async fn read_more(&mut self, room: usize) -> Result<(), End> {
        // However long requests follow each other, the buffer holds one of them.
        self.input.drain(..self.done);
        self.done = 0;
        self.input.reserve(room);
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(End::Asked),
            _ => Ok(()),
        }
    }

    async fn answer(&mut self, body: &Body) -> Result<(), End> {
        let body = match body {
            Body::Input(range) => self.input.get(range.clone()).unwrap_or_default(),
            Body::Unchunked => &self.unchunked,
        };
        self.output.extend_from_slice(b"content-length: ");
        push_decimal(&mut self.output, body.len());
        self.output.extend_from_slice(if self.head.keep_alive() {
            b"\r\nconnection: keep-alive\r\n\r\n"
        } else {
            b"\r\nconnection: close\r\n\r\n"
        });
        let body = if self.head.method() == Method::Head { &[] } else { body };
        self.count.fetch_add(1, Ordering::Relaxed);
        write_both(&mut self.stream, &self.output, body).await?;
        Ok(())
    }

    /// Answers with the refusal's status, then lets the caller read it: closing while it still sends
    /// would reset the connection and lose the answer.
    async fn refuse(&mut self, refusal: Rejection) -> io::Result<()> {
        let status = refusal.status;
        let answer = format!(
            "HTTP/1.1 {status} {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            refusal.reason
        );
        self.stream.write_all(answer.as_bytes()).await?;
        self.stream.shutdown().await?;
        let wait = Duration::from_millis(u64::from(limits::DRAIN_MS_MAX));
        // Out of time is as good as drained.
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

/// Writes both in one system call where the socket takes them.
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
    // Nothing to do in clear; over TLS the last record may still wait.
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
