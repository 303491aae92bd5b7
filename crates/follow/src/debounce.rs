//! Collects file events until the changes are complete.
//!
//! A complete change (closed after writing, renamed, removed) waits only for the end of its burst,
//! so that files renamed together are read together. A file that is being written waits until it is
//! closed, so that an incomplete description is not served.
//!
//! Architecture invariant: time is an argument, in microseconds of a monotonic clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::limits;

const QUIET_US: u64 = 1_000 * limits::FILE_QUIET_MS as u64;
const BURST_US: u64 = 1_000 * limits::FILE_BURST_MS_MAX as u64;
const WRITING_US: u64 = 1_000 * limits::FILE_WRITING_MS_MAX as u64;

/// How a path changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// Closed after writing, renamed, linked or removed.
    Complete,
    /// Permissions or times changed; a write may be in progress.
    Metadata,
    /// Bytes were written, and more may follow.
    Writing,
}

#[derive(Debug, Default)]
pub(crate) struct Debounce {
    complete: BTreeSet<PathBuf>,
    /// First and last event of the current burst.
    burst: Option<(u64, u64)>,
    /// The time of the last write to each file.
    writing: BTreeMap<PathBuf, u64>,
}

impl Debounce {
    pub(crate) fn note(&mut self, path: PathBuf, kind: ChangeKind, now_us: u64) {
        match kind {
            ChangeKind::Writing => {
                self.complete.remove(&path);
                self.writing.insert(path, now_us);
            }
            ChangeKind::Metadata if self.writing.contains_key(&path) => {}
            ChangeKind::Metadata | ChangeKind::Complete => {
                self.writing.remove(&path);
                self.complete.insert(path);
                let first_us = self.burst.map_or(now_us, |(first_us, _)| first_us);
                self.burst = Some((first_us, now_us));
            }
        }
    }

    /// The paths whose changes are complete at `now_us`.
    pub(crate) fn pop_due(&mut self, now_us: u64) -> BTreeSet<PathBuf> {
        let mut due = BTreeSet::new();
        if self.burst_us().is_some_and(|at_us| at_us <= now_us) {
            self.burst = None;
            due.append(&mut self.complete);
        }
        let stopped = self.writing.extract_if(.., |_, last_us| *last_us + WRITING_US <= now_us);
        due.extend(stopped.map(|(path, _)| path));
        due
    }

    /// The time at which [`Debounce::pop_due`] next returns a path.
    pub(crate) fn next_us(&self) -> Option<u64> {
        let writing_us = self.writing.values().min().map(|last_us| last_us + WRITING_US);
        [self.burst_us(), writing_us].into_iter().flatten().min()
    }

    fn burst_us(&self) -> Option<u64> {
        self.burst.map(|(first_us, last_us)| (last_us + QUIET_US).min(first_us + BURST_US))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_is_due_after_a_quiet_time() {
        check("0F:a", 1_999, "");
        check("0F:a", 2_000, "a");
    }

    #[test]
    fn files_renamed_together_are_due_together() {
        check("0F:a 500F:b", 2_000, "");
        check("0F:a 500F:b", 2_500, "a b");
    }

    #[test]
    fn a_burst_has_a_longest_duration() {
        let busy: Vec<String> = (0..10).map(|at| format!("{}F:f{at}", at * 1_000)).collect();
        check(&busy.join(" "), 9_999, "");
        check(&busy.join(" "), 10_000, "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9");
    }

    #[test]
    fn a_file_is_due_when_its_writer_closes_it() {
        check("0W:a", 50_000, "");
        check("0W:a 40000W:a 50000F:a", 52_000, "a");
        check("0F:a 100W:a", 2_100, "");
    }

    #[test]
    fn a_file_that_stays_open_is_due_when_writes_stop() {
        check("0W:a 60000W:a", 159_999, "");
        check("0W:a 60000W:a", 160_000, "a");
    }

    #[test]
    fn a_change_of_metadata_does_not_complete_a_write() {
        check("0T:a", 2_000, "a");
        check("0W:a 10T:a", 2_010, "");
    }

    #[test]
    fn the_next_time_is_that_of_the_earliest_change() {
        let mut debounce = Debounce::default();
        assert_eq!(debounce.next_us(), None);
        debounce.note("a".into(), ChangeKind::Writing, 1_000);
        assert_eq!(debounce.next_us(), Some(101_000));
        debounce.note("b".into(), ChangeKind::Complete, 5_000);
        assert_eq!(debounce.next_us(), Some(7_000));
    }

    /// Checks the paths that are due at `now_us`. `events` has microseconds, kind and path of each.
    #[track_caller]
    fn check(events: &str, now_us: u64, expect: &str) {
        let mut debounce = Debounce::default();
        for event in events.split(' ') {
            let (at, path) = event.split_once(':').expect("a colon before the path");
            let (at_us, letter) = at.split_at(at.len() - 1);
            let kind = match letter {
                "F" => ChangeKind::Complete,
                "T" => ChangeKind::Metadata,
                _ => ChangeKind::Writing,
            };
            debounce.note(path.into(), kind, at_us.parse().expect("microseconds"));
        }
        let due: Vec<_> =
            debounce.pop_due(now_us).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(due.join(" "), expect);
    }
}
