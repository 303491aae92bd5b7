//! The current diagnostics of each file, and counts of reloads: for `/diagnostics`, `/metrics` and
//! the log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use base::limits;
use model::{Diagnostic, Severity};
use serde_json::json;

/// The current diagnostics by file, and counts of reloads. Shared between follower and admin.
#[derive(Debug, Default)]
pub struct Status {
    files: Mutex<BTreeMap<PathBuf, Vec<Diagnostic>>>,
    /// Diagnostics from compiling all artefacts together.
    artefacts: Mutex<Vec<Diagnostic>>,
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_success_unix_s: AtomicU64,
    snapshots_written: AtomicU64,
    snapshots_failed: AtomicU64,
    snapshot_unix_s: AtomicU64,
    snapshot_bytes: AtomicU64,
    /// Files that are served from a snapshot.
    restored: AtomicUsize,
}

/// Reloads since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    /// Changes that took effect.
    pub succeeded: u64,
    /// Changes that were rejected; the last valid version stayed.
    pub failed: u64,
    /// Time of the last change that took effect, in seconds since the Unix epoch; 0 if none has yet.
    pub last_success_unix_s: u64,
}

/// Whether a file's diagnostics differ from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posted {
    Unchanged,
    Changed,
}

impl Status {
    /// All current diagnostics: of files, ordered by file and position, then of artefacts.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let artefacts = self.artefacts.lock().unwrap_or_else(PoisonError::into_inner);
        files.values().flatten().chain(artefacts.iter()).cloned().collect()
    }

    /// Replaces the diagnostics from compiling the artefacts, which the gateway does.
    pub fn compiled(&self, mut diagnostics: Vec<Diagnostic>) {
        diagnostics.truncate(limits::DIAGNOSTICS_MAX);
        let mut artefacts = self.artefacts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_error = |one: &Diagnostic| one.severity == Severity::Error;
        if *artefacts != diagnostics && diagnostics.iter().any(is_error) {
            self.count_failure();
        }
        *artefacts = diagnostics;
    }

    /// All current diagnostics as a JSON array for `/diagnostics`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self.diagnostics().iter().map(row).collect();
        json!(rows).to_string()
    }

    /// The counts of reloads, for `/metrics`.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        Reloads {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_success_unix_s: self.last_success_unix_s.load(Ordering::Relaxed),
        }
    }

    /// The counts for `/metrics`, in Prometheus' text format.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let Reloads { succeeded, failed, last_success_unix_s } = self.reloads();
        let diagnostics = self.diagnostics();
        let count = |severity| diagnostics.iter().filter(|one| one.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let (written, unwritten) = (of(&self.snapshots_written), of(&self.snapshots_failed));
        let (snapshot_s, bytes) = (of(&self.snapshot_unix_s), of(&self.snapshot_bytes));
        let restored = self.restored.load(Ordering::Relaxed);
        format!(
            "# HELP penstock_reloads_total Reloads of files and keys, by result.
# TYPE penstock_reloads_total counter
penstock_reloads_total{{result=\"success\"}} {succeeded}
penstock_reloads_total{{result=\"failure\"}} {failed}
# HELP penstock_reload_last_success_timestamp_seconds Time of the last successful reload, in seconds since 1970.
# TYPE penstock_reload_last_success_timestamp_seconds gauge
penstock_reload_last_success_timestamp_seconds {last_success_unix_s}
# HELP penstock_diagnostics Current diagnostics of files and keys, by severity.
# TYPE penstock_diagnostics gauge
penstock_diagnostics{{severity=\"error\"}} {errors}
penstock_diagnostics{{severity=\"warning\"}} {warnings}
# HELP penstock_snapshot_writes_total Snapshots on disk, by result.
# TYPE penstock_snapshot_writes_total counter
penstock_snapshot_writes_total{{result=\"success\"}} {written}
penstock_snapshot_writes_total{{result=\"failure\"}} {unwritten}
# HELP penstock_snapshot_last_success_timestamp_seconds Time of the last snapshot on disk, in seconds since 1970.
# TYPE penstock_snapshot_last_success_timestamp_seconds gauge
penstock_snapshot_last_success_timestamp_seconds {snapshot_s}
# HELP penstock_snapshot_bytes Size of the last snapshot on disk.
# TYPE penstock_snapshot_bytes gauge
penstock_snapshot_bytes {bytes}
# HELP penstock_snapshot_restored_files Files that are served from a snapshot, since their source is unavailable.
# TYPE penstock_snapshot_restored_files gauge
penstock_snapshot_restored_files {restored}
"
        )
    }

    /// Replaces the diagnostics of `file`.
    pub(crate) fn post(&self, file: &Path, mut diagnostics: Vec<Diagnostic>) -> Posted {
        diagnostics.truncate(limits::DIAGNOSTICS_MAX);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if diagnostics.is_empty() {
            files.remove(file)
        } else if files.get(file) == Some(&diagnostics) {
            return Posted::Unchanged;
        } else {
            files.insert(file.to_owned(), diagnostics);
            return Posted::Changed;
        };
        if before.is_some() { Posted::Changed } else { Posted::Unchanged }
    }

    pub(crate) fn count_success(&self, unix_s: u64) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.last_success_unix_s.store(unix_s, Ordering::Relaxed);
    }

    /// Counts a snapshot, with its time and size in bytes; `None` for a failed one.
    pub(crate) fn count_snapshot(&self, written: Option<(u64, u64)>) {
        let Some((unix_s, bytes)) = written else {
            self.snapshots_failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.snapshots_written.fetch_add(1, Ordering::Relaxed);
        self.snapshot_unix_s.store(unix_s, Ordering::Relaxed);
        self.snapshot_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_restored(&self, files: usize) {
        self.restored.store(files, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

fn row(diagnostic: &Diagnostic) -> serde_json::Value {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "severity": severity,
        "file": diagnostic.file.display().to_string(),
        "line": diagnostic.place.map(|place| place.line),
        "column": diagnostic.place.map(|place| place.column),
        "message": diagnostic.message,
        "help": diagnostic.help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(message: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: "apis/a.yaml".into(),
            place: Some(model::Place { line: 3, column: 7 }),
            message: message.to_owned(),
            help: None,
        }
    }

    #[test]
    fn the_last_diagnostics_of_each_file_are_shown_as_json() {
        let status = Status::default();
        let file = Path::new("apis/a.yaml");
        assert_eq!(status.post(file, vec![diagnostic("say \"no\"")]), Posted::Changed);
        assert_eq!(status.post(file, vec![diagnostic("say \"no\"")]), Posted::Unchanged);
        assert_eq!(
            status.to_json(),
            r#"[{"column":7,"file":"apis/a.yaml","help":null,"line":3,"message":"say \"no\"","severity":"error"}]"#
        );
        assert_eq!(status.post(file, Vec::new()), Posted::Changed);
        assert_eq!(status.post(file, Vec::new()), Posted::Unchanged);
        assert_eq!(status.to_json(), "[]");
    }
}
