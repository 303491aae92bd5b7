//! Rows of our own measurements: from `result.json`, or from `penstock lab load --json`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Backend, CHECKS, Conditions, Figure, Generator, Loop, RECORDED, Row, Warning, recorded,
};
use crate::load;
use crate::result::{self, CaseResult, State};

/// Percent, and the key in `load`.
const PERCENTILES: &[(f64, &str)] = &[
    (50.0, "p50_ms"),
    (75.0, "p75_ms"),
    (90.0, "p90_ms"),
    (95.0, "p95_ms"),
    (98.0, "p98_ms"),
    (99.0, "p99_ms"),
    (99.9, "p999_ms"),
    (99.99, "p9999_ms"),
];
/// Significant digits of our own histograms.
const DIGITS: i32 = 3;

impl Row {
    /// The row of a case; `None` if it was not measured.
    #[must_use]
    pub fn of(found: &CaseResult) -> Option<Self> {
        match found.state {
            State::Measured => {}
            State::NotServed | State::Failed => return None,
        }
        let mut row = Self::of_load(&found.load);
        row.label = format!("{} #{}", found.case.id, found.case.repetition);
        let delay_ms = found.case.delay_ms as f64;
        row.backend = Some(Backend { alone_per_s: found.calibration, delay_ms });
        row.conditions = conditions(&found.environment);
        Some(row)
    }

    /// The row of a measurement by `penstock lab load`, without backend and conditions.
    #[must_use]
    pub fn of_load(load: &Value) -> Self {
        let number = |name: &str| load.get(name).and_then(Value::as_f64);
        // Figures of zero requests are meaningless.
        let any = number("requests").is_none_or(|requests| requests > 0.0);
        let figure = |name: &str| number(name).filter(|_| any).map(Figure::exact);
        let percentile = |&(percent, name): &(f64, &str)| {
            figure(name).map(|value| (percent, value.bucketed(DIGITS)))
        };
        Self {
            label: String::new(),
            loop_kind: pace_of_load(load),
            random_arrivals: load.pointer("/shape/kind").and_then(Value::as_str) == Some("poisson"),
            incidents: incidents(load),
            rate_per_s: figure("throughput_per_s"),
            mean_ms: figure("mean_ms"),
            sd_ms: figure("sd_ms"),
            min_ms: figure("min_ms"),
            max_ms: figure("max_ms"),
            percentiles_ms: PERCENTILES.iter().filter_map(percentile).collect(),
            requests: number("requests"),
            measured_s: number("seconds"),
            error_percent: number("requests").zip(number("errors")).map(|(requests, errors)| {
                Figure::exact(if requests > 0.0 { 100.0 * errors / requests } else { 0.0 })
            }),
            errors_by_kind: by_kind(load),
            queued_share: number("queued")
                .zip(number("requests"))
                .map(|(queued, all)| queued / all.max(1.0)),
            generator: generator(load),
            backend: None,
            conditions: Conditions::default(),
        }
    }
}

/// The warnings of a case: those of the current checks, and those that only the run itself could detect,
/// which are stored in `result.json` (such as limits that could not be applied).
#[must_use]
pub fn warnings(found: &CaseResult) -> Vec<Warning> {
    let own = found
        .warnings
        .iter()
        .filter(|warning| CHECKS.iter().all(|check| check.name != warning.code))
        .map(|warning| match RECORDED.iter().any(|(code, ..)| *code == warning.code) {
            // With the severity and the scope that it has today.
            true => recorded(&warning.code, &warning.message),
            false => warning.clone(),
        });
    let of_checks = Row::of(found).map_or_else(Vec::new, |row| row.warnings());
    own.chain(of_checks).collect()
}

/// The loop kind, from the shape recorded by the generator.
fn pace_of_load(load: &Value) -> Loop {
    let shape = load.get("shape").cloned().map(serde_json::from_value::<load::Shape>);
    let Some(Ok(shape)) = shape else { return Loop::Unknown };
    let users = load.pointer("/options/users").and_then(Value::as_u64);
    let users = users.and_then(|users| shape.mean_users(usize::try_from(users).ok()?));
    match (shape.rate_per_s(), users) {
        (Some(asked_per_s), _) => Loop::Open { asked_per_s },
        (None, Some(users)) => {
            let measured = load.get("mean_pause_ms").and_then(Value::as_f64);
            Loop::Closed { users, think_ms: measured.unwrap_or(shape.mean_pause_ms()) }
        }
        (None, None) => Loop::Unknown,
    }
}

fn generator(load: &Value) -> Option<Generator> {
    let number = |name: &str| load.get(name).and_then(Value::as_f64);
    Some(Generator {
        busy: number("generator_busy")?,
        waited: number("generator_waited").unwrap_or(0.0),
        late_p99_ms: number("late_p99_ms"),
        lag_p99_ms: number("generator_lag_p99_ms").unwrap_or(0.0),
    })
}

fn by_kind(load: &Value) -> Option<BTreeMap<String, u64>> {
    let kinds = load.get("errors_by_kind")?.as_object()?;
    Some(kinds.iter().map(|(kind, count)| (kind.clone(), count.as_u64().unwrap_or(0))).collect())
}

fn conditions(found: &result::Environment) -> Conditions {
    let of = |used: u64, most: u64| (most > 0).then_some((used as f64, most as f64));
    Conditions {
        steal_percent: Some(found.steal_percent.max(found.pinned_steal_percent)),
        other_cpu_percent: Some(found.other_cpu_percent.max(found.pinned_other_cpu_percent)),
        clock_step_us: Some(found.clock_step_us as f64),
        ports: of(found.ports_in_use, found.ports_available),
        descriptors: of(found.descriptors, found.descriptors_limit),
    }
}

fn incidents(load: &Value) -> Option<BTreeMap<String, Vec<String>>> {
    let mut incidents: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for incident in load.get("incidents")?.as_array()? {
        let text = |name: &str| incident.get(name)?.as_str().map(str::to_owned);
        if let (Some(name), Some(text)) = (text("name"), text("text")) {
            incidents.entry(name).or_default().push(text);
        }
    }
    Some(incidents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

    #[test]
    fn warnings_of_checks_are_recomputed_and_others_kept() {
        let mut found = sample();
        found.warnings = vec![recorded("limits", "then"), recorded("cpu-steal", "then")];
        assert_eq!(warnings(&found), [recorded("limits", "then")]);
    }
}
