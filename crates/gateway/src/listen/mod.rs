//! The clients' side: listeners, connections, request heads, and the delivery of responses.
//!
//! Life of a request: **listen** -> route -> ... -> **deliver**. Reads bytes into a
//! [`crate::message::Request`], passes it to the pipeline, and writes the response.
//!
//! Architecture invariant: no connection can block another; a panic ends only its own.

mod http1;
mod http2;
mod linger;
mod tunnel;

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::HANDSHAKE_MS_MAX;
use model::Fault;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wire::http1::{Parsed, Rejection};
use wire::stream::Stream;
use wire::tls::ALPN_H2;

use http1::Http2;

use crate::account::bump;
use crate::body::buffer::Buffer;
use crate::exchange::fault::TOO_MANY_CONNECTIONS;
use crate::message::{Peer, Request, Serves};
use crate::tasks::watch::within;
use crate::worker::Worker;
use crate::worker::compiled::Live;

/// A listener: its protocol, and the services of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) protocol: Protocol,
    pub(crate) serves: Serves,
}

/// The protocol of a listener.
#[derive(Clone, Debug)]
pub(crate) enum Protocol {
    /// `http2`: by prior knowledge, as well.
    Http { http2: bool },
    Https {
        config: Arc<rustls::ServerConfig>,
        /// Upstreams get the certificates of clients.
        forward_certificates: bool,
    },
}

impl Protocol {
    fn forwards_certificates(&self) -> bool {
        matches!(self, Self::Https { forward_certificates: true, .. })
    }
}

/// Serves one accepted connection until it ends.
pub(crate) async fn serve(
    open: OpenConnection,
    tcp: TcpStream,
    from: SocketAddr,
    Listener { protocol, serves }: Listener,
) {
    let worker = &*open.0;
    bump(&worker.tally.accepted);
    let compiled = worker.compiled();
    let secure = matches!(protocol, Protocol::Https { .. });
    let mut peer = Peer::new(from, secure, &compiled.live.trusted_proxies);
    peer.serves = serves;
    if let Err(exceeded) = admit(worker, &compiled.live, &mut peer) {
        bump(exceeded);
        drop(compiled);
        reject(tcp, &protocol).await;
        return;
    }
    drop(compiled);
    // Without it the connection works, with more latency.
    let _ = tcp.set_nodelay(true);
    let prior_knowledge = matches!(protocol, Protocol::Http { http2: true });
    let forward = protocol.forwards_certificates();
    let Some(stream) = shake_hands(worker, tcp, protocol).await else { return };
    peer.present(stream.peer_certificates(), forward);
    let peer = Rc::new(peer);
    serve_stream(open, stream, peer, prior_knowledge).await;
}

/// Serves a connection after its handshake. `prior_knowledge`: in HTTP/2, if it starts with the preface.
pub(crate) async fn serve_stream(
    open: OpenConnection,
    stream: Stream,
    peer: Rc<Peer>,
    prior_knowledge: bool,
) {
    let worker = &*open.0;
    let http2 = if stream.alpn() == Some(ALPN_H2) {
        Some(Http2 { stream, read: Buffer::default() })
    } else {
        http1::serve(worker, stream, Rc::clone(&peer), prior_knowledge).await
    };
    if let Some(Http2 { stream, read }) = http2 {
        // Boxed, so that it does not enlarge every task.
        Box::pin(http2::serve(open, stream, read, peer)).await;
    }
}

/// A request of `peer`, whose head `read` puts into it. `None`: the head is not complete.
///
/// # Errors
/// The head is not valid.
fn request_from(
    worker: &Worker,
    (peer, secure): (&Rc<Peer>, bool),
    read: impl FnOnce(&mut Request) -> Result<Parsed, Rejection>,
) -> Result<Option<Box<Request>>, Box<Fault>> {
    let mut request = worker.resources.request();
    request.is_connect = false;
    let fault = match read(&mut request) {
        Ok(Parsed::Complete) => {
            request.peer = Rc::clone(peer);
            request.secure = secure;
            let now_s = worker.resources.coarse().unix_s;
            request.forwarded = worker.forwarded_certificates.of(&request, now_s);
            return Ok(Some(request));
        }
        Ok(Parsed::Partial) => None,
        Err(Rejection { status, reason }) => Some(Fault::Malformed { status, reason }),
    };
    worker.resources.release_request(request);
    fault.map_or(Ok(None), |fault| Err(fault.into()))
}

/// The request of `peer` whose head was rejected: nothing of it may be used or logged.
fn rejected((peer, secure): (&Rc<Peer>, bool)) -> Request {
    Request { peer: Rc::clone(peer), secure, ..Request::default() }
}

/// Counts the connection as one of its client.
///
/// # Errors
/// The counter of the limit that it exceeds.
fn admit<'w>(worker: &'w Worker, live: &Live, peer: &mut Peer) -> Result<(), &'w Cell<u64>> {
    let rejected = &worker.tally.rejected_connections;
    let open = worker.connections.get();
    if open > live.connections_max {
        return Err(&rejected.connections_max);
    }
    if open > worker.descriptors.connections_max {
        return Err(&rejected.descriptors);
    }
    if !peer.trusted {
        let connection = worker.clients.connect(peer.address, live.client_connections_max);
        peer.connection = Some(connection.ok_or(&rejected.client_connections_max)?);
    }
    Ok(())
}

/// The TLS handshake, if the listener uses TLS. A failed handshake ends the connection.
async fn shake_hands(worker: &Worker, tcp: TcpStream, protocol: Protocol) -> Option<Stream> {
    let config = match protocol {
        Protocol::Http { .. } => return Some(Stream::Clear(tcp)),
        Protocol::Https { config, .. } => config,
    };
    let watch = worker.resources.watches.add();
    watch.set(worker.resources.deadline_us(HANDSHAKE_MS_MAX));
    match within(&watch, pin!(wire::tls::accept(tcp, config))).await {
        Some(Ok(stream)) => Some(stream),
        failed => {
            if let Some(Err(error)) = failed {
                log_certificate(&error);
            }
            bump(&worker.tally.handshakes_failed);
            None
        }
    }
}

/// Logs why a client's certificate is not accepted: its operator has no other way to learn that. The log counts
/// repeated lines.
fn log_certificate(error: &std::io::Error) {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    if let Some(error @ rustls::Error::InvalidCertificate(_)) = error {
        tracing::warn!(%error, "a client's certificate was rejected");
    }
}

/// Rejects a connection above the limit: in cleartext with a 503, with TLS by closing it.
async fn reject(mut tcp: TcpStream, protocol: &Protocol) {
    if matches!(protocol, Protocol::Http { .. }) {
        // Fails if the client is gone.
        let _ = tcp.try_write(TOO_MANY_CONNECTIONS);
        let _ = tcp.shutdown().await;
    }
}

/// An open connection in the worker's count.
pub(crate) struct OpenConnection(Rc<Worker>);

impl OpenConnection {
    pub(crate) fn new(worker: &Rc<Worker>) -> Self {
        worker.connections.set(worker.connections.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get().saturating_sub(1));
        self.0.notice_the_end();
    }
}
