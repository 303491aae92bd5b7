//! The tables: medians over the rounds, and CPU time per request relative to nginx in the same cell.

use std::fmt::Write;
use std::process::Command;

use super::Agreement;
use super::cells::Cell;
use super::load::{Generator, Sample};
use super::targets::{NGINX, PENSTOCK, Running, installed};
use super::test_bed::{self, TestBed};
use crate::shell;

/// One target in one cell.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    cell: Cell,
    target: String,
    generator: Generator,
    /// Medians over the rounds; errors are their sum.
    sample: Sample,
    /// CPU time per request relative to nginx: median, minimum and maximum over the rounds.
    ratio: Option<(f64, f64, f64)>,
}

/// Medians per target and generator.
pub(crate) fn rows(
    running: &[Running],
    cell: &Cell,
    samples: &[(usize, Generator, Sample)],
) -> Vec<Row> {
    let of = |index: usize, generator: Generator| -> Vec<&Sample> {
        let own = samples.iter().filter(|(i, g, _)| *i == index && *g == generator);
        own.map(|(_, _, sample)| sample).collect()
    };
    let nginx = running.iter().position(|target| target.name() == NGINX);
    let mut rows = Vec::new();
    for generator in [Generator::Lab, Generator::Wrk] {
        let base = nginx.map(|index| of(index, generator)).unwrap_or_default();
        for (index, target) in running.iter().enumerate() {
            let mine = of(index, generator);
            if !mine.is_empty() {
                rows.push(Row {
                    cell: *cell,
                    target: target.name().to_owned(),
                    generator,
                    sample: medians(&mine),
                    ratio: ratio(&mine, &base),
                });
            }
        }
    }
    rows
}

/// The median of each figure; requests and errors are summed.
pub(crate) fn medians(samples: &[&Sample]) -> Sample {
    let of =
        |value: fn(&Sample) -> f64| median(samples.iter().map(|sample| value(sample)).collect());
    Sample {
        requests: samples.iter().map(|sample| sample.requests).sum(),
        requests_in_all: samples.iter().map(|sample| sample.requests_in_all).sum(),
        errors: samples.iter().map(|sample| sample.errors).sum(),
        per_s: of(|sample| sample.per_s),
        p50_ms: of(|sample| sample.p50_ms),
        p99_ms: of(|sample| sample.p99_ms),
        cpu_us: of(|sample| sample.cpu_us),
        generator_us: of(|sample| sample.generator_us),
        busy: of(|sample| sample.busy),
        memory_mib: of(|sample| sample.memory_mib),
    }
}

fn ratio(mine: &[&Sample], base: &[&Sample]) -> Option<(f64, f64, f64)> {
    let each: Vec<f64> =
        mine.iter().zip(base).map(|(ours, nginx)| ours.cpu_us / nginx.cpu_us).collect();
    let least = each.iter().copied().reduce(f64::min)?;
    let most = each.iter().copied().reduce(f64::max)?;
    Some((median(each), least, most))
}

/// The median; 0 if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
    if values.len().is_multiple_of(2) {
        f64::midpoint(at(half.saturating_sub(1)), at(half))
    } else {
        at(half)
    }
}

/// All tables as Markdown.
pub(crate) fn page(bed: &TestBed, rows: &[Row], agreement: &Agreement) -> String {
    let mut page = format!("{}\n{agreement}\n", machine(bed));
    page.push_str(&budgets(rows));
    for tls in [false, true] {
        let some: Vec<&Row> = rows.iter().filter(|row| row.cell.tls == tls).collect();
        if !some.is_empty() {
            _ = write!(page, "\n### {}\n\n", if tls { "TLS 1.3" } else { "Cleartext" });
            page.push_str(&table(&some));
        }
    }
    page
}

/// CPU time relative to nginx, compared with budgets 1 to 3.
fn budgets(rows: &[Row]) -> String {
    let ours = rows.iter().filter(|row| row.target == PENSTOCK && row.generator == Generator::Lab);
    let mut text = String::from(
        "\n| cell | Penstock / nginx, CPU per request (min to max of the rounds) | budget | |\n|---|---|--:|---|\n",
    );
    for row in ours {
        let Some((share, least, most)) = row.ratio else {
            continue;
        };
        let budget = row.cell.budget();
        let verdict = if share <= budget { "met" } else { "**missed**" };
        _ = writeln!(
            text,
            "| {} | {share:.3} ({least:.3} to {most:.3}) | {budget:.2} | {verdict} |",
            row.cell
        );
    }
    text
}

fn table(rows: &[&Row]) -> String {
    let mut text = String::from(
        "| body | connections | target | CPU µs/request | / nginx | requests/s | p50 ms | p99 ms | MiB | core | errors | generator µs/request |\n\
         |--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in rows {
        let Row { cell, target, generator, sample, ratio } = row;
        let by = if *generator == Generator::Wrk { " (by wrk)" } else { "" };
        let share = ratio.map_or_else(String::new, |(share, ..)| format!("{share:.2}"));
        let Sample { cpu_us, per_s, p50_ms, p99_ms, memory_mib, errors, generator_us, .. } = sample;
        _ = writeln!(
            text,
            "| {} | {} | {target}{by} | {cpu_us:.1} | {share} | {per_s:.0} | {p50_ms:.2} | {p99_ms:.2} | \
             {memory_mib:.1} | {:.0} % | {errors} | {generator_us:.1} |",
            cell.body(),
            cell.connections,
            sample.busy * 100.0,
        );
    }
    text
}

/// The machine and the versions of the programs.
pub(crate) fn machine(bed: &TestBed) -> String {
    let cpu = test_bed::read(std::path::Path::new("/proc/cpuinfo")).unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = shell::output(Command::new("uname").arg("-sr")).unwrap_or_default();
    let versions: Vec<String> = [
        shell::output(Command::new(&bed.penstock).arg("--version")).ok(),
        version("nginx", "-v"),
        version("haproxy", "-v"),
        version("wrk", "-v"),
    ]
    .into_iter()
    .flatten()
    .filter_map(|output| output.lines().next().map(|line| line.trim().to_owned()))
    .collect();
    format!(
        "- machine: {cores} cores, {}, {}\n- programs: {}",
        cpu.trim_start_matches([' ', '\t', ':']),
        kernel.trim(),
        versions.join("; ")
    )
}

/// Some programs print their version to stderr, and wrk exits with an error because the URL is missing.
fn version(program: &str, option: &str) -> Option<String> {
    let output = Command::new(installed(program)?).arg(option).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Writes `report.md` and `report.json`.
///
/// # Errors
/// The files cannot be written.
pub(crate) fn write(bed: &TestBed, page: &str, rows: &[Row]) -> Result<(), String> {
    let figures: Vec<serde_json::Value> = rows.iter().map(figures).collect();
    let json = serde_json::Value::from(figures);
    test_bed::write(&bed.folder.join("report.json"), &format!("{json:#}\n"))?;
    test_bed::write(&bed.folder.join("report.md"), page)?;
    eprintln!("bench: written to {}/report.md and report.json", bed.folder.display());
    Ok(())
}

fn figures(row: &Row) -> serde_json::Value {
    let sample = &row.sample;
    serde_json::json!({
        "cell": row.cell.to_string(),
        "tls": row.cell.tls,
        "body_bytes": row.cell.body_bytes,
        "connections": row.cell.connections,
        "target": row.target,
        "generator": if row.generator == Generator::Wrk { "wrk" } else { "lab" },
        "cpu_us_per_request": sample.cpu_us,
        "share_of_nginx": row.ratio.map(|(share, ..)| share),
        "requests_per_s": sample.per_s,
        "p50_ms": sample.p50_ms,
        "p99_ms": sample.p99_ms,
        "memory_mib": sample.memory_mib,
        "core_busy": sample.busy,
        "requests": sample.requests,
        "errors": sample.errors,
        "generator_us_per_request": sample.generator_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_number_of_values_has_the_mean_of_the_middle_two() {
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }

    #[test]
    fn ratios_are_computed_per_round() {
        let sample = |cpu_us: f64| Sample { cpu_us, ..Sample::default() };
        let (ours, base) = ([sample(6.0), sample(9.0)], [sample(10.0), sample(10.0)]);
        let (share, least, most) = ratio(&ours.each_ref(), &base.each_ref()).unwrap();
        assert!(
            (share - 0.75).abs() < 1e-9 && (least - 0.6).abs() < 1e-9 && (most - 0.9).abs() < 1e-9
        );
    }
}
