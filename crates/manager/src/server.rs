//! The listener of the control plane: HTTP/1.1 over TLS, by hyper, on one thread.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::addresses;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::attempts::network;
use crate::cors::Cors;
use crate::manager::Manager;
use crate::peer::Peer;
use crate::reply::{Refusal, Reply};
use crate::stall::Stall;
use crate::{limits, revocations, routes};

/// Serves until `stop` is true, then lets requests in progress finish.
pub(crate) async fn serve(
    manager: Arc<Manager>,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    mut stop: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    let peers = Arc::new(Peers::default());
    let watched = Arc::clone(&manager);
    let revisions = tokio::spawn(async move {
        let poll = Duration::from_millis(limits::REVISION_POLL_MS);
        revocations::watch(&watched.store, &watched.revision, poll).await;
    });
    let mut purge = tokio::time::interval(Duration::from_secs(limits::PURGE_S));
    loop {
        let accepted = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            _ = purge.tick() => {
                let manager = Arc::clone(&manager);
                tokio::spawn(async move { manager.purge().await });
                continue;
            }
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((tcp, peer, slot)) = accepted else { continue };
        let is_trusted = addresses::is_in(&manager.trusted_proxies, peer.ip().to_canonical());
        let counted = (!is_trusted).then(|| Peers::admit(&peers, network(peer.ip())));
        if matches!(counted, Some(None)) {
            continue;
        }
        let (manager, tls, stop) = (Arc::clone(&manager), Arc::clone(&tls), stop.clone());
        tokio::spawn(async move {
            connection(manager, tcp, peer, tls, stop).await;
            drop((counted, slot));
        });
    }
    drop(listener);
    revisions.abort();
    // Requests that wait for a revocation get an empty response.
    manager.revision.send_replace(u64::MAX);
    let most = u32::try_from(limits::CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let all_closed = slots.acquire_many(most);
    if timeout(Duration::from_millis(limits::DRAIN_MS_MAX), all_closed).await.is_err() {
        tracing::warn!("connections of the control plane were cut off");
    }
    manager.store.close().await;
}

type Accepted = (TcpStream, SocketAddr, tokio::sync::OwnedSemaphorePermit);

/// `None`: the connection failed, or the process has too many open files.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> Option<Accepted> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((tcp, peer)) => Some((tcp, peer, slot)),
        Err(error) => {
            tracing::warn!(%error, "the control plane cannot accept a connection");
            // Otherwise, without open files, this would loop without a pause.
            tokio::time::sleep(Duration::from_millis(100)).await;
            None
        }
    }
}

async fn connection(
    manager: Arc<Manager>,
    tcp: TcpStream,
    peer: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
    mut stop: watch::Receiver<bool>,
) {
    let limit = Duration::from_millis(u64::from(base::limits::HANDSHAKE_MS_MAX));
    let handshake = timeout(limit, wire::tls::accept(tcp, tls)).await;
    let Ok(Ok(stream)) = handshake else {
        tracing::debug!(%peer, "the TLS handshake failed");
        return;
    };
    let certificates = stream.peer_certificates().to_vec();
    let sender = Arc::new(Peer { address: peer.ip(), certificates });
    let service = service_fn(move |request| {
        let (manager, sender) = (Arc::clone(&manager), Arc::clone(&sender));
        async move { Ok::<_, Infallible>(respond(&manager, request, &sender).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits::HEAD_MS_MAX))
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEADER_FIELDS_MAX);
    let stream = Stall::new(stream, Duration::from_millis(limits::WRITE_MS_MAX));
    let serving = http.serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let lifetime = tokio::time::sleep(Duration::from_millis(limits::CONNECTION_MS_MAX));
    tokio::select! {
        ended = serving.as_mut() => return log_end(ended, peer),
        () = lifetime => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    serving.as_mut().graceful_shutdown();
    log_end(serving.await, peer);
}

fn log_end(ended: hyper::Result<()>, peer: SocketAddr) {
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "connection to the control plane ended");
    }
}

async fn respond(manager: &Manager, request: Request<Incoming>, peer: &Peer) -> Reply {
    let limit = Duration::from_millis(limits::REQUEST_MS_MAX);
    let client = peer.client(request.headers(), &manager.trusted_proxies);
    let peer = client.as_ref().unwrap_or(peer);
    let cors = Cors::of(&request, &manager.cors_origins);
    let mut reply = match cors.preflight(&request) {
        Some(reply) => reply,
        None => {
            let answered = timeout(limit, routes::answer(manager, request, peer)).await;
            answered.unwrap_or(Err(Refusal::Unavailable)).unwrap_or_else(Refusal::reply)
        }
    };
    cors.apply(&mut reply);
    reply
}

/// Open connections by address.
#[derive(Default)]
struct Peers(Mutex<HashMap<IpAddr, u32>>);

/// One connection, counted until it is dropped.
struct Counted {
    peers: Arc<Peers>,
    address: IpAddr,
}

impl Peers {
    /// `None`: the address has too many connections.
    fn admit(peers: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let mut open = peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= limits::ADDRESS_CONNECTIONS_MAX {
            return None;
        }
        *count = count.saturating_add(1);
        Some(Counted { peers: Arc::clone(peers), address })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut open = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}
