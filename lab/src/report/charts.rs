//! The charts of a results folder.
//!
//! A point is the median of the repetitions in which the figure is usable; if there are none, the median of all,
//! marked. A target has the same colour in every chart. Figures with a single number of users and a single size are
//! bars. Published results are drawn in the background.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::limits;

use super::chart::{Chart, Heat, Plot, Point, Series};
use super::history::History;
use super::published::{self, Cell, PublishedFigure, PublishedRow};
use super::view::{CaseView, median, size, targets};
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
    /// Several seconds as one point: the mean, the largest, or the sum.
    merge: fn(&[f64]) -> f64,
}

fn mean(values: &[f64]) -> f64 {
    sum(values) / values.len() as f64
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

#[rustfmt::skip]
const OVER_TIME: &[OverTime] = &[
    OverTime { id: "rate-over-time", title: "Rate over time", y_name: "requests per second", figures: Figures::Rate,
        key: "rate_per_s", merge: mean },
    P50_OVER_TIME,
    P99_OVER_TIME,
    OverTime { id: "errors-over-time", title: "Errors over time", y_name: "failed requests", figures: Figures::Rate,
        key: "errors", merge: sum },
    OverTime { id: "cpu-over-time", title: "CPU over time", y_name: "CPUs used by the target", figures: Figures::Cpu,
        key: "target_cpus", merge: mean },
];
#[rustfmt::skip]
const P50_OVER_TIME: OverTime = OverTime { id: "p50-over-time", title: "Median over time",
    y_name: "median response time (ms)", figures: Figures::Latency, key: "p50_ms", merge: mean };
#[rustfmt::skip]
const P99_OVER_TIME: OverTime = OverTime { id: "p99-over-time", title: "99th percentile over time",
    y_name: "99th percentile of response time (ms)", figures: Figures::Latency, key: "p99_ms", merge: largest };
/// Charts of a single target, drawn in one picture.
const LATENCY_OVER_TIME: [(&str, OverTime); 3] = [
    ("p50", P50_OVER_TIME),
    ("p99", P99_OVER_TIME),
    ("max", OverTime { key: "max_ms", ..P99_OVER_TIME }),
];
/// Shorter series are not drawn.
const SECONDS_MIN: usize = 3;
/// In longer series, a point is several seconds.
const BUCKETS_MAX: usize = 120;

const SINCE: &str = "time since the start of the measured time";

/// The charts of some cases.
pub struct Charts {
    /// In the order of the page.
    pub drawn: Vec<Chart>,
    /// Why there are no more: broken histogram logs, and those beyond the limit.
    pub left_out: Vec<String>,
}

/// Every chart.
#[must_use]
pub fn charts(views: &[CaseView]) -> Charts {
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
            charts.extend(matrix.along(Axis::Users, metric, &published));
        }
        if matrix.sizes.len() > 1 && (metric.by_size || matrix.users.len() < 2) {
            charts.extend(matrix.along(Axis::Size, metric, &published));
        }
    }
    charts.extend(matrix.distributions());
    charts.extend(matrix.by_request());
    let has_one_target = matrix.targets.len() == 1;
    for over_time in OVER_TIME {
        let is_latency = over_time.figures == Figures::Latency;
        match (is_latency && has_one_target, over_time.key == P50_OVER_TIME.key) {
            (false, _) => charts.extend(matrix.over_time(over_time)),
            (true, true) => charts.extend(matrix.latency_over_time()),
            (true, false) => {}
        }
    }
    if matrix.users.len() > 1 {
        charts.extend(matrix.percentiles());
    }
    let histories = histories(views, &matrix.targets);
    charts.extend(histories.drawn);
    make_ids_unique(&mut charts);
    Charts { drawn: charts, left_out: histories.left_out }
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
        let targets = targets(views);
        let views: Vec<&CaseView> =
            views.iter().filter(|view| view.result().state == State::Measured).collect();
        let cases = || views.iter().map(|view| &view.result().case);
        Self {
            scenarios: cases().map(|case| case.scenario.as_str()).collect(),
            targets,
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

    /// Lines along one dimension, for each combination of the others.
    fn along(&self, axis: Axis, metric: &Metric, published: &[PublishedRow]) -> Vec<Chart> {
        let keys = self.keys(axis);
        let of_row = |row: Cell<'a>| {
            let mut series = self.of_targets(|target| {
                let point =
                    |key: &u64| self.point(target, axis.at(row, *key), metric.figures, metric.of);
                keys.iter().map(point).collect()
            });
            // Nothing to see: no figures, or no errors.
            if all_zero(&series) {
                return None;
            }
            let figure = metric.published.into_iter();
            series.extend(figure.flat_map(|of| published::series(published, row, &keys, of)));
            let categories = keys.iter().map(|&key| axis.category(key)).collect();
            let plot = Plot::Lines { categories, series };
            let id = format!("{}-{}", metric.id, axis.id());
            Some(row.chart(&id, metric.title, (axis.name(), metric.y_name), plot))
        };
        self.cells(Some(axis)).into_iter().filter_map(of_row).collect()
    }

    /// The percentiles of each target by users.
    fn percentiles(&self) -> Vec<Chart> {
        let keys = self.keys(Axis::Users);
        let mut charts = Vec::new();
        for row in self.cells(Some(Axis::Users)) {
            for (number, target) in self.targets.iter().enumerate() {
                let of = |(name, key): &(&str, &'static str)| {
                    let key = *key;
                    let point = |&users: &u64| {
                        let place = Axis::Users.at(row, users);
                        self.point(target, place, Figures::Latency, |view| view.exact(key))
                    };
                    let points: Vec<Option<Point>> = keys.iter().map(point).collect();
                    let colour = Some(number);
                    let name = (*name).to_owned();
                    let some = points.iter().any(Option::is_some);
                    some.then_some(Series { name, points, published: false, colour })
                };
                let series: Vec<Series> = PERCENTILES.iter().filter_map(of).collect();
                if series.is_empty() {
                    continue;
                }
                let categories = keys.iter().map(u64::to_string).collect();
                let (id, title) =
                    (format!("percentiles-{target}"), format!("Percentiles of {target}"));
                let names = ("users", "response time (ms)");
                charts.push(row.chart(&id, &title, names, Plot::Lines { categories, series }));
            }
        }
        charts
    }

    /// The percentiles of all targets in one picture, for each cell.
    fn distributions(&self) -> Vec<Chart> {
        let of_cell = |place: Cell<'a>| {
            let series = self.of_targets(|target| {
                let of = |(_, key): &(&str, &'static str)| {
                    let key = *key;
                    self.point(target, place, Figures::Latency, |view| view.exact(key))
                };
                PERCENTILES.iter().map(of).collect()
            });
            let categories = PERCENTILES.iter().map(|(name, _)| (*name).to_owned()).collect();
            let names = ("percentile", "response time (ms)");
            let is_empty = series.is_empty();
            let plot = Plot::Lines { categories, series };
            (!is_empty).then(|| place.chart("distribution", "Distribution", names, plot))
        };
        self.cells(None).into_iter().filter_map(of_cell).collect()
    }

    /// The 99th percentile of each request of a scenario, for each cell.
    fn by_request(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for place in self.cells(None) {
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
                        let found = view.by_request().find(|(name, _)| name == wanted);
                        found.and_then(|(_, figures)| figures.get("p99_ms")?.as_f64())
                    })
                };
                categories.iter().map(p99).collect()
            });
            if series.is_empty() {
                continue;
            }
            let names = ("request", "99th percentile of response time (ms)");
            let title = "99th percentile by request";
            let plot = Plot::Rows { categories, series };
            charts.push(place.chart("p99-by-request", title, names, plot));
        }
        charts
    }

    /// A figure over time, for each cell.
    fn over_time(&self, metric: &OverTime) -> Vec<Chart> {
        let of_cell = |place: Cell<'a>| {
            let (categories, series) = self.lines_over_time(place, metric)?;
            let names = (SINCE, metric.y_name);
            Some(place.chart(metric.id, metric.title, names, Plot::Lines { categories, series }))
        };
        self.cells(None).into_iter().filter_map(of_cell).collect()
    }

    /// Percentiles of the only target over time in one picture, for each cell.
    fn latency_over_time(&self) -> Vec<Chart> {
        let of_cell = |place: Cell<'a>| {
            let of = |(name, metric): &(&str, OverTime)| {
                let (categories, mut lines) = self.lines_over_time(place, metric)?;
                for one in &mut lines {
                    let repetition = one.name.rfind(", repetition ");
                    let repetition = repetition.and_then(|at| one.name.get(at..));
                    one.name = format!("{name}{}", repetition.unwrap_or_default());
                }
                Some((categories, lines))
            };
            let mut lines: Vec<_> = LATENCY_OVER_TIME.iter().filter_map(of).collect();
            let series = lines.iter_mut().flat_map(|(_, series)| std::mem::take(series)).collect();
            let categories = lines.into_iter().next()?.0;
            let names = (SINCE, "response time (ms)");
            let plot = Plot::Lines { categories, series };
            Some(place.chart("latency-over-time", "Response time over time", names, plot))
        };
        self.cells(None).into_iter().filter_map(of_cell).collect()
    }

    /// The categories, and one line per target, of its usable repetition with the most points. The name of the line has
    /// the repetition's number, if there are several.
    fn lines_over_time(
        &self,
        place: Cell<'_>,
        metric: &OverTime,
    ) -> Option<(Vec<String>, Vec<Series>)> {
        let chosen = |target: &str| {
            let found = self.repetitions(target, place, metric.figures);
            // A generator that got no CPU may have missed seconds of one of them.
            let series = found.iter().rev().map(|view| (*view, seconds(view, metric)));
            (found.len(), series.max_by_key(|(_, series)| series.len()))
        };
        let mut series =
            self.of_targets(|target| chosen(target).1.map_or(Vec::new(), |(_, points)| points));
        for one in &mut series {
            if let (2.., Some((view, _))) = chosen(&one.name) {
                let number = view.result().case.repetition;
                one.name.push_str(&format!(", repetition {number}"));
            }
        }
        let length = series.iter().map(|one| one.points.len()).max().unwrap_or(0);
        // Nothing to see: no errors.
        if length < SECONDS_MIN || all_zero(&series) {
            return None;
        }
        let width = length.div_ceil(BUCKETS_MAX);
        for one in &mut series {
            one.points.resize(length, None);
            one.points = one.points.chunks(width).map(|some| bucket(some, metric)).collect();
        }
        let categories = (0..length).step_by(width).map(|second| format!("{second} s")).collect();
        Some((categories, series))
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
                    // A bar on its own adds nothing to the table.
                    if series.iter().flat_map(|one| &one.points).flatten().count() < 2 {
                        continue;
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

    /// The values of a dimension.
    fn keys(&self, axis: Axis) -> Vec<u64> {
        match axis {
            Axis::Users => self.users.iter().map(|&users| u64::from(users)).collect(),
            Axis::Size => self.sizes.iter().copied().collect(),
        }
    }

    /// Every combination of scenario, users, size and delay, without the dimension of the axis.
    fn cells(&self, axis: Option<Axis>) -> Vec<Cell<'a>> {
        let users: Vec<Option<u32>> = match axis {
            Some(Axis::Users) => vec![None],
            Some(Axis::Size) | None => self.users.iter().copied().map(Some).collect(),
        };
        let sizes: Vec<Option<u64>> = match axis {
            Some(Axis::Size) => vec![None],
            Some(Axis::Users) | None => self.sizes.iter().copied().map(Some).collect(),
        };
        let mut cells = Vec::new();
        for &scenario in &self.scenarios {
            for &bytes in &sizes {
                for &users in &users {
                    let cell = |&delay_ms: &u64| Cell { scenario, users, bytes, delay_ms };
                    cells.extend(self.delays.iter().map(cell));
                }
            }
        }
        cells
    }
}

/// A dimension along which a chart is drawn.
#[derive(Clone, Copy)]
enum Axis {
    Users,
    Size,
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Self::Users => "users",
            Self::Size => "message size",
        }
    }

    fn id(self) -> &'static str {
        match self {
            Self::Users => "by-users",
            Self::Size => "by-size",
        }
    }

    fn category(self, key: u64) -> String {
        match self {
            Self::Users => key.to_string(),
            Self::Size => size(key),
        }
    }

    fn at(self, row: Cell<'_>, key: u64) -> Cell<'_> {
        match self {
            Self::Users => Cell { users: u32::try_from(key).ok(), ..row },
            Self::Size => Cell { bytes: Some(key), ..row },
        }
    }
}

impl Cell<'_> {
    /// A chart whose id and title say which cell it is of.
    fn chart(self, id: &str, title: &str, names: (&str, &str), plot: Plot) -> Chart {
        let Cell { scenario, users, bytes, delay_ms } = self;
        let mut ids = vec![id.to_owned(), scenario.to_owned()];
        let mut words = vec![scenario.to_owned()];
        if let Some(users) = users {
            ids.push(users.to_string());
            words.push(format!("{users} users"));
        }
        if let Some(bytes) = bytes {
            ids.push(bytes.to_string());
            words.push(size(bytes));
        }
        ids.push(delay_ms.to_string());
        let title = format!("{title}: {}{}", words.join(", "), delay(delay_ms));
        chart(&ids.join("-"), title, names, plot)
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
        .map(|second| value(second).map(|value| Point { value, warning: warning.clone() }));
    points.collect()
}

/// Several seconds as one point.
fn bucket(seconds: &[Option<Point>], metric: &OverTime) -> Option<Point> {
    let values: Vec<f64> = seconds.iter().flatten().map(|point| point.value).collect();
    let first = seconds.iter().flatten().next()?;
    Some(Point { value: (metric.merge)(&values), warning: first.warning.clone() })
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
fn histories(views: &[CaseView], targets: &BTreeSet<String>) -> Charts {
    let mut charts: Vec<Chart> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    let (mut drawn, mut left_out) = (0, 0);
    // The result of a single measurement has no log of its own beside it.
    let stored = |view: &&CaseView| {
        let name = view.found.file.file_name();
        view.result().state == State::Measured && name.is_some_and(|name| name == "result.json")
    };
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
            Err(what) => notes.push(what),
        }
    }
    if left_out > 0 {
        // First, since a list has a limit.
        notes.insert(0, format!(
            "{left_out} more cases have a histogram log; select cases with penstock lab report --only"
        ));
    }
    Charts { drawn: charts, left_out: notes }
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
        let plot = Plot::Heat(Heat { colour, ..heat });
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
        off_page: false,
    }
}

fn delay(delay_ms: u64) -> String {
    if delay_ms == 0 { String::new() } else { format!(", {delay_ms} ms delay") }
}
