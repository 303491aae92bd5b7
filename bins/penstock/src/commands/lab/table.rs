//! `penstock lab table`: the results of a run as a Markdown table, in a document if wanted.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use lab::limits;
use lab::report::table::{self, References};
use lab::report::{CaseView, results};

use crate::commands::stdout;
use crate::failure::Failure;

/// Print the results of a run as a Markdown table
///
/// A row has the medians of a case over the repetitions in which the figure is usable. The table is preceded by the
/// verdict, the command, the date and the machine, and followed by the cases that failed or were not served. Columns
/// without figures are left out.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab table results/ --relative-to nginx
  penstock lab table results/ --into docs/performance.md

The document needs the lines `<!-- lab NAME -->` and `<!-- end of NAME -->`, where NAME is the suite's name.")]
pub(crate) struct Table {
    /// Results folder
    folder: PathBuf,
    /// Add a column with the CPU time relative to this target's in the same case; repeatable: the first one that serves
    /// the case counts
    #[arg(long, value_name = "TARGET")]
    relative_to: Vec<String>,
    /// If none of these targets was measured: add the CPU time relative to the same target's in this scenario
    #[arg(long, value_name = "NAME")]
    relative_to_scenario: Option<String>,
    /// Replace the suite's table in this document instead of printing it
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

pub(crate) fn run(args: &Table) -> Result<(), Failure> {
    let found = results::read(&args.folder).map_err(Failure::Error)?;
    let suite = found.first().map(|one| one.result.suite.clone()).unwrap_or_default();
    let views: Vec<CaseView> = found.into_iter().map(CaseView::new).collect();
    let references = References {
        targets: args.relative_to.clone(),
        scenario: args.relative_to_scenario.clone(),
    };
    let text = table::table(&views, &references);
    let Some(file) = &args.into else { return stdout(&text) };
    let document = files::read_text(file, limits::LAB_DOCUMENT_BYTES_MAX)
        .map_err(|error| Failure::file("read", file, &error))?;
    let document = table::inserted(&document, &suite, &text)
        .map_err(|error| Failure::Error(format!("{}: {error}", file.display())))?;
    // Renamed into place, so that an interruption leaves the old document.
    let mut partial = file.clone().into_os_string();
    partial.push(".partial");
    fs::write(&partial, document)
        .and_then(|()| fs::rename(&partial, file))
        .map_err(|error| Failure::file("write", file, &error))
}
