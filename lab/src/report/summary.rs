//! `summary.csv` and `summary.md`: the published columns in their published order and wording, then ours.
//!
//! The published columns are computed as in WSO2's pipeline (whole milliseconds, two significant digits), so
//! that rows can be compared with published ones. They are followed by the same columns with exact figures,
//! marked `exact`, by columns that only we have, and by the warnings.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use super::view::{CaseView, size, trimmed};
use super::{ranking, scaling};
use crate::result::{CaseResult, State};
use crate::warning::Figures;

/// Printed for missing figures, as in the published tables.
const ABSENT: &str = "N/A";
const MIB: f64 = 1_024.0 * 1_024.0;

/// A column: its name (`{}` stands for the target's name), and its cell.
type Column = (&'static str, fn(&CaseView) -> Option<String>);

/// The published columns in their order.
#[rustfmt::skip]
const PUBLISHED: &[Column] = &[
    ("Scenario Name", |view| Some(view.scenario().to_owned())),
    ("Heap Size", |view| view.result().case.heap.clone()),
    ("Concurrent Users", |view| Some(view.result().case.users.to_string())),
    ("Message Size (Bytes)", |view| Some(view.result().case.payload_bytes.to_string())),
    ("Back-end Service Delay (ms)", |view| Some(view.result().case.delay_ms.to_string())),
    ("Label", |_| Some("HTTP Request".to_owned())),
    ("# Samples", |view| published(view, "samples")),
    ("Error Count", |view| published(view, "errors")),
    ("Error %", |view| published(view, "error_percent")),
    ("Throughput (Requests/sec)", |view| published(view, "throughput_per_s")),
    ("Average Response Time (ms)", |view| published(view, "mean_ms")),
    ("Average Users in the System", |view| published(view, "users")),
    ("Standard Deviation of Response Time (ms)", |view| published(view, "sd_ms")),
    ("Minimum Response Time (ms)", |view| published(view, "min_ms")),
    ("Maximum Response Time (ms)", |view| published(view, "max_ms")),
    ("75th Percentile of Response Time (ms)", |view| published(view, "p75_ms")),
    ("90th Percentile of Response Time (ms)", |view| published(view, "p90_ms")),
    ("95th Percentile of Response Time (ms)", |view| published(view, "p95_ms")),
    ("98th Percentile of Response Time (ms)", |view| published(view, "p98_ms")),
    ("99th Percentile of Response Time (ms)", |view| published(view, "p99_ms")),
    ("99.9th Percentile of Response Time (ms)", |view| published(view, "p999_ms")),
    ("Received (KB/sec)", |view| published(view, "received_kb_per_s")),
    ("Sent (KB/sec)", |view| published(view, "sent_kb_per_s")),
    ("{} GC Throughput (%)", |view| gc(view, |gc| Some(gc.throughput_percent))),
    ("{} Memory Footprint (M)", |view| gc(view, |gc| Some(gc.footprint_bytes as f64 / MIB))),
    ("Average {} Memory Footprint After Full GC (M)",
        |view| gc(view, |gc| Some(gc.footprint_after_full_mean_bytes? / MIB))),
    ("Standard Deviation of {} Memory Footprint After Full GC (M)",
        |view| gc(view, |gc| Some(gc.footprint_after_full_sd_bytes? / MIB))),
];

/// Our own columns.
#[rustfmt::skip]
const OURS: &[Column] = &[
    ("Target", |view| Some(view.target())),
    ("Repetition", |view| Some(view.result().case.repetition.to_string())),
    ("Requests, exact", |view| exact(view, "requests")),
    ("Errors, exact", |view| exact(view, "errors")),
    ("Throughput, exact (Requests/sec)", |view| exact(view, "throughput_per_s")),
    ("Average Response Time, exact (ms)", |view| exact(view, "mean_ms")),
    ("Users by Little's law", |view| exact(view, "users_by_littles_law")),
    ("Standard Deviation, exact (ms)", |view| exact(view, "sd_ms")),
    ("Minimum, exact (ms)", |view| exact(view, "min_ms")),
    ("Maximum, exact (ms)", |view| exact(view, "max_ms")),
    ("50th Percentile, exact (ms)", |view| exact(view, "p50_ms")),
    ("75th Percentile, exact (ms)", |view| exact(view, "p75_ms")),
    ("90th Percentile, exact (ms)", |view| exact(view, "p90_ms")),
    ("95th Percentile, exact (ms)", |view| exact(view, "p95_ms")),
    ("98th Percentile, exact (ms)", |view| exact(view, "p98_ms")),
    ("99th Percentile, exact (ms)", |view| exact(view, "p99_ms")),
    ("99.9th Percentile, exact (ms)", |view| exact(view, "p999_ms")),
    ("99.99th Percentile, exact (ms)", |view| exact(view, "p9999_ms")),
    ("Target CPU, user (us/request)", |view| used(view.result().target_use?.cpu_user_us)),
    ("Target CPU, system (us/request)", |view| used(view.result().target_use?.cpu_system_us)),
    ("Target RSS, mean (MiB)", |view| used(view.result().target_use?.rss_mean_bytes as f64 / MIB)),
    ("Target RSS, peak (MiB)", |view| used(view.result().target_use?.rss_peak_bytes as f64 / MIB)),
    ("Target threads", |view| used(view.result().target_use?.threads as f64)),
    ("Target voluntary context switches per request", |view| used(view.result().target_use?.voluntary_switches)),
    ("Target involuntary context switches per request", |view| used(view.result().target_use?.involuntary_switches)),
    ("Backend CPU, user (us/request)", |view| used(view.result().backend_use?.cpu_user_us)),
    ("Backend CPU, system (us/request)", |view| used(view.result().backend_use?.cpu_system_us)),
    ("Helper CPU, user (us/request)", |view| used(view.result().helper_use?.cpu_user_us)),
    ("Helper CPU, system (us/request)", |view| used(view.result().helper_use?.cpu_system_us)),
    ("Helper RSS, peak (MiB)", |view| used(view.result().helper_use?.rss_peak_bytes as f64 / MIB)),
    ("Generator CPU (us/request)", |view| exact(view, "generator_cpu_us_per_request")),
    ("Generator RSS, peak (MiB)", |view| used(view.exact("generator_peak_rss_bytes")? / MIB)),
    ("Time until ready (ms)", |view| used(view.result().start?.ready_ms)),
    ("Target RSS, idle (MiB)", |view| used(view.idle_mib()?)),
    ("Changes live", |view| used(view.result().changes?.live as f64)),
    ("Changes lost", |view| used(view.result().changes?.lost as f64)),
    ("Time until a change is live, 50th Percentile (ms)", |view| used(view.result().changes?.p50_ms)),
    ("Time until a change is live, 99th Percentile (ms)", |view| used(view.result().changes?.p99_ms)),
    ("Load average, 1 minute", |view| used(view.result().load_average[0])),
    ("Load average, 5 minutes", |view| used(view.result().load_average[1])),
    ("Load average, 15 minutes", |view| used(view.result().load_average[2])),
    ("Backend alone (Requests/sec)", |view| used(view.result().calibration?)),
    ("Failed thresholds", |view| Some(failed_thresholds(view))),
    ("Warnings", |view| Some(view.remarks())),
];

/// The columns of the Choreo Connect tables in their order.
#[rustfmt::skip]
const CHOREO: &[Column] = &[
    ("Concurrent Users", |view| Some(view.result().case.users.to_string())),
    ("Message Size (Bytes)", |view| Some(size(view.result().case.payload_bytes))),
    ("Total requests", |view| published(view, "samples")),
    ("Average Response Time (ms)", |view| Some(trimmed(view.published("mean_ms")?, 0))),
    ("Throughput (Requests/sec)", |view| Some(trimmed(view.published("throughput_per_s")?, 1))),
    ("Error %", |view| published(view, "error_percent")),
    ("Error Count", |view| published(view, "errors")),
    ("Little's law verification", littles_law_of_printed),
    ("90th Percentile of Response Time (ms)", |view| published(view, "p90_ms")),
    ("95th Percentile of Response Time (ms)", |view| published(view, "p95_ms")),
    ("99th Percentile of Response Time (ms)", |view| published(view, "p99_ms")),
    ("Target", |view| Some(view.target())),
    ("Warnings", |view| Some(view.remarks())),
];

/// The columns of the published Markdown tables.
const MARKDOWN: &[&str] = &[
    "Scenario Name",
    "Heap Size",
    "Concurrent Users",
    "Message Size (Bytes)",
    "Back-end Service Delay (ms)",
    "Error %",
    "Throughput (Requests/sec)",
    "Average Response Time (ms)",
    "Standard Deviation of Response Time (ms)",
    "99th Percentile of Response Time (ms)",
    "{} GC Throughput (%)",
    "Average {} Memory Footprint After Full GC (M)",
];
/// Our columns of the Markdown tables.
const MARKDOWN_OURS: &[&str] = &[
    "Target",
    "Repetition",
    "Throughput, exact (Requests/sec)",
    "Average Response Time, exact (ms)",
    "99th Percentile, exact (ms)",
    "Target CPU, user (us/request)",
    "Target CPU, system (us/request)",
    "Target RSS, peak (MiB)",
    "Warnings",
];

/// `summary.csv`, with CRLF line ends as in the published files.
#[must_use]
pub fn csv(views: &[CaseView]) -> String {
    let columns: Vec<&Column> = PUBLISHED.iter().chain(OURS).collect();
    as_csv(&columns, views)
}

/// `summary-errors.csv`: rows with failed requests.
#[must_use]
pub fn errors_csv(views: &[CaseView]) -> String {
    let failed = |view: &&CaseView| view.published("errors").is_some_and(|errors| errors > 0.0);
    csv(&views.iter().filter(failed).cloned().collect::<Vec<_>>())
}

/// `summary-warmup.csv`: the published columns for the warm-up.
#[must_use]
pub fn warm_up_csv(views: &[CaseView]) -> String {
    let of_warm_up = |view: &CaseView| {
        let mut view = view.clone();
        let load = &mut view.found.result.load;
        let published = load.get("published_warm_up").cloned().unwrap_or_default();
        if let Some(load) = load.as_object_mut() {
            load.insert("published".to_owned(), published);
        }
        view
    };
    let views: Vec<CaseView> = views.iter().map(of_warm_up).collect();
    as_csv(&PUBLISHED.iter().chain(OURS.iter().take(2)).collect::<Vec<_>>(), &views)
}

/// The columns of the Choreo Connect tables.
#[must_use]
pub fn choreo_csv(views: &[CaseView]) -> String {
    as_csv(&CHOREO.iter().collect::<Vec<_>>(), views)
}

/// `summary.md`: the published columns and ours, the Choreo Connect columns, and the environment.
#[must_use]
pub fn markdown(views: &[CaseView]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_markdown(&mut out, views);
    out
}

fn write_markdown(out: &mut String, views: &[CaseView]) -> fmt::Result {
    let suites: BTreeSet<&str> = views.iter().map(|view| view.result().suite.as_str()).collect();
    writeln!(out, "# Results: {}\n", suites.into_iter().collect::<Vec<_>>().join(", "))?;
    writeln!(out, "**{}**\n\n{}\n", escaped(&ranking::headline(views)), counts(views))?;
    let named = |names: &[&str]| -> Vec<&Column> {
        let all = || PUBLISHED.iter().chain(OURS);
        names.iter().filter_map(|name| all().find(|(column, _)| column == name)).collect()
    };
    let columns: Vec<&Column> = named(MARKDOWN).into_iter().chain(named(MARKDOWN_OURS)).collect();
    writeln!(
        out,
        "The first {} columns are those of WSO2's published tables, computed in the same way (whole \
         milliseconds, two significant digits). The others are ours and exact.\n",
        MARKDOWN.len()
    )?;
    as_markdown(out, &columns, views)?;
    writeln!(out, "\n## Columns of Choreo Connect's tables\n")?;
    as_markdown(out, &CHOREO.iter().collect::<Vec<_>>(), views)?;
    write_scaling(out, views)?;
    writeln!(out, "\n## Measured on\n")?;
    let machines: BTreeSet<String> =
        views.iter().flat_map(|view| environment(view.result())).collect();
    machines.iter().try_for_each(|line| writeln!(out, "- {line}"))
}

/// Only if a sweep has varied a numeric setting.
fn write_scaling(out: &mut String, views: &[CaseView]) -> fmt::Result {
    let rows = scaling::rows(views);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Scaling (Universal Scalability Law)\n")?;
    writeln!(
        out,
        "| {} |\n|{}",
        scaling::HEADER.join(" | "),
        "---|".repeat(scaling::HEADER.len())
    )?;
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// The number of cases by state, and of measured ones in which each kind of figures is usable.
#[must_use]
pub fn counts(views: &[CaseView]) -> String {
    let of = |state: State| views.iter().filter(|view| view.result().state == state).count();
    let usable = Figures::ALL.into_iter().rev().map(|figures| {
        let count = views.iter().filter(|view| view.is_usable(figures)).count();
        format!("{} in {count}", figures.name())
    });
    format!(
        "{} {}: {} measured (usable: {}), {} not served, {} failed.",
        views.len(),
        if views.len() == 1 { "case" } else { "cases" },
        of(State::Measured),
        usable.collect::<Vec<_>>().join(", "),
        of(State::NotServed),
        of(State::Failed)
    )
}

/// The days on which cases were measured.
#[must_use]
pub fn days(views: &[CaseView]) -> String {
    let measured = views.iter().map(CaseView::result);
    let measured = measured.filter(|found| found.state == State::Measured);
    let days: BTreeSet<&str> =
        measured.map(|found| found.started.split('T').next().unwrap_or_default()).collect();
    days.into_iter().collect::<Vec<_>>().join(", ")
}

/// The machine and the programs, one line each.
#[must_use]
pub fn environment(result: &CaseResult) -> Vec<String> {
    let machine = &result.machine;
    let memory = size(machine.memory_bytes);
    let mut lines = Vec::new();
    // A file may lack the machine.
    if machine.cores > 0 {
        lines
            .push(format!("{}, {} CPUs, {memory}, {}", machine.cpu, machine.cores, machine.kernel));
    }
    lines.extend(machine.limits.iter().cloned());
    let versions = &result.versions;
    lines.extend(versions.iter().map(|program| format!("{} {}", program.name, program.version)));
    lines
}

fn as_csv(columns: &[&Column], views: &[CaseView]) -> String {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let app = app(views);
    let names = columns.iter().map(|(name, _)| name.replace("{}", &app));
    // Writing to a Vec cannot fail, and all records have the same number of cells.
    let _ = writer.write_record(names);
    for view in views {
        let _ = writer.write_record(columns.iter().map(|column| cell(column, view)));
    }
    writer
        .into_inner()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

fn as_markdown(out: &mut String, columns: &[&Column], views: &[CaseView]) -> fmt::Result {
    let app = app(views);
    let names: Vec<String> =
        columns.iter().map(|(name, _)| escaped(&name.replace("{}", &app))).collect();
    writeln!(out, "| {} |", names.join(" | "))?;
    writeln!(out, "|{}", "---|".repeat(columns.len()))?;
    for view in views {
        let cells: Vec<String> =
            columns.iter().map(|column| escaped(&cell(column, view))).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

fn cell((name, of): &Column, view: &CaseView) -> String {
    let absent = if *name == "Warnings" { String::new() } else { ABSENT.to_owned() };
    of(view).unwrap_or(absent)
}

/// The value of `{}`: the target's name if there is only one, as in published tables.
fn app(views: &[CaseView]) -> String {
    let mut targets: BTreeSet<&str> = BTreeSet::new();
    targets.extend(views.iter().map(|view| view.result().case.target.as_str()));
    match (targets.len(), targets.first()) {
        (1, Some(target)) => (*target).to_owned(),
        _ => "Target".to_owned(),
    }
}

fn escaped(cell: &str) -> String {
    cell.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// At most two decimals, as in the published tables.
fn published(view: &CaseView, name: &str) -> Option<String> {
    view.published(name).map(|value| trimmed(value, 2))
}

fn failed_thresholds(view: &CaseView) -> String {
    let all = view.result().thresholds().into_iter().filter(|one| one.broken);
    all.map(|one| one.condition).collect::<Vec<_>>().join("; ")
}

fn exact(view: &CaseView, name: &str) -> Option<String> {
    view.exact(name).and_then(used)
}

fn used(value: f64) -> Option<String> {
    Some(trimmed(value, 3))
}

fn gc(view: &CaseView, of: fn(&crate::result::Gc) -> Option<f64>) -> Option<String> {
    view.result().gc.as_ref().and_then(of).map(|value| trimmed(value, 3))
}

/// Computed from the printed figures, as in the published tables, so that readers can verify it.
fn littles_law_of_printed(view: &CaseView) -> Option<String> {
    let rate: f64 = trimmed(view.published("throughput_per_s")?, 1).parse().ok()?;
    let mean: f64 = trimmed(view.published("mean_ms")?, 0).parse().ok()?;
    Some(trimmed(rate * mean / 1_000.0, 4))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;
    use crate::result::{Gc, State};
    use crate::validity::published::Table;
    use serde_json::json;

    /// The headers of published files.
    const API_MANAGER: &str = include_str!("../../published/api-manager.csv");
    const CHOREO_CONNECT: &str = include_str!("../../published/choreo-connect-1cpu.csv");

    #[test]
    fn the_published_columns_keep_their_order() {
        let csv = csv(&[view(valid())]);
        let ours: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let published = API_MANAGER.lines().next().unwrap().replace("WSO2 API Manager", "penstock");
        let places: Vec<usize> = published
            .split(',')
            .map(|name| ours.iter().position(|column| *column == name).unwrap())
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        let header = CHOREO_CONNECT.lines().next().unwrap().trim();
        assert!(choreo_csv(&[view(valid())]).starts_with(header));
    }

    #[test]
    fn warm_up_and_errors_have_separate_files() {
        let mut failed = valid();
        failed.load["published"]["errors"] = json!(7);
        failed.load["published_warm_up"] = json!({"samples": 33, "p99_ms": 515});
        let views = [view(valid()), view(failed)];
        let errors = errors_csv(&views);
        assert_eq!(errors.lines().count(), 2, "{errors}");
        check(&errors, "Error Count", "7");
        let warm_up = warm_up_csv(&views[1..]);
        check(&warm_up, "# Samples", "33");
        check(&warm_up, "99th Percentile of Response Time (ms)", "515");
        check(&warm_up, "Throughput (Requests/sec)", "N/A");
        assert!(!warm_up.contains("exact"), "{warm_up}");
    }

    #[test]
    fn published_figures_precede_exact_ones() {
        let csv = csv(&[view(valid())]);
        assert!(csv.ends_with("\r\n"));
        check(&csv, "Throughput (Requests/sec)", "1000.5");
        check(&csv, "Throughput, exact (Requests/sec)", "1000.123");
        check(&csv, "99th Percentile of Response Time (ms)", "12");
        check(&csv, "99th Percentile, exact (ms)", "12.345");
        check(&csv, "Average Users in the System", "10");
        check(&csv, "penstock GC Throughput (%)", "94.26");
        check(&csv, "Average penstock Memory Footprint After Full GC (M)", "2");
        check(&csv, "Target", "penstock workers=2");
        check(&csv, "Warnings", "");
        let choreo = choreo_csv(&[view(valid())]);
        check(&choreo, "Message Size (Bytes)", "1KiB");
        check(&choreo, "Little's law verification", "10.005");
    }

    #[test]
    fn rows_show_warnings_or_the_reason_for_missing_figures() {
        let mut flagged = valid();
        flagged.load["errors"] = json!(100);
        let unserved =
            CaseResult { state: State::NotServed, reason: Some("no | TLS".to_owned()), ..valid() };
        let views = [view(flagged), view(unserved)];
        let csv = csv(&views);
        let table = Table::read(csv.as_bytes()).unwrap();
        let remarks = |index: usize| table.cell(&table.records[index], &["Warnings"]).unwrap();
        assert!(remarks(0).starts_with("errors: 1 % of the requests failed"), "{}", remarks(0));
        assert_eq!(remarks(1), "not served: no | TLS");
        let markdown = markdown(&views);
        assert!(markdown.contains("not served: no \\| TLS |"), "{markdown}");
        assert!(markdown.contains(
            "2 cases: 1 measured (usable: CPU in 0, rate in 0, latency in 0), 1 not served"
        ));
        assert!(markdown.contains("- a CPU, 2 CPUs"));
    }

    #[track_caller]
    fn check(csv: &str, column: &str, expect: &str) {
        let table = Table::read(csv.as_bytes()).unwrap();
        let cell = table.cell(&table.records[0], &[column]).unwrap_or_default();
        assert_eq!(cell, expect, "{column}");
    }

    fn view(result: CaseResult) -> CaseView {
        CaseView::new(StoredResult { file: "result.json".into(), result })
    }

    pub(crate) fn valid() -> CaseResult {
        let load = json!({
            "requests": 10_000, "errors": 0, "seconds": 9.998_77, "throughput_per_s": 1_000.123,
            "mean_ms": 10.0, "p99_ms": 12.345,
            "published": {
                "samples": 10_000, "errors": 0, "error_percent": 0.0, "throughput_per_s": 1_000.5,
                "mean_ms": 10.2, "users": 10, "p99_ms": 12,
            },
        });
        let gc = Some(Gc {
            collector: "G1".to_owned(),
            throughput_percent: 94.26,
            footprint_bytes: 1 << 22,
            footprint_after_full_mean_bytes: Some(2.0 * MIB),
            footprint_after_full_sd_bytes: None,
            pauses: 1,
            full_collections: 1,
            pause_total_ms: 1.0,
            pause_max_ms: 1.0,
        });
        CaseResult { load, gc, ..sample() }
    }
}
