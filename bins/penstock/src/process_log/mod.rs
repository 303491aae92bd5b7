//! The process log: the events of `tracing`, as lines on stderr.
//!
//! No worker waits for stderr, which may be a pipe without a reader: a line goes to a bounded queue, and one thread
//! writes. When the queue is full, lines are dropped and counted. A callsite that repeats itself is sampled.
//!
//! Architecture invariant: from [`ProcessLog::start`] to its end, nothing else in this process writes to stderr.

mod queue;
mod repeats;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use base::{SystemClock, limits};
use model::{LogFormat, LogSettings};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};

use self::queue::Queue;
use self::repeats::{Admission, Repeated, Repeats};

/// Targets of our own crates start with this.
const OURS: &str = "penstock";
/// Targets whose lines are not sampled: each line of `follow` is about a different file, those of mediators are for
/// authors of artefacts, and this module logs few lines.
const NOT_SAMPLED: [&str; 3] = ["penstock_follow", "penstock_mediation::log", module_path!()];

/// The target of panics, which are sampled.
const PANIC: &str = "penstock::panic";

/// The running process log. On drop, queued lines are written, as far as stderr accepts them.
#[derive(Debug)]
pub(crate) struct ProcessLog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Queue,
    repeats: Mutex<Repeats<Callsite>>,
    clock: SystemClock,
}

/// A log statement, with the level of its lines.
type Callsite = (Identifier, Level);

impl ProcessLog {
    /// Installs the log for the whole process, panics included, and starts its thread.
    ///
    /// # Errors
    /// The thread cannot be started, or the process already has a log.
    pub(crate) fn start(settings: &LogSettings) -> io::Result<Self> {
        let shared = Arc::new(Shared::new());
        let for_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || for_thread.write_to(&mut io::stderr()))?;
        dispatcher::set_global_default(dispatch(settings, &shared)).map_err(io::Error::other)?;
        std::panic::set_hook(Box::new(log_panic));
        Ok(Self(shared))
    }

    /// The counter of lost lines, in Prometheus' text format.
    pub(crate) fn metrics(&self) -> impl Fn() -> String + Send + Sync + 'static {
        let shared = Arc::clone(&self.0);
        move || {
            let name = "penstock_process_log_lost_total";
            let lost = shared.queue.lost();
            format!(
                "# HELP {name} Process log lines dropped because stderr was too slow.\n\
                 # TYPE {name} counter\n{name} {lost}\n"
            )
        }
    }
}

impl Drop for ProcessLog {
    fn drop(&mut self) {
        self.0.report_repeated(u64::MAX);
        self.0.queue.flush(Duration::from_millis(limits::LOG_FLUSH_MS_MAX.into()));
    }
}

fn dispatch(settings: &LogSettings, shared: &Arc<Shared>) -> Dispatch {
    let sampling = Sampling(Arc::clone(shared));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Writer(Arc::clone(shared)))
        .with_target(false)
        .with_ansi(false)
        // They would be printed to stderr.
        .log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(levels(&settings.level)).with(sampling);
    match settings.format {
        LogFormat::Text => Dispatch::new(registry.with(lines)),
        LogFormat::Json => Dispatch::new(registry.with(lines.json().flatten_event(true))),
    }
}

/// Our own lines at `level` and above; of dependencies, whose lines a peer can trigger by the thousand, errors only.
fn levels(level: &str) -> Targets {
    let ours = level.parse().unwrap_or(LevelFilter::INFO);
    Targets::new().with_default(LevelFilter::ERROR).with_target(OURS, ours)
}

/// Like the default hook, which would write to stderr directly.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let message = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        tracing::error!(target: PANIC, thread, %place, %backtrace, "panic: {message}");
    } else {
        tracing::error!(target: PANIC, thread, %place, "panic: {message}");
    }
}

impl Shared {
    fn new() -> Self {
        Self {
            queue: Queue::new(limits::LOG_QUEUE_BYTES_MAX),
            repeats: Mutex::new(Repeats::new(limits::LOG_LINES_PER_S_MAX)),
            clock: SystemClock::new(),
        }
    }

    /// Writes the queue to `out`. Never returns.
    fn write_to(&self, out: &mut dyn Write) {
        let mut reported = 0;
        loop {
            let pending = self.repeats().is_pending();
            let batch = self.queue.take(pending.then_some(Duration::from_secs(1)));
            let done = out.write_all(&batch.bytes).and_then(|()| out.flush());
            if done.is_err() {
                self.queue.lose(batch.lines);
            }
            self.report_repeated(self.clock.now_us());
            let lost = self.queue.lost();
            // If stderr is closed, this line would be lost as well, and reported again.
            if done.is_ok() && lost > reported {
                let lines = lost.saturating_sub(reported);
                tracing::warn!(
                    lines,
                    total = lost,
                    "process log lines were lost, stderr is too slow"
                );
                reported = lost;
            }
            self.queue.written();
        }
    }

    fn report_repeated(&self, now_us: u64) {
        let ended = self.repeats().report(now_us);
        ended.iter().for_each(log_repeated);
    }

    fn repeats(&self) -> MutexGuard<'_, Repeats<Callsite>> {
        self.repeats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One line for all that were counted, at their level.
fn log_repeated(repeated: &Repeated<Callsite>) {
    let Repeated { callsite: (_, level), message, count } = repeated;
    let repeated = *count;
    match *level {
        Level::ERROR => tracing::error!(repeated, "repeated {repeated} times: {message}"),
        Level::WARN => tracing::warn!(repeated, "repeated {repeated} times: {message}"),
        Level::INFO => tracing::info!(repeated, "repeated {repeated} times: {message}"),
        Level::DEBUG => tracing::debug!(repeated, "repeated {repeated} times: {message}"),
        Level::TRACE => tracing::trace!(repeated, "repeated {repeated} times: {message}"),
    }
}

/// Hands each line to the queue.
struct Writer(Arc<Shared>);

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Writer {
    type Writer = &'a Queue;

    fn make_writer(&'a self) -> &'a Queue {
        &self.0.queue
    }
}

/// Drops the lines of callsites that repeat themselves.
struct Sampling(Arc<Shared>);

impl<S: Subscriber> Layer<S> for Sampling {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if !is_sampled(metadata) {
            return true;
        }
        let callsite = (metadata.callsite(), *metadata.level());
        let admission = self.0.repeats().admit(&callsite, self.0.clock.now_us());
        if admission == Admission::FirstCounted {
            // Formatted without the lock: a panic in a field's code is logged too.
            let message = message(event);
            self.0.repeats().describe(&callsite, message);
            // The writer reports the count when the second has ended.
            self.0.queue.wake();
        }
        admission == Admission::Written
    }
}

fn is_sampled(metadata: &Metadata<'_>) -> bool {
    !NOT_SAMPLED.iter().any(|target| metadata.target().starts_with(target))
}

/// The event's message without its other fields.
fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            if field.name() == "message" {
                // Writing to a string does not fail.
                let _ = write!(self.0, "{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_files_are_all_written_and_others_written_or_counted() {
        const LINES: u64 = 500;
        let text = logged(LogFormat::Json, || {
            for number in 0..LINES {
                tracing::warn!(target: "penstock_follow::follower", "file {number}");
                tracing::warn!(target: "penstock_gateway::forward", "request {number}");
            }
        });
        let files = text.lines().filter(|line| line.contains("\"file ")).count();
        assert_eq!(u64::try_from(files), Ok(LINES));
        let requests: u64 = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON"))
            .filter(|line| line["message"].as_str().is_some_and(|text| text.contains("request ")))
            .map(|line| line["repeated"].as_u64().unwrap_or(1))
            .sum();
        assert_eq!(requests, LINES);
        assert!(text.contains("times: request "), "{text}");
    }

    #[test]
    fn a_panic_is_a_line_of_the_log_with_its_place() {
        let (here, before) = (thread::current().id(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |panic| {
            if thread::current().id() == here { log_panic(panic) } else { before(panic) }
        }));
        let text = logged(LogFormat::Text, || {
            let ended = std::panic::catch_unwind(|| panic!("out of {}", "water"));
            assert!(ended.is_err());
        });
        drop(std::panic::take_hook());
        assert!(text.contains("ERROR panic: out of water "), "{text}");
        assert!(text.contains(concat!("place=", file!(), ":")), "{text}");
    }

    /// The log of `work` on this thread.
    fn logged(format: LogFormat, work: impl FnOnce()) -> String {
        let shared = Arc::new(Shared::new());
        let settings = LogSettings { level: "info".to_owned(), format };
        dispatcher::with_default(&dispatch(&settings, &shared), || {
            work();
            shared.report_repeated(u64::MAX);
        });
        String::from_utf8(shared.queue.take(Some(Duration::ZERO)).bytes).expect("UTF-8")
    }

    #[test]
    fn dependencies_log_errors_only_and_we_what_is_configured() {
        for (level, target, logged) in [
            ("info", "penstock_gateway::forward", Level::INFO),
            ("info", "penstock::commands::gateway", Level::INFO),
            ("trace", "penstock_follow", Level::TRACE),
            ("error", "penstock_wire", Level::ERROR),
            ("info", "h2::proto::streams", Level::ERROR),
            ("trace", "h2::proto::streams", Level::ERROR),
            ("trace", "rustls", Level::ERROR),
        ] {
            let levels = levels(level);
            for tried in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                let expect = tried <= logged;
                assert_eq!(levels.would_enable(target, &tried), expect, "{level} {target} {tried}");
            }
        }
    }
}
