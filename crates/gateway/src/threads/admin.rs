//! The admin port: `/healthz`, `/readyz`, `/metrics`, `/diagnostics`. It has a thread of its own, so that
//! neither requests nor scrapes wait for each other, except while a worker takes a snapshot of its counters.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::limits::{ADMIN_CONNECTIONS_MAX, HEAD_MS_MAX, SCRAPE_MS_MAX};
use base::{Method, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, LocalSet};
use tokio::time::timeout;
use wire::http1::{Parsed, Rejection, RequestHead, write};

use super::bind::StartError;
use super::runner::Command;
use crate::account::{WorkerFigures, expose};

/// Contents of the admin port that other crates provide.
pub struct AdminPages {
    /// `/diagnostics`: JSON.
    pub diagnostics: Box<dyn Fn() -> String + Send + Sync>,
    /// More families for `/metrics`, in Prometheus' text format.
    pub metrics: Box<dyn Fn() -> String + Send + Sync>,
}

impl fmt::Debug for AdminPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminPages")
    }
}

/// The running admin port. Dropping it closes the port.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state that `/readyz` reports.
pub(crate) struct Readiness {
    /// Cleared on SIGTERM.
    pub(crate) serving: Arc<AtomicBool>,
    /// For each worker: it accepts no more connections.
    pub(crate) full: Vec<Arc<AtomicBool>>,
}

impl Readiness {
    fn page(&self) -> Page {
        if !self.serving.load(Ordering::Acquire) {
            Page::text(503, "draining\n")
        } else if self.full.iter().any(|full| full.load(Ordering::Relaxed)) {
            Page::text(503, "too many connections\n")
        } else {
            Page::text(200, "ready\n")
        }
    }
}

struct Admin {
    workers: Vec<UnboundedSender<Command>>,
    readiness: Readiness,
    pages: AdminPages,
    build: &'static str,
    clock: SystemClock,
}

/// Opens the port.
///
/// # Errors
/// The address is in use, or not available to this process.
pub(crate) fn start(
    address: SocketAddr,
    workers: Vec<UnboundedSender<Command>>,
    readiness: Readiness,
    pages: AdminPages,
    build: &'static str,
    clock: SystemClock,
) -> Result<Running, StartError> {
    let setting = "[admin] listen";
    let failed = |source| StartError::listen(address, setting, source);
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Worker)?;
    let (stop, stopped) = oneshot::channel();
    let admin = Admin { workers, readiness, pages, build, clock };
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || LocalSet::new().block_on(&runtime, run(listener, admin, stopped)))
        .map_err(StartError::Worker)?;
    Ok(Running { address: bound, stop: Some(stop), thread: Some(thread) })
}

async fn run(listener: std::net::TcpListener, admin: Admin, mut stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let (admin, mut open) = (Rc::new(admin), Open::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if open.may_grow() => accepted,
            () = open.changed.notified() => continue,
            _ = &mut stopped => return,
        };
        match accepted {
            Ok((tcp, _)) => {
                open.make_room();
                let waiting = Waiting {
                    since_us: Rc::new(Cell::new(Some(admin.clock.now_us()))),
                    changed: Rc::clone(&open.changed),
                };
                let (admin, since_us) = (Rc::clone(&admin), Rc::clone(&waiting.since_us));
                let task = tokio::task::spawn_local(async move {
                    // Fails if the client is gone.
                    let _ = serve(tcp, &admin, &waiting).await;
                });
                open.connections.push((task.abort_handle(), since_us));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Since when a connection waits for its client, in microseconds on the admin port's clock; `None`: its page is being
/// made.
type SinceUs = Rc<Cell<Option<u64>>>;

/// The open connections, at most `ADMIN_CONNECTIONS_MAX`. Connections of slow clients give way to new ones.
#[derive(Default)]
struct Open {
    connections: Vec<(AbortHandle, SinceUs)>,
    /// Notified when one may give way.
    changed: Rc<Notify>,
}

impl Open {
    /// Whether one more connection may be accepted.
    fn may_grow(&mut self) -> bool {
        self.connections.retain(|(task, _)| !task.is_finished());
        self.connections.len() < ADMIN_CONNECTIONS_MAX || self.slowest().is_some()
    }

    /// Closes the one that has waited for the longest time, if there are too many.
    fn make_room(&mut self) {
        if self.connections.len() >= ADMIN_CONNECTIONS_MAX
            && let Some(slowest) = self.slowest()
        {
            self.connections.swap_remove(slowest).0.abort();
        }
    }

    fn slowest(&self) -> Option<usize> {
        let since_us = self.connections.iter().map(|(_, since_us)| since_us.get()).enumerate();
        let waiting = since_us.filter_map(|(at, since_us)| Some((since_us?, at)));
        waiting.min().map(|(_, at)| at)
    }
}

/// One connection's.
struct Waiting {
    since_us: SinceUs,
    changed: Rc<Notify>,
}

impl Waiting {
    fn begin(&self, now_us: u64) {
        self.since_us.set(Some(now_us));
        self.changed.notify_one();
    }

    fn end(&self) {
        self.since_us.set(None);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.begin(0);
    }
}

/// A response of the admin port.
struct Page {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl Page {
    fn text(status: u16, body: &str) -> Self {
        Self { status, content_type: "text/plain; charset=UTF-8", body: body.to_owned() }
    }
}

/// Serves one connection. Request bodies are not read: a request with a body closes the connection.
async fn serve(mut tcp: TcpStream, admin: &Admin, waiting: &Waiting) -> io::Result<()> {
    let mut head = RequestHead::default();
    let mut bytes = Vec::with_capacity(1024);
    let patience = Duration::from_millis(u64::from(HEAD_MS_MAX));
    loop {
        match timeout(patience, read_head(&mut tcp, &mut head, &mut bytes)).await?? {
            Ok(true) => {
                waiting.end();
                let page = admin.page(head.method(), head.path(&bytes)).await;
                waiting.begin(admin.clock.now_us());
                let keep = head.keep_alive() && head.framing() == wire::http1::BodyFraming::None;
                let response = render(&page, head.method() == Method::Head, keep);
                timeout(patience, tcp.write_all(&response)).await??;
                bytes.drain(..head.len());
                if !keep {
                    return tcp.shutdown().await;
                }
            }
            Ok(false) => return Ok(()),
            Err(rejection) => {
                let page = Page::text(rejection.status, rejection.reason);
                timeout(patience, tcp.write_all(&render(&page, false, false))).await??;
                return tcp.shutdown().await;
            }
        }
    }
}

/// Reads a whole head; false at the end of the connection.
async fn read_head(
    tcp: &mut TcpStream,
    head: &mut RequestHead,
    bytes: &mut Vec<u8>,
) -> io::Result<Result<bool, Rejection>> {
    loop {
        match head.parse(bytes) {
            Ok(Parsed::Complete) => return Ok(Ok(true)),
            Ok(Parsed::Partial) if tcp.read_buf(bytes).await? == 0 => return Ok(Ok(false)),
            Ok(Parsed::Partial) => {}
            Err(rejection) => return Ok(Err(rejection)),
        }
    }
}

fn render(page: &Page, head_only: bool, keep: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.body.len() + 256);
    write::status_line(&mut out, page.status, write::reason(page.status).as_bytes());
    write::field(&mut out, b"Content-Type", page.content_type.as_bytes());
    write::content_length(&mut out, page.body.len() as u64);
    if page.status == 405 {
        write::field(&mut out, b"Allow", b"GET, HEAD");
    }
    if !keep {
        write::field(&mut out, b"Connection", b"close");
    }
    write::end(&mut out);
    if !head_only {
        out.extend_from_slice(page.body.as_bytes());
    }
    out
}

impl Admin {
    async fn page(&self, method: Method, path: &[u8]) -> Page {
        if !matches!(method, Method::Get | Method::Head) {
            return Page::text(405, "use GET or HEAD\n");
        }
        match path {
            b"/healthz" => Page::text(200, "ok\n"),
            b"/readyz" => self.readiness.page(),
            b"/diagnostics" => {
                let body = (self.pages.diagnostics)();
                Page { status: 200, content_type: "application/json; charset=UTF-8", body }
            }
            b"/metrics" => {
                let figures = self.scrape().await;
                let more = (self.pages.metrics)();
                let uptime_s = self.clock.now_us() / 1_000_000;
                let body = expose(&figures, self.build, uptime_s, &more);
                Page { status: 200, content_type: "text/plain; version=0.0.4; charset=UTF-8", body }
            }
            _ => Page::text(404, "not found; pages: /healthz /readyz /metrics /diagnostics\n"),
        }
    }

    /// A snapshot of every worker's counters, without workers that do not respond in time.
    async fn scrape(&self) -> Vec<WorkerFigures> {
        let request = |worker: &UnboundedSender<Command>| {
            let (reply, figures) = oneshot::channel();
            worker.send(Command::Scrape(reply)).ok().map(|()| figures)
        };
        let pending: Vec<_> = self.workers.iter().filter_map(request).collect();
        let patience = Duration::from_millis(u64::from(SCRAPE_MS_MAX));
        let mut all = Vec::with_capacity(pending.len());
        for figures in pending {
            if let Ok(Ok(figures)) = timeout(patience, figures).await {
                all.push(figures);
            }
        }
        all
    }
}
