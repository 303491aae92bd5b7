//! A case as tables and charts see it: its figures with their names, and today's warnings about it.

use serde_json::Value;

use crate::report::results::StoredResult;
use crate::result::{CaseResult, State, Use, Warning};
use crate::validity::measured;

/// A case with its warnings.
#[derive(Clone, Debug)]
pub struct CaseView {
    pub found: StoredResult,
    /// What the checks say today, and what the run could not do.
    pub warnings: Vec<Warning>,
}

impl CaseView {
    #[must_use]
    pub fn new(found: StoredResult) -> Self {
        let warnings = measured::warnings(&found.result);
        Self { found, warnings }
    }

    #[must_use]
    pub fn result(&self) -> &CaseResult {
        &self.found.result
    }

    /// A figure of `load`, exact.
    #[must_use]
    pub fn exact(&self, name: &str) -> Option<f64> {
        self.result().figure(name)
    }

    /// A figure as the published pipeline makes it: whole milliseconds, two significant digits.
    #[must_use]
    pub fn published(&self, name: &str) -> Option<f64> {
        self.result().load.get("published")?.get(name).and_then(Value::as_f64)
    }

    /// User and system CPU time of the target per request, in microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> Option<f64> {
        self.result().target_use.map(|used| used.cpu_user_us + used.cpu_system_us)
    }

    #[must_use]
    pub fn use_of_target(&self) -> Option<Use> {
        self.result().target_use
    }

    /// Whether its figures may be taken at face value.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.result().state == State::Measured && self.warnings.is_empty()
    }

    /// What stands beside the row: why there are no figures, or what speaks against them.
    #[must_use]
    pub fn remarks(&self) -> String {
        let result = self.result();
        let reason = || result.reason.clone().unwrap_or_default();
        match result.state {
            State::NotServed => format!("not served: {}", reason()),
            State::Failed => format!("failed: {}", reason()),
            State::Measured => {
                let told = self.warnings.iter().map(|warning| {
                    let Warning { check, message } = warning;
                    format!("{check}: {message}")
                });
                told.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// What published tables call the scenario, or the suite.
    #[must_use]
    pub fn scenario(&self) -> &str {
        let result = self.result();
        result.scenario_name.as_deref().unwrap_or(&result.case.scenario)
    }

    /// Target, and the setting that a sweep varies.
    #[must_use]
    pub fn target(&self) -> String {
        let case = &self.result().case;
        match &case.sweep {
            Some((key, value)) => format!("{} {key}={value}", case.target),
            None => case.target.clone(),
        }
    }
}

/// `50B`, `1KiB`, `1000B`: sizes as the published tables show them.
#[must_use]
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0 => "0B".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1_024 * 1_024) => format!("{}MiB", bytes / (1_024 * 1_024)),
        _ if bytes.is_multiple_of(1_024) => format!("{}KiB", bytes / 1_024),
        _ => format!("{bytes}B"),
    }
}

/// Up to `decimals` decimals, half to even, no zeros at the end.
#[must_use]
pub(super) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
