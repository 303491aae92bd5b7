//! A case as shown in tables and charts: its figures by name, and its current warnings.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::report::results::StoredResult;
use crate::result::{CaseResult, State, Use, Warning};
use crate::validity::measured;
use crate::warning::Figures;

/// A case with its warnings.
#[derive(Clone, Debug)]
pub struct CaseView {
    pub found: StoredResult,
    /// Warnings of the current validity checks, and those recorded during the run.
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

    /// An exact figure of `load`.
    #[must_use]
    pub fn exact(&self, name: &str) -> Option<f64> {
        self.result().figure(name)
    }

    /// A figure as computed by WSO2's published pipeline.
    #[must_use]
    pub fn published(&self, name: &str) -> Option<f64> {
        self.result().load.get("published")?.get(name).and_then(Value::as_f64)
    }

    /// The name and the figures of each request of a scenario.
    pub fn by_request(&self) -> impl Iterator<Item = (&str, &Value)> {
        let all = self.result().load.get("by_request").and_then(Value::as_array);
        let named = |one: &'_ Value| one.get("name").and_then(Value::as_str).is_some();
        let all = all.into_iter().flatten().filter(move |one| named(one));
        all.map(|one| (one.get("name").and_then(Value::as_str).unwrap_or_default(), one))
    }

    /// User and system CPU time of the target per request, in microseconds: of a suite's samples, or as `lab load`
    /// measured it.
    #[must_use]
    pub fn cpu_us(&self) -> Option<f64> {
        let sampled = self.result().target_use.map(|used| used.cpu_user_us + used.cpu_system_us);
        sampled.or_else(|| self.exact("target_cpu_us_per_request"))
    }

    #[must_use]
    pub fn use_of_target(&self) -> Option<Use> {
        self.result().target_use
    }

    /// Resident memory before the first request.
    #[must_use]
    pub fn idle_mib(&self) -> Option<f64> {
        Some(self.result().start?.idle_rss_bytes? as f64 / 1_048_576.0)
    }

    /// Measured, and no warning concerns these figures.
    #[must_use]
    pub fn is_usable(&self, figures: Figures) -> bool {
        self.result().state == State::Measured
            && !self.warnings.iter().any(|warning| warning.concerns(figures))
    }

    /// Measured, with all figures usable.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        Figures::ALL.into_iter().all(|figures| self.is_usable(figures))
    }

    /// The codes of the warnings that make these figures unusable.
    pub fn codes(&self, figures: Figures) -> impl Iterator<Item = &str> {
        let concerned = self.warnings.iter().filter(move |warning| warning.concerns(figures));
        concerned.map(|warning| warning.code.as_str())
    }

    /// The remarks column: why there are no figures, or the warnings.
    #[must_use]
    pub fn remarks(&self) -> String {
        let result = self.result();
        let reason = || result.reason.clone().unwrap_or_default();
        match result.state {
            State::NotServed => format!("not served: {}", reason()),
            State::Failed => format!("failed: {}", reason()),
            State::Measured => {
                let remarks = self.warnings.iter().map(ToString::to_string);
                remarks.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// The scenario's name in published tables, or else in the suite.
    #[must_use]
    pub fn scenario(&self) -> &str {
        let result = self.result();
        result.scenario_name.as_deref().unwrap_or(&result.case.scenario)
    }

    /// The target, with the swept setting.
    #[must_use]
    pub fn target(&self) -> String {
        let case = &self.result().case;
        match &case.sweep {
            Some((key, value)) => format!("{} {key}={value}", case.target),
            None => case.target.clone(),
        }
    }
}

impl CaseView {
    /// Target, swept setting and heap: the name of a series.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.result().case.heap {
            Some(heap) => format!("{}, {heap} heap", self.target()),
            None => self.target(),
        }
    }
}

/// The measured targets; the place of one is that of its colour.
pub(super) fn targets(views: &[CaseView]) -> BTreeSet<String> {
    let measured = views.iter().filter(|view| view.result().state == State::Measured);
    measured.map(CaseView::name).collect()
}

/// The lower median, so that it is a measured figure.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

/// Sizes as in the published tables: `50B`, `1KiB`, `1000B`.
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

/// At most `decimals` decimals, rounded half to even, without trailing zeros.
#[must_use]
pub(super) fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
