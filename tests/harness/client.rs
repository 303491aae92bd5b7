//! A client that sends and receives exact bytes.

use std::net::{IpAddr, SocketAddr};

use base::Method;
use rustls::ClientConfig;
use std::sync::Arc;

use crate::message::{Incoming, Response};
use crate::socket::Socket;

/// One connection to the gateway.
#[derive(Debug)]
pub struct Client(Incoming);

impl Client {
    /// In clear.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self(Incoming::new(Socket::connect(address)))
    }

    /// In clear, from another address of this machine.
    #[must_use]
    pub fn connect_from(source: IpAddr, address: SocketAddr) -> Self {
        Self(Incoming::new(Socket::connect_from(source, address)))
    }

    /// The same; the system keeps about so many bytes that the client has not read.
    #[must_use]
    pub fn connect_with_buffer(source: IpAddr, address: SocketAddr, bytes: usize) -> Self {
        Self(Incoming::new(Socket::connect_with_buffer(source, address, bytes)))
    }

    /// Over TLS, expecting the certificate of `host`.
    #[must_use]
    pub fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>, host: &str) -> Self {
        Self(Incoming::new(Socket::connect(address).tls_client(config, host)))
    }

    /// Whether a handshake with the server succeeds under `config`.
    #[must_use]
    pub fn would_trust(address: SocketAddr, config: Arc<ClientConfig>, host: &str) -> bool {
        let mut socket = Socket::connect(address).tls_client(config, host);
        socket.handshake_succeeds()
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.socket.write_all(bytes.as_ref()).expect("the gateway reads");
        self
    }

    /// Sends `bytes` as far as the gateway reads them.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The gateway may have closed already.
        let _ = self.0.socket.write_all(bytes.as_ref());
        self
    }

    /// Reads one response to a request other than HEAD. An interim one counts.
    pub fn read(&mut self) -> Response {
        self.0.response(Method::Get)
    }

    /// The same; `None` if the connection ends instead.
    pub fn try_read(&mut self) -> Option<Response> {
        let begins = !self.0.unread.is_empty() || self.0.more();
        begins.then(|| self.read())
    }

    /// Reads one response to HEAD.
    pub fn read_for_head(&mut self) -> Response {
        self.0.response(Method::Head)
    }

    /// Reads a response's head and leaves its body unread.
    pub fn read_head(&mut self) -> Response {
        let (status, head, _) = self.0.response_head(Method::Get);
        Response { status, head, body: Vec::new(), trailers: String::new() }
    }

    /// Reads `count` bytes as they are.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.0.exactly(count);
        assert_eq!(bytes.len(), count, "the gateway closed after {bytes:?}");
        bytes
    }

    /// Reads `bytes` of a body and drops them as they come.
    pub fn skip(&mut self, bytes: u64) {
        self.0.skip(bytes);
    }

    /// Everything until the gateway closes.
    pub fn read_until_close(&mut self) -> String {
        String::from_utf8_lossy(&self.0.rest()).into_owned()
    }

    /// Whether the connection ended so that the client can detect a truncation.
    #[must_use]
    pub fn was_truncated(&self) -> bool {
        self.0.socket.is_broken()
    }

    /// The gateway closes without sending another byte.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert_eq!(self.read_until_close(), "", "expected the end of the connection");
    }

    /// Closes the sending side.
    pub fn half_close(&mut self) -> &mut Self {
        self.0.socket.half_close();
        self
    }

    /// Whether a response has begun to arrive.
    pub fn has_response(&mut self) -> bool {
        !self.0.unread.is_empty() || self.0.socket.has_bytes()
    }

    /// Closes with a reset.
    pub fn reset(self) {
        self.0.socket.reset();
    }

    /// A request without a body, and its response: `fetch("GET /a", "")`. `fields` are whole lines.
    pub fn fetch(&mut self, request: &str, fields: &str) -> Response {
        self.send(format!("{request} HTTP/1.1\r\nHost: gateway\r\n{fields}\r\n"));
        if request.starts_with("HEAD ") { self.read_for_head() } else { self.read() }
    }

    /// A request with a body of known length, and its response.
    pub fn fetch_with_body(&mut self, request: &str, fields: &str, body: &str) -> Response {
        let fields = format!("{fields}Content-Length: {}\r\n\r\n{body}", body.len());
        self.send(format!("{request} HTTP/1.1\r\nHost: gateway\r\n{fields}"));
        self.read()
    }

    /// The protocol selected by ALPN.
    #[must_use]
    pub fn alpn(&self) -> Option<String> {
        self.0.socket.alpn()
    }
}
