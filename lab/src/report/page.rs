//! `report.html`: a self-contained page without scripts or network access.

use std::fmt::{self, Write};

use super::chart::{Chart, Setting, escaped, page_style};
use super::scaling;
use super::summary;
use super::view::{CaseView, size, trimmed};
use crate::result::State;

const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#222;--soft:#666;--line:#ddd;--card:#fafafa;--warning:#8a3a00}\
*{box-sizing:border-box}body{margin:0;font:16px/1.5 system-ui,sans-serif;background:var(--bg);\
color:var(--fg)}main,header,footer{max-width:110rem;margin:0 auto;padding:0 1rem}\
h1{font-size:1.5rem;margin:1rem 0 .3rem}h2{font-size:1.2rem;margin:2rem 0 .5rem}\
.soft{color:var(--soft)}.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,27rem),1fr));\
gap:1rem}figure{margin:0;padding:.5rem;border:1px solid var(--line);border-radius:.4rem;min-width:0}\
figure svg{width:100%;height:auto;display:block}figcaption{font-size:.85rem;color:var(--soft)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{border-bottom:1px solid var(--line);padding:.2rem .6rem;text-align:right;vertical-align:top}\
th:first-child,td:first-child,.text{text-align:left}th[scope=row]{min-width:9rem;font-weight:normal}thead th{position:sticky;top:0;background:var(--bg)}\
.warning,tr.flagged td{color:var(--warning)}a{color:inherit}summary{cursor:pointer;padding:.3rem 0}\
:focus-visible{outline:3px solid #1f5fb0;outline-offset:2px}.skip{position:absolute;left:-99rem}\
.skip:focus{left:1rem}\
@media (prefers-color-scheme:dark){:root{--bg:#0f1216;--fg:#e6e6e6;--soft:#a5adb5;--line:#333a41;\
--card:#16191d;--warning:#ffb37a}}\
@media print{details{display:block}.charts{display:block}figure{break-inside:avoid}}";

/// The page.
#[must_use]
pub fn page(views: &[CaseView], charts: &[Chart]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, views, charts);
    out
}

fn write_page(out: &mut String, views: &[CaseView], charts: &[Chart]) -> fmt::Result {
    let mut suites: Vec<&str> = views.iter().map(|view| view.result().suite.as_str()).collect();
    suites.sort_unstable();
    suites.dedup();
    let title = escaped(&format!("Results: {}", suites.join(", ")));
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}{}</style></head><body>\
         <a class=\"skip\" href=\"#results\">Skip to the results</a><header><h1>{title}</h1>\
         <p>{}</p></header><main>",
        page_style(),
        escaped(&summary::counts(views))
    )?;
    write_environment(out, views)?;
    write_results(out, views)?;
    write_scaling(out, views)?;
    write_charts(out, charts)?;
    out.write_str("</main></body></html>\n")
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

/// The cells of a row, before the remarks.
type Cell = (&'static str, fn(&CaseView) -> String);

#[rustfmt::skip]
const CELLS: &[Cell] = &[
    ("case", |view| {
        let case = &view.result().case;
        let delay = if case.delay_ms == 0 { String::new() } else { format!(", {} ms delay", case.delay_ms) };
        format!("{}, {}, {} users, {}{delay}, #{}", view.target(), case.scenario, case.users,
            size(case.payload_bytes), case.repetition)
    }),
    ("requests/s", |view| of(view.exact("throughput_per_s"), 1)),
    ("errors %", |view| of(view.exact("error_percent"), 2)),
    ("mean ms", |view| of(view.exact("mean_ms"), 3)),
    ("p50 ms", |view| of(view.exact("p50_ms"), 3)),
    ("p99 ms", |view| of(view.exact("p99_ms"), 3)),
    ("p99.9 ms", |view| of(view.exact("p999_ms"), 3)),
    ("CPU us/request", |view| of(view.cpu_us(), 2)),
    ("peak MiB", |view| of(view.use_of_target().map(|used| used.rss_peak_bytes as f64 / 1_048_576.0), 1)),
];

fn of(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "N/A".to_owned(), |value| trimmed(value, decimals))
}

fn write_results(out: &mut String, views: &[CaseView]) -> fmt::Result {
    out.write_str(
        "<section aria-labelledby=\"results\"><h2 id=\"results\" tabindex=\"-1\">All cases</h2>\
         <div class=\"wide\" role=\"region\" aria-labelledby=\"results\" tabindex=\"0\"><table><thead><tr>",
    )?;
    CELLS.iter().try_for_each(|(name, _)| write!(out, "<th scope=\"col\">{name}</th>"))?;
    out.write_str("<th scope=\"col\" class=\"text\">warnings</th></tr></thead><tbody>")?;
    for view in views {
        let valid = view.result().state == State::Measured && view.warnings.is_empty();
        out.write_str(if valid { "<tr>" } else { "<tr class=\"flagged\">" })?;
        for (place, (_, cell)) in CELLS.iter().enumerate() {
            let cell = escaped(&cell(view));
            match place {
                0 => write!(out, "<th scope=\"row\">{cell}</th>")?,
                _ => write!(out, "<td>{cell}</td>")?,
            }
        }
        write!(out, "<td class=\"text\">{}</td></tr>", escaped(&view.remarks()))?;
    }
    out.write_str("</tbody></table></div></section>")
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
    write_cells(out, &scaling::HEADER, &rows)?;
    out.write_str("</div></section>")
}

fn write_charts(out: &mut String, charts: &[Chart]) -> fmt::Result {
    out.write_str(
        "<section aria-labelledby=\"charts\"><h2 id=\"charts\">Charts</h2><p class=\"soft\">Hollow marks \
         have a warning. Each chart is followed by a table with its figures.</p><div class=\"charts\">",
    )?;
    for chart in charts.iter().filter(|chart| !chart.off_page) {
        write!(out, "<figure id=\"{}\">{}", escaped(&chart.id), chart.svg(Setting::Page))?;
        if !chart.note.is_empty() {
            write!(out, "<p class=\"warning\">{}</p>", escaped(&chart.note))?;
        }
        write_table(out, chart)?;
        out.write_str("</figure>")?;
    }
    out.write_str("</div>")?;
    write_off_page(out, charts)?;
    out.write_str("</section>")
}

/// Lists the charts that are not on the page.
fn write_off_page(out: &mut String, charts: &[Chart]) -> fmt::Result {
    let off_page: Vec<&Chart> = charts.iter().filter(|chart| chart.off_page).collect();
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
        write!(out, "<li>{title}: <code>charts/{id}.svg</code></li>")?;
    }
    out.write_str("</ul></details>")
}

fn write_table(out: &mut String, chart: &Chart) -> fmt::Result {
    let (header, rows) = chart.table();
    let title = escaped(&chart.title);
    write!(
        out,
        "<details><summary>Table: {title}</summary><div class=\"wide\" role=\"region\" \
         aria-label=\"{title}\" tabindex=\"0\"><table><thead><tr>"
    )?;
    write_cells(out, &header, &rows)?;
    out.write_str("</div></details>")
}

/// Completes a table: column names, then rows with the first cell as row header.
fn write_cells(
    out: &mut String,
    header: &[impl AsRef<str>],
    rows: &[impl AsRef<[String]>],
) -> fmt::Result {
    header
        .iter()
        .try_for_each(|name| write!(out, "<th scope=\"col\">{}</th>", escaped(name.as_ref())))?;
    out.write_str("</tr></thead><tbody>")?;
    for row in rows {
        out.write_str("<tr>")?;
        for (place, cell) in row.as_ref().iter().enumerate() {
            let cell = escaped(cell);
            match place {
                0 => write!(out, "<th scope=\"row\">{cell}</th>")?,
                _ => write!(out, "<td>{cell}</td>")?,
            }
        }
        out.write_str("</tr>")?;
    }
    out.write_str("</tbody></table>")
}
