//! Scaling over a swept setting (workers, gateways): the Universal Scalability Law, fitted to each group of
//! cases.
//!
//! Every repetition with a usable rate is a point; failed requests do not count as throughput. Settings that
//! are not numbers are skipped.

use std::collections::BTreeMap;

use super::results::natural;
use super::view::{CaseView, size, trimmed};
use crate::knee::{POINTS_MIN, Usl};
use crate::result::State;
use crate::warning::Figures;

/// Column names.
pub(super) const HEADER: [&str; 8] = [
    "Case",
    "By",
    "Values without warnings",
    "lambda (requests/s at 1)",
    "sigma (contention)",
    "kappa (coherency)",
    "Peak at",
    "Error of the fit (%)",
];

/// One row per target, scenario, users, size and delay, if the sweep has at least two values.
pub(super) fn rows(views: &[CaseView]) -> Vec<Vec<String>> {
    // All points, and those without warnings.
    let mut groups: BTreeMap<_, [Vec<(f64, f64)>; 2]> = BTreeMap::new();
    for view in views.iter().filter(|view| view.result().state == State::Measured) {
        if let Some((case, setting, point)) = point(view) {
            let key = (natural(&case), case, setting);
            let [all, valid] = groups.entry(key).or_default();
            all.push(point);
            valid.extend(view.is_usable(Figures::Rate).then_some(point));
        }
    }
    let several = groups.into_iter().filter(|(_, [all, _])| values(all).len() > 1);
    several.map(|((_, case, setting), [_, valid])| row(case, setting, &valid)).collect()
}

fn point(view: &CaseView) -> Option<(String, String, (f64, f64))> {
    let case = &view.result().case;
    let (setting, value) = case.sweep.as_ref()?;
    let value = value.parse::<f64>().ok().filter(|value| *value > 0.0)?;
    let failed = view.exact("error_percent").unwrap_or(0.0) / 100.0;
    let rate = view.exact("throughput_per_s")? * (1.0 - failed);
    let heap = case.heap.as_ref().map(|heap| format!(", {heap} heap")).unwrap_or_default();
    let delay = match case.delay_ms {
        0 => String::new(),
        ms => format!(", {ms} ms delay"),
    };
    let (users, bytes) = (case.users, size(case.payload_bytes));
    let name = format!("{}{heap}, {}, {users} users, {bytes}{delay}", case.target, case.scenario);
    Some((name, setting.clone(), (value, rate)))
}

fn values(points: &[(f64, f64)]) -> Vec<f64> {
    let mut values: Vec<f64> = points.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

fn row(case: String, setting: String, points: &[(f64, f64)]) -> Vec<String> {
    let values = values(points);
    let mut list = values.iter().map(|value| trimmed(*value, 3)).collect::<Vec<_>>().join(", ");
    if list.is_empty() {
        "none".clone_into(&mut list);
    }
    let mut row = vec![case, setting, list];
    match Usl::fit(points) {
        Some(law) => row.extend([
            trimmed(law.lambda, 1),
            trimmed(law.sigma, 5),
            trimmed(law.kappa, 7),
            law.peak().map_or_else(|| "none".to_owned(), |peak| trimmed(peak, 1)),
            trimmed(law.error * 100.0, 2),
        ]),
        None => {
            let why = match values.len() {
                few if few < POINTS_MIN => {
                    format!("needs {POINTS_MIN} values without warnings")
                }
                _ => "no fit".to_owned(),
            };
            row.extend([why.clone(), why.clone(), why.clone(), why.clone(), why]);
        }
    }
    row
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;

    fn view(workers: &str, rate: f64) -> CaseView {
        let mut result = sample();
        result.case.sweep = Some(("workers".to_owned(), workers.to_owned()));
        result.load = serde_json::json!({"throughput_per_s": rate, "error_percent": 0.0});
        CaseView {
            found: StoredResult { file: "result.json".into(), result },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_law_is_fitted_to_cases_without_warnings() {
        let law = Usl { lambda: 1_000.0, sigma: 0.05, kappa: 0.001, error: 0.0, points: 0 };
        let mut views: Vec<CaseView> =
            [1.0, 2.0, 4.0, 8.0, 16.0].map(|n| view(&n.to_string(), law.at(n))).to_vec();
        let mut inconclusive = view("3", 1.0);
        inconclusive.warnings = vec![crate::validity::recorded("errors", "")];
        views.push(inconclusive);
        let found = rows(&views);
        assert_eq!(found.len(), 1);
        let expect = ["workers", "1, 2, 4, 8, 16", "1000", "0.05", "0.001", "30.8", "0"];
        assert_eq!(found.first().unwrap().get(1..).unwrap(), expect);
    }

    #[test]
    fn too_few_values_are_reported_and_words_are_skipped() {
        let few = rows(&[view("1", 10.0), view("2", 20.0)]);
        assert_eq!(few.first().unwrap().get(3).unwrap(), "needs 4 values without warnings");
        let mut inconclusive = [view("1", 10.0), view("2", 20.0)];
        for view in &mut inconclusive {
            view.warnings = vec![crate::validity::recorded("errors", "")];
        }
        let list = rows(&inconclusive);
        let list = list.first().unwrap().get(2..4).unwrap();
        assert_eq!(list, ["none", "needs 4 values without warnings"]);
        assert!(rows(&[view("on", 10.0), view("off", 20.0)]).is_empty());
        assert!(rows(&[view("1", 10.0), view("1", 20.0)]).is_empty());
    }
}
