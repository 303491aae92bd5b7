//! Reports: tables, charts and an HTML page for a results folder.
//!
//! Reads `result.json` files and the histogram logs next to them. Every result goes through the current
//! validity checks, even if it was measured with an earlier version.
//!
//! Architecture invariant: the page needs no network, and no figure is shown without its warnings. The only script
//! sorts tables.

pub mod chart;
mod charts;
mod history;
mod intervals;
mod page;
mod published;
mod ranking;
pub mod results;
mod scaling;
pub mod summary;
pub mod table;
mod view;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

pub use charts::{Charts, charts};
pub use page::page;
pub use ranking::headline;
pub use view::CaseView;

use chart::Setting;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{0} already exists; choose a new folder with --out")]
    Exists(PathBuf),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

/// The written files.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub charts: usize,
    pub cases: usize,
}

/// Writes tables, page and charts of `views` into `out`, which must not exist.
///
/// # Errors
/// [`ReportError`].
pub fn write(views: &[CaseView], out: &Path) -> Result<Written, ReportError> {
    if out.exists() {
        return Err(ReportError::Exists(out.to_path_buf()));
    }
    // Written to a temporary folder and renamed, so that no incomplete report is left behind.
    let describe = |source| ReportError::File { path: out.to_path_buf(), source };
    let partial = create_partial(out).map_err(describe)?;
    let written = write_into(views, &partial)
        .and_then(|written| fs::rename(&partial, out).map(|()| written).map_err(describe));
    if written.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    written
}

/// Creates a temporary folder beside `out` for this call only. Folders with similar names, left by a killed run or
/// created by the user, are not touched.
fn create_partial(out: &Path) -> io::Result<PathBuf> {
    let parent = out.parent().unwrap_or(Path::new(""));
    if !parent.as_os_str().is_empty() {
        fs::create_dir_all(parent)?;
    }
    // Without a final slash, which would place the folder inside `out`.
    let name = out.file_name().ok_or(ErrorKind::InvalidInput)?;
    let mut number = 0_u64;
    loop {
        let mut partial = name.to_owned();
        partial.push(format!(".partial-{}-{number}", std::process::id()));
        let partial = parent.join(partial);
        match fs::create_dir(&partial) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            created => return created.map(|()| partial),
        }
    }
}

fn write_into(views: &[CaseView], out: &Path) -> Result<Written, ReportError> {
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
    let charts = charts.drawn;
    for chart in &charts {
        put(pictures.join(format!("{}.svg", chart.id)), chart.svg(Setting::File).as_bytes())?;
    }
    Ok(Written { charts: charts.len(), cases: views.len() })
}
