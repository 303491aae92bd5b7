//! Worker threads: each has its own runtime and listeners, and receives commands.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use base::SystemClock;
use base::limits::{APPLY_MS_MAX, SWEEP_MS, WORKERS_MAX};
use model::Settings;
use nix::sys::resource::{UsageWho, getrusage};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};

use crate::account::WorkerFigures;
use crate::listen::{self, Listener, OpenConnection};
use crate::message::Serves;
use crate::worker::compiled::Compiled;
use crate::worker::{Parts, Worker};

/// A command to a worker.
pub(crate) enum Command {
    /// Serve this from the next request on. The sender is notified when that is in effect.
    Apply(Compiled, std::sync::mpsc::Sender<()>),
    /// Accept connections here as well, until [`Command::Close`] names the same.
    Open(Listener, std::net::TcpListener),
    /// Serve the accept queue and close the listener. The sender is notified when that is in effect.
    Close(Serves, std::sync::mpsc::Sender<()>),
    /// Resume the requests that wait for the key set of this issuer.
    KeySet(String),
    Scrape(oneshot::Sender<WorkerFigures>),
    /// Accept the queued connections, then no more; end with the last connection.
    Drain,
    /// End now, with requests in progress.
    Stop,
}

pub(crate) type Commands = UnboundedSender<Command>;

/// A running worker.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) commands: Commands,
    /// Returns the number of requests and tunnels that were cut off.
    pub(crate) thread: JoinHandle<usize>,
    /// Set while it accepts no more connections.
    pub(crate) full: Arc<AtomicBool>,
    /// Receives nothing; disconnected when the worker has ended.
    pub(crate) ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

/// The initial state of a worker.
pub(crate) struct Start {
    pub(crate) clock: SystemClock,
    pub(crate) parts: Parts,
    pub(crate) full: Arc<AtomicBool>,
    pub(crate) listeners: Vec<(std::net::TcpListener, Listener)>,
}

/// Starts a worker's thread.
///
/// # Errors
/// The system provides no thread or no event queue.
pub(crate) fn start(start: Start) -> io::Result<Running> {
    let (commands, receiver) = unbounded_channel();
    let (report, made) = std::sync::mpsc::channel();
    let (alive, ended) = std::sync::mpsc::channel();
    let name = format!("worker-{}", start.parts.number);
    let full = Arc::clone(&start.full);
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        let _alive: std::sync::mpsc::Sender<()> = alive;
        // Created on the thread, because its tasks are not `Send`.
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(run(start, receiver))
            }
            Err(error) => {
                let _ = report.send(Err(error));
                0
            }
        }
    })?;
    made.recv().unwrap_or_else(|_| Err(io::Error::other("the worker ended during startup")))?;
    Ok(Running { commands, thread, full, ended: Mutex::new(ended) })
}

/// Waits until so many workers have reported, or have ended. Returns whether that was in time.
pub(crate) fn all_done(done: &std::sync::mpsc::Receiver<()>, workers: usize) -> bool {
    use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
    let longest = Duration::from_millis(u64::from(APPLY_MS_MAX));
    for _ in 0..workers {
        match done.recv_timeout(longest) {
            Ok(()) => {}
            Err(Disconnected) => return true,
            Err(Timeout) => return false,
        }
    }
    true
}

async fn run(start: Start, mut commands: UnboundedReceiver<Command>) -> usize {
    let Start { clock, parts, full, listeners } = start;
    let worker = Worker::new(clock, parts);
    let open = |(listener, kind)| Accepting::start(&worker, listener, kind);
    let mut accepting: Vec<_> = listeners.into_iter().map(open).collect();
    let sweeper = Rc::clone(&worker);
    tokio::task::spawn_local(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(u64::from(SWEEP_MS)));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            sweeper.sweep();
            if let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) {
                let sleeps = u64::try_from(usage.voluntary_context_switches()).unwrap_or(0);
                let now_us = sweeper.resources.coarse_us();
                sweeper.saturation.observe(sleeps, now_us);
                sweeper.parts.observe(sleeps, now_us);
            }
            full.store(sweeper.is_full(), Ordering::Relaxed);
        }
    });
    loop {
        let command = tokio::select! {
            biased;
            command = commands.recv() => command,
            () = worker.emptied.notified(), if worker.draining.get() => {
                // The notification may be older than connections from the accept queue.
                if !worker.is_empty() {
                    continue;
                }
                None
            }
        };
        match command {
            Some(Command::Apply(compiled, done)) => {
                worker.apply(compiled);
                // The sender may have stopped waiting; likewise below.
                let _ = done.send(());
            }
            Some(Command::Open(kind, listener)) if !worker.draining.get() => {
                accepting.push(Accepting::start(&worker, listener, kind));
            }
            Some(Command::Open(..)) => {}
            Some(Command::Close(serves, done)) => {
                for one in accepting.extract_if(.., |one| one.serves == serves) {
                    one.stop().await;
                }
                let _ = done.send(());
            }
            Some(Command::KeySet(issuer)) => {
                worker.questions.key_set_arrived(&issuer, worker.resources.now_us());
            }
            Some(Command::Scrape(reply)) => {
                let worker = Rc::clone(&worker);
                tokio::task::spawn_local(async move {
                    let _ = reply.send(worker.figures().await);
                });
            }
            Some(Command::Drain) => {
                worker.draining.set(true);
                worker.resources.watches.wake_all();
                for one in accepting.drain(..) {
                    one.stop().await;
                }
                if worker.is_empty() {
                    break;
                }
            }
            Some(Command::Stop) | None => break,
        }
    }
    worker.access.flush(&worker.tally);
    worker.busy.get()
}

/// A listener whose connections are accepted.
struct Accepting {
    serves: Serves,
    stop: Rc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Accepting {
    fn start(worker: &Rc<Worker>, listener: std::net::TcpListener, kind: Listener) -> Self {
        let (serves, stop) = (kind.serves, Rc::new(Notify::new()));
        let accepted = accept(Rc::clone(worker), listener, kind, Rc::clone(&stop));
        Self { serves, stop, task: tokio::task::spawn_local(accepted) }
    }

    /// Returns when the accept queue is served and the listener is closed.
    async fn stop(self) {
        // Remembered if the loop does not wait for it now.
        self.stop.notify_one();
        // Fails only if the accept loop panicked, which was logged.
        let _ = self.task.await;
    }
}

/// Accepts connections until it is stopped, then serves the accept queue and closes the listener.
async fn accept(
    worker: Rc<Worker>,
    listener: std::net::TcpListener,
    kind: Listener,
    stop: Rc<Notify>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "cannot register a listener with the event queue");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.notified() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((tcp, from)) => {
                let serving = listen::serve(OpenConnection::new(&worker), tcp, from, kind.clone());
                tokio::task::spawn_local(serving);
            }
            Err(error) => {
                // Out of file descriptors, or the connection was aborted: try again after a pause.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    if let Ok(listener) = listener.into_std() {
        serve_accept_queue(&worker, &listener, &kind);
    }
}

/// Serves the connections in the kernel's accept queue, which are established for their clients.
fn serve_accept_queue(worker: &Rc<Worker>, listener: &std::net::TcpListener, kind: &Listener) {
    for (tcp, from) in queued(|| listener.accept()) {
        if tcp.set_nonblocking(true).is_err() {
            continue;
        }
        if let Ok(tcp) = TcpStream::from_std(tcp) {
            let serving = listen::serve(OpenConnection::new(worker), tcp, from, kind.clone());
            tokio::task::spawn_local(serving);
        }
    }
}

/// The results of `accept` until the queue is empty. Aborted connections are skipped.
fn queued<T>(mut accept: impl FnMut() -> io::Result<T>) -> impl Iterator<Item = T> {
    std::iter::from_fn(move || {
        loop {
            match accept() {
                Err(error) if concerns_one_connection(&error) => {}
                accepted => return accepted.ok(),
            }
        }
    })
}

fn concerns_one_connection(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted || error.kind() == io::ErrorKind::Interrupted
}

/// How many workers there are with these settings.
pub(crate) fn workers(settings: &Settings) -> usize {
    settings.gateway.workers.unwrap_or_else(cpus_allowed).clamp(1, WORKERS_MAX)
}

/// The number of CPUs that this process may use: its affinity, and its cgroup's quota rounded up.
fn cpus_allowed() -> usize {
    let affinity = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).map_or(1, |set| {
        (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).count()
    });
    let quota = std::fs::read_to_string("/sys/fs/cgroup/cpu.max")
        .ok()
        .and_then(|text| quota_cpus(&text))
        .unwrap_or(usize::MAX);
    affinity.min(quota).max(1)
}

/// The number of ports that the kernel gives to connections.
pub(super) fn local_ports() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = text.split_whitespace().map(str::parse::<usize>);
    let (first, last) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    Some(last.checked_sub(first)?.saturating_add(1))
}

/// `200000 100000` is two CPUs, `max 100000` no limit. Source: Linux cgroup v2, `cpu.max`.
fn quota_cpus(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aborted_connections_in_the_accept_queue_are_skipped() {
        use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
        let mut queue =
            [Ok(1), Err(ConnectionAborted), Ok(2), Err(Interrupted), Ok(3), Err(WouldBlock), Ok(4)]
                .into_iter();
        let taken = queued(|| queue.next().unwrap_or(Err(WouldBlock)).map_err(io::Error::from));
        assert_eq!(taken.collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_cgroup_quota_counts_as_cpus_rounded_up() {
        for (text, expect) in [
            ("max 100000\n", None),
            ("200000 100000\n", Some(2)),
            ("150000 100000\n", Some(2)),
            ("50000 100000\n", Some(1)),
            ("100000 0\n", None),
            ("", None),
        ] {
            assert_eq!(quota_cpus(text), expect, "{text}");
        }
    }
}
