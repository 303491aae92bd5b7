//! An API as the gateway serves it, whatever file described it.

use std::path::PathBuf;

use base::Method;

/// One API in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Api {
    /// `info.title`, for people, logs and metrics.
    pub name: String,
    /// `info.version`.
    pub version: String,
    /// The whole prefix, version included: starts with `/`, does not end with it; empty for the root.
    pub base_path: String,
    /// The second prefix, without the version, where `x-penstock-default-version` asks for it.
    pub default_path: Option<String>,
    /// Host names in lower case, without port; `*.example.org` stands for one or more labels.
    /// Empty: every host.
    pub hosts: Vec<String>,
    pub transports: Transports,
    /// Header that carries the credential, in lower case. `authorization` unless said otherwise.
    pub auth_header: String,
    /// Whether the credential is passed on to the backend.
    pub forward_auth_header: bool,
    pub cors: Option<Cors>,
    /// Protocols besides `websocket` that may be tunnelled after a 101, in lower case.
    pub upgrades: Vec<String>,
    /// In the order of the file. No two share method and template.
    pub operations: Vec<Operation>,
    /// Endpoint sets, referred to by index.
    pub upstreams: Vec<Upstream>,
    /// Index in `upstreams`; used when an operation names none of its own.
    pub production: Option<usize>,
    /// Index in `upstreams`.
    pub sandbox: Option<usize>,
    /// The file that described it.
    pub source: PathBuf,
}

/// Which listeners an API answers on. The other one gets 403, "Unsupported Transport".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transports {
    pub http: bool,
    pub https: bool,
}

/// One method on one path template.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    pub method: Method,
    /// Below the base path: `/pets/{id}`, `/*`, `/files/*`, or empty for the base path itself.
    pub template: String,
    pub security: Security,
    /// Index in `Api::upstreams`, overriding the API's.
    pub production: Option<usize>,
    /// Index in `Api::upstreams`, overriding the API's.
    pub sandbox: Option<usize>,
}

/// What a caller has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Security {
    /// Said so explicitly by the file.
    Open,
    /// A valid token of one of the configured issuers.
    Token(ScopeRule),
}

/// Which scopes a token needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeRule {
    /// None in particular.
    Anything,
    /// At least one of these (WSO2's rule).
    AnyOf(Vec<String>),
    /// Each of these (`x-penstock-scopes: all`).
    AllOf(Vec<String>),
}

/// Cross-origin rules (`x-wso2-cors`). Absent on an API: OPTIONS goes to the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// `*` or origins.
    pub allow_origins: Vec<String>,
    /// Empty: the methods of the resource.
    pub allow_methods: Vec<String>,
    pub allow_headers: Vec<String>,
    pub expose_headers: Vec<String>,
    pub allow_credentials: bool,
}

/// Endpoints that can answer the same operation. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    pub kind: UpstreamKind,
    pub endpoints: Vec<Endpoint>,
    /// Longest wait for the response head, in milliseconds; `limits::RESPONSE_HEAD_MS_MAX` by default.
    pub response_head_ms: u32,
    pub suspension: Suspension,
}

/// How the next endpoint is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKind {
    /// One endpoint.
    Single,
    /// Each in turn, leaving out the suspended ones.
    RoundRobin,
    /// The first that is not suspended.
    Failover,
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub scheme: Scheme,
    /// Host name or address, in lower case, IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// Prefix of the forwarded path: empty, or starts with `/` and does not end with it.
    pub path: String,
    /// What stands in the forwarded `Host`: the port only where it is not the scheme's own.
    pub authority: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// When a failing endpoint is left alone, and for how long. A failure is a refused, broken or
/// timed-out exchange, never a status. Source: Synapse `suspendOnFailure`, whose 30 s are the longest here; it begins with a
/// second, so that a backend that restarts is back soon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspension {
    /// Failures in a row that suspend; 0: never suspended.
    pub after_failures: u32,
    pub initial_ms: u32,
    /// Each further suspension lasts this many times as long as the one before.
    pub factor: f64,
    pub max_ms: u32,
}

impl Default for Suspension {
    fn default() -> Self {
        Self { after_failures: 3, initial_ms: 1_000, factor: 2.0, max_ms: 30_000 }
    }
}
