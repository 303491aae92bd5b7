//! One type for every byte stream the gateway holds: clear or TLS, towards a client or a backend.
//!
//! Life of a request: **listen** reads its head from one, **forward** writes it to another. What the
//! stream is made of is settled once, at accept or connect; afterwards nobody asks.
//!
//! Architecture invariant: no buffer of its own, no timer, no policy. Deadlines belong to the
//! worker's sweep, buffers to the worker.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection's byte stream. The clear arm is the socket itself, so that it costs one branch.
#[derive(Debug)]
pub enum Stream {
    Clear(TcpStream),
    /// Boxed: a TLS state is about 1 KiB, and most of what moves streams about is in clear.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// The socket below, for options and `writable`/`readable` waits. Reading or writing it
    /// directly when [`Self::is_secure`] breaks the TLS session.
    #[inline]
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Clear(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// The socket, when its bytes are the stream's own.
    #[inline]
    pub fn clear(&self) -> Option<&TcpStream> {
        match self {
            Self::Clear(tcp) => Some(tcp),
            Self::Tls(_) => None,
        }
    }

    #[inline]
    pub fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The protocol agreed in the handshake (`h2`, `http/1.1`); none in clear or when the peer
    /// offered none. Source: RFC 7301.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Clear(_) => None,
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol(),
        }
    }

    /// The other end's address.
    ///
    /// # Errors
    /// The kernel's, when the peer is gone already.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.tcp().peer_addr()
    }

    /// Whether a connection that should be idle is of no more use: the peer closed it, it broke,
    /// or bytes came that nobody asked for. To be asked before a pooled connection is used again.
    ///
    /// Costs no system call while nothing arrived: tokio remembers that the last read left the
    /// socket empty, and answers from memory until the poller reports otherwise. The answer is
    /// therefore as fresh as the poller's last turn; a close that crosses the request on the wire
    /// is met by the retry rule (DESIGN.md section 3), not here.
    ///
    /// An unexpected byte is consumed: a stale stream is only good for closing. Over TLS the
    /// messages that carry no data (session tickets, key updates) are taken in and are not stale.
    pub fn is_stale(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        match self {
            Self::Clear(tcp) => match tcp.try_read(&mut byte) {
                Ok(_) => true,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            },
            Self::Tls(tls) => {
                // Nobody waits on an idle connection, so there is nobody to wake; the next real
                // read registers its own waker over this one.
                let mut context = Context::from_waker(Waker::noop());
                let mut buffer = ReadBuf::new(&mut byte);
                Pin::new(tls.as_mut()).poll_read(&mut context, &mut buffer).is_ready()
            }
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write(cx, buf),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write_vectored(cx, bufs),
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Clear(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}
