//! A small HTTP client: one GET, and its response in memory. For JWKS documents and tests; the gateway
//! forwards requests through its own connection pools.
//!
//! Architecture invariant: each request has a connection of its own. Redirects are not followed, so that a
//! key server cannot choose another host. Responses are limited in size and time.

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

/// Limits of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Largest body, in bytes.
    pub bytes_max: usize,
    /// Longest wait for the complete response, name lookup and handshake included, in milliseconds.
    pub total_ms: u32,
}

/// A complete response.
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

/// Why a request failed. No message contains bytes from the server, except a redirect's location.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("invalid URL: {problem}")]
    BadUrl { problem: &'static str },
    #[error("no complete response within {total_ms} ms")]
    Timeout { total_ms: u32 },
    #[error("no connection to {authority}: {source}")]
    Unreachable { authority: String, source: io::Error },
    #[error("connection error: {source}")]
    Broken { source: io::Error },
    #[error("the connection was closed before the response was complete")]
    Incomplete,
    #[error("invalid HTTP response: {}", .0.reason)]
    Malformed(Rejection),
    #[error("the response is larger than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error(
        "status {status} redirects to `{location}`: redirects are not followed; configure the final URL"
    )]
    Redirect { status: u16, location: String },
}

/// Fetches `url` (`http` or `https`). `tls` is required for `https`. Any status but a redirect is a success.
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
        return Err(FetchError::BadUrl { problem: "https without a trusted CA" });
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
    /// As in the URL, for the Host field.
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
            Some(_) | None => return Err(bad("must start with http:// or https://")),
        };
        let authority = uri.authority().ok_or(bad("no host"))?;
        if authority.as_str().contains('@') {
            return Err(bad("contains user information"));
        }
        let default_port = if secure { 443 } else { 80 };
        let has_port = authority.as_str().len() > authority.host().len();
        if authority.host().is_empty() || has_port != authority.port_u16().is_some() {
            return Err(bad("malformed host or port"));
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

/// A request in progress. `buffer` holds unread bytes.
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

    /// The final head (not a 1xx), and the bytes that it refers to.
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

    /// Over TLS, a connection that ends without `close_notify` is an error.
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

    /// Status and body, or the kind of error.
    fn outcome(response: Result<Fetched, FetchError>) -> String {
        match response {
            Ok(fetched) => format!("{} {}", fetched.status, String::from_utf8_lossy(&fetched.body)),
            Err(error) => {
                let debug = format!("{error:?}");
                debug.split([' ', '(']).next().unwrap_or_default().to_owned()
            }
        }
    }

    /// Accepts one connection, sends `response` after the request, closes, and returns the request.
    async fn serve_once(listener: TcpListener, response: Vec<u8>) -> Vec<u8> {
        let (tcp, _) = listener.accept().await.unwrap();
        serve(Stream::Clear(tcp), &response).await
    }

    async fn serve(mut stream: Stream, response: &[u8]) -> Vec<u8> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "incomplete request");
        }
        stream.write_all(response).await.unwrap();
        stream.shutdown().await.unwrap();
        request
    }

    async fn listen() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[tokio::test]
    async fn a_response_is_complete_or_an_error() {
        check("200 OK\nContent-Length: 2\n\n{}", "200 {}").await;
        check("404 No\nContent-Length: 0\n\n", "404 ").await;
        check("204 No Content\n\n", "204 ").await;
        check("200 OK\nContent-Length: 10\n\n0123456789", "200 0123456789").await;
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n2;x\nde\n0\nX-T: 1\n\n", "200 abcde")
            .await;
        check("200 OK\n\nto the end", "200 to the end").await;
        check("103 Early\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx", "200 x").await;

        let too_large = "TooLarge";
        check("200 OK\nContent-Length: 11\n\n0123456789x", too_large).await;
        check("200 OK\nContent-Length: 9007199254740991\n\n", too_large).await;
        check("200 OK\nTransfer-Encoding: chunked\n\n6\nabcdef\n6\nabcdef\n0\n\n", too_large).await;
        check("200 OK\n\nmore than ten bytes", too_large).await;

        let cut = "Incomplete";
        check("", cut).await;
        check("200 OK\nContent-Le", cut).await;
        check("200 OK\nContent-Length: 9\n\nhalf", cut).await;
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n", cut).await;

        check("302 Found\nLocation: http://b.test/\nContent-Length: 0\n\n", "Redirect").await;

        let malformed = "Malformed";
        check("200 OK\nContent-Length: 1\nTransfer-Encoding: chunked\n\n", malformed).await;
        check("200 OK\nContent-Length: 1\nContent-Length: 2\n\n", malformed).await;
        check("200 OK\nContent-Length: 9007199254740992\n\n", malformed).await;
        check("200 OK\nTransfer-Encoding: chunked\n\nxyz\n", malformed).await;
        let interim = "103 Early\n\nHTTP/1.1 ".repeat(limits::INTERIM_RESPONSES_MAX as usize + 1);
        check(&format!("{interim}200 OK\n\n"), malformed).await;

        /// `response`: the text after `HTTP/1.1 `, lines ended by LF; empty: no response.
        async fn check(response: &str, expect: &str) {
            let whole =
                if response.is_empty() { String::new() } else { format!("HTTP/1.1 {response}") };
            let (listener, port) = listen().await;
            let server =
                tokio::spawn(serve_once(listener, whole.replace('\n', "\r\n").into_bytes()));
            let got =
                outcome(get(&format!("http://127.0.0.1:{port}/keys?a=b"), None, LIMITS).await);
            assert_eq!(got, expect, "{response:?}");
            let request = String::from_utf8(server.await.unwrap()).unwrap();
            let start = format!("GET /keys?a=b HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
            assert!(request.starts_with(&start), "{request}");
            assert!(request.contains("\r\nconnection: close\r\n"), "{request}");
        }
    }

    #[tokio::test]
    async fn header_fields_can_be_read() {
        let (listener, port) = listen().await;
        let response = b"HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nContent-Length: 0\r\n\r\n".to_vec();
        tokio::spawn(serve_once(listener, response));
        let fetched = get(&format!("http://localhost:{port}"), None, LIMITS).await.unwrap();
        assert_eq!(fetched.header("etag"), Some(&b"\"v1\""[..]));
        assert_eq!(fetched.header("last-modified"), None);
    }

    #[tokio::test]
    async fn a_server_that_never_responds_times_out() {
        let (listener, port) = listen().await;
        let limits = Limits { total_ms: 20, ..LIMITS };
        let got = get(&format!("http://127.0.0.1:{port}/"), None, limits).await;
        assert!(matches!(got, Err(FetchError::Timeout { total_ms: 20 })));
        drop(listener);
    }

    #[tokio::test]
    async fn a_port_without_listener_is_unreachable() {
        let (listener, port) = listen().await;
        drop(listener);
        let got = get(&format!("http://127.0.0.1:{port}/"), None, LIMITS).await;
        assert!(matches!(got, Err(FetchError::Unreachable { .. })), "{}", outcome(got));
    }

    #[tokio::test]
    async fn https_requires_a_trusted_certificate() {
        let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let (cert, key) = tls::generate_self_signed(&["localhost"], now_s).unwrap();
        let (other, _) = tls::generate_self_signed(&["localhost"], now_s).unwrap();
        let set =
            CertificateSet::load(Some((cert.as_bytes(), key.as_bytes())), Vec::new()).unwrap();
        let config = tls::server_config(Arc::new(ServerCertificates::new(set)), true);
        check(&config, &cert, "200 {}").await;
        check(&config, &other, "Unreachable").await;

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
            assert_eq!(got, expect);
            server.await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_invalid_url_is_rejected_with_its_problem() {
        check("https://a.test/", "https without a trusted CA").await;
        check("ftp://a.test/", "must start with http:// or https://").await;
        check("/keys.json", "must start with http:// or https://").await;
        check("http://user:pass@a.test/", "contains user information").await;
        check("http://a.test:x/", "malformed host or port").await;
        check("http://a.test:/", "malformed host or port").await;
        check("http://a.test:65536/", "malformed host or port").await;
        check("http:///", "malformed").await;
        check("http://a b/", "malformed").await;
        check("", "malformed").await;

        async fn check(url: &str, expect: &str) {
            match get(url, None, LIMITS).await {
                Err(FetchError::BadUrl { problem }) => assert_eq!(problem, expect, "{url}"),
                other => panic!("{url}: {other:?}"),
            }
        }
    }
}
