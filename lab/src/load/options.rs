//! The options of a measurement, as set by the flags of `penstock lab load`.

use std::net::ToSocketAddrs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits;
use serde::{Deserialize, Serialize};

use crate::load::request::Destination;
use crate::load::{self, LoadError, Scenario, Think};
use crate::payload::JsonShape;
use crate::recording::Recordings;
use crate::target::listener;

/// The options of a measurement. [`Options::new`] returns the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Absolute `http://` or `https://` URL.
    pub url: String,
    /// Number of users, each with at most one request in flight. 1 to [`limits::LOAD_USERS_MAX`].
    pub users: usize,
    /// Default: HTTP/1.1.
    pub protocol: Protocol,
    /// Measured time, after the warm-up; with `requests`, at most. Default: 10 s.
    pub duration: Duration,
    /// Ends the measured time after this many measured requests.
    pub requests: Option<u64>,
    /// Each request is a gRPC call with this many messages, each of which is the payload. Needs HTTP/2.
    pub grpc_messages: Option<usize>,
    /// Opens a connection for each request, with a full TLS handshake.
    pub connection_per_request: bool,
    /// Warm-up, not measured. Default: 3 s.
    pub warm_up: Duration,
    /// Default: POST with a payload, GET without.
    pub method: Option<String>,
    pub payload: Payload,
    /// The requests, instead of `method`, `payload` and `expect`. The URL's path comes before theirs.
    pub scenario: Option<Arc<Scenario>>,
    /// File with one token per line, sent in rotation as `Authorization: Bearer`.
    pub tokens: Option<PathBuf>,
    /// Additional header fields. `Content-Type` and `Host` replace the defaults.
    pub headers: Vec<(String, String)>,
    /// Text that every response body must contain.
    pub expect: Option<String>,
    pub trust: Trust,
    /// Generator threads, 1 to `users`. Default: 1.
    pub threads: usize,
    /// Timeout for a complete response, including connecting. Default: 20 s.
    pub timeout: Duration,
    /// When requests start. Default: closed users without think time.
    pub shape: load::Shape,
    /// Files to record in addition to the report. Default: none.
    pub recordings: Recordings,
    /// Random seed: think times, Poisson arrivals, the order of a scenario's sequences. Default: 0.
    pub seed: u64,
    /// The processes whose CPU time is shown, with their descendants.
    pub target_pids: Vec<u32>,
    /// Whether Ctrl-C (SIGINT) or SIGTERM ends the measurement early, with a report.
    pub ctrl_c: bool,
    /// Ends the measurement early.
    pub stop: Stop,
}

/// The protocol to the target, and how users share connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Each user has its own connection.
    #[default]
    Http1,
    /// The users share the connections evenly. Over TLS it is agreed by ALPN, in clear it is assumed (prior knowledge).
    Http2 { connections: usize },
    /// Each user has its own connection, and its requests are messages. The URL's scheme is `ws` or `wss`.
    WebSocket,
}

/// Default number of users that share an HTTP/2 connection, which servers are advised to allow. Source: RFC 9113
/// section 6.5.2.
pub const STREAMS: usize = 100;

impl Protocol {
    /// HTTP/2 on as few connections as `streams` users of each allow.
    #[must_use]
    pub fn http2(users: usize, streams: usize) -> Self {
        Self::Http2 { connections: users.div_ceil(streams.max(1)) }
    }

    /// The number of connections of `users`.
    #[must_use]
    pub fn connections(self, users: usize) -> usize {
        match self {
            Self::Http1 | Self::WebSocket => users,
            Self::Http2 { connections } => connections,
        }
    }

    /// The most users of a connection.
    #[must_use]
    pub fn streams(self, users: usize) -> usize {
        users.div_ceil(self.connections(users).max(1))
    }

    /// The users of connection `index`, out of `users`.
    pub(crate) fn users_of(self, index: usize, users: usize) -> Range<usize> {
        let first = |index: usize| {
            let connections = self.connections(users).max(1) as u128;
            usize::try_from(users as u128 * index as u128 / connections).unwrap_or(users)
        };
        first(index)..first(index + 1)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 { .. } => "HTTP/2",
            Self::WebSocket => "WebSocket",
        }
    }
}

/// The request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    None,
    File(PathBuf),
    Made { shape: JsonShape, bytes: usize },
}

/// How the certificate of an `https` target is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Against the system's authorities.
    System,
    /// Not at all: any certificate is accepted.
    Insecure,
    /// Against the authorities in this PEM file only.
    Ca(PathBuf),
}

/// Ends a running measurement early. Clones refer to the same measurement.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The process that listens at the address of `url`, if it runs on this machine and may be inspected.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "called before the measurement, on the program's own thread"
)]
pub fn listening_process(url: &str) -> Option<u32> {
    let target = Destination::parse(url).ok()?;
    let mut found = (target.host.as_str(), target.port).to_socket_addrs().ok()?;
    found.find_map(listener::listening)
}

impl Options {
    /// The defaults of the command line.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            users: 1,
            protocol: Protocol::default(),
            duration: Duration::from_secs(10),
            requests: None,
            grpc_messages: None,
            connection_per_request: false,
            warm_up: Duration::from_secs(3),
            method: None,
            payload: Payload::None,
            scenario: None,
            tokens: None,
            headers: Vec::new(),
            expect: None,
            trust: Trust::System,
            threads: 1,
            timeout: Duration::from_secs(20),
            shape: load::Shape::default(),
            recordings: Recordings::default(),
            seed: 0,
            target_pids: Vec::new(),
            ctrl_c: false,
            stop: Stop::default(),
        }
    }

    /// # Errors
    /// [`LoadError::Usage`] for the first option out of range.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        if self.users == 0 || self.users > limits::LOAD_USERS_MAX {
            return usage(format!(
                "users: expected 1 to {}, not {}",
                limits::LOAD_USERS_MAX,
                self.users
            ));
        }
        let (connections, streams) =
            (self.protocol.connections(self.users), self.protocol.streams(self.users));
        if connections == 0 || connections > self.users {
            let users = self.users;
            return usage(format!(
                "connections: expected 1 to {users} (at most one per user), not {connections}"
            ));
        }
        if streams > limits::LOAD_STREAMS_MAX {
            let most = limits::LOAD_STREAMS_MAX;
            return usage(format!(
                "streams: expected at most {most} per connection, not {streams}"
            ));
        }
        let most = connections.min(limits::WORKERS_MAX);
        if self.threads == 0 || self.threads > most {
            return usage(format!(
                "threads: expected 1 to {most} (at most one per connection), not {}",
                self.threads
            ));
        }
        let longest = Duration::from_secs(limits::LOAD_S_MAX);
        if self.duration.is_zero() || self.duration > longest {
            return usage("duration: must be above 0 and at most 24h".to_owned());
        }
        if self.warm_up > longest {
            return usage("warm-up: must be at most 24h".to_owned());
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(limits::LOAD_TIMEOUT_S_MAX)
        {
            return usage(format!(
                "timeout: must be above 0 and at most {}s",
                limits::LOAD_TIMEOUT_S_MAX
            ));
        }
        if let Err(text) = self.shape.check(self.users) {
            return usage(text);
        }
        if self.requests == Some(0) {
            return usage("requests: must be at least 1".to_owned());
        }
        if self.requests.is_some() && self.shape.needs_time() {
            return usage(
                "requests: the load changes over the measured time; set a time".to_owned(),
            );
        }
        if let Some(needed) = self.shape.duration()
            && needed != self.duration
        {
            let (needed, given) = (needed.as_secs_f64(), self.duration.as_secs_f64());
            return usage(format!("duration: the stages take {needed}s, not {given}s"));
        }
        if self.connection_per_request && streams > 1 {
            return usage(
                "connection-per-request: users cannot share connections; omit --streams".to_owned(),
            );
        }
        self.check_scenario()?;
        self.check_protocol()?;
        if let Some(path) = self.recordings.existing() {
            return usage(format!("{} already exists; choose a new file", path.display()));
        }
        if self.expect.as_ref().is_some_and(|text| text.len() > limits::LOAD_EXPECT_BYTES_MAX) {
            return usage(format!(
                "expect: must be at most {} bytes",
                limits::LOAD_EXPECT_BYTES_MAX
            ));
        }
        Ok(())
    }

    /// gRPC and WebSocket messages.
    fn check_protocol(&self) -> Result<(), LoadError> {
        let usage = |text: &str| Err(LoadError::Usage(text.to_owned()));
        let is_http2 = matches!(self.protocol, Protocol::Http2 { .. });
        let is_websocket = self.protocol == Protocol::WebSocket;
        let most = limits::LOAD_GRPC_MESSAGES_MAX;
        if self.grpc_messages.is_some_and(|count| !is_http2 || count == 0 || count > most) {
            return usage(&format!("grpc: needs HTTP/2, and 1 to {most} messages"));
        }
        if (self.grpc_messages.is_some() || is_websocket) && self.scenario.is_some() {
            return usage("scenario: its requests are plain HTTP");
        }
        if (self.grpc_messages.is_some() || is_websocket) && self.method.is_some() {
            return usage("method: gRPC always uses POST, and WebSocket GET");
        }
        let scheme = self.url.split("://").next().unwrap_or_default();
        if is_websocket != ["ws", "wss"].contains(&scheme) {
            return usage("url: ws:// and wss:// are for WebSocket messages without HTTP/2");
        }
        Ok(())
    }

    /// A scenario defines its own requests, and think times need a closed loop.
    fn check_scenario(&self) -> Result<(), LoadError> {
        let Some(scenario) = &self.scenario else { return Ok(()) };
        let given = [
            ("method", self.method.is_some()),
            ("payload", self.payload != Payload::None),
            ("expect", self.expect.is_some()),
        ];
        if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
            let text = format!("{name}: set by the requests of the scenario");
            return Err(LoadError::Usage(text));
        }
        match scenario.thinking().filter(|_| self.shape.is_open()) {
            Some(name) => Err(LoadError::Usage(format!(
                "scenario: request `{name}` has a think time, but the rate decides when requests are sent"
            ))),
            None => Ok(()),
        }
    }
}

/// Parses a pause, `200ms`, or a range of which it is drawn, `100ms..300ms`.
///
/// # Errors
/// A message for the user.
pub fn parse_think(text: &str) -> Result<Think, String> {
    let us = |text| parse_duration(text).map(load::us);
    match text.split_once("..") {
        Some((from, to)) => Ok(Think::Uniform { from_us: us(from)?, to_us: us(to)? }),
        None => Ok(Think::Constant { us: us(text)? }),
    }
}

/// Parses `10s`, `500ms`, `1.5m`, `1h`.
///
/// # Errors
/// A message for the user.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match text.strip_prefix(digits).unwrap_or_default() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => {
            return Err(format!(
                "`{text}` is not a duration; write a number with ms, s, m or h, such as 10s"
            ));
        }
    };
    let number: f64 = digits.parse().map_err(|_| {
        format!(
            "`{text}` is not a duration; write a number with ms, s, m or h, \
         such as 10s"
        )
    })?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|error| format!("`{text}`: {error}"))
}

/// Parses `Name: value`.
///
/// # Errors
/// A message for the user.
pub fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` is not a header field; write 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::suite::Source;

    #[test]
    fn durations_are_read_with_their_unit() {
        for (text, ms) in
            [("10s", 10_000), ("1.5s", 1_500), ("250ms", 250), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "3", "-1s", "1 s", "1d", "1e30s", "infs", "99999999999999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn header_fields_are_split_at_the_first_colon() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(parse_header("X-A: b"), pair("X-A", "b"));
        assert_eq!(parse_header("Host:a:80"), pair("Host", "a:80"));
        assert_eq!(parse_header("X-A:"), pair("X-A", ""));
        assert!(parse_header("X-A").is_err());
    }

    #[test]
    fn values_out_of_range_are_rejected_by_name() {
        check(|_| {}, "");
        check(|o| o.users = 0, "users");
        check(|o| o.users = limits::LOAD_USERS_MAX + 1, "users");
        check(|o| o.threads = 0, "threads");
        check(|o| o.threads = 2, "threads");
        check(|o| (o.users, o.threads) = (2, 2), "");
        let shared = |users, connections| {
            move |o: &mut Options| {
                (o.users, o.protocol) = (users, Protocol::Http2 { connections });
            }
        };
        check(shared(4, 0), "connections");
        check(shared(4, 5), "connections");
        check(shared(limits::LOAD_STREAMS_MAX + 1, 1), "streams");
        let threads = |connections| {
            move |o: &mut Options| {
                (o.users, o.threads) = (4, 2);
                o.protocol = Protocol::Http2 { connections };
            }
        };
        check(threads(2), "");
        check(threads(1), "threads");
        check(|o| o.duration = Duration::ZERO, "duration");
        check(|o| o.duration = Duration::from_secs(limits::LOAD_S_MAX + 1), "duration");
        check(|o| o.warm_up = Duration::ZERO, "");
        check(|o| o.warm_up = Duration::from_secs(limits::LOAD_S_MAX + 1), "warm-up");
        check(|o| o.timeout = Duration::ZERO, "timeout");
        check(|o| o.timeout = Duration::from_secs(limits::LOAD_TIMEOUT_S_MAX + 1), "timeout");
        check(|o| o.shape = load::Shape::Arrivals { rate_per_s: 0.0 }, "rate");
        let stages = || load::Shape::Stages { stages: "5/s for 9s".parse().unwrap() };
        check(|o| (o.shape, o.duration) = (stages(), Duration::from_secs(9)), "");
        check(|o| o.shape = stages(), "duration: the stages take 9s, not 10s");
        let one = Protocol::Http2 { connections: 1 };
        let thinking = "[[request]]\nname = 'a'\npath = '/'\nthink_time = '1s'";
        let source = Source { name: "a.toml".into(), text: thinking.to_owned() };
        let scenario = Scenario::from_source(&source).map(Arc::new).ok();
        check(|o| o.scenario = scenario.clone(), "");
        check(|o| (o.scenario, o.method) = (scenario.clone(), Some("PUT".to_owned())), "method");
        let open = || load::Shape::Arrivals { rate_per_s: 1.0 };
        check(|o| (o.scenario, o.shape) = (scenario.clone(), open()), "scenario: request `a`");
        let grpc = |count, protocol| {
            move |o: &mut Options| (o.grpc_messages, o.protocol) = (Some(count), protocol)
        };
        check(grpc(1, one), "");
        check(grpc(0, one), "grpc");
        check(grpc(1, Protocol::Http1), "grpc");
        check(|o| o.protocol = Protocol::WebSocket, "url");
        check(|o| o.url = "wss://h/".to_owned(), "url");
        let websocket = |o: &mut Options| {
            (o.url, o.protocol) = ("ws://h/".to_owned(), Protocol::WebSocket);
        };
        check(websocket, "");
        let get = |o: &mut Options| o.method = Some("GET".to_owned());
        check(
            |o| [websocket, get].iter().for_each(|change: &fn(&mut Options)| change(o)),
            "method",
        );
        check(|o| o.requests = Some(0), "requests");
        check(|o| o.requests = Some(1), "");
        let ramp = || load::Shape::RampArrivals { from_per_s: 1.0, to_per_s: 2.0 };
        check(|o| (o.requests, o.shape) = (Some(1), ramp()), "requests");
        check(|o| (o.requests, o.shape) = (Some(1), stages()), "requests");
        check(
            |o| (o.connection_per_request, o.users, o.protocol) = (true, 2, one),
            "connection-per-request",
        );
        check(|o| o.recordings.jtl = Some("Cargo.toml".into()), "Cargo.toml already exists");
        check(|o| o.expect = Some("x".repeat(limits::LOAD_EXPECT_BYTES_MAX + 1)), "expect");
    }

    #[test]
    fn users_are_spread_evenly_over_any_number_of_connections() {
        for (users, connections) in [(1, 1), (7, 2), (9, 5), (20_000, 7), (100, 100)] {
            let protocol = Protocol::Http2 { connections };
            let all: Vec<_> = (0..connections).map(|at| protocol.users_of(at, users)).collect();
            assert_eq!(all.iter().cloned().flatten().collect::<Vec<_>>(), Vec::from_iter(0..users));
            let most = protocol.streams(users);
            assert!(all.iter().all(|of| of.len() == most || of.len() + 1 == most), "{all:?}");
        }
    }

    #[track_caller]
    fn check(change: impl Fn(&mut Options), expect: &str) {
        let mut options = Options::new("http://localhost/");
        change(&mut options);
        match options.check() {
            Ok(()) => assert_eq!(expect, ""),
            Err(error) => assert!(error.to_string().starts_with(expect), "{error}"),
        }
    }
}
