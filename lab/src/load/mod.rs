//! The load generator: sends requests as scheduled by a [`Shape`] and reports rates, latencies, errors by
//! kind, and warnings about the result.
//!
//! - Each user has at most one request in flight: on a connection of its own with HTTP/1.1 ([`user`]), on one that
//!   several users share with HTTP/2 ([`multiplex`]). Closed users send their next request when
//!   the response is complete, as JMeter does in WSO2's published runs; in an open loop, requests are due on
//!   a schedule, and the number of users is the maximum number of requests in flight.
//! - A request is measured if its latency counts from within the measured time, even if it ends later. The count
//!   divided by the time is therefore the offered rate, at any latency.
//! - Instead of one request, a [`scenario`] can define several.
//! - Tokens are used in rotation by all users of a thread; n threads take every n-th token.
//! - The latency of a closed user counts from the start of the request and includes connecting if the server
//!   has closed the connection. In an open loop it counts from the due time. It includes any delay of the
//!   generator itself, which is measured separately.
//!
//! Architecture invariant: failed requests are always counted.

mod connect;
mod generator;
mod grpc;
mod incident;
mod inputs;
mod metrics;
pub(crate) mod monitor;
mod multiplex;
mod next_request;
mod options;
pub(crate) mod published_stats;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod response;
pub mod scenario;
mod search;
pub mod shape;
pub(crate) mod statistics;
mod thread_state;
mod user;
mod wake_timer;
pub(crate) mod websocket;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use base::SystemClock;
use tokio::sync::Notify;

use crate::limits;

pub use incident::Incident;
pub use metrics::Metrics;
pub use options::{
    Options, Payload, Protocol, STREAMS, Stop, Trust, listening_process, parse_duration,
    parse_header, parse_think,
};
pub use published_stats::PublishedStats;
pub use report::{Progress, Report, RunSettings, SeriesPoint};
pub use scenario::Scenario;
pub use shape::{Shape, Stages, Think};
pub use statistics::{Latency, Times};

use crate::recording::hlog::TimedInterval;
use connect::Connector;
pub(crate) use inputs::{Authorities, Inputs};
use report::Collected;
use request::{Destination, Prepared, RequestSpec, Tokens};
use scenario::{Common, Compiled};
use shape::{Part, Timeline};
use thread_state::{Plan, Window};
use websocket::Handshake;

/// The longest measured time.
pub const LONGEST: Duration = Duration::from_secs(limits::LOAD_S_MAX);

/// Why a measurement could not be made. Errors of single requests are counted in its [`Report`].
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Invalid options: exit code 2.
    #[error("{0}")]
    Usage(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A file with invalid content.
    #[error("{0}")]
    Content(String),
    #[error("{host}: no address found: {source}")]
    Name { host: String, source: std::io::Error },
    #[error("no connection to {target}: {source}")]
    Connect { target: String, source: std::io::Error },
    #[error("TLS: {0}")]
    Tls(String),
    /// An agent is unreachable, rejected its plan, or all agents were lost.
    #[error("agent {name}: {problem}")]
    Agent { name: String, problem: String },
    /// A thread, socket or signal handler cannot be created, or a generator thread panicked.
    #[error("system error: {0}")]
    System(#[from] std::io::Error),
}

/// Runs one measurement. Calls `progress` about once a second. Blocks; must not be called from a tokio
/// runtime.
///
/// # Errors
/// [`LoadError`]: invalid options or files, unknown host, or no connection to the target.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Report, LoadError> {
    options.check()?;
    let measurement = Measurement::prepare(options, Inputs::read(options)?, Part::WHOLE)?;
    let soonest_us = measurement.now_us().saturating_add(limits::LOAD_LEAD_US);
    let settings = measurement.settings.clone();
    let found = measurement.run(soonest_us, options, progress)?;
    Ok(Report::new(settings, &found))
}

/// A prepared measurement: its files have been read, addresses resolved, and the target was reachable.
pub(crate) struct Measurement {
    runtime: tokio::runtime::Runtime,
    plan: Plan,
    pub(crate) settings: RunSettings,
}

impl Measurement {
    /// `part`: the share of a measurement that is distributed over several processes.
    ///
    /// # Errors
    /// As [`run`].
    pub(crate) fn prepare(
        options: &Options,
        inputs: Inputs,
        part: Part,
    ) -> Result<Self, LoadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (plan, settings) = runtime.block_on(prepare(options, inputs, part))?;
        runtime.block_on(probe(&plan, &settings))?;
        Ok(Self { runtime, plan, settings })
    }

    /// On the measurement's own clock.
    pub(crate) fn now_us(&self) -> u64 {
        self.plan.now_us()
    }

    /// `send` is called with each second of the measured time, counted from its start.
    pub(crate) fn on_second(&mut self, send: impl Fn(TimedInterval) + Send + Sync + 'static) {
        self.plan.on_second = Some(Box::new(send));
    }

    /// Unix time at the zero of the measurement's clock.
    pub(crate) fn origin_unix_us(&self) -> u64 {
        self.plan.clock.origin_unix_us()
    }

    /// Starts at `soonest_us` on its own clock, or up to a millisecond later.
    ///
    /// # Errors
    /// [`LoadError::File`] for recordings, [`LoadError::System`].
    pub(crate) fn run(
        self,
        soonest_us: u64,
        options: &Options,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Collected, LoadError> {
        let plan = Arc::new(scheduled(self.plan, options, soonest_us));
        self.runtime.block_on(generator::measure(&plan, options, progress))
    }
}

/// Requests of a measurement.
pub(crate) struct Requests {
    target: Destination,
    /// The request, or the WebSocket message.
    prepared: Prepared,
    /// Sent instead of `prepared`.
    scenario: Option<Compiled>,
    /// Sent before the first message of a connection.
    websocket: Option<(Handshake, Prepared)>,
    /// For the report.
    pub(crate) settings: RunSettings,
}

/// Prepares the requests, and the settings for the report.
///
/// # Errors
/// [`LoadError::Usage`]: the request is invalid.
pub(crate) fn prepare_request(options: &Options, inputs: Inputs) -> Result<Requests, LoadError> {
    options.check()?;
    let target = Destination::parse(&options.url)?;
    let tokens: Tokens = inputs.tokens.into_iter().map(String::into_bytes).collect();
    let mut headers = options.headers.clone();
    let mut payload = inputs.payload.clone();
    if let Some(count) = options.grpc_messages {
        payload = Some(grpc::framed(payload.as_deref().unwrap_or_default(), count)?);
        let given = &options.headers;
        let is_given = |name: &str| given.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let own = grpc::FIELDS.into_iter().filter(|(name, _)| !is_given(name));
        headers.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let websocket = (options.protocol == Protocol::WebSocket).then(Handshake::new);
    if let Some(handshake) = &websocket {
        headers.extend(handshake.fields());
    }
    let spec = RequestSpec {
        method: options.method.as_deref(),
        headers: &headers,
        payload: payload.as_deref().filter(|_| websocket.is_none()),
        tokens: Arc::clone(&tokens),
        protocol: options.protocol,
        closes: options.connection_per_request,
    };
    let prepared = Prepared::new(&target, spec)?;
    let common = Common {
        target: target.clone(),
        headers: options.headers.clone(),
        tokens,
        protocol: options.protocol,
        closes: options.connection_per_request,
    };
    let compiled = options
        .scenario
        .as_ref()
        .map(|scenario| Compiled::new(Scenario::clone(scenario), common, options.seed));
    let compiled = compiled.transpose()?;
    let settings = RunSettings {
        url: options.url.clone(),
        method: prepared.method_name().to_owned(),
        scenario: options.scenario.clone(),
        users: options.users,
        protocol: options.protocol,
        threads: options.threads,
        duration_s: options.requests.is_none().then_some(options.duration.as_secs_f64()),
        requests: options.requests,
        connection_per_request: options.connection_per_request,
        grpc_messages: options.grpc_messages,
        warm_up_s: options.warm_up.as_secs_f64(),
        timeout_s: options.timeout.as_secs_f64(),
        payload_bytes: inputs.payload.as_ref().map(Vec::len),
        tokens: prepared.tokens(),
        expect: options.expect.clone(),
        shape: options.shape.clone(),
        seed: options.seed,
    };
    let (prepared, websocket) = match websocket {
        None => (prepared, None),
        Some(handshake) => {
            let message = handshake.message(payload.as_deref().unwrap_or_default());
            (message, Some((handshake, prepared)))
        }
    };
    Ok(Requests { target, prepared, scenario: compiled, websocket, settings })
}

async fn prepare(
    options: &Options,
    inputs: Inputs,
    part: Part,
) -> Result<(Plan, RunSettings), LoadError> {
    let authorities = inputs.authorities.clone();
    let Requests { target, prepared, scenario, websocket, settings } =
        prepare_request(options, inputs)?;
    check_open_files(options.protocol.connections(options.users).div_ceil(part.of))?;
    let clock = SystemClock::new();
    let plan = Plan {
        connector: Connector::new(&target, &authorities, options).await?,
        protocol: options.protocol,
        prepared: Arc::new(prepared),
        scenario: scenario.map(Arc::new),
        websocket,
        is_grpc: options.grpc_messages.is_some(),
        expect: options.expect.as_ref().map(|text| text.clone().into_bytes()),
        timeout: options.timeout,
        shape: options.shape.clone(),
        timeline: Timeline { begin_us: 0, from_us: 0, until_us: 0, users: options.users },
        window: Window::new(0, 0),
        part,
        threads: options.threads,
        seed: options.seed,
        requests: options.requests,
        connection_per_request: options.connection_per_request,
        running: AtomicUsize::new(options.threads),
        finished: Notify::new(),
        begun: AtomicUsize::new(0),
        on_second: None,
        clock,
    };
    Ok((plan, settings))
}

/// The plan of a measurement that starts at `soonest_us`, or up to a millisecond later.
fn scheduled(plan: Plan, options: &Options, soonest_us: u64) -> Plan {
    let warm_up_us = us(options.warm_up);
    // The edges of the measured time are whole milliseconds of Unix time, so that they fall between the
    // timestamps of a JTL.
    let origin_us = plan.clock.origin_unix_us();
    let soonest_us = soonest_us.saturating_add(warm_up_us).saturating_add(origin_us);
    let from_us = soonest_us.next_multiple_of(1_000).saturating_sub(origin_us);
    let begin_us = from_us.saturating_sub(warm_up_us);
    let length_ms = us(options.duration).div_ceil(1_000);
    let until_us = from_us.saturating_add(length_ms.saturating_mul(1_000));
    let timeline = Timeline { begin_us, from_us, until_us, users: options.users };
    Plan { timeline, window: Window::new(from_us, until_us), ..plan }
}

pub(crate) fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Checks that the target is reachable and speaks the protocol.
async fn probe(plan: &Plan, settings: &RunSettings) -> Result<(), LoadError> {
    let failed = |source| LoadError::Connect { target: settings.url.clone(), source };
    let probing = async {
        let stream = plan.connector.open().await?;
        match plan.protocol {
            Protocol::Http1 | Protocol::WebSocket => Ok(()),
            Protocol::Http2 { .. } => {
                multiplex::probe(stream, plan, plan.protocol.streams(settings.users)).await
            }
        }
    };
    match tokio::time::timeout(plan.timeout, probing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(failed(source)),
        Err(_) => Err(failed(std::io::ErrorKind::TimedOut.into())),
    }
}

fn check_open_files(connections: usize) -> Result<(), LoadError> {
    let most = echo::machine::raise_open_files();
    let needed = connections as u64 + limits::LOAD_SPARE_FILES;
    if most < needed {
        let text = format!(
            "{connections} connections need {needed} open files; `ulimit -n` allows {most}"
        );
        return Err(LoadError::Usage(text));
    }
    Ok(())
}
