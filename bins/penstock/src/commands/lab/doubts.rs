//! `penstock lab doubts`: the validity gates over tables and results.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use base::limits;
use clap::Args;
use lab::gates::published::{Table, tally};
use lab::gates::{Doubt, GATES, Row};
use lab::report::folder;
use serde_json::{Value, json};

use crate::commands::{counted, say};
use crate::failure::Failure;

/// Say which rows of a results table, or of a results folder, are not to be believed
///
/// A FILE is a CSV with the columns of WSO2's published summaries; a folder holds result.json files, as
/// `penstock lab run` writes them. Each gate looks at what a row holds, allowing for the rounding of what is
/// printed; docs/measuring.md says what each means. Rows with doubts are no failure of this command.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab doubts lab/published/api-manager.csv
  penstock lab doubts results/ --json")]
pub(crate) struct Doubts {
    /// CSV files, and folders of results
    #[arg(required = true, value_name = "FILE|DIR")]
    sources: Vec<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// One source's rows, with the place of each.
struct Looked {
    source: String,
    rows: Vec<(Place, Row)>,
    /// Cases without figures: not served, or failed.
    unmeasured: usize,
}

enum Place {
    Line(u64),
    File(PathBuf),
}

pub(crate) fn run(asked: &Doubts) -> Result<(), Failure> {
    let looked: Vec<Looked> =
        asked.sources.iter().map(|source| look(source)).collect::<Result<_, _>>()?;
    if asked.json {
        let files: Vec<Value> = looked.iter().map(as_json).collect();
        say(&format!("{:#}\n", json!({ "files": files })));
    } else {
        looked.iter().for_each(|one| say(&as_text(one)));
    }
    Ok(())
}

fn look(source: &Path) -> Result<Looked, Failure> {
    let name = source.display().to_string();
    if source.is_dir() {
        let found = folder::read(source).map_err(Failure::Unable)?;
        let all = found.len();
        let rows: Vec<(Place, Row)> = found
            .into_iter()
            .filter_map(|one| Row::of(&one.result).map(|row| (Place::File(one.file), row)))
            .collect();
        return Ok(Looked { source: name, unmeasured: all - rows.len(), rows });
    }
    let length =
        std::fs::metadata(source).map_err(|error| Failure::file("read", source, &error))?.len();
    if length > limits::LAB_TABLE_BYTES_MAX {
        let most = limits::LAB_TABLE_BYTES_MAX;
        return Err(Failure::Unable(format!("{name}: larger than {most} bytes")));
    }
    let text = std::fs::read(source).map_err(|error| Failure::file("read", source, &error))?;
    let rows = Table::read(&text)
        .and_then(|table| table.rows())
        .map_err(|error| Failure::Unable(format!("{name}: {error}")))?;
    let rows = rows.into_iter().map(|(line, row)| (Place::Line(line), row)).collect();
    Ok(Looked { source: name, rows, unmeasured: 0 })
}

/// The rows with doubts, and those doubts.
fn doubted(looked: &Looked) -> Vec<(&Place, &Row, Vec<Doubt>)> {
    let rows = looked.rows.iter().map(|(place, row)| (place, row, row.doubts()));
    rows.filter(|(_, _, doubts)| !doubts.is_empty()).collect()
}

/// Gates that at least one row had figures for, and the rest.
fn gates(looked: &Looked) -> (Vec<&'static str>, Vec<&'static str>) {
    let names = GATES.iter().map(|gate| gate.name);
    names.partition(|name| looked.rows.iter().any(|(_, row)| row.seen().any(|seen| seen == *name)))
}

fn as_text(looked: &Looked) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for (place, row, doubts) in doubted(looked) {
        let _ = match place {
            Place::Line(line) => writeln!(out, "{}:{line}: {}", looked.source, row.label),
            Place::File(file) => writeln!(out, "{}: {}", file.display(), row.label),
        };
        for doubt in doubts {
            let _ = writeln!(out, "    {}: {}", doubt.gate, doubt.message);
        }
    }
    let rows = counted(looked.rows.len(), "row");
    let count = doubted(looked).len();
    let _ = write!(out, "{}: {rows}, {count} with doubts", looked.source);
    for (gate, count) in tally(looked.rows.iter().map(|(_, row)| row)) {
        let _ = write!(out, ", {count} {gate}");
    }
    if looked.unmeasured > 0 {
        let _ = write!(out, "; {} without figures", looked.unmeasured);
    }
    let (_, unseen) = gates(looked);
    let _ = match unseen.as_slice() {
        [] => writeln!(out),
        _ => writeln!(out, "\n  no figures to check: {}", unseen.join(", ")),
    };
    out
}

fn as_json(looked: &Looked) -> Value {
    let told = doubted(looked).into_iter().map(|(place, row, doubts)| {
        let doubts: Vec<Value> = doubts
            .iter()
            .map(|doubt| json!({ "gate": doubt.gate, "message": doubt.message }))
            .collect();
        let mut value = json!({ "row": row.label, "doubts": doubts });
        match place {
            Place::Line(line) => value["line"] = json!(line),
            Place::File(file) => value["file"] = json!(file.display().to_string()),
        }
        value
    });
    let (seen, unseen) = gates(looked);
    json!({
        "file": looked.source,
        "rows": looked.rows.len(),
        "rows_without_figures": looked.unmeasured,
        "doubted": told.collect::<Vec<_>>(),
        "doubts_by_gate": tally(looked.rows.iter().map(|(_, row)| row)),
        "gates_looked": seen,
        "gates_without_figures": unseen,
    })
}
