//! `penstock lab report`: tables, charts and an HTML page from a results folder.

use std::path::PathBuf;

use clap::Args;
use lab::report::{self, CaseView, results};

use crate::commands::{counted, stderr, stdout};
use crate::failure::Failure;

/// Write tables, charts and an HTML page for a results folder
///
/// Writes report.html (self-contained, without scripts), summary.csv, summary.md, summary-warmup.csv,
/// summary-errors.csv and summary-choreo-connect.csv, and each chart as SVG and PNG. Charts show WSO2's
/// published results for comparison, labelled with their hardware. PNGs need a font installed on this machine;
/// without one they are skipped with a message.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab report results/
  penstock lab report results/ --out /srv/www/2026-11-21
  penstock lab report results/ --only 'passthrough/.*/1024B' --out passthrough-1KiB")]
pub(crate) struct Report {
    /// Results folder
    folder: PathBuf,
    /// Include only the cases whose folder matches this regular expression
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Output folder; must not exist [default: DIR/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Report) -> Result<(), Failure> {
    let found = results::read(&args.folder).map_err(Failure::Error)?;
    let found = results::chosen(found, args.only.as_deref()).map_err(Failure::Usage)?;
    let views: Vec<CaseView> = found.into_iter().map(CaseView::new).collect();
    let out = args.out.clone().unwrap_or_else(|| args.folder.join("report"));
    let written = report::write(&views, &out).map_err(Failure::error)?;
    let (cases, charts) = (counted(written.cases, "case"), counted(written.charts, "chart"));
    stdout(&format!("{}: {cases}, {charts}\n", out.join("report.html").display()))?;
    if let Some(reason) = written.without_png {
        stderr(&format!("penstock: {reason}\n"));
    }
    Ok(())
}
