//! `penstock lab report`: tables, charts and one page from a results folder.

use std::path::PathBuf;

use clap::Args;
use lab::report::{self, PngError, View, folder};

use crate::commands::{counted, stderr, stdout};
use crate::failure::Failure;

/// Make tables, charts and one page of a results folder
///
/// Writes report.html (one file, no script, nothing from the network), summary.csv, summary.md,
/// summary-warmup.csv, summary-errors.csv and summary-choreo-connect.csv (the published columns, ours
/// beside them), and each chart as SVG and PNG.
/// Published results stand behind ours, labelled with their hardware. The PNGs take a font of this machine;
/// without one they are left out, and that is said.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock lab report results/
  penstock lab report results/ --out /srv/www/2026-11-21
  penstock lab report results/ --only 'passthrough/.*/1024B' --out passthrough-1KiB")]
pub(crate) struct Report {
    /// Folder of results
    folder: PathBuf,
    /// Only the cases whose name matches, such as 'passthrough/.*/0ms_sleep'
    #[arg(long, value_name = "REGEX")]
    only: Option<String>,
    /// Where to write; must not be there yet [default: DIR/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(asked: &Report) -> Result<(), Failure> {
    let found = folder::read(&asked.folder).map_err(Failure::Error)?;
    let found = folder::chosen(found, asked.only.as_deref()).map_err(Failure::Usage)?;
    let views: Vec<View> = found.into_iter().map(View::new).collect();
    let out = asked.out.clone().unwrap_or_else(|| asked.folder.join("report"));
    let written = report::write(&views, &out).map_err(Failure::error)?;
    let (cases, charts) = (counted(written.cases, "case"), counted(written.charts, "chart"));
    stdout(&format!("{}: {cases}, {charts}\n", out.join("report.html").display()));
    if !written.pngs {
        stderr(&format!("penstock: {}\n", PngError::Font));
    }
    Ok(())
}
