//! `penstock lab check`: runs the validity checks on tables and results.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::limits;
use lab::report::results;
use lab::result::Warning;
use lab::validity::published::Table;
use lab::validity::{CHECKS, Row, measured};
use serde_json::{Value, json};

use crate::commands::{counted, stdout};
use crate::failure::Failure;

/// Check results for signs that they are invalid
///
/// A FILE is a CSV with the columns of WSO2's published summaries, or written by `penstock lab load --json`; a DIR
/// holds result.json files written by `penstock lab run`. Every row goes through the validity checks, which allow for
/// the rounding of printed figures; docs/measuring.md describes each of them. Warnings do not change the exit code.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab check lab/published/api-manager.csv
  penstock lab check results/ --json

Exit codes: 0 success, with or without warnings; 1 failure; 2 usage error.")]
pub(crate) struct Check {
    /// CSV files, files written by `penstock lab load --json`, and results folders
    #[arg(required = true, value_name = "FILE|DIR")]
    sources: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The rows of one file or folder.
struct Source {
    name: String,
    rows: Vec<CheckedRow>,
    /// Cases without figures: not served, or failed.
    unmeasured: usize,
}

struct CheckedRow {
    location: Location,
    row: Row,
    warnings: Vec<Warning>,
}

enum Location {
    Line(u64),
    File(PathBuf),
}

pub(crate) fn run(args: &Check) -> Result<(), Failure> {
    let sources: Vec<Source> =
        args.sources.iter().map(|source| check(source)).collect::<Result<_, _>>()?;
    if args.json {
        let files: Vec<Value> = sources.iter().map(as_json).collect();
        stdout(&format!("{:#}\n", json!({ "files": files })))?;
    } else {
        sources.iter().try_for_each(|source| stdout(&as_text(source)))?;
    }
    Ok(())
}

fn check(path: &Path) -> Result<Source, Failure> {
    let name = path.display().to_string();
    let is_file = path.is_file();
    let text = match is_file {
        true => files::read(path, limits::LAB_TABLE_BYTES_MAX)
            .map_err(|error| Failure::file("read", path, &error))?,
        false => Vec::new(),
    };
    if !is_file || text.trim_ascii_start().starts_with(b"{") {
        let stored = results::read(path).map_err(Failure::Error)?;
        let all = stored.len();
        let checked = |one: results::StoredResult| {
            let (row, warnings) = (Row::of(&one.result)?, measured::warnings(&one.result));
            Some(CheckedRow { location: Location::File(one.file), row, warnings })
        };
        let rows: Vec<CheckedRow> = stored.into_iter().filter_map(checked).collect();
        return Ok(Source { name, unmeasured: all - rows.len(), rows });
    }
    let rows = Table::read(&text)
        .and_then(|table| table.rows())
        .map_err(|error| Failure::Error(format!("{name}: {error}")))?;
    let rows = rows
        .into_iter()
        .map(|(line, row)| {
            let warnings = row.warnings();
            CheckedRow { location: Location::Line(line), row, warnings }
        })
        .collect();
    Ok(Source { name, rows, unmeasured: 0 })
}

fn rows_with_warnings(source: &Source) -> impl Iterator<Item = &CheckedRow> {
    source.rows.iter().filter(|row| !row.warnings.is_empty())
}

/// The number of warnings by check.
fn count_by_check(source: &Source) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for warning in source.rows.iter().flat_map(|row| &row.warnings) {
        *counts.entry(warning.code.as_str()).or_default() += 1;
    }
    counts
}

/// The checks that apply to at least one row, and the other ones.
fn applicable_checks(source: &Source) -> (Vec<&'static str>, Vec<&'static str>) {
    let applies = |name: &&str| {
        source.rows.iter().any(|one| one.row.applicable().any(|applicable| applicable == *name))
    };
    CHECKS.iter().map(|check| check.name).partition(applies)
}

fn as_text(source: &Source) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for CheckedRow { location, row, warnings } in rows_with_warnings(source) {
        let _ = match location {
            Location::Line(line) => writeln!(out, "{}:{line}: {}", source.name, row.label),
            Location::File(file) => writeln!(out, "{}: {}", file.display(), row.label),
        };
        for warning in warnings {
            let _ = writeln!(out, "    {}: {warning}", warning.severity.name());
        }
    }
    let rows = counted(source.rows.len(), "row");
    let count = rows_with_warnings(source).count();
    let _ = write!(out, "{}: {rows}, {count} with warnings", source.name);
    for (check, count) in count_by_check(source) {
        let _ = write!(out, ", {count} {check}");
    }
    if source.unmeasured > 0 {
        let _ = write!(out, "; {} without figures", source.unmeasured);
    }
    let (_, not_applicable) = applicable_checks(source);
    let _ = match not_applicable.as_slice() {
        [] => writeln!(out),
        _ => writeln!(out, "\n  not applicable: {}", not_applicable.join(", ")),
    };
    out
}

fn as_json(source: &Source) -> Value {
    let flagged = rows_with_warnings(source).map(|CheckedRow { location, row, warnings }| {
        let mut value = json!({ "row": row.label, "warnings": warnings });
        match location {
            Location::Line(line) => value["line"] = json!(line),
            Location::File(file) => value["file"] = json!(file.display().to_string()),
        }
        value
    });
    let (applicable, not_applicable) = applicable_checks(source);
    json!({
        "file": source.name,
        "rows": source.rows.len(),
        "rows_without_figures": source.unmeasured,
        "flagged": flagged.collect::<Vec<_>>(),
        "warnings_by_check": count_by_check(source),
        "applicable_checks": applicable,
        "checks_without_figures": not_applicable,
    })
}
