//! A run's folder. It is made once, belongs to one suite, and nothing in it is written over.
//!
//! A case is made beside its place, as `N.partial`, and renamed when it is complete: what carries its
//! own name is whole, whatever ended the run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Failed;
use super::suite::Suite;
use crate::result::{Case, CaseResult, State};

/// What `suite.json` says of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    pub suite: String,
    pub about: String,
    pub config_sha256: String,
    pub cases: usize,
    pub started: String,
    pub command: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// # Errors
    /// `Usage`: there is something already and it isn't to be resumed, or it is another suite's.
    pub(crate) fn open(
        out: &Path,
        suite: &Suite,
        resume: bool,
        about: &About,
    ) -> Result<Self, Failed> {
        let told =
            |error: &dyn std::fmt::Display| Failed::Unable(format!("{}: {error}", out.display()));
        let description = out.join("suite.json");
        let empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
        if resume && !empty {
            let found = fs::read(&description).map_err(|error| told(&error))?;
            let found: About = serde_json::from_slice(&found).map_err(|error| told(&error))?;
            if found.config_sha256 != about.config_sha256 {
                return Err(Failed::Usage(format!(
                    "{}: this is a run of suite `{}` with other contents; a resumed run must be of the \
                     same suite, scenarios and targets",
                    out.display(),
                    found.suite
                )));
            }
        } else if !empty {
            return Err(Failed::Usage(format!(
                "{}: there is something already, and results are never written over; name another \
                 folder, or go on with --resume",
                out.display()
            )));
        } else {
            let sources = out.join("sources");
            fs::create_dir_all(&sources).map_err(|error| told(&error))?;
            for (number, source) in suite.sources.iter().enumerate() {
                let name = source.name.file_name().unwrap_or_default().to_string_lossy();
                let file = sources.join(format!("{number}-{name}"));
                fs::write(file, &source.text).map_err(|error| told(&error))?;
            }
            let text = serde_json::to_string_pretty(about).map_err(|error| told(&error))?;
            fs::write(&description, text + "\n").map_err(|error| told(&error))?;
        }
        // Configurations name absolute paths: programs start in folders of their own.
        let root = fs::canonicalize(out).map_err(|error| told(&error))?;
        Ok(Self { root })
    }

    /// Where keys, tokens and payloads are, and what outlives a case.
    pub(crate) fn ground(&self) -> PathBuf {
        self.root.join("ground")
    }

    pub(crate) fn place(&self, case: &Case) -> PathBuf {
        self.root.join(&case.id).join(case.repetition.to_string())
    }

    /// Whether the case is there, as far as it will ever be.
    pub(crate) fn is_done(&self, case: &Case) -> bool {
        let file = self.place(case).join("result.json");
        CaseResult::read(&file).is_ok_and(|found| found.state != State::Failed)
    }

    /// A new folder for a case that is about to run. What an interrupted run left of it goes; a failed
    /// try is kept under another name.
    pub(crate) fn begin(&self, case: &Case) -> std::io::Result<PathBuf> {
        let place = self.place(case);
        let partial = place.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        if place.exists() {
            let kept = (1..).map(|n| place.with_extension(format!("failed-{n}")));
            if let Some(kept) = kept.take(1_000).find(|kept| !kept.exists()) {
                fs::rename(&place, kept)?;
            }
        }
        fs::create_dir_all(&partial)?;
        Ok(partial)
    }

    pub(crate) fn finish(&self, partial: &Path, found: &CaseResult) -> std::io::Result<()> {
        fs::write(partial.join("result.json"), found.to_json())?;
        fs::rename(partial, self.place(&found.case))
    }
}
