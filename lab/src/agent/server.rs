//! The agent's side: waits for controllers, and makes the load that one asks for.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base::SystemEntropy;

use crate::limits;

use super::frame::{FrameReader, FrameWriter, Secret, Side, handshake};
use super::message::{CollectedMessage, FromAgent, FromController, PlanMessage};
use crate::load::report::{Collected, Progress};
use crate::load::{LoadError, Measurement, Options, Stop};

/// A waiting agent, on threads of its own. Dropped, it takes no further controllers.
pub struct Agent {
    addr: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    secret: Secret,
    /// End after one measurement.
    once: bool,
    stopped: AtomicBool,
    /// A measurement is prepared or under way.
    busy: AtomicBool,
    connections: AtomicUsize,
    addr: SocketAddr,
}

impl Agent {
    /// Listens; port 0 picks a free one. `once`: end after one measurement.
    ///
    /// # Errors
    /// The system's, when the address is taken or there is no thread.
    pub fn start(listen: SocketAddr, secret: Secret, once: bool) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            secret,
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

    /// Where it listens, with the port that was picked.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns when it ends: after a measurement with `once`, else never.
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
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
        reason = "this thread does nothing else; there is no worker to block"
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
                // Who can't speak is nobody's error here; who can is told in an answer.
                let measured = own.serve(&stream).unwrap_or(false);
                own.connections.fetch_sub(1, Ordering::AcqRel);
                if measured && own.once {
                    own.end();
                }
            };
            if thread::Builder::new().name("agent-controller".to_owned()).spawn(serve).is_err() {
                self.connections.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Wakes `accept`, which looks at the mark.
    fn end(&self) {
        self.stopped.store(true, Ordering::Release);
        drop(TcpStream::connect_timeout(&self.addr, Duration::from_secs(1)));
    }

    /// One controller. True when a measurement was made.
    fn serve(&self, stream: &TcpStream) -> io::Result<bool> {
        let silence = Duration::from_millis(limits::AGENT_SILENCE_MS_MAX);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(silence))?;
        stream.set_write_timeout(Some(silence))?;
        let session = handshake(&mut &*stream, Side::Agent, &self.secret, &SystemEntropy)?;
        let mut reader = session.reader(stream.try_clone()?);
        let mut writer = session.writer(stream.try_clone()?);
        // The first frame shows that the secret is known, and is small.
        let FromController::Alive = reader.receive()? else {
            return refuse(&mut writer, "begin with `alive`");
        };
        writer.send(&FromAgent::Alive)?;
        let FromController::Prepare(plan) = reader.receive()? else {
            return refuse(&mut writer, "first comes the plan");
        };
        if self.busy.swap(true, Ordering::AcqRel) {
            return refuse(&mut writer, "busy with another measurement");
        }
        let measured = measure(*plan, reader, &mut writer);
        self.busy.store(false, Ordering::Release);
        measured
    }
}

/// How long an agent that can't accept waits before it tries again.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);

fn refuse(writer: &mut FrameWriter<TcpStream>, why: &str) -> io::Result<bool> {
    writer.send(&FromAgent::Refused(why.to_owned())).map(|()| false)
}

/// Everything from the plan to what was found.
fn measure(
    plan: PlanMessage,
    mut reader: FrameReader<TcpStream>,
    writer: &mut FrameWriter<TcpStream>,
) -> io::Result<bool> {
    let (options, inputs, part) = match plan.read() {
        Ok(read) => read,
        Err(problem) => return refuse(writer, &problem),
    };
    let measurement = match Measurement::prepare(&options, inputs, part) {
        Ok(measurement) => measurement,
        Err(problem) => return refuse(writer, &problem.to_string()),
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
            FromController::Prepare(_) => return refuse(writer, "there is a plan already"),
        }
    };
    work(measurement, at_us, options, reader, writer)
}

enum Event {
    Progress(Progress),
    Over(Box<Result<Collected, LoadError>>),
}

/// Makes the load on another thread, and meanwhile tells the controller of it.
fn work(
    measurement: Measurement,
    at_us: u64,
    options: Options,
    reader: FrameReader<TcpStream>,
    writer: &mut FrameWriter<TcpStream>,
) -> io::Result<bool> {
    let (sender, events) = mpsc::channel();
    let stop = options.stop.clone();
    let listener = stop.clone();
    thread::Builder::new().name("agent-ear".to_owned()).spawn(move || listen(reader, &listener))?;
    let worker = thread::Builder::new()
        .name("agent-load".to_owned())
        .spawn(move || load(measurement, at_us, &options, &sender))?;
    let alive = Duration::from_millis(limits::AGENT_ALIVE_MS);
    let result = loop {
        let said = match events.recv_timeout(alive) {
            Ok(Event::Progress(progress)) => writer.send(&FromAgent::Progress(progress)),
            Ok(Event::Over(found)) => break Some(*found),
            Err(RecvTimeoutError::Timeout) => writer.send(&FromAgent::Alive),
            Err(RecvTimeoutError::Disconnected) => break None,
        };
        if said.is_err() {
            // Nobody is going to read it; the worker still ends in order.
            stop.stop();
        }
    };
    let panicked = worker.join().is_err();
    match result {
        Some(Ok(found)) if !panicked => {
            writer.send(&FromAgent::Collected(Box::new(CollectedMessage::new(&found)?)))?;
            Ok(true)
        }
        Some(Err(problem)) => refuse(writer, &problem.to_string()),
        Some(Ok(_)) | None => refuse(writer, "the thread that makes the load panicked"),
    }
}

fn load(measurement: Measurement, at_us: u64, options: &Options, sender: &Sender<Event>) {
    // The receiver waits until it is told that it is over.
    let mut progress = |progress: &Progress| drop(sender.send(Event::Progress(*progress)));
    let found = measurement.run(at_us, options, &mut progress);
    drop(sender.send(Event::Over(Box::new(found))));
}

/// Until the controller says stop, or nothing any more.
fn listen(mut reader: FrameReader<TcpStream>, stop: &Stop) {
    while let Ok(FromController::Alive | FromController::Clock) = reader.receive() {}
    stop.stop();
}
