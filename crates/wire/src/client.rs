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

use crate::http1::{
    ChunkedDecoder, Known, Parsed, Piece, Rejection, ResponseFraming, ResponseHead, Side, write,
};
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
    Incomplete,
    #[error("the answer is not HTTP as it should be: {}", .0.reason)]
    Malformed(Rejection),
    #[error("the answer has more than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error(
        "answered {status}, a redirect to `{location}`: redirects are not followed, write the final URL"
    )]
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
    let url = ParsedUrl::read(url)?;
    if url.secure && tls.is_none() {
        return Err(FetchError::BadUrl { problem: "https, and no CA is trusted" });
    }
    let total_ms = limits.total_ms;
    let fetch = async {
        let stream = connect(&url, tls).await.map_err(|source| FetchError::Unreachable {
            authority: url.authority.clone(),
            source,
        })?;
        Fetch::new(stream, limits.bytes_max).run(&url).await
    };
    tokio::time::timeout(Duration::from_millis(u64::from(total_ms)), fetch)
        .await
        .unwrap_or(Err(FetchError::Timeout { total_ms }))
}

struct ParsedUrl {
    secure: bool,
    /// As it stands in the URL, for Host.
    authority: String,
    host: String,
    port: u16,
    path_and_query: String,
}

impl ParsedUrl {
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
        let has_port = authority.as_str().len() > authority.host().len();
        if authority.host().is_empty() || has_port != authority.port_u16().is_some() {
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

async fn connect(url: &ParsedUrl, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let bare = url.host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let tcp = TcpStream::connect((bare.unwrap_or(&url.host), url.port)).await?;
    tcp.set_nodelay(true)?;
    match tls.filter(|_| url.secure) {
        Some(tls) => tls.connect(tcp, &url.host).await,
        None => Ok(Stream::Clear(tcp)),
    }
}

/// One request and its answer. `buffer` holds what was read and not yet used.
struct Fetch {
    stream: Stream,
    buffer: Vec<u8>,
    bytes_max: usize,
}

impl Fetch {
    fn new(stream: Stream, bytes_max: usize) -> Self {
        let buffer = Vec::with_capacity(limits::HEAD_BUFFER_BYTES as usize);
        Self { stream, buffer, bytes_max }
    }

    async fn run(mut self, url: &ParsedUrl) -> Result<Fetched, FetchError> {
        self.send_request(url).await.map_err(|source| FetchError::Broken { source })?;
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

    async fn send_request(&mut self, url: &ParsedUrl) -> io::Result<()> {
        let mut request = format!("GET {} HTTP/1.1\r\n", url.path_and_query).into_bytes();
        write::field(&mut request, b"host", url.authority.as_bytes());
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
                head.parse(&self.buffer, Method::Get).map_err(FetchError::Malformed)?
            {
                self.read_more().await?;
            }
            let rest = self.buffer.split_off(head.len().min(self.buffer.len()));
            let head_bytes = std::mem::replace(&mut self.buffer, rest);
            if !head.is_interim() {
                return Ok((head, head_bytes));
            }
        }
        Err(FetchError::Malformed(Rejection::new(502, "too many interim responses")))
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
            match decoder.next(&self.buffer).map_err(FetchError::Malformed)? {
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
        while self.buffer.len() <= self.bytes_max && self.read().await? > 0 {}
        if self.buffer.len() > self.bytes_max {
            return Err(FetchError::TooLarge { bytes_max: self.bytes_max });
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    fn drop_front(&mut self, bytes: usize) {
        self.buffer.drain(..bytes.min(self.buffer.len()));
    }

    async fn read_more(&mut self) -> Result<(), FetchError> {
        match self.read().await? {
            0 => Err(FetchError::Incomplete),
            _ => Ok(()),
        }
    }

    async fn read(&mut self) -> Result<usize, FetchError> {
        self.buffer.reserve(limits::HEAD_BUFFER_BYTES as usize / 4);
        let read = self.stream.read_buf(&mut self.buffer).await;
        read.map_err(|source| FetchError::Broken { source })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::net::TcpListener;

    use super::*;
    use crate::tls::{self, CertificateSet, ServerCertificates};

    const LIMITS: Limits = Limits { bytes_max: 10, total_ms: 10_000 };

    /// What a call came to, in a word: status and body, or which error.
    fn outcome(response: Result<Fetched, FetchError>) -> String {
        match response {
            Ok(fetched) => format!("{} {}", fetched.status, String::from_utf8_lossy(&fetched.body)),
            Err(error) => error.to_string(),
        }
    }

    /// Takes one request, gives `answer` and closes; comes to the request.
    async fn serve_once(listener: TcpListener, answer: Vec<u8>) -> Vec<u8> {
        let (tcp, _) = listener.accept().await.unwrap();
        serve(Stream::Clear(tcp), &answer).await
    }

    async fn serve(mut stream: Stream, answer: &[u8]) -> Vec<u8> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "no whole request");
        }
        stream.write_all(answer).await.unwrap();
        stream.shutdown().await.unwrap();
        request
    }

    async fn listen() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[tokio::test]
    async fn an_answer_is_whole_or_an_error() {
        check("200 OK\nContent-Length: 2\n\n{}", "200 {}").await;
        check("404 No\nContent-Length: 0\n\n", "404 ").await;
        check("204 No Content\n\n", "204 ").await;
        check("200 OK\nContent-Length: 10\n\n0123456789", "200 0123456789").await;
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n2;x\nde\n0\nX-T: 1\n\n", "200 abcde")
            .await;
        check("200 OK\n\nto the end", "200 to the end").await;
        check("103 Early\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx", "200 x").await;

        let too_large = "the answer has more than 10 bytes";
        check("200 OK\nContent-Length: 11\n\n0123456789x", too_large).await;
        check("200 OK\nContent-Length: 18446744073709551615\n\n", too_large).await;
        check("200 OK\nTransfer-Encoding: chunked\n\n6\nabcdef\n6\nabcdef\n0\n\n", too_large).await;
        check("200 OK\n\nmore than ten bytes", too_large).await;

        let cut = "the connection was closed before the whole answer was there";
        check("", cut).await;
        check("200 OK\nContent-Le", cut).await;
        check("200 OK\nContent-Length: 9\n\nhalf", cut).await;
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n", cut).await;

        let redirect = "answered 302, a redirect to `http://b.test/`: redirects are not followed, \
                        write the final URL";
        check("302 Found\nLocation: http://b.test/\nContent-Length: 0\n\n", redirect).await;

        let misframed = "the answer is not HTTP as it should be: ";
        check("200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", misframed).await;
        check("200 OK\nContent-Length: 1\nContent-Length: 2\n\n", misframed).await;
        check("200 OK\nTransfer-Encoding: chunked\n\nxyz\n", misframed).await;
        let interim = "103 Early\n\nHTTP/1.1 ".repeat(limits::INTERIM_RESPONSES_MAX as usize + 1);
        check(&format!("{interim}200 OK\n\n"), misframed).await;

        /// `answer`: what follows `HTTP/1.1 `, lines ended by LF; nothing at all if empty.
        async fn check(answer: &str, expect: &str) {
            let whole =
                if answer.is_empty() { String::new() } else { format!("HTTP/1.1 {answer}") };
            let (listener, port) = listen().await;
            let server =
                tokio::spawn(serve_once(listener, whole.replace('\n', "\r\n").into_bytes()));
            let got =
                outcome(get(&format!("http://127.0.0.1:{port}/keys?a=b"), None, LIMITS).await);
            let fits = if expect.ends_with(": ") { got.starts_with(expect) } else { got == expect };
            assert!(fits, "{answer:?} came to {got:?}, not {expect:?}");
            let request = String::from_utf8(server.await.unwrap()).unwrap();
            let start = format!("GET /keys?a=b HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
            assert!(request.starts_with(&start), "{request}");
            assert!(request.contains("\r\nconnection: close\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn fields_of_the_answer_can_be_read() {
        let (listener, port) = listen().await;
        let answer = b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 0\r\n\r\n".to_vec();
        tokio::spawn(serve_once(listener, answer));
        let fetched = get(&format!("http://localhost:{port}"), None, LIMITS).await.unwrap();
        assert_eq!(fetched.header("etag"), Some(&b"\"v1\""[..]));
        assert_eq!(fetched.header("last-modified"), None);
    }

    #[tokio::test]
    async fn a_server_that_never_answers_is_given_up() {
        let (listener, port) = listen().await;
        let limits = Limits { total_ms: 20, ..LIMITS };
        let got = get(&format!("http://127.0.0.1:{port}/"), None, limits).await;
        assert_eq!(outcome(got), "no answer within 20 ms");
        drop(listener);
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_unreachable() {
        let (listener, port) = listen().await;
        drop(listener);
        let got = get(&format!("http://127.0.0.1:{port}/"), None, LIMITS).await;
        assert!(matches!(got, Err(FetchError::Unreachable { .. })), "{}", outcome(got));
    }

    #[tokio::test]
    async fn https_is_fetched_from_whom_we_trust_only() {
        let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let (cert, key) = tls::generate_self_signed(&["localhost"], now_s).unwrap();
        let (other, _) = tls::generate_self_signed(&["localhost"], now_s).unwrap();
        let set =
            CertificateSet::load(Some((cert.as_bytes(), key.as_bytes())), Vec::new()).unwrap();
        let config = tls::server_config(Arc::new(ServerCertificates::new(set)), true);
        check(&config, &cert, "200 {}").await;
        check(&config, &other, "no connection to localhost:").await;

        async fn check(config: &Arc<rustls::ServerConfig>, trusted: &str, expect: &str) {
            let (listener, port) = listen().await;
            let config = Arc::clone(config);
            let server = tokio::spawn(async move {
                let (tcp, _) = listener.accept().await.unwrap();
                if let Ok(stream) = tls::accept(tcp, config).await {
                    serve(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
                }
            });
            let trust = ClientTls::new(&[trusted.as_bytes().to_vec()], false).unwrap();
            let url = format!("https://localhost:{port}/jwks");
            let got = outcome(get(&url, Some(&trust), LIMITS).await);
            assert!(got.starts_with(expect), "{got}");
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_url_that_cannot_be_fetched_says_why() {
        check("https://a.test/", "https, and no CA is trusted").await;
        check("ftp://a.test/", "it starts with neither http:// nor https://").await;
        check("/keys.json", "it starts with neither http:// nor https://").await;
        check("http://user:pass@a.test/", "it holds user information").await;
        check("http://a.test:x/", "its host or port is malformed").await;
        check("http://a.test:/", "its host or port is malformed").await;
        check("http://a.test:65536/", "its host or port is malformed").await;
        check("http:///", "malformed").await;
        check("http://a b/", "malformed").await;
        check("", "malformed").await;

        async fn check(url: &str, expect: &str) {
            let expect = format!("not a URL to fetch from: {expect}");
            assert_eq!(outcome(get(url, None, LIMITS).await), expect, "{url}");
        }
    }
}
