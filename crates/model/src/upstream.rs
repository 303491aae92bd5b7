//! Endpoint sets: the addresses that requests are forwarded to, and the rules for failures, which docs/resilience.md
//! describes.

use base::limits;

use crate::BackendAuth;

/// The endpoints of an operation. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    pub kind: UpstreamKind,
    pub endpoints: Vec<Endpoint>,
    /// Longest wait for the response head, all tries included, in milliseconds.
    pub response_head_ms: u32,
    /// Longest wait for the response head of one try, in milliseconds. If `None`, only `response_head_ms` limits it.
    pub try_ms: Option<u32>,
    pub retry: Retry,
    pub suspension: Suspension,
    pub connections: ConnectionLimits,
    pub health_check: Option<HealthCheck>,
    /// Time for which an endpoint that is active again gets a growing share of the requests, in milliseconds; 0: none.
    pub slow_start_ms: u32,
    /// The credential of the gateway at these endpoints.
    pub credential: Option<BackendAuth>,
}

impl Upstream {
    /// A set with default rules.
    #[must_use]
    pub fn new(kind: UpstreamKind, endpoints: Vec<Endpoint>) -> Self {
        Self {
            kind,
            endpoints,
            response_head_ms: limits::RESPONSE_HEAD_MS_MAX,
            try_ms: None,
            retry: Retry::default(),
            suspension: Suspension::default(),
            connections: ConnectionLimits::default(),
            health_check: None,
            slow_start_ms: 0,
            credential: None,
        }
    }
}

/// A GET that the gateway sends to each endpoint from time to time. It passes if the response has a 2xx status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path below the endpoint's own path; starts with `/`.
    pub path: String,
    pub interval_ms: u32,
    /// Longest wait for the whole response, in milliseconds.
    pub timeout_ms: u32,
    /// Failed checks in a row after which the endpoint is suspended.
    pub unhealthy_after: u32,
    /// Passed checks in a row after which the endpoint is active again.
    pub healthy_after: u32,
}

/// How the next endpoint is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKind {
    /// One endpoint.
    Single,
    /// Each in turn, skipping suspended ones.
    RoundRobin,
    /// Picks two endpoints at random among those that are not suspended, and uses the one with fewer requests in
    /// progress.
    LeastRequests,
    /// The first endpoint that is not suspended.
    Failover,
}

/// An address that requests are forwarded to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub scheme: Scheme,
    /// Host name or address, in lower case, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// Prefix of the forwarded path: empty, or starts with `/` and does not end with it.
    pub path: String,
    /// The forwarded `Host`: without port if it is the scheme's default.
    pub authority: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// When a request is sent again. Only requests that are safe to repeat are retried: idempotent requests without any
/// part of the body sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Largest number of retries of one request.
    pub count: u32,
    /// Pause before the first retry, in milliseconds.
    pub pause_ms: u32,
    /// Each further pause is this many times as long as the last one.
    pub factor: f64,
    /// Longest pause, in milliseconds.
    pub pause_ms_max: u32,
    /// Responses with one of these statuses are retried, besides failed exchanges.
    pub statuses: Vec<u16>,
    /// Largest number of requests that are retried at the same time. `None` for no limit other than the budget.
    pub concurrent_max: Option<u32>,
    /// Retries of a worker, as a percentage of its requests to the set.
    pub budget_percent: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            count: 1,
            pause_ms: 0,
            factor: 1.0,
            pause_ms_max: limits::CONFIGURED_MS_MAX,
            statuses: Vec::new(),
            concurrent_max: None,
            budget_percent: limits::RETRY_BUDGET_PERCENT,
        }
    }
}

/// When and for how long a failing endpoint is suspended. A failure is a refused, broken or timed-out exchange; never a
/// status, unless a circuit breaker lists it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Suspension {
    /// Suspended if it fails far more often than it succeeds, but never more than half of a set.
    #[default]
    Outliers,
    /// Suspended after a number of failures in a row, even if it is the only endpoint; 0: never. `codes`: the failures
    /// that count, if not all. `marks`: the only failures that are counted; any other of the `codes` suspends the
    /// endpoint immediately. `mark_ms`: time for which the endpoint is not used after a counted failure. Source:
    /// Synapse `suspendOnFailure`, `markForSuspension`.
    Consecutive {
        failures: u32,
        lasts: SuspensionTime,
        codes: Option<Vec<u32>>,
        marks: Option<Vec<u32>>,
        mark_ms: u32,
    },
    /// Suspended if too many of its exchanges fail, even if it is the only endpoint. Source: API Microgateway
    /// `circuitBreaker`.
    Ratio(CircuitBreaker),
}

/// The duration of suspensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SuspensionTime {
    /// Duration of the first suspension; `None` is 30 s, which `max_ms` does not limit.
    pub initial_ms: Option<u32>,
    /// Factor by which each further suspension is longer than the last one. Below zero: 30 s, which `max_ms` does not
    /// limit.
    pub factor: f64,
    pub max_ms: u32,
}

/// Short at first, so that an endpoint that restarts is used again soon; later as long as Synapse's, 30 s.
impl Default for SuspensionTime {
    fn default() -> Self {
        Self { initial_ms: Some(1_000), factor: 2.0, max_ms: 30_000 }
    }
}

/// When a circuit breaker opens.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitBreaker {
    /// Fewest exchanges in the window that can open it.
    pub requests_min: u32,
    /// Length of the window, in milliseconds.
    pub window_ms: u32,
    /// The breaker opens if a larger part of the exchanges fails, from 0 to 1.
    pub failure_ratio: f64,
    /// Duration of the suspension, in milliseconds.
    pub reset_ms: u32,
    /// Responses with one of these statuses are failures.
    pub statuses: Vec<u16>,
}

/// Limits on the connections to each endpoint, for the whole gateway: each worker gets an equal share, at least one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections in use. More: requests wait. If `None`, `limits::UPSTREAM_CONNECTIONS_MAX` per worker.
    pub in_use_max: Option<u32>,
    /// Idle connections that are kept. If `None`, `limits::UPSTREAM_IDLE_MAX` per worker.
    pub idle_max: Option<u32>,
    /// Requests waiting for a connection. More: 303001. If `None`, `limits::UPSTREAM_WAITERS_MAX` per worker.
    pub waiting_max: Option<u32>,
    /// Longest wait for a connection in use by another request, in milliseconds. If `None`, as long as connecting may
    /// take.
    pub wait_ms: Option<u32>,
}
