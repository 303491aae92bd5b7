//! A small HTTP client: one GET, one answer, held whole. For JWKS documents and the test harness;
//! what the gateway forwards goes through its own pools.
//!
//! Architecture invariant: one connection per call, closed afterwards; no redirect is followed, so
//! that a key server cannot send us elsewhere; every answer is bounded in bytes and in time.

use std::io;
use std::time::Duration;

use base::{Method, limits};
use http::Uri;
use http::uri::Scheme;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http1::{ChunkedDecoder, Known, Parsed, Piece, Refusal, ResponseFraming, ResponseHead, Side, write};
use crate::stream::Stream;
use crate::tls::ClientTls;

/// What one call may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body, in bytes.
    pub bytes_max: usize,
    /// Longest wait for all of it, name lookup and handshake included, in milliseconds.
    pub total_ms: u32,
}

/// An answer that came whole.
#[derive(Debug)]
pub struct Fetched {
    pub status: u16,
    pub body: Vec<u8>,
    head: ResponseHead,
    head_bytes: Vec<u8>,
}

impl Fetched {
    /// The first field of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let field = self.head.find_name(&self.head_bytes, name.as_bytes())?;
        Some(field.value.of(&self.head_bytes))
    }
}

/// Why there is no answer. None of the messages holds what the server sent, but for the address it
/// wanted to redirect to.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("not a URL to fetch from: {problem}")]
    BadUrl { problem: &'static str },
    #[error("no answer within {total_ms} ms")]
    Timeout { total_ms: u32 },
    #[error("no connection to {authority}: {source}")]
    Unreachable { authority: String, source: io::Error },
    #[error("the connection broke: {source}")]
    Broken { source: io::Error },
    #[error("the connection was closed before the whole answer was there")]
    Cut,
    #[error("the answer is not HTTP as it should be: {}", .0.reason)]
    Misframed(Refusal),
    #[error("the answer has more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error("answered {status}, a redirect to `{location}`: redirects are not followed, write the final URL")]
    Redirect { status: u16, location: String },
}

/// Fetches `url` (`http` or `https`). `tls` says whom to trust, and is needed for `https`. Any
/// status but a redirect is an answer.
///
/// # Errors
/// See [`FetchError`].
pub async fn get(
    url: &str,
    tls: Option<&ClientTls>,
    limits: Limits,
) -> Result<Fetched, FetchError> {
    let target = Target::read(url)?;
    if target.secure && tls.is_none() {
        return Err(FetchError::BadUrl { problem: "https, and no CA is trusted" });
    }
    let total_ms = limits.total_ms;
    let exchange = async {
        let stream = connect(&target, tls).await.map_err(|source| FetchError::Unreachable {
            authority: target.authority.clone(),
            source,
        })?;
        Exchange::new(stream, limits.bytes_max).run(&target).await
    };
    tokio::time::timeout(Duration::from_millis(u64::from(total_ms)), exchange)
        .await
        .unwrap_or(Err(FetchError::Timeout { total_ms }))
}

struct Target {
    secure: bool,
    /// As it stands in the URL, for Host.
    authority: String,
    host: String,
    port: u16,
    path_and_query: String,
}

impl Target {
    fn read(url: &str) -> Result<Self, FetchError> {
        let bad = |problem| FetchError::BadUrl { problem };
        let uri: Uri = url.parse().map_err(|_| bad("malformed"))?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err(bad("it starts with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or(bad("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("it holds user information"));
        }
        let default_port = if secure { 443 } else { 80 };
        let bare_port = authority.port().is_none() && authority.as_str().ends_with(':');
        if authority.host().is_empty() || bare_port {
            return Err(bad("its host or port is malformed"));
        }
        Ok(Self {
            secure,
            authority: authority.as_str().to_owned(),
            host: authority.host().to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            path_and_query: uri.path_and_query().map_or("/", |it| it.as_str()).to_owned(),
        })
    }
}

async fn connect(target: &Target, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let bare = target.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let tcp = TcpStream::connect((bare.unwrap_or(&target.host), target.port)).await?;
    tcp.set_nodelay(true)?;
    match tls.filter(|_| target.secure) {
        Some(tls) => tls.connect(tcp, &target.host).await,
        None => Ok(Stream::Clear(tcp)),
    }
}

/// One request and its answer. `buffer` holds what was read and not yet used.
struct Exchange {
    stream: Stream,
    buffer: Vec<u8>,
    bytes_max: usize,
}

impl Exchange {
    fn new(stream: Stream, bytes_max: usize) -> Self {
        let buffer = Vec::with_capacity(limits::HEAD_BUFFER_BYTES as usize);
        Self { stream, buffer, bytes_max }
    }

    async fn run(mut self, target: &Target) -> Result<Fetched, FetchError> {
        self.ask(target).await.map_err(|source| FetchError::Broken { source })?;
        let (head, head_bytes) = self.final_head().await?;
        let status = head.status();
        if let 301 | 302 | 303 | 307 | 308 = status {
            let location = head.find(Known::Location).map(|field| field.value.of(&head_bytes));
            let location = String::from_utf8_lossy(location.unwrap_or_default()).into_owned();
            return Err(FetchError::Redirect { status, location });
        }
        let body = match head.framing() {
            ResponseFraming::None => Vec::new(),
            ResponseFraming::Length(length) => self.sized_body(length).await?,
            ResponseFraming::Chunked => self.chunked_body().await?,
            ResponseFraming::UntilClose => self.body_until_close().await?,
        };
        Ok(Fetched { status, body, head, head_bytes })
    }

    async fn ask(&mut self, target: &Target) -> io::Result<()> {
        let mut request = format!("GET {} HTTP/1.1\r\n", target.path_and_query).into_bytes();
        write::field(&mut request, b"host", target.authority.as_bytes());
        write::field(&mut request, b"accept", b"*/*");
        write::field(&mut request, b"user-agent", b"penstock");
        write::field(&mut request, b"connection", b"close");
        write::end(&mut request);
        self.stream.write_all(&request).await?;
        self.stream.flush().await
    }

    /// The head that is no 1xx, and the bytes that it points into.
    async fn final_head(&mut self) -> Result<(ResponseHead, Vec<u8>), FetchError> {
        let mut head = ResponseHead::default();
        for _ in 0..=limits::INTERIM_RESPONSES_MAX {
            while let Parsed::Partial =
                head.parse(&self.buffer, Method::Get).map_err(FetchError::Misframed)?
            {
                self.read_more().await?;
            }
            let rest = self.buffer.split_off(head.len().min(self.buffer.len()));
            let head_bytes = std::mem::replace(&mut self.buffer, rest);
            if !head.is_interim() {
                return Ok((head, head_bytes));
            }
        }
        Err(FetchError::Misframed(Refusal::new(502, "too many interim responses")))
    }

    async fn sized_body(&mut self, length: u64) -> Result<Vec<u8>, FetchError> {
        let too_large = FetchError::TooLarge { bytes_max: self.bytes_max };
        let length = match usize::try_from(length) {
            Ok(length) if length <= self.bytes_max => length,
            Ok(_) | Err(_) => return Err(too_large),
        };
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        self.buffer.truncate(length);
        Ok(std::mem::take(&mut self.buffer))
    }

    async fn chunked_body(&mut self) -> Result<Vec<u8>, FetchError> {
        let mut decoder = ChunkedDecoder::new(Side::Response);
        let mut body = Vec::new();
        loop {
            match decoder.next(&self.buffer).map_err(FetchError::Misframed)? {
                Piece::NeedMore { used } => {
                    self.drop_front(used);
                    self.read_more().await?;
                }
                Piece::Data { skip, take } => {
                    let end = skip.saturating_add(take).min(self.buffer.len());
                    body.extend_from_slice(self.buffer.get(skip..end).unwrap_or_default());
                    self.drop_front(end);
                    if body.len() > self.bytes_max {
                        return Err(FetchError::TooLarge { bytes_max: self.bytes_max });
                    }
                }
                Piece::End { .. } => return Ok(body),
            }
        }
    }

    /// Over TLS the end has to be announced (`close_notify`), else it is a broken connection.
    async fn body_until_close(&mut self) -> Result<Vec<u8>, FetchError> {
        while self.read().await? > 0 {
            if self.buffer.len() > self.bytes_max {
                return Err(FetchError::TooLarge { bytes_max: self.bytes_max });
            }
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    fn drop_front(&mut self, bytes: usize) {
        self.buffer.drain(..bytes.min(self.buffer.len()));
    }

    async fn read_more(&mut self) -> Result<(), FetchError> {
        match self.read().await? {
            0 => Err(FetchError::Cut),
            _ => Ok(()),
        }
    }

    async fn read(&mut self) -> Result<usize, FetchError> {
        self.buffer.reserve(limits::HEAD_BUFFER_BYTES as usize / 4);
        let read = self.stream.read_buf(&mut self.buffer).await;
        read.map_err(|source| FetchError::Broken { source })
    }
}
