//! The echo backend, which a gateway under test forwards to.
//!
//! It responds to every request, with any method and path, with 200 and the request's own body, like the Netty echo
//! service of WSO2's performance tests. It is fast enough not to affect the measurement: in the common case one read
//! and one write per request, no allocation, and a runtime per worker thread.
//!
//! HTTP/2 is recognised by its preface, in clear text and over TLS. A gRPC call gets its messages back as they arrive,
//! and the status 0; a WebSocket gets each message back.
//!
//! Idle connections are never closed: that decision belongs to the gateway under test.
//!
//! A `GET` of [`REQUESTS_TARGET`] is not echoed and not counted: it responds with the count of all others, by which the
//! lab checks how many requests a gateway makes of one. A `POST` to [`INTROSPECTION_TARGET`] is neither: it responds as
//! a key manager to which every token is active (RFC 7662), for scenarios with opaque tokens.
//!
//! Architecture invariant: a response depends only on its request; the only state is a count of requests.

pub mod frame;
mod http1;
mod http2;
pub mod limits;
pub mod machine;
pub mod websocket;

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::Method;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wire::h2::{PrefaceMatch, match_preface};
use wire::http1::RequestHead;
use wire::stream::Stream;
use wire::tls;

/// The target that responds with the number of requests so far, in decimal.
pub const REQUESTS_TARGET: &str = "/.penstock/requests";
/// The target that introspects tokens.
pub const INTROSPECTION_TARGET: &str = "/.penstock/introspect";

/// Options of the echo backend.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port 0 picks a free one.
    pub listen: SocketAddr,
    /// Delay before each response, in milliseconds; does not block other connections. At most
    /// [`limits::ECHO_DELAY_MS_MAX`].
    pub delay_ms: u64,
    /// Serves TLS; HTTP/2 if its ALPN offers `h2`.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Number of threads; default: the number of available CPUs.
    pub workers: Option<usize>,
}

/// A running echo backend with its own threads. Closes its connections on drop.
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
    counts: Counts,
    /// Dropping it stops the workers.
    running: Option<watch::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Echo {
    /// Starts listening; returns when connections are accepted.
    ///
    /// # Errors
    /// `InvalidInput`: delay or number of workers out of range. Otherwise the address is in use, or a thread
    /// cannot be started.
    pub fn start(options: Options) -> io::Result<Self> {
        let workers = options.workers.unwrap_or_else(machine::cpus);
        if workers == 0 || workers > limits::WORKERS_MAX {
            return Err(invalid(format!(
                "the number of workers must be 1 to {}",
                limits::WORKERS_MAX
            )));
        }
        if options.delay_ms > limits::ECHO_DELAY_MS_MAX {
            return Err(invalid(format!(
                "the delay must be at most {} ms",
                limits::ECHO_DELAY_MS_MAX
            )));
        }
        machine::raise_open_files();
        let listeners = listen(options.listen, workers)?;
        let addr = local_addr(listeners.first())?;
        let (running, stopped) = watch::channel(());
        let counts = Counts::new(listeners.len());
        let mut echo = Self { addr, counts, running: Some(running), threads: Vec::new() };
        for (index, listener) in listeners.into_iter().enumerate() {
            let worker = Worker {
                delay: Duration::from_millis(options.delay_ms),
                tls: options.tls.clone(),
                counts: echo.counts.of(index),
            };
            echo.threads.push(worker.spawn(index, listener, stopped.clone())?);
        }
        Ok(echo)
    }

    /// The address it listens on, with the actual port.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Requests served with 200 so far; counted before the response is written.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counts.sum()
    }

    /// Closes all connections and ends the threads.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.running.take();
        for thread in self.threads.drain(..) {
            // A panic has been printed to stderr already.
            let _ = thread.join();
        }
    }
}

/// The context of one thread.
struct Worker {
    delay: Duration,
    tls: Option<Arc<rustls::ServerConfig>>,
    counts: Counts,
}

/// Requests served with 200, counted by each worker for itself.
#[derive(Clone, Debug)]
struct Counts {
    all: Arc<[Arc<AtomicU64>]>,
    own: Arc<AtomicU64>,
}

impl Counts {
    fn new(workers: usize) -> Self {
        let all = (0..workers).map(|_| Arc::default()).collect();
        Self { all, own: Arc::default() }
    }

    /// The same, as seen by a worker.
    fn of(&self, worker: usize) -> Self {
        let own = self.all.get(worker).unwrap_or(&self.own);
        Self { all: Arc::clone(&self.all), own: Arc::clone(own) }
    }

    fn add(&self, requests: u64) {
        self.own.fetch_add(requests, Ordering::Relaxed);
    }

    fn sum(&self) -> u64 {
        self.all.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Echo,
    Count,
    Introspection,
}

impl Asked {
    /// `bytes`: those of the head.
    fn of(head: &RequestHead, bytes: &[u8]) -> Self {
        let target = head.target(bytes);
        let is = |method, wanted: &str| head.method() == method && target == wanted.as_bytes();
        if is(Method::Get, REQUESTS_TARGET) {
            Self::Count
        } else if is(Method::Post, INTROSPECTION_TARGET) {
            Self::Introspection
        } else {
            Self::Echo
        }
    }

    /// The response's content type, if it is not the request's.
    fn own_content_type(self) -> Option<&'static [u8]> {
        (self == Self::Introspection).then_some(&b"application/json"[..])
    }

    /// The response's body, if it is not the request's.
    fn own_body(self, counts: &Counts) -> Option<Cow<'static, str>> {
        match self {
            Self::Echo => None,
            Self::Count => Some(counts.sum().to_string().into()),
            Self::Introspection => Some(r#"{"active":true,"client_id":"lab"}"#.into()),
        }
    }
}

impl Worker {
    fn spawn(
        self,
        index: usize,
        listener: std::net::TcpListener,
        mut stopped: watch::Receiver<()>,
    ) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(async { TcpListener::from_std(listener) })?;
        thread::Builder::new().name(format!("echo-{index}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = Arc::new(self).accept(listener) => {}
                    // An error means that the sender was dropped.
                    _ = stopped.changed() => {}
                }
            });
        })
    }

    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((tcp, _)) => {
                    // The reference count is one for the thread plus one per open connection.
                    if Arc::strong_count(&self) <= limits::CLIENT_CONNECTIONS_MAX {
                        tokio::spawn(Arc::clone(&self).serve(tcp));
                    }
                }
                // Most likely out of file descriptors; connections that end will free some.
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            }
        }
    }

    async fn serve(self: Arc<Self>, tcp: TcpStream) {
        // Failure only affects latency.
        let _ = tcp.set_nodelay(true);
        let mut stream = match &self.tls {
            None => Stream::Clear(tcp),
            Some(config) => {
                let wait = Duration::from_millis(u64::from(limits::HANDSHAKE_MS_MAX));
                let handshake = tls::accept(tcp, Arc::clone(config));
                match tokio::time::timeout(wait, handshake).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        let mut input = Vec::with_capacity(INPUT_BYTES);
        // Connection errors are not reported: the client sees them too.
        let _ = match begins_http2(&mut stream, &mut input).await {
            Ok(true) => http2::Connection::new(stream, input, self.delay, &self.counts).run().await,
            Ok(false) => {
                http1::Connection::new(stream, input, self.delay, &self.counts).run().await
            }
            Err(error) => Err(error),
        };
    }
}

/// Initial size of a connection's read buffer; it grows for longer bodies.
const INPUT_BYTES: usize = 8 * 1024;

/// Reads the first bytes of a connection, as many as are needed to know its protocol.
async fn begins_http2(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let is_over = stream.read_buf(input).await? == 0;
        match match_preface(input) {
            PrefaceMatch::Yes => return Ok(true),
            PrefaceMatch::Partial if !is_over => {}
            PrefaceMatch::Partial | PrefaceMatch::No => return Ok(false),
        }
    }
}

/// Delay before retrying after `accept` failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);

/// One listener per worker on the same port; the kernel distributes connections.
fn listen(addr: SocketAddr, workers: usize) -> io::Result<Vec<std::net::TcpListener>> {
    if workers > 1 && addr.port() != 0 {
        // SO_REUSEPORT would silently share a port with another process.
        drop(bind(addr, false)?);
    }
    let first = bind(addr, workers > 1)?;
    let addr = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..workers {
        listeners.push(bind(addr, true)?);
    }
    Ok(listeners)
}

fn bind(addr: SocketAddr, share: bool) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(limits::ACCEPT_BACKLOG)?;
    Ok(socket.into())
}

fn local_addr(listener: Option<&std::net::TcpListener>) -> io::Result<SocketAddr> {
    listener.ok_or_else(|| invalid("no workers".to_owned()))?.local_addr()
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}
