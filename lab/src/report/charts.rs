//! The charts of a results folder.
//!
//! A point is the median of the repetitions in which the figure is usable; if there are none, the median of all,
//! marked. A target has the same colour in every chart. Figures with a single number of users and a single size are
//! bars. Published results are drawn in the background.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::limits;

use super::chart::{Chart, Plot, Point, Series};
use super::history::History;
use super::published::{self, Cell, PublishedFigure, PublishedRow};
use super::view::{CaseView, size};
use crate::result::State;
use crate::warning::Figures;

const MIB: f64 = 1_024.0 * 1_024.0;

/// A figure to draw.
struct Metric {
    id: &'static str,
    title: &'static str,
    y_name: &'static str,
    of: fn(&CaseView) -> Option<f64>,
    figures: Figures,
    published: Option<PublishedFigure>,
    /// Whether there is a chart by message size beside the one by users.
    by_size: bool,
}

#[rustfmt::skip]
const BY_USERS: &[Metric] = &[
    Metric { id: "throughput", title: "Throughput", y_name: "requests per second",
        of: |view| view.exact("throughput_per_s"), figures: Figures::Rate, published: Some(PublishedFigure::Rate), by_size: true },
    Metric { id: "mean", title: "Mean response time", y_name: "mean response time (ms)",
        of: |view| view.exact("mean_ms"), figures: Figures::Latency, published: Some(PublishedFigure::Mean), by_size: true },
    Metric { id: "p99", title: "99th percentile", y_name: "99th percentile of response time (ms)",
        of: |view| view.exact("p99_ms"), figures: Figures::Latency, published: Some(PublishedFigure::P99), by_size: false },
    Metric { id: "errors", title: "Errors", y_name: "failed requests (%)",
        of: |view| view.exact("error_percent"), figures: Figures::Rate, published: Some(PublishedFigure::Errors), by_size: false },
];
#[rustfmt::skip]
const BY_SCENARIO: &[Metric] = &[
    Metric { id: "cpu", title: "CPU per request", y_name: "CPU time per request, user and system (us)",
        of: CaseView::cpu_us, figures: Figures::Cpu, published: None, by_size: false },
    Metric { id: "memory", title: "Memory", y_name: "peak resident memory (MiB)",
        of: |view| Some(view.use_of_target()?.rss_peak_bytes as f64 / MIB), figures: Figures::Cpu, published: None, by_size: false },
    Metric { id: "gc", title: "GC throughput", y_name: "time without a GC pause (%)",
        of: |view| Some(view.result().gc.as_ref()?.throughput_percent), figures: Figures::Cpu, published: None, by_size: false },
];
#[rustfmt::skip]
const PERCENTILES: &[(&str, &str)] = &[
    ("p50", "p50_ms"), ("p75", "p75_ms"), ("p90", "p90_ms"), ("p95", "p95_ms"), ("p98", "p98_ms"),
    ("p99", "p99_ms"), ("p99.9", "p999_ms"), ("p99.99", "p9999_ms"),
];

/// A figure second by second.
struct OverTime {
    id: &'static str,
    title: &'static str,
    y_name: &'static str,
    figures: Figures,
    key: &'static str,
}

#[rustfmt::skip]
const OVER_TIME: &[OverTime] = &[
    OverTime { id: "rate-over-time", title: "Rate over time", y_name: "requests per second", figures: Figures::Rate,
        key: "rate_per_s" },
    OverTime { id: "p50-over-time", title: "Median over time", y_name: "median response time (ms)",
        figures: Figures::Latency, key: "p50_ms" },
    OverTime { id: "p99-over-time", title: "99th percentile over time", y_name: "99th percentile of response time (ms)",
        figures: Figures::Latency, key: "p99_ms" },
    OverTime { id: "errors-over-time", title: "Errors over time", y_name: "failed requests", figures: Figures::Rate,
        key: "errors" },
    OverTime { id: "cpu-over-time", title: "CPU over time", y_name: "CPUs used by the target", figures: Figures::Cpu,
        key: "target_cpus" },
];
/// Shorter series are not drawn; longer ones are cut.
const SECONDS_MIN: usize = 3;
const SECONDS_MAX: usize = 900;

/// Every chart, in the order of the page.
#[must_use]
pub fn charts(views: &[CaseView]) -> Vec<Chart> {
    let published = published::rows();
    let matrix = Matrix::of(views);
    let mut charts = Vec::new();
    for metric in BY_SCENARIO {
        charts.extend(matrix.by_scenario(metric, &published));
    }
    let one_point = matrix.users.len() < 2 && matrix.sizes.len() < 2;
    for metric in BY_USERS {
        if one_point {
            charts.extend(matrix.by_scenario(metric, &published));
        }
        if matrix.users.len() > 1 {
            charts.extend(matrix.by_users(metric, &published));
        }
        if matrix.sizes.len() > 1 && (metric.by_size || matrix.users.len() < 2) {
            charts.extend(matrix.by_size(metric, &published));
        }
    }
    charts.extend(matrix.distributions());
    charts.extend(matrix.by_request());
    for over_time in OVER_TIME {
        charts.extend(matrix.over_time(over_time));
    }
    if matrix.users.len() > 1 {
        charts.extend(matrix.percentiles());
    }
    charts.extend(histories(views));
    make_ids_unique(&mut charts);
    charts
}

/// Makes ids unique, and short enough for file names: sanitising can map different names to the same id.
fn make_ids_unique(charts: &mut [Chart]) {
    let mut known = BTreeSet::new();
    for chart in charts {
        let short: String = chart.id.chars().take(limits::LAB_CHART_ID_CHARS_MAX).collect();
        let numbered = (2_u32..).map(|number| format!("{short}-{number}"));
        let id = std::iter::once(short.clone()).chain(numbered).find(|id| !known.contains(id));
        chart.id = id.unwrap_or(short);
        known.insert(chart.id.clone());
    }
}

/// Measured cases, and the dimensions of their matrix.
struct Matrix<'a> {
    views: Vec<&'a CaseView>,
    scenarios: BTreeSet<&'a str>,
    targets: BTreeSet<String>,
    users: BTreeSet<u32>,
    sizes: BTreeSet<u64>,
    delays: BTreeSet<u64>,
}

impl<'a> Matrix<'a> {
    fn of(views: &'a [CaseView]) -> Self {
        let views: Vec<&CaseView> =
            views.iter().filter(|view| view.result().state == State::Measured).collect();
        let cases = || views.iter().map(|view| &view.result().case);
        Self {
            scenarios: cases().map(|case| case.scenario.as_str()).collect(),
            targets: views.iter().map(|view| view.name()).collect(),
            users: cases().map(|case| case.users).collect(),
            sizes: cases().map(|case| case.payload_bytes).collect(),
            delays: cases().map(|case| case.delay_ms).collect(),
            views,
        }
    }

    /// The median over the repetitions of a cell.
    fn point(
        &self,
        target: &str,
        place: Cell<'_>,
        figures: Figures,
        of: impl Fn(&CaseView) -> Option<f64>,
    ) -> Option<Point> {
        let here = self.repetitions(target, place, figures);
        let value = median(here.iter().filter_map(|view| of(view)))?;
        let codes: BTreeSet<&str> = here.iter().flat_map(|view| view.codes(figures)).collect();
        Some(Point { value, warning: codes.into_iter().collect::<Vec<_>>().join(", ") })
    }

    fn by_users(&self, metric: &Metric, published: &[PublishedRow]) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scenario, bytes, delay_ms) in self.planes(&self.sizes) {
            let keys: Vec<u64> = self.users.iter().map(|&users| u64::from(users)).collect();
            let place = Cell { scenario, users: None, bytes: Some(bytes), delay_ms };
            let at = |users: u32| Cell { users: Some(users), ..place };
            let mut series = self.of_targets(|target| {
                self.users
                    .iter()
                    .map(|&users| self.point(target, at(users), metric.figures, metric.of))
                    .collect()
            });
            if series.is_empty() {
                continue;
            }
            series.extend(
                metric
                    .published
                    .into_iter()
                    .flat_map(|figure| published::series(published, place, &keys, figure)),
            );
            let title = format!("{}: {scenario}, {}{}", metric.title, size(bytes), delay(delay_ms));
            let categories = self.users.iter().map(u32::to_string).collect();
            let id = format!("{}-by-users-{scenario}-{bytes}-{delay_ms}", metric.id);
            charts.push(chart(
                &id,
                title,
                ("users", metric.y_name),
                Plot::Lines { categories, series },
            ));
        }
        charts
    }

    fn by_size(&self, metric: &Metric, published: &[PublishedRow]) -> Vec<Chart> {
        let users: BTreeSet<u64> = self.users.iter().map(|&users| u64::from(users)).collect();
        let mut charts = Vec::new();
        for (scenario, users, delay_ms) in self.planes(&users) {
            let Ok(users) = u32::try_from(users) else { continue };
            let keys: Vec<u64> = self.sizes.iter().copied().collect();
            let place = Cell { scenario, users: Some(users), bytes: None, delay_ms };
            let at = |bytes: u64| Cell { bytes: Some(bytes), ..place };
            let mut series = self.of_targets(|target| {
                keys.iter()
                    .map(|&bytes| self.point(target, at(bytes), metric.figures, metric.of))
                    .collect()
            });
            if series.is_empty() {
                continue;
            }
            series.extend(
                metric
                    .published
                    .into_iter()
                    .flat_map(|figure| published::series(published, place, &keys, figure)),
            );
            let title = format!("{}: {scenario}, {users} users{}", metric.title, delay(delay_ms));
            let categories = self.sizes.iter().map(|&bytes| size(bytes)).collect();
            let id = format!("{}-by-size-{scenario}-{users}-{delay_ms}", metric.id);
            let names = ("message size", metric.y_name);
            charts.push(chart(&id, title, names, Plot::Lines { categories, series }));
        }
        charts
    }

    fn percentiles(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scenario, bytes, delay_ms) in self.planes(&self.sizes) {
            for (number, target) in self.targets.iter().enumerate() {
                let at = |users: u32| Cell {
                    scenario,
                    users: Some(users),
                    bytes: Some(bytes),
                    delay_ms,
                };
                let of = |name: &&(&str, &str)| {
                    let points = self.users.iter().map(|&users| {
                        let of = |view: &CaseView| view.exact(name.1);
                        self.point(target, at(users), Figures::Latency, of)
                    });
                    let points: Vec<Option<Point>> = points.collect();
                    let some = points.iter().any(Option::is_some);
                    some.then(|| Series {
                        name: name.0.to_owned(),
                        points,
                        published: false,
                        colour: Some(number),
                    })
                };
                let series: Vec<Series> = PERCENTILES.iter().filter_map(|name| of(&name)).collect();
                if series.is_empty() {
                    continue;
                }
                let title = format!(
                    "Percentiles: {target}, {scenario}, {}{}",
                    size(bytes),
                    delay(delay_ms)
                );
                let categories = self.users.iter().map(u32::to_string).collect();
                let id = format!("percentiles-{target}-{scenario}-{bytes}-{delay_ms}");
                let names = ("users", "response time (ms)");
                charts.push(chart(&id, title, names, Plot::Lines { categories, series }));
            }
        }
        charts
    }

    /// The percentiles of all targets in one picture, for each cell.
    fn distributions(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scenario, bytes, delay_ms) in self.planes(&self.sizes) {
            for &users in &self.users {
                let place = Cell { scenario, users: Some(users), bytes: Some(bytes), delay_ms };
                let series = self.of_targets(|target| {
                    let of = |(_, key): &(&str, &'static str)| {
                        let key = *key;
                        self.point(target, place, Figures::Latency, |view| view.exact(key))
                    };
                    PERCENTILES.iter().map(of).collect()
                });
                if series.is_empty() {
                    continue;
                }
                let title = format!(
                    "Distribution: {scenario}, {users} users, {}{}",
                    size(bytes),
                    delay(delay_ms)
                );
                let categories = PERCENTILES.iter().map(|(name, _)| (*name).to_owned()).collect();
                let id = format!("distribution-{scenario}-{users}-{bytes}-{delay_ms}");
                let names = ("percentile", "response time (ms)");
                charts.push(chart(&id, title, names, Plot::Lines { categories, series }));
            }
        }
        charts
    }

    /// The 99th percentile of each request of a scenario, for each cell.
    fn by_request(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scenario, bytes, delay_ms) in self.planes(&self.sizes) {
            for &users in &self.users {
                let place = Cell { scenario, users: Some(users), bytes: Some(bytes), delay_ms };
                let here = |target: &str| self.repetitions(target, place, Figures::Latency);
                let mut categories: Vec<String> = Vec::new();
                for view in self.targets.iter().flat_map(|target| here(target)) {
                    for (name, _) in view.by_request() {
                        if !categories.iter().any(|known| known == name) {
                            categories.push(name.to_owned());
                        }
                    }
                }
                let series = self.of_targets(|target| {
                    let p99 = |wanted: &String| {
                        self.point(target, place, Figures::Latency, |view| {
                            let found = view.by_request().find(|(name, _)| *name == wanted);
                            found.and_then(|(_, figures)| figures.get("p99_ms")?.as_f64())
                        })
                    };
                    categories.iter().map(p99).collect()
                });
                if series.is_empty() {
                    continue;
                }
                let title = format!(
                    "99th percentile by request: {scenario}, {users} users, {}{}",
                    size(bytes),
                    delay(delay_ms)
                );
                let id = format!("p99-by-request-{scenario}-{users}-{bytes}-{delay_ms}");
                let names = ("request", "99th percentile of response time (ms)");
                charts.push(chart(&id, title, names, Plot::Rows { categories, series }));
            }
        }
        charts
    }

    /// One line per target, of its first usable repetition, for each cell.
    fn over_time(&self, metric: &OverTime) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (scenario, bytes, delay_ms) in self.planes(&self.sizes) {
            for &users in &self.users {
                let place = Cell { scenario, users: Some(users), bytes: Some(bytes), delay_ms };
                let mut series = self.of_targets(|target| {
                    let found = self.repetitions(target, place, metric.figures);
                    found.first().map_or_else(Vec::new, |view| seconds(view, metric))
                });
                let length = series.iter().map(|one| one.points.len()).max().unwrap_or(0);
                // Nothing to see: no errors.
                if length < SECONDS_MIN || all_zero(&series) {
                    continue;
                }
                series.iter_mut().for_each(|one| one.points.resize(length, None));
                let title = format!(
                    "{}: {scenario}, {users} users, {}{}",
                    metric.title,
                    size(bytes),
                    delay(delay_ms)
                );
                let categories = (0..length).map(|second| format!("{second} s")).collect();
                let id = format!("{}-{scenario}-{users}-{bytes}-{delay_ms}", metric.id);
                let names = ("time since the start of the measured time", metric.y_name);
                charts.push(chart(&id, title, names, Plot::Lines { categories, series }));
            }
        }
        charts
    }

    /// The repetitions to use: those in which the figures are usable, or all if there are none.
    fn repetitions(&self, target: &str, place: Cell<'_>, figures: Figures) -> Vec<&'a CaseView> {
        let here = |view: &&&CaseView| {
            let case = &view.result().case;
            case.scenario == place.scenario
                && Some(case.users) == place.users
                && Some(case.payload_bytes) == place.bytes
                && case.delay_ms == place.delay_ms
                && view.name() == target
        };
        let all: Vec<&CaseView> = self.views.iter().filter(here).copied().collect();
        let usable: Vec<&CaseView> =
            all.iter().filter(|view| view.is_usable(figures)).copied().collect();
        if usable.is_empty() { all } else { usable }
    }

    /// Bars by scenario, one series per target.
    fn by_scenario(&self, metric: &Metric, published: &[PublishedRow]) -> Vec<Chart> {
        let mut charts = Vec::new();
        for &users in &self.users {
            for &bytes in &self.sizes {
                for &delay_ms in &self.delays {
                    let at = |scenario: &'a str| Cell {
                        scenario,
                        users: Some(users),
                        bytes: Some(bytes),
                        delay_ms,
                    };
                    let mut series = self.of_targets(|target| {
                        self.scenarios
                            .iter()
                            .map(|name| self.point(target, at(name), metric.figures, metric.of))
                            .collect()
                    });
                    if all_zero(&series) {
                        continue;
                    }
                    if let Some(figure) = metric.published {
                        let found = self
                            .scenarios
                            .iter()
                            .map(|&name| published::series(published, at(name), &[bytes], figure));
                        series.extend(merged(found.collect()));
                    }
                    let title = format!(
                        "{}: {users} users, {}{}",
                        metric.title,
                        size(bytes),
                        delay(delay_ms)
                    );
                    let categories = self.scenarios.iter().map(|&name| name.to_owned()).collect();
                    let id = format!("{}-{users}-{bytes}-{delay_ms}", metric.id);
                    let names = ("scenario", metric.y_name);
                    charts.push(chart(&id, title, names, Plot::Rows { categories, series }));
                }
            }
        }
        charts
    }

    /// One series per target that has any points.
    fn of_targets(&self, points: impl Fn(&str) -> Vec<Option<Point>>) -> Vec<Series> {
        let series = self.targets.iter().enumerate().map(|(number, target)| Series {
            name: target.clone(),
            points: points(target),
            published: false,
            colour: Some(number),
        });
        series.filter(|one| one.points.iter().any(Option::is_some)).collect()
    }

    fn planes(&self, second: &BTreeSet<u64>) -> Vec<(&'a str, u64, u64)> {
        let mut planes = Vec::new();
        for &scenario in &self.scenarios {
            for &key in second {
                planes.extend(self.delays.iter().map(|&delay_ms| (scenario, key, delay_ms)));
            }
        }
        planes
    }
}

/// Also without series.
fn all_zero(series: &[Series]) -> bool {
    series.iter().flat_map(|one| one.points.iter().flatten()).all(|point| point.value <= 0.0)
}

/// The points of a case's time series; hollow if a warning concerns the figures.
fn seconds(view: &CaseView, metric: &OverTime) -> Vec<Option<Point>> {
    let warning = view.codes(metric.figures).collect::<Vec<_>>().join(", ");
    let series = view.result().load.get("series").and_then(Value::as_array);
    let value = |second: &Value| second.get(metric.key).and_then(Value::as_f64);
    let points = series
        .into_iter()
        .flatten()
        .take(SECONDS_MAX)
        .map(|second| value(second).map(|value| Point { value, warning: warning.clone() }));
    points.collect()
}

/// Series of one point each, by scenario, as series over the scenarios.
fn merged(by_scenario: Vec<Vec<Series>>) -> Vec<Series> {
    let mut names: Vec<String> = Vec::new();
    for one in by_scenario.iter().flatten() {
        if !names.contains(&one.name) {
            names.push(one.name.clone());
        }
    }
    let of_name = |name: String| {
        let points = by_scenario.iter().map(|found| {
            let one = found.iter().find(|one| one.name == name)?;
            one.points.first().cloned().flatten()
        });
        Series { points: points.collect(), name, published: true, colour: None }
    };
    names.into_iter().map(of_name).collect()
}

/// Histogram and heat map of each case with a log; only the first ones are on the page.
fn histories(views: &[CaseView]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    let mut broken: BTreeMap<String, usize> = BTreeMap::new();
    let (mut drawn, mut left_out) = (0, 0);
    // The result of a single measurement has no log of its own beside it.
    let stored = |view: &&CaseView| {
        let name = view.found.file.file_name();
        view.result().state == State::Measured && name.is_some_and(|name| name == "result.json")
    };
    let targets: BTreeSet<String> = views.iter().map(CaseView::name).collect();
    for (place, view) in views.iter().filter(stored).enumerate() {
        let file = view.found.file.with_file_name("histogram.hlog");
        if drawn >= limits::LAB_HISTOGRAM_FILES_MAX {
            left_out += usize::from(file.exists());
            continue;
        }
        match History::read_beside(&view.found.file) {
            Ok(Some(history)) => {
                let off_page = drawn >= limits::LAB_HISTOGRAM_CHARTS_MAX;
                let name = view.name();
                let colour = targets.iter().position(|target| *target == name);
                let both = of_history(&history, view, (place, colour)).into_iter();
                charts.extend(both.map(|chart| Chart { off_page, ..chart }));
                drawn += 1;
            }
            Ok(None) => {}
            Err(what) => *broken.entry(what).or_default() += 1,
        }
    }
    let mut notes: Vec<String> = broken.into_keys().collect();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more cases have a histogram that is not drawn; select cases with penstock lab \
             report --only"
        ));
    }
    let last_on_page = charts.iter_mut().rfind(|chart| !chart.off_page);
    if let (Some(last), false) = (last_on_page, notes.is_empty()) {
        last.note = notes.join("; ");
    }
    charts
}

fn of_history(
    history: &History,
    view: &CaseView,
    (place, colour): (usize, Option<usize>),
) -> Vec<Chart> {
    let case = &view.result().case;
    let name = format!(
        "{}, {}, {} users, {}{}, #{}",
        view.name(),
        case.scenario,
        case.users,
        size(case.payload_bytes),
        delay(case.delay_ms),
        case.repetition
    );
    let mut charts = Vec::new();
    if let Some((categories, series)) = history.histogram() {
        let plot = Plot::Bars { categories, series: vec![Series { colour, ..series }] };
        let names = ("response time, lower bound", "requests");
        charts.push(chart(&format!("histogram-{place}"), format!("Latency: {name}"), names, plot));
    }
    if let Some(heat) = history.heat() {
        let names = ("time since the first interval", "response time");
        let plot = Plot::Heat(heat);
        charts.push(chart(&format!("heat-{place}"), format!("Over time: {name}"), names, plot));
    }
    charts
}

fn chart(id: &str, title: String, (x_name, y_name): (&str, &str), plot: Plot) -> Chart {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    Chart {
        id: id.chars().map(plain).collect(),
        title,
        x_name: x_name.to_owned(),
        y_name: y_name.to_owned(),
        plot,
        note: String::new(),
        off_page: false,
    }
}

fn delay(delay_ms: u64) -> String {
    if delay_ms == 0 { String::new() } else { format!(", {delay_ms} ms delay") }
}

/// The lower median, so that it is a measured figure.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}
