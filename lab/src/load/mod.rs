//! The load generator: connections that send requests when a [`Shape`] says so, and what came of it.
//!
//! Not part of a request's life: it stands where the caller is. Reads [`Options`]; answers a
//! [`Report`]: rates, latencies, errors by kind, and the doubts about them.
//!
//! - Each user is a connection with at most one request outstanding. Closed users, as JMeter drives
//!   WSO2's published runs (reference/scenarios.md section 3), send again when they have their answer;
//!   in an open loop requests are due at times of their own, and users are the most connections.
//! - A request counts when its latency counts from within the measured time; it is waited for beyond
//!   its end. So the count over the time is the rate that was asked, whatever the latency.
//! - Tokens take turns over all users of a thread; threads take every n-th.
//! - A closed user's latency begins with its start, and holds the connecting, if the server had
//!   closed. In an open loop it begins when the request was due. What the generator itself was late is
//!   in it, which is why it watches itself.
//!
//! Architecture invariant: of our own crates only `base` and `wire` are imported here. No request is
//! dropped from the count because it failed.

mod alarm;
mod connect;
pub mod doubts;
mod generator;
mod lane;
mod options;
mod quantised;
mod report;
mod request;
pub(crate) mod response;
pub mod shape;
pub(crate) mod statistics;
mod user;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use base::{SystemClock, limits};

pub use doubts::Doubt;
pub use options::{Options, Payload, Stop, Trust, parse_duration, parse_header};
pub use quantised::Quantised;
pub use report::{Asked, Progress, Report};
pub use shape::{Shape, Think};
pub use statistics::Latency;

use crate::machine;
use connect::Connector;
use lane::{Plan, Window};
use request::{Ask, Prepared, Target};
use shape::{Course, Part};

/// Why a measurement could not be made. Errors during one are counted in its [`Report`] instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// What was asked for cannot be done: exit 2.
    #[error("{0}")]
    Usage(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A file that can be read, but not used.
    #[error("{0}")]
    Content(String),
    #[error("{host}: no address found: {source}")]
    Name { host: String, source: std::io::Error },
    #[error("no connection to {target}: {source}")]
    Connect { target: String, source: std::io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the system refused threads, sockets or signals: {0}")]
    System(#[from] std::io::Error),
}

/// Runs one measurement; returns when it is over. `progress` is called about once a second. Not to
/// be called from within a tokio runtime, since it blocks.
///
/// # Errors
/// [`LoadError`] when nothing could be measured: bad options, unreadable files, unknown host, or
/// nobody listening at the start.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Report, LoadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (plan, asked) = runtime.block_on(prepare(options))?;
    runtime.block_on(probe(&plan, &asked))?;
    let plan = Arc::new(begun(plan, options));
    let found = runtime.block_on(generator::measure(&plan, options, progress))?;
    Ok(Report::new(asked, &found))
}

async fn prepare(options: &Options) -> Result<(Plan, Asked), LoadError> {
    options.check()?;
    let target = Target::parse(&options.url)?;
    let payload = options.read_payload()?;
    let tokens = options.read_tokens()?;
    let ask = Ask {
        method: options.method.as_deref(),
        headers: &options.headers,
        payload: payload.as_deref(),
        tokens,
    };
    let prepared = Prepared::new(&target, ask)?;
    check_open_files(options.users)?;
    let asked = Asked {
        url: options.url.clone(),
        method: prepared.method_name().to_owned(),
        users: options.users,
        threads: options.threads,
        duration_s: options.duration.as_secs_f64(),
        warm_up_s: options.warm_up.as_secs_f64(),
        timeout_s: options.timeout.as_secs_f64(),
        payload_bytes: payload.as_ref().map(Vec::len),
        tokens: prepared.tokens(),
        expect: options.expect.clone(),
        shape: options.shape,
        seed: options.seed,
    };
    let clock = SystemClock::new();
    let plan = Plan {
        connector: Connector::new(&target, &options.trust).await?,
        prepared,
        expect: options.expect.as_ref().map(|text| text.clone().into_bytes()),
        timeout: options.timeout,
        shape: options.shape,
        course: Course { begin_us: 0, from_us: 0, until_us: 0, users: options.users },
        window: Window::new(0, 0),
        part: Part::WHOLE,
        threads: options.threads,
        seed: options.seed,
        begun: AtomicUsize::new(0),
        clock,
    };
    Ok((plan, asked))
}

/// The plan of a measurement that begins as soon as its threads can be ready.
fn begun(plan: Plan, options: &Options) -> Plan {
    let warm_up_us = us(options.warm_up);
    let soonest_us = plan.now_us().saturating_add(limits::LOAD_LEAD_US).saturating_add(warm_up_us);
    // The measured time's edges are whole milliseconds of the Unix clock, so that a JTL, which knows
    // no finer time, tells the measured requests from the others.
    let origin_us = plan.clock.origin_unix_us();
    let from_us = soonest_us.saturating_add(origin_us).next_multiple_of(1_000) - origin_us;
    let begin_us = from_us.saturating_sub(warm_up_us);
    let length_ms = us(options.duration).div_ceil(1_000);
    let until_us = from_us.saturating_add(length_ms.saturating_mul(1_000));
    let course = Course { begin_us, from_us, until_us, users: options.users };
    Plan { course, window: Window::new(from_us, until_us), ..plan }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Whether there is anybody to measure.
async fn probe(plan: &Plan, asked: &Asked) -> Result<(), LoadError> {
    let refused = |source| LoadError::Connect { target: asked.url.clone(), source };
    match tokio::time::timeout(plan.timeout, plan.connector.open()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(source)) => Err(refused(source)),
        Err(_) => Err(refused(std::io::ErrorKind::TimedOut.into())),
    }
}

fn check_open_files(users: usize) -> Result<(), LoadError> {
    let most = machine::raise_open_files();
    let needed = users as u64 + limits::LOAD_SPARE_FILES;
    if most < needed {
        let text = format!("{users} users need {needed} open files; `ulimit -n` allows {most}");
        return Err(LoadError::Usage(text));
    }
    Ok(())
}
