//! `penstock.toml` (DESIGN.md section 5): the configuration file of a gateway.
//!
//! Unknown keys are refused, with the nearest valid name; which keys there are stands in [`MANUAL`]
//! and nowhere else. Relative paths are joined to the file's folder.
//!
//! Architecture invariant: no value of a secret is ever part of a message.

mod issuers;
mod manual;
mod render;
mod sections;
mod table;

use std::path::{Path, PathBuf};

use model::{Diagnostic, Settings};

use crate::report::Report;

pub use manual::{MANUAL, manual_markdown};
pub use render::{FirstStart, render_default};

/// Reads the configuration file. `file` gives the folder that relative paths are joined to; `env`
/// looks up an environment variable and `read_file` a file, both only for secrets.
/// The settings are absent when any diagnostic is an error.
#[must_use]
pub fn read(
    file: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read_file: &dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
) -> (Option<Settings>, Vec<Diagnostic>) {
    let mut report = Report::new(file);
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let outside = Outside { folder, env, read_file };
    let settings = table::parse(text, &mut report)
        .map(|root| sections::settings(&root, text, &outside, &mut report))
        .filter(|_| !report.has_errors());
    (settings, report.finish(file))
}

/// What the file refers to beyond itself.
struct Outside<'a> {
    /// The file's own.
    folder: PathBuf,
    env: &'a dyn Fn(&str) -> Option<String>,
    read_file: &'a dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
}

impl Outside<'_> {
    fn path(&self, written: &str) -> PathBuf {
        self.folder.join(written)
    }
}

#[cfg(test)]
mod tests;
