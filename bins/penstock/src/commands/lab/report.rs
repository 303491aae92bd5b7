//! `penstock lab report`: tables, charts and an HTML page of results.

use std::path::PathBuf;

use clap::Args;
use lab::report::{self, CaseView, results};

use crate::commands::{counted, stdout};
use crate::failure::Failure;

/// Write tables, charts and an HTML page of results
///
/// Reads a results folder, or a file written by `penstock lab load --json`. Writes report.html (one file,
/// without network access), summary.csv, summary.md, summary-warmup.csv,
/// summary-errors.csv and summary-choreo-connect.csv, and each chart as SVG. Charts show WSO2's published
/// results for comparison, labelled with their hardware.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab report results/
  penstock lab report results/ --out /srv/www/2026-11-21
  penstock lab report load.json
  penstock lab report results/ --only 'passthrough/.*/1024B' --out passthrough-1KiB")]
pub(crate) struct Report {
    /// Results folder, or the output of `penstock lab load --json`
    #[arg(value_name = "DIR|FILE")]
    folder: PathBuf,
    /// Include only the cases whose folder matches this regular expression
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Output folder; must not exist [default: DIR/report, or load.report for load.json]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Report) -> Result<(), Failure> {
    let found = results::read(&args.folder).map_err(Failure::Error)?;
    let found = results::chosen(found, args.only.as_deref()).map_err(Failure::Usage)?;
    let views: Vec<CaseView> = found.into_iter().map(CaseView::new).collect();
    let beside = || match args.folder.is_file() {
        true => args.folder.with_extension("report"),
        false => args.folder.join("report"),
    };
    let out = args.out.clone().unwrap_or_else(beside);
    let written = report::write(&views, &out).map_err(Failure::error)?;
    let (cases, charts) = (counted(written.cases, "case"), counted(written.charts, "chart"));
    stdout(&format!("{}: {cases}, {charts}\n", out.join("report.html").display()))
}
