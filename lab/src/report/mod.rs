//! Telling: tables, charts and one page from a folder of results.
//!
//! Reads `result.json` files, and the histogram logs beside them; answers texts and pictures. Every row
//! goes through the gates again, so that an old folder is judged by today's gates, and a row with a doubt
//! is told with it.
//!
//! Architecture invariant: the page asks nothing of the network, and no figure is told without its doubts.

pub mod chart;
mod charts;
pub mod folder;
mod history;
mod page;
mod png;
mod published;
mod scaling;
pub mod summary;
mod view;

use std::fs;
use std::path::{Path, PathBuf};

pub use charts::charts;
pub use page::page;
pub use png::{Painter, PngError};
pub use view::View;

use chart::Setting;

/// Why a report isn't whole.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{0} is there already; a report overwrites nothing")]
    Exists(PathBuf),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Png(#[from] PngError),
}

/// What was written.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub charts: usize,
    pub cases: usize,
    /// Why the charts are not there as PNG too, if they are not.
    pub without_png: Option<PngError>,
}

/// Writes tables, page and pictures of `views` into `out`, which must not be there yet.
///
/// # Errors
/// [`ReportError`].
pub fn write(views: &[View], out: &Path) -> Result<Written, ReportError> {
    if out.exists() {
        return Err(ReportError::Exists(out.to_path_buf()));
    }
    // Made beside its place and then put there, so that a disk that is full leaves no half of a report.
    let mut partial = out.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let told = |source| ReportError::File { path: out.to_path_buf(), source };
    let written = write_into(views, &partial)
        .and_then(|written| fs::rename(&partial, out).map(|()| written).map_err(told));
    if written.is_err() {
        // What is left of it is of no use to anybody.
        let _ = fs::remove_dir_all(&partial);
    }
    written
}

fn write_into(views: &[View], out: &Path) -> Result<Written, ReportError> {
    let pictures = out.join("charts");
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ReportError::File { path, source }
    };
    fs::create_dir_all(&pictures).map_err(at(&pictures))?;
    let put = |file: PathBuf, bytes: &[u8]| fs::write(&file, bytes).map_err(at(&file));
    let charts = charts(views);
    put(out.join("summary.csv"), summary::csv(views).as_bytes())?;
    put(out.join("summary-warmup.csv"), summary::warm_up_csv(views).as_bytes())?;
    put(out.join("summary-errors.csv"), summary::errors_csv(views).as_bytes())?;
    put(out.join("summary-choreo-connect.csv"), summary::choreo_csv(views).as_bytes())?;
    put(out.join("summary.md"), summary::markdown(views).as_bytes())?;
    put(out.join("report.html"), page(views, &charts).as_bytes())?;
    for chart in &charts {
        put(pictures.join(format!("{}.svg", chart.id)), chart.svg(Setting::File).as_bytes())?;
    }
    let written = Written { charts: charts.len(), cases: views.len(), without_png: None };
    let painter = match Painter::new() {
        Ok(painter) => painter,
        Err(reason @ (PngError::Font | PngError::Feature)) => {
            return Ok(Written { without_png: Some(reason), ..written });
        }
        Err(error) => return Err(error.into()),
    };
    for chart in &charts {
        put(pictures.join(format!("{}.png", chart.id)), &painter.png(chart)?)?;
    }
    Ok(written)
}
