//! When a change on disk is finished: collects what the watcher sees until writing has come to rest.
//!
//! A finished change (closed after writing, renamed, removed) waits only for the rest of its burst, so
//! that files renamed together are seen together. A file that is being written waits until it is
//! closed, so that a description cut at a line's end is not served for a moment.
//!
//! Architecture invariant: time comes as an argument, microseconds on a clock that never steps back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base::limits;

const QUIET_US: u64 = 1_000 * limits::FILE_QUIET_MS as u64;
const BURST_US: u64 = 1_000 * limits::FILE_BURST_MS_MAX as u64;
const WRITING_US: u64 = 1_000 * limits::FILE_WRITING_MS_MAX as u64;

/// What was seen of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Closed after writing, renamed, linked or removed.
    Finished,
    /// Its rights or times changed; says nothing of a writer.
    Touched,
    /// Bytes were written, and more may come.
    Writing,
}

#[derive(Debug, Default)]
pub(crate) struct Settle {
    finished: BTreeSet<PathBuf>,
    /// First and last sign of the present burst.
    burst: Option<(u64, u64)>,
    /// When each file was last written to.
    writing: BTreeMap<PathBuf, u64>,
}

impl Settle {
    pub(crate) fn note(&mut self, path: PathBuf, sign: Sign, now_us: u64) {
        match sign {
            Sign::Writing => {
                self.finished.remove(&path);
                self.writing.insert(path, now_us);
            }
            Sign::Touched if self.writing.contains_key(&path) => {}
            Sign::Touched | Sign::Finished => {
                self.writing.remove(&path);
                self.finished.insert(path);
                let first_us = self.burst.map_or(now_us, |(first_us, _)| first_us);
                self.burst = Some((first_us, now_us));
            }
        }
    }

    /// The paths that have come to rest at `now_us`.
    pub(crate) fn take_due(&mut self, now_us: u64) -> BTreeSet<PathBuf> {
        let mut due = BTreeSet::new();
        if self.burst_us().is_some_and(|at_us| at_us <= now_us) {
            self.burst = None;
            due.append(&mut self.finished);
        }
        let rested = self.writing.extract_if(.., |_, last_us| *last_us + WRITING_US <= now_us);
        due.extend(rested.map(|(path, _)| path));
        due
    }

    /// When [`Settle::take_due`] has something next.
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
    fn a_rename_is_due_after_a_short_quiet() {
        check("0F:a", 1_999, "");
        check("0F:a", 2_000, "a");
    }

    #[test]
    fn files_renamed_together_are_seen_together() {
        check("0F:a 500F:b", 2_000, "");
        check("0F:a 500F:b", 2_500, "a b");
    }

    #[test]
    fn a_burst_that_never_rests_is_cut() {
        let busy: Vec<String> = (0..10).map(|at| format!("{}F:f{at}", at * 1_000)).collect();
        check(&busy.join(" "), 9_999, "");
        check(&busy.join(" "), 10_000, "f0 f1 f2 f3 f4 f5 f6 f7 f8 f9");
    }

    #[test]
    fn a_file_being_written_waits_for_its_close() {
        check("0W:a", 50_000, "");
        check("0W:a 40000W:a 50000F:a", 52_000, "a");
        check("0F:a 100W:a", 2_100, "");
    }

    #[test]
    fn a_file_that_is_never_closed_is_read_once_it_rests() {
        check("0W:a 60000W:a", 159_999, "");
        check("0W:a 60000W:a", 160_000, "a");
    }

    #[test]
    fn a_touch_is_a_change_but_does_not_end_writing() {
        check("0T:a", 2_000, "a");
        check("0W:a 10T:a", 2_010, "");
    }

    #[test]
    fn the_next_look_is_when_something_falls_due() {
        let mut settle = Settle::default();
        assert_eq!(settle.next_us(), None);
        settle.note("a".into(), Sign::Writing, 1_000);
        assert_eq!(settle.next_us(), Some(101_000));
        settle.note("b".into(), Sign::Finished, 5_000);
        assert_eq!(settle.next_us(), Some(7_000));
    }

    /// `signs`: microseconds, sign and path; `expect`: what is due at `now_us`.
    #[track_caller]
    fn check(signs: &str, now_us: u64, expect: &str) {
        let mut settle = Settle::default();
        for sign in signs.split(' ') {
            let (at, path) = sign.split_once(':').expect("a colon before the path");
            let (at_us, letter) = at.split_at(at.len() - 1);
            let kind = match letter {
                "F" => Sign::Finished,
                "T" => Sign::Touched,
                _ => Sign::Writing,
            };
            settle.note(path.into(), kind, at_us.parse().expect("microseconds"));
        }
        let due: Vec<_> =
            settle.take_due(now_us).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(due.join(" "), expect);
    }
}
