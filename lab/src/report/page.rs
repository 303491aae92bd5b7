//! `report.html`: one file without network access. First the verdict and the ranking, then the warnings, the charts,
//! and the tables. The only script sorts tables; without it everything else works.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::{self, Write};

use serde_json::Value;

use super::chart::{Chart, Setting, escaped, page_style, short};
use super::charts::Charts;
use super::intervals;
use super::ranking::{self, Place, Ranking};
use super::scaling;
use super::summary;
use super::view::{CaseView, size, targets, trimmed};
use crate::knee::Threshold;
use crate::limits;
use crate::result::State;
use crate::validity::CHECKS;
use crate::warning::{Figures, Warning};

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#222;--soft:#666;--line:#ddd;--card:#fafafa;--warning:#8a3a00}\
*{box-sizing:border-box}body{margin:0;overflow-wrap:anywhere;font:16px/1.5 system-ui,sans-serif;background:var(--bg);\
color:var(--fg)}main,header,footer{max-width:110rem;margin:0 auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:1rem 0 .3rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}\
.soft{color:var(--soft)}.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr));\
gap:1rem}figure{margin:0;padding:.5rem;border:1px solid var(--line);border-radius:.4rem;min-width:0}\
figure svg{width:100%;height:auto;display:block}figcaption{font-size:.85rem;color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;overflow-wrap:normal;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--line);padding:.2rem .6rem;text-align:right;vertical-align:top}\
th:first-child,td:first-child,.text{text-align:left}th[scope=row]{min-width:9rem;font-weight:normal}thead th{position:sticky;top:0;background:var(--bg)}\
.warning{color:var(--warning)}ul.warning{list-style:none;padding:0}a{color:inherit}summary{cursor:pointer;padding:.3rem 0}\
:focus-visible{outline:3px solid #1f5fb0;outline-offset:2px}.skip{position:absolute;left:-99rem}\
.skip:focus{left:1rem}nav ul{display:flex;flex-wrap:wrap;gap:0 1rem;margin:.5rem 0;padding:0;list-style:none}.verdict{font-size:1.15rem;margin:.3rem 0}.rankings{display:grid;gap:0 2rem;\
grid-template-columns:repeat(auto-fill,minmax(min(100%,34rem),1fr))}.rankings td{white-space:nowrap}.rankings svg{width:100%;max-width:34rem;height:auto;margin:.5rem 0}h3{font-size:1rem;margin:1rem 0 .3rem}\
th button{all:unset;cursor:pointer;font-weight:bold}th button:focus-visible{outline:3px solid #1f5fb0}\
th[aria-sort=ascending] button::after{content:\" \\2191\"}\
th[aria-sort=descending] button::after{content:\" \\2193\"}\
@media (prefers-color-scheme:dark){:root{--bg:#0f1216;--fg:#e6e6e6;--soft:#a5adb5;--line:#333a41;\
--card:#16191d;--warning:#ffb37a}}\
@media print{.charts{grid-template-columns:1fr 1fr}figure{break-inside:avoid}figure details,.skip,nav{display:none}\
.wide{overflow:visible}.wide table{font-size:6.5pt}.wide :is(th,td){padding:.05rem .15rem;min-width:0}\
.rankings .wide table,.rankings table{font-size:9pt}.rankings :is(th,td){padding:.05rem .5rem}h2,h3{break-after:avoid}thead th{position:static}}";

/// Makes the columns of tables sortable: by number where both cells have or begin with one, otherwise by text.
const SCRIPT: &str = r#"document.querySelectorAll("table.sortable").forEach(table => {
  const heads = [...table.tHead.rows[0].cells];
  const compare = (one, other) => {
    const [x, y] = [parseFloat(one), parseFloat(other)];
    return Number.isNaN(x) || Number.isNaN(y)
      ? one.localeCompare(other, undefined, { numeric: true }) : x - y;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.onclick = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const text = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const rows = [...table.tBodies[0].rows].sort((a, b) => compare(text(a), text(b)));
      table.tBodies[0].append(...(up ? rows : rows.reverse()));
    };
  });
});"#;

/// The page.
#[must_use]
pub fn page(views: &[CaseView], charts: &Charts) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, views, charts);
    out
}

fn write_page(out: &mut String, views: &[CaseView], charts: &Charts) -> fmt::Result {
    let mut suites: Vec<&str> = views.iter().map(|view| view.result().suite.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    let title = escaped(&format!("Results: {}", suites.join(", ")));
    // The policy allows this script only.
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, SCRIPT.as_bytes());
    let hash = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, digest);
    let days = match summary::days(views) {
        days if days.is_empty() => days,
        days => format!("Measured on {}. ", escaped(&days)),
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'sha256-{hash}'\">\
         <title>{title}</title><style>{STYLE}{}</style></head><body>\
         <a class=\"skip\" href=\"#results\">Skip to the results</a><header><h1>{title}</h1>\
         <p class=\"verdict\"><strong>{}</strong></p><p>{days}{}</p></header>",
        page_style(),
        escaped(&ranking::headline(views)),
        escaped(&summary::counts(views))
    )?;
    let mut main = String::new();
    write_thresholds(&mut main, views)?;
    write_rankings(&mut main, &ranking::rankings(views), &targets(views))?;
    write_warnings(&mut main, views, &charts.left_out)?;
    write_charts(&mut main, &charts.drawn)?;
    write_results(&mut main, views)?;
    write_requests(&mut main, views)?;
    write_scaling(&mut main, views)?;
    write_environment(&mut main, views)?;
    write_contents(out, &main)?;
    writeln!(out, "<main>{main}</main><script>{SCRIPT}</script></body></html>")
}

/// A link to each heading with an id.
fn write_contents(out: &mut String, main: &str) -> fmt::Result {
    out.write_str("<header><nav aria-label=\"Contents\"><ul>")?;
    for heading in main.split("<h").filter(|part| part.starts_with(['2', '3'])) {
        let found = heading.split_once(" id=\"").and_then(|(_, rest)| {
            let (id, rest) = rest.split_once('"')?;
            Some((id, rest.split_once('>')?.1.split_once("</h")?.0))
        });
        if let Some((id, text)) = found {
            write!(out, "<li><a href=\"#{id}\">{text}</a></li>")?;
        }
    }
    out.write_str("</ul></nav></header>")
}

/// The conditions of `--fail-if`, and the cases in which they hold.
fn write_thresholds(out: &mut String, views: &[CaseView]) -> fmt::Result {
    let found = || {
        let of = |view| CaseView::result(view).thresholds().into_iter().map(move |one| (view, one));
        views.iter().flat_map(of)
    };
    let mut conditions: Vec<String> = Vec::new();
    for (_, threshold) in found() {
        if !conditions.contains(&threshold.condition) {
            conditions.push(threshold.condition);
        }
    }
    if conditions.is_empty() {
        return Ok(());
    }
    out.write_str(
        "<section aria-labelledby=\"thresholds\"><h2 id=\"thresholds\">Thresholds</h2><ul>",
    )?;
    for condition in conditions {
        let of: Vec<_> = found().filter(|(_, one)| one.condition == condition).collect();
        let broken = || of.iter().filter(|(_, one)| one.broken);
        let count = broken().count();
        let condition = escaped(&condition);
        let result = match (count, of.len()) {
            (0, 1) => "passed".to_owned(),
            (0, all) => format!("passed in all {all} cases"),
            (_, 1) => "failed".to_owned(),
            (_, all) => format!("failed in {count} of {all} cases"),
        };
        if count == 0 {
            write!(out, "<li>{condition}: {result}</li>")?;
            continue;
        }
        write!(
            out,
            "<li class=\"warning\"><details><summary><strong>{condition}: {result}</strong></summary><ul>"
        )?;
        let describe = |(view, one): &(&CaseView, Threshold)| match one.value {
            Some(value) => format!("{}: {}", name(view), trimmed(value, 3)),
            None => format!("{}: nothing was measured", name(view)),
        };
        write_items(out, broken().map(describe))?;
        out.write_str("</ul></details></li>")?;
    }
    out.write_str("</ul></section>")
}

/// List items; of many, only the first ones.
fn write_items(out: &mut String, items: impl Iterator<Item = String>) -> fmt::Result {
    let mut left_out = 0_usize;
    for (place, item) in items.enumerate() {
        if place < limits::LAB_PAGE_ITEMS_MAX {
            write!(out, "<li>{}</li>", escaped(&item))?;
        } else {
            left_out += 1;
        }
    }
    match left_out {
        0 => Ok(()),
        more => {
            write!(out, "<li>and {more} more: see <a href=\"summary.csv\">summary.csv</a></li>")
        }
    }
}

/// One table per metric, if there are several targets.
fn write_rankings(
    out: &mut String,
    rankings: &[Ranking],
    targets: &BTreeSet<String>,
) -> fmt::Result {
    let several = || rankings.iter().filter(|ranking| ranking.places.len() > 1);
    if several().next().is_none() {
        return Ok(());
    }
    out.write_str(
        "<section aria-labelledby=\"ranking\"><h2 id=\"ranking\">Ranking</h2><p class=\"soft\">Relative to the \
         first target: the geometric mean over the cells (scenario, users, size, delay) that all ranked targets have \
         in the same repetitions, with its 95&nbsp;% interval. The first place is chosen from these figures. \
         Figures that a warning concerns are left out.</p><div class=\"rankings\">",
    )?;
    for ranking in several() {
        let (usable, all) = ranking.usable;
        let metric = ranking.metric;
        write!(
            out,
            "<div><h3>{} <span class=\"soft\">(usable in {usable} of {all} cases, compared in {} {})</span></h3>\
             <div class=\"wide\"><table class=\"sortable\"><thead><tr>",
            metric.name,
            ranking.cells,
            if ranking.cells == 1 { "cell" } else { "cells" }
        )?;
        let header =
            ["target", "relative", "interval", "repetitions", &format!("median {}", metric.unit)];
        let rows: Vec<[String; 5]> = ranking.places.iter().enumerate().map(place_row).collect();
        let median = |row: usize, column| {
            let place = ranking.places.get(row).filter(|_| column + 1 == header.len());
            place.map(|place| place.median)
        };
        write_cells(out, &header, &rows, median)?;
        let picture = intervals::picture(ranking, targets).unwrap_or_default();
        write!(out, "</div>{picture}</div>")?;
    }
    out.write_str("</div></section>")
}

fn place_row((place, found): (usize, &Place)) -> [String; 5] {
    let absent = || "-".to_owned();
    let ratio = match place {
        0 => "1".to_owned(),
        _ => found.ratio.map_or_else(absent, |ratio| format!("{ratio:.3}")),
    };
    let interval = found.interval.map(|(low, high)| format!("{low:.3} to {high:.3}"));
    let repetitions = if place == 0 { absent() } else { found.repetitions.to_string() };
    let interval = interval.unwrap_or_else(absent);
    [found.target.clone(), ratio, interval, repetitions, short(found.median)]
}

/// Each warning once: the figures it concerns, the number of cases, and their names. Then the parts that the page
/// lacks.
fn write_warnings(out: &mut String, views: &[CaseView], left_out: &[String]) -> fmt::Result {
    let mut codes: Vec<&str> =
        views.iter().flat_map(|view| &view.warnings).map(|warning| warning.code.as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    let missing: Vec<&CaseView> =
        views.iter().filter(|view| view.result().state != State::Measured).collect();
    if codes.is_empty() && missing.is_empty() && left_out.is_empty() {
        return Ok(());
    }
    out.write_str(
        "<section aria-labelledby=\"warnings\"><h2 id=\"warnings\">Warnings</h2><ul class=\"warning\">",
    )?;
    let of = |code: &str| -> Vec<(&CaseView, Warning)> {
        let own = |view: &CaseView| view.warnings.iter().find(|one| one.code == code).cloned();
        views.iter().filter_map(|view| Some((view, own(view)?))).collect()
    };
    let mut found: Vec<_> = codes.into_iter().map(|code| (code, of(code))).collect();
    // The worst first, then the most frequent.
    found.sort_by_key(|(_, found)| {
        Reverse((found.iter().map(|(_, warning)| warning.severity).max(), found.len()))
    });
    for (code, found) in &found {
        write_warning(out, code, found)?;
    }
    out.write_str("</ul>")?;
    if !missing.is_empty() {
        write!(out, "<details><summary>Not measured: {} cases</summary><ul>", missing.len())?;
        let describe = |view: &&CaseView| format!("{}: {}", name(view), view.remarks());
        write_items(out, missing.iter().map(describe))?;
        out.write_str("</ul></details>")?;
    }
    if !left_out.is_empty() {
        out.write_str("<p>Latency histograms and heat maps that are not drawn:</p><ul>")?;
        write_items(out, left_out.iter().cloned())?;
        out.write_str("</ul>")?;
    }
    out.write_str("</section>")
}

fn write_warning(out: &mut String, code: &str, found: &[(&CaseView, Warning)]) -> fmt::Result {
    let Some((_, first)) = found.first() else { return Ok(()) };
    let check = CHECKS.iter().find(|check| check.name == code);
    let detects = check.map_or(String::new(), |check| format!("{}; ", check.detects));
    let concerns = match first.concerned() {
        concerned if concerned.is_empty() => "concerns no figure".to_owned(),
        concerned => format!("concerns {concerned}"),
    };
    write!(
        out,
        "<li><details><summary><strong>{}</strong>, {} in {} {}: {}{}</summary><ul>",
        escaped(code),
        first.severity.name(),
        found.len(),
        if found.len() == 1 { "case" } else { "cases" },
        escaped(&detects),
        escaped(&concerns)
    )?;
    write_items(out, found.iter().map(|(view, one)| format!("{}: {}", name(view), one.message)))?;
    out.write_str("</ul></details></li>")
}

/// A case in words.
fn name(view: &CaseView) -> String {
    let case = &view.result().case;
    let delay = match case.delay_ms {
        0 => String::new(),
        ms => format!(", {ms} ms delay"),
    };
    let (target, scenario) = (view.name(), &case.scenario);
    let (users, bytes) = (case.users, size(case.payload_bytes));
    format!("{target}, {scenario}, {users} users, {bytes}{delay}, #{}", case.repetition)
}

fn write_environment(out: &mut String, views: &[CaseView]) -> fmt::Result {
    let mut lines: Vec<String> =
        views.iter().flat_map(|view| summary::environment(view.result())).collect();
    lines.sort();
    lines.dedup();
    out.write_str(
        "<section aria-labelledby=\"environment\"><h2 id=\"environment\">Measured on</h2><ul>",
    )?;
    lines.iter().try_for_each(|line| write!(out, "<li>{}</li>", escaped(line)))?;
    out.write_str(
        "</ul><p class=\"soft\">Figures are valid only for this machine and configuration. Published \
         results in the charts are grey and were measured on the hardware given in their name: compare \
         shapes, not heights.</p></section>",
    )
}

/// The cells of a row, before the remarks; a warning about the given figures marks a cell.
type Cell = (&'static str, Option<Figures>, fn(&CaseView) -> String);

const LATENCY: Option<Figures> = Some(Figures::Latency);
#[rustfmt::skip]
const CELLS: &[Cell] = &[
    ("target", None, CaseView::name),
    ("scenario", None, |view| view.result().case.scenario.clone()),
    ("users", None, |view| view.result().case.users.to_string()),
    ("bytes", None, |view| view.result().case.payload_bytes.to_string()),
    ("delay ms", None, |view| view.result().case.delay_ms.to_string()),
    ("#", None, |view| view.result().case.repetition.to_string()),
    ("requests/s", Some(Figures::Rate), |view| of(view.exact("throughput_per_s"), 1)),
    ("errors %", Some(Figures::Rate), |view| of(view.exact("error_percent"), 2)),
    ("mean ms", LATENCY, |view| of(view.exact("mean_ms"), 3)),
    ("p50 ms", LATENCY, |view| of(view.exact("p50_ms"), 3)),
    ("p99 ms", LATENCY, |view| of(view.exact("p99_ms"), 3)),
    ("p99.9 ms", LATENCY, |view| of(view.exact("p999_ms"), 3)),
    ("p99.99 ms", LATENCY, |view| of(view.exact("p9999_ms"), 3)),
    ("CPU us/request", Some(Figures::Cpu), |view| of(view.cpu_us(), 2)),
    ("peak MiB", Some(Figures::Cpu), |view| of(view.use_of_target().map(|used| used.rss_peak_bytes as f64 / 1_048_576.0), 1)),
    ("generator MiB", None, |view| of(view.exact("generator_peak_rss_bytes").map(|bytes| bytes / 1_048_576.0), 1)),
    ("ready ms", Some(Figures::Cpu), |view| of(view.result().start.map(|start| start.ready_ms), 1)),
    ("idle MiB", Some(Figures::Cpu), |view| of(view.idle_mib(), 1)),
    ("changes live", Some(Figures::Cpu), |view| of(view.result().changes.map(|changes| changes.live as f64), 0)),
    ("changes lost", Some(Figures::Cpu), |view| of(view.result().changes.map(|changes| changes.lost as f64), 0)),
    ("until live p50 ms", Some(Figures::Cpu), |view| of(view.result().changes.map(|changes| changes.p50_ms), 1)),
    ("until live p99 ms", Some(Figures::Cpu), |view| of(view.result().changes.map(|changes| changes.p99_ms), 1)),
];
const NOT_AVAILABLE: &str = "N/A";

fn of(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| NOT_AVAILABLE.to_owned(), |value| trimmed(value, decimals))
}

fn write_results(out: &mut String, views: &[CaseView]) -> fmt::Result {
    out.write_str(
        "<section aria-labelledby=\"results\"><h2 id=\"results\" tabindex=\"-1\">All cases</h2>\
         <p class=\"soft\">Click a column to sort by it. A warning concerns the coloured figures.</p>\
         <div class=\"wide\" role=\"region\" aria-labelledby=\"results\" tabindex=\"0\">\
         <table class=\"sortable\"><thead><tr>",
    )?;
    let has_figures = |(_, _, cell): &&Cell| views.iter().any(|view| cell(view) != NOT_AVAILABLE);
    let used: Vec<&Cell> = CELLS.iter().filter(has_figures).collect();
    used.iter().try_for_each(|(name, ..)| write!(out, "<th scope=\"col\">{name}</th>"))?;
    out.write_str("<th scope=\"col\" class=\"text\">warnings</th></tr></thead><tbody>")?;
    let rows = views.iter().map(|view| {
        let cells = used.iter().enumerate().map(|(column, (_, figures, cell))| {
            let cell = escaped(&cell(view));
            match (column, figures) {
                (0, _) => format!("<th scope=\"row\">{cell}</th>"),
                (_, Some(figures)) if !view.is_usable(*figures) => {
                    format!("<td class=\"warning\">{cell}</td>")
                }
                _ => format!("<td>{cell}</td>"),
            }
        });
        let (cells, codes) = (cells.collect::<String>(), escaped(&codes(view)));
        format!("<tr>{cells}<td class=\"text\">{codes}</td></tr>")
    });
    write_rows(out, rows)?;
    out.write_str("</div></section>")
}

/// The requests of scenarios, if there are any.
fn write_requests(out: &mut String, views: &[CaseView]) -> fmt::Result {
    const COLUMNS: [&str; 10] = [
        "request",
        "case",
        "requests",
        "errors",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "p99.99 ms",
        "max ms",
    ];
    const KEYS: [&str; 8] =
        ["requests", "errors", "mean_ms", "p50_ms", "p99_ms", "p999_ms", "p9999_ms", "max_ms"];
    let rows = views.iter().flat_map(|view| {
        view.by_request().map(move |(request, figures)| {
            let figure = |key: &&str| of(figures.get(*key).and_then(Value::as_f64), 3);
            let words = [request.to_owned(), name(view)];
            words.into_iter().chain(KEYS.iter().map(figure)).collect::<Vec<_>>()
        })
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    out.write_str(
        "<section aria-labelledby=\"requests\"><h2 id=\"requests\">Requests of scenarios</h2>\
         <div class=\"wide\" role=\"region\" aria-labelledby=\"requests\" tabindex=\"0\">\
         <table class=\"sortable\"><thead><tr>",
    )?;
    write_cells(out, &COLUMNS, &rows, |_, _| None)?;
    out.write_str("</div></section>")
}

/// The codes of the warnings, or why the case was not measured.
fn codes(view: &CaseView) -> String {
    match view.result().state {
        State::NotServed => "not served".to_owned(),
        State::Failed => "failed".to_owned(),
        State::Measured => {
            let codes = view.warnings.iter().map(|warning| warning.code.as_str());
            codes.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Only if a sweep has varied a numeric setting.
fn write_scaling(out: &mut String, views: &[CaseView]) -> fmt::Result {
    let rows = scaling::rows(views);
    if rows.is_empty() {
        return Ok(());
    }
    out.write_str(
        "<section aria-labelledby=\"scaling\"><h2 id=\"scaling\">Scaling</h2><p class=\"soft\">The \
         Universal Scalability Law, fitted over the swept setting. If the error is above 10 %, the \
          law does not describe the target.</p><div class=\"wide\" role=\"region\" aria-labelledby=\"scaling\" \
         tabindex=\"0\"><table><thead><tr>",
    )?;
    write_cells(out, &scaling::HEADER, &rows, |_, _| None)?;
    out.write_str("</div></section>")
}

fn write_charts(out: &mut String, charts: &[Chart]) -> fmt::Result {
    out.write_str(
        "<section aria-labelledby=\"charts\"><h2 id=\"charts\">Charts</h2><p class=\"soft\">Hollow marks \
         are of figures that a warning concerns. A target has the same colour in all charts. Each chart is followed by a table with its \
         figures. Without errors, there is no chart of them.</p>",
    )?;
    let mut kinds: Vec<(&str, Vec<String>)> = Vec::new();
    let mut off_page = Vec::new();
    let mut left = limits::LAB_PAGE_CHARTS_BYTES_MAX;
    for chart in charts {
        let mut figure = String::new();
        if !chart.off_page {
            write_figure(&mut figure, chart)?;
        }
        if chart.off_page || figure.len() > left {
            off_page.push(chart);
        } else {
            left -= figure.len();
            match kinds.iter_mut().find(|(kind, _)| *kind == chart.kind()) {
                Some((_, figures)) => figures.push(figure),
                None => kinds.push((chart.kind(), vec![figure])),
            }
        }
    }
    write_kinds(out, kinds)?;
    write_off_page(out, &off_page)?;
    out.write_str("</section>")
}

/// The figures of each kind below a heading. Kinds with one figure share theirs.
fn write_kinds(out: &mut String, kinds: Vec<(&str, Vec<String>)>) -> fmt::Result {
    let mut groups: Vec<(String, String, bool)> = Vec::new();
    for (kind, figures) in kinds {
        let is_alone = figures.len() == 1;
        match groups.last_mut() {
            Some((names, all, true)) if is_alone => {
                names.push_str(&format!(", {kind}"));
                all.extend(figures);
            }
            _ => groups.push((kind.to_owned(), figures.concat(), is_alone)),
        }
    }
    let has_headings = groups.len() > 1;
    for (number, (names, figures, _)) in groups.iter().enumerate() {
        if has_headings {
            write!(out, "<h3 id=\"charts-{number}\">{}</h3>", escaped(names))?;
        }
        write!(out, "<div class=\"charts\">{figures}</div>")?;
    }
    Ok(())
}

fn write_figure(out: &mut String, chart: &Chart) -> fmt::Result {
    write!(out, "<figure id=\"{}\">{}", escaped(&chart.id), chart.svg(Setting::Page))?;
    write_table(out, chart)?;
    out.write_str("</figure>")
}

/// Lists the charts that are not on the page.
fn write_off_page(out: &mut String, off_page: &[&Chart]) -> fmt::Result {
    if off_page.is_empty() {
        return Ok(());
    }
    write!(
        out,
        "<h3>Not on this page</h3><p>{} charts of single cases are left out to keep the page fast. Each is \
         a file next to this page; <code>penstock lab report DIR --only REGEX --out NEW</code> writes a \
         page for selected cases.</p><details><summary>All charts</summary><ul>",
        off_page.len()
    )?;
    for chart in off_page {
        let (title, id) = (escaped(&chart.title), escaped(&chart.id));
        write!(out, "<li><a href=\"charts/{id}.svg\">{title}</a></li>")?;
    }
    out.write_str("</ul></details>")
}

fn write_table(out: &mut String, chart: &Chart) -> fmt::Result {
    let (header, rows) = chart.table();
    let title = escaped(&chart.title);
    write!(
        out,
        "<details><summary>Table: {title}</summary><div class=\"wide\" role=\"region\" \
         aria-label=\"{title}\" tabindex=\"0\"><table class=\"sortable\"><thead><tr>"
    )?;
    write_cells(out, &header, &rows, |row, column| chart.number(row, column))?;
    out.write_str("</div></details>")
}

/// Completes a table: column names, then rows with the first cell as row header. `number`: the sort key of a cell (row,
/// column), instead of the number that its text begins with.
fn write_cells(
    out: &mut String,
    header: &[impl AsRef<str>],
    rows: &[impl AsRef<[String]>],
    number: impl Fn(usize, usize) -> Option<f64>,
) -> fmt::Result {
    header
        .iter()
        .try_for_each(|name| write!(out, "<th scope=\"col\">{}</th>", escaped(name.as_ref())))?;
    out.write_str("</tr></thead><tbody>")?;
    let rows = rows.iter().enumerate().map(|(row, cells)| {
        let cells = cells.as_ref().iter().enumerate().map(|(column, cell)| {
            let (cell, number) = (escaped(cell), number(row, column));
            let value = number.map_or(String::new(), |number| format!(" data-v=\"{number}\""));
            match column {
                0 => format!("<th scope=\"row\"{value}>{cell}</th>"),
                _ => format!("<td{value}>{cell}</td>"),
            }
        });
        format!("<tr>{}</tr>", cells.collect::<String>())
    });
    write_rows(out, rows)
}

/// The rows that fit a page, and the end of the table.
fn write_rows(out: &mut String, rows: impl Iterator<Item = String>) -> fmt::Result {
    let mut left = limits::LAB_PAGE_TABLE_BYTES_MAX;
    let mut left_out = 0_usize;
    for row in rows {
        if left_out > 0 || row.len() > left {
            left_out += 1;
        } else {
            left -= row.len();
            out.write_str(&row)?;
        }
    }
    out.write_str("</tbody></table>")?;
    match left_out {
        0 => Ok(()),
        more => write!(
            out,
            "<p>{more} more rows are not on this page; all cases are in <a href=\"summary.csv\">summary.csv</a>.</p>"
        ),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::report::charts::charts;
    use crate::report::results::StoredResult;
    use crate::result::tests::sample;
    use crate::result::{CaseResult, Changes, Start};

    #[test]
    fn the_page_of_a_large_folder_is_below_a_megabyte() {
        let mut views = Vec::new();
        for users in 1..=48 {
            for target in ["one", "other", "third"] {
                let mut result = sample();
                (result.case.target, result.case.users) = (target.to_owned(), users);
                let second = |second: u32| {
                    let rate = f64::from(1_000 + users * 7 + second * 13 % 997) / 3.0;
                    serde_json::json!({"rate_per_s": rate, "p50_ms": rate / 90.0, "p99_ms": rate / 7.0,
                        "errors": second % 3, "target_cpus": rate / 999.0})
                };
                result.load["series"] = (0..1_800).map(second).collect();
                views.push(CaseView::new(StoredResult { file: "result.json".into(), result }));
            }
        }
        let charts = charts(&views);
        let one = charts.drawn.iter().find(|chart| chart.id.starts_with("rate-over-time")).unwrap();
        assert_eq!(one.table().1.len(), 120);
        // Marks have titles; those of the legend remain.
        assert!(one.svg(Setting::Page).matches("<title>").count() < 10);
        let page = page(&views, &charts);
        assert!((200_000..1_000_000).contains(&page.len()), "{}", page.len());
        assert!(page.contains("Not on this page"));
    }

    #[test]
    fn a_warning_marks_the_figures_that_it_concerns() {
        let mut result = sample();
        result.warnings = vec![crate::validity::recorded("backend-alone", "it failed")];
        let views = [CaseView::new(StoredResult { file: "result.json".into(), result })];
        let page = page(&views, &charts(&views));
        // Rate and 99th percentile; not CPU time and memory.
        assert_eq!(page.matches("<td class=\"warning\">").count(), 2, "{page}");
    }

    #[test]
    fn figures_of_the_start_and_of_changes_are_shown_if_there_are_any() {
        let mut result = sample();
        let page_of = |result: &CaseResult| {
            let found = StoredResult { file: "result.json".into(), result: result.clone() };
            let views = [CaseView::new(found)];
            page(&views, &charts(&views))
        };
        (result.start, result.changes) = (None, None);
        let without = page_of(&result);
        assert!(!without.contains("ready ms") && !without.contains("until live"), "{without}");
        result.start = Some(Start { ready_ms: 12.5, idle_rss_bytes: Some(3 << 20) });
        result.changes = Some(Changes { live: 71, lost: 2, p50_ms: 2.5, p99_ms: 3.5, max_ms: 9.0 });
        let with = page_of(&result);
        let cells = ["12.5", "3", "71", "2", "2.5", "3.5"].map(|cell| format!("<td>{cell}</td>"));
        assert!(with.contains("until live p99 ms") && with.contains(&cells.concat()), "{with}");
    }

    #[test]
    fn many_cases_and_warnings_fit_the_page() {
        let mut views = Vec::new();
        for repetition in 1..=400 {
            for target in ["one", "other", "third"] {
                let mut result = sample();
                (result.case.target, result.case.repetition) = (target.to_owned(), repetition);
                let request =
                    serde_json::json!({"name": "a request", "requests": 7, "p99_ms": 1.5});
                result.load["by_request"] = serde_json::json!([request, request]);
                result.warnings = ["limits", "backend-alone", "gc-log"]
                    .map(|code| crate::validity::recorded(code, &"a long text ".repeat(20)))
                    .to_vec();
                views.push(CaseView::new(StoredResult { file: "result.json".into(), result }));
            }
        }
        let page = page(&views, &charts(&views));
        assert!((200_000..1_000_000).contains(&page.len()), "{}", page.len());
        assert!(page.contains("more rows are not on this page"));
        assert!(page.contains(" more: see <a href=\"summary.csv\">"));
    }
}
