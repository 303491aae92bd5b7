//! The admin port: `/healthz`, `/readyz`, `/metrics`, `/diagnostics`. It has a thread of its own, so that
//! neither requests nor scrapes wait for each other, except while a worker takes a snapshot of its counters.

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
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;
use tokio::time::timeout;
use wire::http1::{Parsed, RequestHead, write};

use crate::StartError;
use crate::account::{WorkerFigures, expose};
use crate::runner::Command;

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

/// What `/readyz` reports.
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
    let (admin, permits) = (Rc::new(admin), Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX)));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        match accepted {
            Ok((tcp, _)) => {
                let admin = Rc::clone(&admin);
                tokio::task::spawn_local(async move {
                    // Fails if the client is gone.
                    let _ = serve(tcp, &admin).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
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
async fn serve(mut tcp: TcpStream, admin: &Admin) -> io::Result<()> {
    let mut head = RequestHead::default();
    let mut bytes = Vec::with_capacity(1024);
    let patience = Duration::from_millis(u64::from(HEAD_MS_MAX));
    loop {
        match head.parse(&bytes) {
            Ok(Parsed::Complete) => {
                let page = admin.page(head.method(), head.path(&bytes)).await;
                let keep = head.keep_alive() && head.framing() == wire::http1::BodyFraming::None;
                let response = render(&page, head.method() == Method::Head, keep);
                timeout(patience, tcp.write_all(&response)).await??;
                bytes.drain(..head.len());
                if !keep {
                    return tcp.shutdown().await;
                }
            }
            Ok(Parsed::Partial) => {
                if timeout(patience, tcp.read_buf(&mut bytes)).await?? == 0 {
                    return Ok(());
                }
            }
            Err(rejection) => {
                let page = Page::text(rejection.status, rejection.reason);
                timeout(patience, tcp.write_all(&render(&page, false, false))).await??;
                return tcp.shutdown().await;
            }
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
