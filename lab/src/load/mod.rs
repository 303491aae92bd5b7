//! A closed-loop load generator: `users` connections, each with one request outstanding, no think
//! time, as JMeter drives WSO2's published runs (reference/scenarios.md section 3).
//!
//! Not part of a request's life: it stands where the caller is. Reads [`Options`]; answers a
//! [`Report`]: rates, latencies, errors by kind, and the doubts about them.
//!
//! - Users begin spread over the first half of the warm-up (all at once without one), so that the
//!   second half, and the measurement, run with all of them.
//! - A request counts when it *started* in the measured time; it is waited for beyond its end. So
//!   the count over the time is the rate, whatever the latency.
//! - Tokens take turns over all users of a thread; threads take every n-th.
//! - A latency begins with the end of the user's last request and holds the connecting, if the
//!   server had closed. What the generator itself was late is in it, which is why it watches itself.
//!
//! Architecture invariant: of our own crates only `base` and `wire` are imported here. No request is
//! dropped from the count because it failed.

mod connect;
pub mod doubts;
mod generator;
mod options;
mod report;
mod request;
mod response;
mod statistics;
mod user;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{SystemClock, limits};

pub use doubts::Doubt;
pub use options::{Options, Payload, Stop, Trust, parse_duration, parse_header};
pub use report::{Asked, Progress, Report};
pub use statistics::Latency;

use crate::machine;
use connect::Connector;
use request::{Ask, Prepared, Target};
use user::{Plan, Window};

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
    let plan = Arc::new(Plan { window: window(&plan.clock, options), ..plan });
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
    };
    let clock = SystemClock::new();
    let plan = Plan {
        connector: Connector::new(&target, &options.trust).await?,
        prepared,
        expect: options.expect.as_ref().map(|text| text.clone().into_bytes()),
        timeout: options.timeout,
        window: window(&clock, options),
        threads: options.threads,
        clock,
    };
    Ok((plan, asked))
}

/// The measured time of a measurement that begins now.
fn window(clock: &SystemClock, options: &Options) -> Window {
    let now_us = base::Clock::now(clock).mono_us;
    let from_us = now_us.saturating_add(us(options.warm_up));
    Window::new(from_us, from_us.saturating_add(us(options.duration)))
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
