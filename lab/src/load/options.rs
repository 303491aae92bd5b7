//! The options of a measurement, as set by the flags of `penstock lab load`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::limits;
use serde::{Deserialize, Serialize};

use crate::load::{self, LoadError};
use crate::payload::JsonShape;
use crate::recording::Recordings;

/// The options of a measurement. [`Options::new`] returns the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Absolute `http://` or `https://` URL.
    pub url: String,
    /// Number of users, each with at most one request in flight. 1 to [`limits::LOAD_USERS_MAX`].
    pub users: usize,
    /// Default: HTTP/1.1.
    pub protocol: Protocol,
    /// Measured time, after the warm-up. Default: 10 s.
    pub duration: Duration,
    /// Warm-up, not measured. Default: 3 s.
    pub warm_up: Duration,
    /// Default: POST with a payload, GET without.
    pub method: Option<String>,
    pub payload: Payload,
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
    /// Random seed, used for think times from a range. Default: 0.
    pub seed: u64,
    /// Whether Ctrl-C (SIGINT) ends the measurement early, with a report.
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
    /// `streams` users share a connection. Over TLS it is agreed by ALPN, in clear it is assumed (prior knowledge).
    Http2 { streams: usize },
}

impl Protocol {
    /// The number of connections of `users`.
    #[must_use]
    pub fn connections(self, users: usize) -> usize {
        users.div_ceil(self.streams())
    }

    /// Users of a connection.
    #[must_use]
    pub fn streams(self) -> usize {
        match self {
            Self::Http1 => 1,
            Self::Http2 { streams } => streams.max(1),
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 { .. } => "HTTP/2",
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

impl Options {
    /// The defaults of the command line.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            users: 1,
            protocol: Protocol::default(),
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(3),
            method: None,
            payload: Payload::None,
            tokens: None,
            headers: Vec::new(),
            expect: None,
            trust: Trust::System,
            threads: 1,
            timeout: Duration::from_secs(20),
            shape: load::Shape::default(),
            recordings: Recordings::default(),
            seed: 0,
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
        if let Protocol::Http2 { streams } = self.protocol
            && (streams == 0 || streams > limits::LOAD_STREAMS_MAX)
        {
            let most = limits::LOAD_STREAMS_MAX;
            return usage(format!("streams: expected 1 to {most} per connection, not {streams}"));
        }
        let most = self.protocol.connections(self.users).min(limits::WORKERS_MAX);
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
mod tests {
    use super::*;

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
        check(|o| o.protocol = Protocol::Http2 { streams: 0 }, "streams");
        check(
            |o| o.protocol = Protocol::Http2 { streams: limits::LOAD_STREAMS_MAX + 1 },
            "streams",
        );
        check(|o| (o.users, o.threads, o.protocol) = (4, 2, Protocol::Http2 { streams: 2 }), "");
        check(
            |o| (o.users, o.threads, o.protocol) = (4, 2, Protocol::Http2 { streams: 4 }),
            "threads",
        );
        check(|o| o.duration = Duration::ZERO, "duration");
        check(|o| o.duration = Duration::from_secs(limits::LOAD_S_MAX + 1), "duration");
        check(|o| o.warm_up = Duration::ZERO, "");
        check(|o| o.warm_up = Duration::from_secs(limits::LOAD_S_MAX + 1), "warm-up");
        check(|o| o.timeout = Duration::ZERO, "timeout");
        check(|o| o.timeout = Duration::from_secs(limits::LOAD_TIMEOUT_S_MAX + 1), "timeout");
        check(|o| o.shape = load::Shape::Arrivals { rate_per_s: 0.0 }, "rate");
        check(|o| o.recordings.jtl = Some("Cargo.toml".into()), "Cargo.toml already exists");
        check(|o| o.expect = Some("x".repeat(limits::LOAD_EXPECT_BYTES_MAX + 1)), "expect");
    }

    #[track_caller]
    fn check(change: fn(&mut Options), expect: &str) {
        let mut options = Options::new("http://localhost/");
        change(&mut options);
        match options.check() {
            Ok(()) => assert_eq!(expect, ""),
            Err(error) => assert!(error.to_string().starts_with(expect), "{error}"),
        }
    }
}
