//! One type for all byte streams: cleartext or TLS, to clients and upstreams.
//!
//! Life of a request: **listen** reads its head from one, **forward** writes it to another.
//!
//! Architecture invariant: no buffer, no timer, no policy. Buffers and deadlines belong to the worker.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection's byte stream. Cleartext is the socket itself and costs one branch.
#[derive(Debug)]
pub enum Stream {
    Clear(TcpStream),
    /// Boxed, because the TLS state is about 1 KiB.
    Tls(Box<TlsStream<TcpStream>>),
    /// Memory instead of a socket, for tests of the layers above. Release builds do not contain it.
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn Simulated>),
}

/// The operations of a simulated connection besides reading and writing; see the methods of [`Stream`].
#[cfg(feature = "simulation")]
pub trait Simulated: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Sync + Unpin {
    fn is_stale(&mut self) -> bool;
    fn reset_when_dropped(&self);
}

impl Stream {
    /// The socket of a cleartext stream.
    #[inline]
    pub fn clear(&self) -> Option<&TcpStream> {
        match self {
            Self::Clear(tcp) => Some(tcp),
            Self::Tls(_) => None,
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// The socket, in clear or below TLS.
    pub fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Clear(tcp) => Some(tcp),
            Self::Tls(tls) => Some(tls.get_ref().0),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    #[inline]
    pub fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The protocol negotiated in the handshake (`h2`, `http/1.1`); `None` in cleartext, or if the peer
    /// offered none. Source: RFC 7301.
    pub fn alpn(&self) -> Option<&[u8]> {
        match self {
            Self::Clear(_) => None,
            Self::Tls(tls) => tls.get_ref().1.alpn_protocol(),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// The verified certificate that the peer presented, with those of its issuers after it.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Self::Clear(_) => &[],
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => &[],
            Self::Tls(tls) => tls.get_ref().1.peer_certificates().unwrap_or_default(),
        }
    }

    /// Ready if a read would return bytes, the end or an error. A TLS record may turn out to contain no data for the
    /// reader.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            // Asking the socket's state first costs less than registering in vain.
            Self::Clear(tcp) if tcp.try_io(Interest::READABLE, || Ok(())).is_ok() => {
                Poll::Ready(())
            }
            Self::Clear(tcp) => tcp.poll_read_ready(cx).map(drop),
            // Data that was already decrypted is no longer in the socket.
            Self::Tls(tls) if !tls.get_ref().1.wants_read() => Poll::Ready(()),
            Self::Tls(tls) => tls.get_ref().0.poll_read_ready(cx).map(drop),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Poll::Ready(()),
        }
    }

    /// Closes with a reset when dropped, so that the peer cannot take the end of the connection for the end of a
    /// message, and so that no local port waits for the peer to close its side.
    pub fn reset_when_dropped(&self) {
        #[cfg(feature = "simulation")]
        if let Self::Simulated(simulated) = self {
            return simulated.reset_when_dropped();
        }
        if let Some(tcp) = self.socket() {
            // Fails only on a connection that has failed.
            let _ = tcp.set_zero_linger();
        }
    }

    /// Whether an idle connection can no longer be used: the peer closed it, it failed, or unexpected bytes
    /// arrived. Check this before reusing a pooled connection.
    ///
    /// Costs no system call if nothing arrived: tokio remembers that the last read emptied the socket, until
    /// the poller reports otherwise. So the result is as recent as the last poll; a close at the moment
    /// when the request is sent is handled by the retry rule.
    ///
    /// An unexpected byte is consumed: a stale stream can only be closed. TLS messages without data (session
    /// tickets, key updates) are processed, and do not make the stream stale.
    pub fn is_stale(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        match self {
            Self::Clear(tcp) => match tcp.try_read(&mut byte) {
                Ok(_) => true,
                Err(error) => error.kind() != io::ErrorKind::WouldBlock,
            },
            Self::Tls(tls) => {
                // No task waits for an idle connection. The next read registers its own waker.
                let mut context = Context::from_waker(Waker::noop());
                let mut buffer = ReadBuf::new(&mut byte);
                Pin::new(tls.as_mut()).poll_read(&mut context, &mut buffer).is_ready()
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => simulated.is_stale(),
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
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => Pin::new(simulated.as_mut()).poll_read(cx, buf),
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
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => Pin::new(simulated.as_mut()).poll_write(cx, buf),
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
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => {
                Pin::new(simulated.as_mut()).poll_write_vectored(cx, bufs)
            }
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Clear(tcp) => tcp.is_write_vectored(),
            Self::Tls(tls) => tls.is_write_vectored(),
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => simulated.is_write_vectored(),
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => Pin::new(simulated.as_mut()).poll_flush(cx),
        }
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Clear(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(simulated) => Pin::new(simulated.as_mut()).poll_shutdown(cx),
        }
    }
}
