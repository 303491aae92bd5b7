//! The folder of a run. It belongs to one suite, is locked while a run uses it, and nothing in it is
//! overwritten.
//!
//! A case is written to `N.partial` and renamed when it is complete, so a folder with a final name is
//! complete however the run ended.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunError;
use super::definition::Suite;
use crate::limits;
use crate::result::{Case, CaseResult, State};

/// The content of `suite.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct About {
    pub suite: String,
    pub about: String,
    pub config_sha256: String,
    pub cases: usize,
    pub started: String,
    pub command: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct RunFolder {
    root: PathBuf,
    /// `suite.json`, locked. The kernel releases the lock when the process ends.
    _lock: File,
}

impl RunFolder {
    /// # Errors
    /// `Usage`: the folder is not empty and `resume` is false, or it belongs to a different suite.
    pub(crate) fn open(
        out: &Path,
        suite: &Suite,
        resume: bool,
        about: &About,
    ) -> Result<Self, RunError> {
        let empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
        let lock = match (empty, resume) {
            (true, _) => create(out, suite, about)?,
            (false, true) => resume_existing(out, about)?,
            (false, false) => {
                return Err(RunError::Usage(format!(
                    "{} is not empty, and results are never overwritten; choose another folder, or \
                     continue with --resume",
                    out.display()
                )));
            }
        };
        // Programs run in other folders, so configurations need absolute paths.
        let root = fs::canonicalize(out).map_err(|error| unable(out, &error))?;
        Ok(Self { root, _lock: lock })
    }

    /// Keys, tokens and payloads, and logs that outlive a case.
    pub(crate) fn fixtures(&self) -> PathBuf {
        self.root.join("fixtures")
    }

    pub(crate) fn place(&self, case: &Case) -> PathBuf {
        self.root.join(&case.id).join(case.repetition.to_string())
    }

    /// The final result of the case, if there is one.
    pub(crate) fn kept(&self, case: &Case) -> Option<CaseResult> {
        let file = self.place(case).join("result.json");
        CaseResult::read(&file).ok().filter(|found| found.state != State::Failed)
    }

    /// Creates the folder for a case. Removes the remains of an interrupted attempt; keeps a failed attempt
    /// under another name.
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

    /// Writes `result.json` atomically and gives the folder its final name.
    pub(crate) fn finish(&self, partial: &Path, found: &CaseResult) -> std::io::Result<()> {
        let (half, whole) = (partial.join("result.json.partial"), partial.join("result.json"));
        let mut file = File::create(&half)?;
        file.write_all(found.to_json().as_bytes())?;
        file.sync_all()?;
        fs::rename(half, whole)?;
        fs::rename(partial, self.place(&found.case))
    }
}

fn unable(out: &Path, error: &dyn std::fmt::Display) -> RunError {
    RunError::Unable(format!("{}: {error}", out.display()))
}

/// Creates a run's folder with a locked `suite.json` and a copy of every file that was read.
fn create(out: &Path, suite: &Suite, about: &About) -> Result<File, RunError> {
    let failed = |error: std::io::Error| unable(out, &error);
    let sources = out.join("sources");
    fs::create_dir_all(&sources).map_err(failed)?;
    let mut description = match File::create_new(out.join("suite.json")) {
        // Another run has just started here.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(busy(out)),
        created => created.map_err(failed)?,
    };
    lock(out, &description)?;
    let text = serde_json::to_string_pretty(about).map_err(|error| unable(out, &error))?;
    description.write_all((text + "\n").as_bytes()).map_err(failed)?;
    for (number, source) in suite.sources.iter().enumerate() {
        let name = source.name.file_name().unwrap_or_default().to_string_lossy();
        fs::write(sources.join(format!("{number}-{name}")), &source.text).map_err(failed)?;
    }
    Ok(description)
}

/// Opens an existing run's folder and locks it, if it belongs to the same suite.
fn resume_existing(out: &Path, about: &About) -> Result<File, RunError> {
    let file = out.join("suite.json");
    // Network file systems lock only files that are open for writing.
    let description = match File::options().read(true).write(true).open(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(RunError::Usage(format!(
                "{} has no suite.json and is not the folder of a run; there is nothing to --resume",
                out.display()
            )));
        }
        opened => opened.map_err(|error| unable(&file, &error))?,
    };
    lock(out, &description)?;
    let text = files::read(&file, limits::LAB_RESULT_BYTES_MAX);
    let text = text.map_err(|error| unable(&file, &error))?;
    let found: About = serde_json::from_slice(&text).map_err(|error| unable(&file, &error))?;
    if found.config_sha256 != about.config_sha256 {
        return Err(RunError::Usage(format!(
            "{} belongs to a different version of suite `{}`; --resume needs the same suite, scenarios and \
             targets",
            out.display(),
            found.suite
        )));
    }
    Ok(description)
}

fn lock(out: &Path, description: &File) -> Result<(), RunError> {
    match description.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(busy(out)),
        Err(TryLockError::Error(error)) => Err(unable(out, &error)),
    }
}

fn busy(out: &Path) -> RunError {
    RunError::Usage(format!(
        "{} is in use by another run; wait for it to end, or choose another folder",
        out.display()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::result::tests::sample;
    use crate::suite::Source;

    const SUITE: &str = "name = 'small'\n[matrix]\ntargets = ['backend']\nscenarios = ['forward']\n\
        users = [1]\nbytes = [50]\n[time]\nwarm_up = '1s'\nmeasure = '1s'\n";

    fn open(out: &Path, resume: bool) -> Result<RunFolder, String> {
        let source = Source { name: "a.toml".into(), text: SUITE.to_owned() };
        let suite = Suite::from_source(source).unwrap();
        let about = About {
            suite: suite.name.clone(),
            about: String::new(),
            config_sha256: suite.sha256(),
            cases: 1,
            started: String::new(),
            command: Vec::new(),
        };
        RunFolder::open(out, &suite, resume, &about).map_err(|failed| failed.to_string())
    }

    #[test]
    fn a_folder_is_locked_until_its_run_ends() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let first = open(&out, false).unwrap();
        let error = open(&out, true).unwrap_err();
        assert!(error.contains("in use by another run"), "{error}");
        drop(first);
        open(&out, true).unwrap();
    }

    #[test]
    fn other_folders_cannot_be_resumed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        let error = open(folder.path(), true).unwrap_err();
        assert!(error.contains("no suite.json"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn failed_writes_leave_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let runs = open(&folder.path().join("out"), false).unwrap();
        let found = sample();
        let partial = runs.begin(&found.case).unwrap();
        fs::create_dir(partial.join("result.json.partial")).unwrap();
        assert!(runs.finish(&partial, &found).is_err());
        assert!(!partial.join("result.json").exists() && !runs.place(&found.case).exists());
        fs::remove_dir(partial.join("result.json.partial")).unwrap();
        runs.finish(&partial, &found).unwrap();
        assert_eq!(runs.kept(&found.case), Some(found));
    }
}
