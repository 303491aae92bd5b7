//! OpenAPI 3.0, 3.1 and Swagger 2.0 descriptions, with the `x-wso2-*` and `x-penstock-*` extensions.
//!
//! One document becomes one [`Api`]. What routing does not need (schemas, parameters, responses) is
//! checked to be JSON or YAML and otherwise not read.
//!
//! Architecture invariant: absent means secured; only an explicit word of the file opens an operation.

mod cors;
mod document;
mod endpoints;
mod extensions;
mod general;
mod paths;
mod refs;
mod security;
mod servers;
mod values;

use std::path::Path;

use model::{Api, Diagnostic};

use crate::report::Report;

pub(crate) use extensions::is_extension;
pub(crate) use paths::normalise;

/// What the configuration says for every API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Longest wait for a backend's response head, in milliseconds, where the file gives none.
    pub response_head_ms: u32,
    /// Whether there is an `[[issuer]]` whose tokens a secured API can ask for.
    pub issuers_configured: bool,
}

/// What one file gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Absent when any diagnostic is an error.
    pub api: Option<Api>,
    /// In the order of the file; at most `limits::DIAGNOSTICS_MAX`.
    pub diagnostics: Vec<Diagnostic>,
    /// The base path, where it could be read, even if the API is refused: it can answer 503 then.
    pub base_path: Option<String>,
    /// The hosts of `x-penstock-hosts`, even if the API is refused. Empty: every host.
    pub hosts: Vec<String>,
}

/// Loads a file that a `$ref` names, by its path relative to the folder of the API's file. The path
/// was checked: it is relative, holds no `..` and is no URL. The error's text is told as it is.
pub type Refs<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// Reads one description. `file` is for messages and `Api::source`, and tells JSON from YAML.
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
