//! `penstock lab doubts`: the validity gates over tables and results.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use lab::gates::published::Table;
use lab::gates::{GATES, Row, measured};
use lab::limits;
use lab::report::folder;
use lab::result::Doubt;
use serde_json::{Value, json};

use crate::commands::{counted, stdout};
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
    rows: Vec<Judged>,
    /// Cases without figures: not served, or failed.
    unmeasured: usize,
}

/// A row, and what speaks against it.
struct Judged {
    place: Place,
    row: Row,
    doubts: Vec<Doubt>,
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
        stdout(&format!("{:#}\n", json!({ "files": files })));
    } else {
        looked.iter().for_each(|one| stdout(&as_text(one)));
    }
    Ok(())
}

fn look(source: &Path) -> Result<Looked, Failure> {
    let name = source.display().to_string();
    if source.is_dir() {
        let found = folder::read(source).map_err(Failure::Error)?;
        let all = found.len();
        let judged = |one: folder::Found| {
            let (row, doubts) = (Row::of(&one.result)?, measured::doubts(&one.result));
            Some(Judged { place: Place::File(one.file), row, doubts })
        };
        let rows: Vec<Judged> = found.into_iter().filter_map(judged).collect();
        return Ok(Looked { source: name, unmeasured: all - rows.len(), rows });
    }
    let most = limits::LAB_TABLE_BYTES_MAX;
    let mut text = Vec::new();
    std::fs::File::open(source)
        .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut text))
        .map_err(|error| Failure::file("read", source, &error))?;
    if text.len() as u64 > most {
        return Err(Failure::Error(format!("{name}: larger than {most} bytes")));
    }
    let rows = Table::read(&text)
        .and_then(|table| table.rows())
        .map_err(|error| Failure::Error(format!("{name}: {error}")))?;
    let rows = rows
        .into_iter()
        .map(|(line, row)| {
            let doubts = row.doubts().into_iter().map(Doubt::from).collect();
            Judged { place: Place::Line(line), row, doubts }
        })
        .collect();
    Ok(Looked { source: name, rows, unmeasured: 0 })
}

fn doubted(looked: &Looked) -> impl Iterator<Item = &Judged> {
    looked.rows.iter().filter(|row| !row.doubts.is_empty())
}

/// How many rows raise each doubt, by gate.
fn tally(looked: &Looked) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for doubt in looked.rows.iter().flat_map(|row| &row.doubts) {
        *tally.entry(doubt.gate.as_str()).or_default() += 1;
    }
    tally
}

/// Gates that at least one row had figures for, and the rest.
fn gates(looked: &Looked) -> (Vec<&'static str>, Vec<&'static str>) {
    let names = GATES.iter().map(|gate| gate.name);
    names.partition(|name| looked.rows.iter().any(|one| one.row.seen().any(|seen| seen == *name)))
}

fn as_text(looked: &Looked) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    for Judged { place, row, doubts } in doubted(looked) {
        let _ = match place {
            Place::Line(line) => writeln!(out, "{}:{line}: {}", looked.source, row.label),
            Place::File(file) => writeln!(out, "{}: {}", file.display(), row.label),
        };
        for doubt in doubts {
            let _ = writeln!(out, "    {}: {}", doubt.gate, doubt.message);
        }
    }
    let rows = counted(looked.rows.len(), "row");
    let count = doubted(looked).count();
    let _ = write!(out, "{}: {rows}, {count} with doubts", looked.source);
    for (gate, count) in tally(looked) {
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
    let told = doubted(looked).map(|Judged { place, row, doubts }| {
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
        "doubts_by_gate": tally(looked),
        "gates_looked": seen,
        "gates_without_figures": unseen,
    })
}
