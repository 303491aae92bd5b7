//! The agent: waits for controllers and generates the load that they request.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::limits;

use super::frame::{self, FrameReader, FrameWriter, Secret};
use super::message::{CollectedMessage, FromAgent, FromController, PlanMessage, SecondMessage};
use crate::load::report::{Collected, Progress};
use crate::load::{LoadError, Measurement, Options, Stop};
use crate::recording::hlog::TimedInterval;

/// A listening agent with its own threads. Stops accepting controllers on drop.
pub struct Agent {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    secret: Secret,
    tls: Arc<rustls::ServerConfig>,
    /// Exit after one measurement.
    once: bool,
    stopped: AtomicBool,
    /// A measurement is being prepared or running.
    busy: AtomicBool,
    connections: AtomicUsize,
    addr: SocketAddr,
}

impl Agent {
    /// Starts listening; port 0 picks a free port. `once`: exit after one measurement.
    ///
    /// # Errors
    /// The address is in use, or the thread cannot be started.
    pub fn start(listen: SocketAddr, secret: Secret, once: bool) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret,
            tls: frame::agent_tls()?,
            once,
            stopped: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            addr,
        });
        let own = Arc::clone(&shared);
        let thread =
            thread::Builder::new().name("agent".to_owned()).spawn(move || own.accept(&listener))?;
        Ok(Self { addr, shared, thread: Some(thread) })
    }

    /// The address it listens on, with the actual port.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns after one measurement with `once`; otherwise never.
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic has been printed to stderr already.
            let _ = thread.join();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.end();
        self.join();
    }
}

impl Shared {
    #[expect(
        clippy::disallowed_methods,
        reason = "this thread does nothing else and blocks no worker"
    )]
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(ACCEPT_RETRY);
                continue;
            };
            if self.connections.fetch_add(1, Ordering::AcqRel) >= limits::AGENT_CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let own = Arc::clone(&self);
            let serve = move || {
                let counted = Reset(|| own.connections.fetch_sub(1, Ordering::AcqRel));
                // The error of a broken connection cannot be reported to its controller.
                let measured = own.serve(stream).unwrap_or(false);
                drop(counted);
                if measured && own.once {
                    own.end();
                }
            };
            if thread::Builder::new().name("agent-controller".to_owned()).spawn(serve).is_err() {
                self.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Stops `accept` by connecting to it.
    fn end(&self) {
        self.stopped.store(true, Ordering::Release);
        drop(TcpStream::connect_timeout(&self.addr, Duration::from_secs(1)));
    }

    /// Serves one controller. Returns `true` if a measurement was made.
    fn serve(&self, stream: TcpStream) -> io::Result<bool> {
        let silence = Duration::from_millis(limits::AGENT_SILENCE_MS_MAX);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let (mut reader, mut writer) = frame::accept(stream, Arc::clone(&self.tls), &self.secret)?;
        let FromController::Prepare(plan) = reader.receive()? else {
            return reject(&mut writer, "expected a plan");
        };
        if self.busy.swap(true, Ordering::AcqRel) {
            return reject(&mut writer, "busy with another measurement");
        }
        let _busy = Reset(|| self.busy.store(false, Ordering::Release));
        measure(*plan, reader, &mut writer)
    }
}

/// Calls a function on drop, even if a measurement panics.
struct Reset<T, F: Fn() -> T>(F);

impl<T, F: Fn() -> T> Drop for Reset<T, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Delay before retrying after `accept` failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);

fn reject(writer: &mut FrameWriter, why: &str) -> io::Result<bool> {
    writer.send(&FromAgent::Rejected(why.to_owned())).map(|()| false)
}

/// Runs a measurement, from the plan to the results.
fn measure(
    plan: PlanMessage,
    mut reader: FrameReader,
    writer: &mut FrameWriter,
) -> io::Result<bool> {
    let (options, inputs, part) = match plan.read() {
        Ok(read) => read,
        Err(problem) => return reject(writer, &problem),
    };
    let mut measurement = match Measurement::prepare(&options, inputs, part) {
        Ok(measurement) => measurement,
        Err(problem) => return reject(writer, &problem.to_string()),
    };
    writer.send(&FromAgent::Ready)?;
    let at_us = loop {
        match reader.receive()? {
            FromController::Clock => {
                let mono_us = measurement.now_us();
                let unix_us = mono_us.saturating_add(measurement.origin_unix_us());
                writer.send(&FromAgent::Clock { mono_us, unix_us })?;
            }
            FromController::Begin { at_us } => break at_us,
            FromController::Alive => {}
            FromController::Stop => return Ok(false),
            FromController::Prepare(_) => return reject(writer, "a plan was already received"),
        }
    };
    let (sender, events) = mpsc::channel();
    let seconds = sender.clone();
    // The receiver lives until the measurement is over.
    measurement.on_second(move |second| drop(seconds.send(Event::Second(second))));
    work((measurement, at_us, options), (sender, events), reader, writer)
}

enum Event {
    Progress(Progress),
    Second(TimedInterval),
    Over(Box<Result<Collected, LoadError>>),
}

/// Generates the load on another thread, and reports progress to the controller.
fn work(
    (measurement, at_us, options): (Measurement, u64, Options),
    (sender, events): (Sender<Event>, Receiver<Event>),
    reader: FrameReader,
    writer: &mut FrameWriter,
) -> io::Result<bool> {
    let stop = options.stop.clone();
    let reader_stop = stop.clone();
    thread::Builder::new()
        .name("agent-reader".to_owned())
        .spawn(move || listen(reader, &reader_stop))?;
    let worker = thread::Builder::new()
        .name("agent-load".to_owned())
        .spawn(move || load(measurement, at_us, &options, &sender))?;
    let alive = Duration::from_millis(limits::AGENT_ALIVE_MS);
    let result = loop {
        let sent = match events.recv_timeout(alive) {
            Ok(Event::Progress(progress)) => writer.send(&FromAgent::Progress(progress)),
            Ok(Event::Second(second)) => SecondMessage::new(&second)
                .and_then(|second| writer.send(&FromAgent::Second(second))),
            Ok(Event::Over(found)) => break Some(*found),
            Err(RecvTimeoutError::Timeout) => writer.send(&FromAgent::Alive),
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        if sent.is_err() {
            // The controller is gone; the worker still stops cleanly.
            stop.stop();
        }
    };
    let panicked = worker.join().is_err();
    match result {
        Some(Ok(found)) if !panicked => {
            writer.send(&FromAgent::Collected(Box::new(CollectedMessage::new(&found)?)))?;
            Ok(true)
        }
        Some(Err(problem)) => reject(writer, &problem.to_string()),
        Some(Ok(_)) | None => reject(writer, "the load generator panicked"),
    }
}

fn load(measurement: Measurement, at_us: u64, options: &Options, sender: &Sender<Event>) {
    // The receiver lives until the measurement is over.
    let mut progress = |progress: &Progress| drop(sender.send(Event::Progress(*progress)));
    let found = measurement.run(at_us, options, &mut progress);
    drop(sender.send(Event::Over(Box::new(found))));
}

/// Returns when the controller requests a stop or the connection ends.
fn listen(mut reader: FrameReader, stop: &Stop) {
    while let Ok(FromController::Alive | FromController::Clock) = reader.receive() {}
    stop.stop();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_the_agent_free_for_the_next_measurement() {
        let busy = AtomicBool::new(true);
        let panicked = std::panic::catch_unwind(|| {
            let _busy = Reset(|| busy.store(false, Ordering::Release));
            panic!("as a measurement might");
        });
        assert!(panicked.is_err() && !busy.load(Ordering::Acquire));
    }
}
