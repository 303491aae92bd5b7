//! OpenAPI 3.0, 3.1 and Swagger 2.0 descriptions, with the `x-wso2-*` and `x-penstock-*` extensions; and projects of
//! API Manager, which contain a description.
//!
//! One document becomes one [`Api`]. The parts that routing does not need (schemas, parameters, responses) are only
//! checked to be well-formed, unless a policy compares messages with them.
//!
//! Architecture invariant: an operation requires a token unless the file explicitly states otherwise.

mod backend_auth;
mod certificates;
mod contract;
pub(crate) mod cors;
mod document;
mod endpoints;
mod extensions;
mod general;
mod interceptors;
mod paths;
mod policies;
mod project;
mod refs;
mod resilience;
mod schemes;
mod security;
mod servers;
mod tiers;
mod values;

use std::path::Path;

use base::limits;
use model::{Api, Diagnostic};

use crate::declarative;
use crate::report::Report;

pub(crate) use extensions::is_extension;
pub use paths::normalised;

/// Settings of the configuration that apply to every API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Longest wait for a response head, in milliseconds, unless the file sets another.
    pub response_head_ms: u32,
    /// Longest wait for the response head of one try, in milliseconds, unless the file sets another.
    pub try_ms: Option<u32>,
    /// Retries as a percentage of the requests to an endpoint set.
    pub retry_budget_percent: u32,
    /// Whether an `[[issuer]]` is configured, which an API that requires tokens needs.
    pub issuers_configured: bool,
    /// Whether `applications` are configured, whose keys an API may accept.
    pub applications_configured: bool,
    /// The names of `[[credential]]`.
    pub credentials: Vec<String>,
    /// The names of credentials that are only for sets of one endpoint.
    pub of_one_endpoint: Vec<String>,
    /// The names of `[[login]]`.
    pub logins: Vec<String>,
    /// Whether a `[[user]]` is configured, whose passwords an API may accept.
    pub users_configured: bool,
    /// Whether paths with more than one interpretation are rejected, unless the file overrides it.
    pub strict_paths: bool,
    /// The names of plans.
    pub plans: Vec<String>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            response_head_ms: limits::RESPONSE_HEAD_MS_MAX,
            try_ms: None,
            retry_budget_percent: limits::RETRY_BUDGET_PERCENT,
            issuers_configured: true,
            applications_configured: true,
            credentials: Vec::new(),
            of_one_endpoint: Vec::new(),
            logins: Vec::new(),
            users_configured: true,
            strict_paths: false,
            plans: declarative::shipped().iter().map(|plan| plan.name.clone()).collect(),
        }
    }
}

/// The result of reading one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Absent when any diagnostic is an error.
    pub api: Option<Api>,
    /// Diagnostics in the order of the file; at most `limits::DIAGNOSTICS_MAX`.
    pub diagnostics: Vec<Diagnostic>,
    /// The base path if it is readable, even if the API is rejected: the gateway then responds with
    /// 503 there.
    pub base_path: Option<String>,
    /// The hosts of `x-penstock-hosts`, even if the API is rejected. An empty list stands for every host.
    pub hosts: Vec<String>,
}

/// Loads a file that a `$ref` names. The path is relative to the folder of the description and has
/// been checked: it contains no `..` and is not a URL. The error becomes part of a diagnostic.
pub type Refs<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Reads one description. `file` is used in diagnostics and as `Api::source`; its extension selects
/// JSON or YAML.
#[must_use]
pub fn read(file: &Path, text: &[u8], refs: Refs<'_>, defaults: &Defaults) -> Outcome {
    let mut report = Report::new(file);
    let mut outcome = document::read(file, text, refs, defaults, &mut report);
    if report.has_errors() {
        outcome.api = None;
    }
    outcome.diagnostics = report.finish(file);
    outcome
}

#[cfg(test)]
mod tests;
