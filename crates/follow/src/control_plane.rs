//! The applications and plans of a control plane: the state of the transfer, and the file that stores them, so that a
//! gateway that restarts has them while the control plane is down.
//!
//! The file is appended to: a line of JSON for each change, with the prefix `plan` for a plan, and `== REVISION` after
//! each response, each with a checksum ([`crate::lines`]). Changes after the last revision are requested again. If a
//! line is incomplete, damaged or without checksum, or most lines are outdated, everything is requested again, and a
//! new file replaces the old one.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Now, limits};
use foldhash::HashSet;
use formats::declarative::{ApplicationPage, PublishedApplication, PublishedPlan};
use model::{Diagnostic, Feed, Plans};

use crate::feed::Next;
use crate::lines;
use crate::sync::BackgroundSync;

/// Prefix of the line of a plan.
const PLAN: &[u8] = b"plan ";
/// The file is outdated if it has this many lines more than twice the needed ones.
const SPARE_LINES: usize = 4_096;

/// The response to a request for the changes after `after`.
#[derive(Debug)]
pub(crate) struct FeedResponse {
    pub(crate) from: Feed,
    pub(crate) after: u64,
    pub(crate) result: Result<Vec<u8>, String>,
}

/// A control plane whose applications are followed.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pub(crate) next: Next,
    pub(crate) log: Log,
    /// The state of a transfer of all applications, while it is in progress.
    pub(crate) full: Option<Full>,
    /// Plans by name, in lower case.
    pub(crate) plans: BTreeMap<String, KnownPlan>,
    /// Whether any change is not published yet.
    pub(crate) changed: bool,
    /// Time from which a failed write may cause another transfer of all applications, in microseconds.
    repair_us: u64,
    /// Time from which a revision without changes may be written again, in microseconds.
    number_us: u64,
    /// The URL below which applications are named in diagnostics.
    place: PathBuf,
}

/// A transfer of all applications.
#[derive(Debug)]
pub(crate) struct Full {
    /// The number with which the control plane last started. If it changes, the parts do not fit together.
    pub(crate) start: u64,
    /// The applications received so far.
    pub(crate) files: HashSet<Arc<Path>>,
    /// The names of the plans received so far.
    pub(crate) plans: HashSet<String>,
}

/// A plan of a control plane.
#[derive(Debug, Default)]
pub(crate) struct KnownPlan {
    /// The last valid version.
    pub(crate) valid: Option<Plans>,
    /// The problems of the newest version.
    pub(crate) problems: Vec<Diagnostic>,
}

impl ControlPlane {
    pub(crate) fn new(from: Feed, data: &Path, now: Now) -> Self {
        let place = PathBuf::from(&from.url);
        let log = Log::of(data, &from.url);
        Self {
            next: Next::new(from, 0, now),
            log,
            full: None,
            plans: BTreeMap::new(),
            changed: false,
            repair_us: 0,
            number_us: 0,
            place,
        }
    }

    /// Whether the file lacks changes from responses.
    pub(crate) fn is_ahead(&self) -> bool {
        self.full.is_some() || self.log.check().is_err()
    }

    /// Requests everything again. The present data stays in use.
    pub(crate) fn restart(&mut self, now: Now) {
        self.full = None;
        self.next.restart(now);
    }

    /// Whether a response should be written: if it has changes, or is part of a whole transfer; or, at most once in
    /// [`limits::FEED_REPAIR_S`], if its revision is newer than that in the file.
    pub(crate) fn is_worth_a_write(&mut self, page: &ApplicationPage, now: Now) -> bool {
        if page.reset || self.full.is_some() || page.len() > 0 {
            return true;
        }
        let is_due = self.log.revision != page.revision && self.number_us <= now.mono_us;
        if is_due {
            self.number_us = now.mono_us.saturating_add(limits::FEED_REPAIR_S * 1_000_000);
        }
        is_due
    }

    /// Requests all applications after a failed write, to replace the file, at most once in [`limits::FEED_REPAIR_S`].
    pub(crate) fn repair(&mut self, now: Now) {
        if self.full.is_none() && self.log.check().is_err() && self.repair_us <= now.mono_us {
            self.repair_us = now.mono_us.saturating_add(limits::FEED_REPAIR_S * 1_000_000);
            self.restart(now);
        }
    }

    /// The pseudo file of the application `name` in diagnostics, which is unique to the name.
    pub(crate) fn file(&self, name: &str) -> Arc<Path> {
        Arc::from(self.place.join(segment(name)))
    }

    /// The pseudo file of the plan `name` in diagnostics.
    pub(crate) fn plan_file(&self, name: &str) -> PathBuf {
        self.place.join("plans").join(segment(name))
    }

    /// Whether `file` is the pseudo file of an application of this control plane.
    pub(crate) fn has(&self, file: &Path) -> bool {
        file.parent() == Some(&self.place)
    }

    /// Whether the first transfer is in progress.
    pub(crate) fn is_first(&self) -> bool {
        self.next.is_first() || self.full.is_some() && !self.next.has_failed()
    }
}

/// A path segment that is unique to the name.
fn segment(name: &str) -> String {
    let name = name.replace('%', "%25").replace('/', "%2F");
    // A segment that consists of dots would have a special meaning.
    let dot = name.strip_prefix('.').map(|rest| format!("%2E{rest}"));
    dot.unwrap_or(name)
}

/// The file of one control plane.
#[derive(Debug)]
pub(crate) struct Log {
    file: PathBuf,
    /// Number of lines. `None` if the file lacks changes, so that nothing is added.
    lines: Option<usize>,
    /// The last revision in the file.
    revision: u64,
    /// The number of the first line that was damaged when the file was read.
    damaged: Option<usize>,
    /// Number of lines that are needed.
    pub(crate) needed: usize,
    /// Whether a new file is being written, which will replace it.
    anew: bool,
    sync: BackgroundSync,
}

impl Log {
    pub(crate) fn of(folder: &Path, url: &str) -> Self {
        let file = folder.join(format!("applications-{}", lines::short_hash(url.as_bytes())));
        let sync = BackgroundSync::default();
        Self { file, lines: Some(0), revision: 0, damaged: None, needed: 0, anew: false, sync }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }

    /// Takes over the running or failed synchronisation of `earlier`, if that is a log of the same file.
    pub(crate) fn take_over(&mut self, earlier: &mut Self) {
        if self.file == earlier.file {
            self.sync = std::mem::take(&mut earlier.sync);
        }
    }

    /// Passes the undamaged entries to `each`, in order. Returns the revision up to which the file is complete; 0 if it
    /// is damaged, so that everything is requested again.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub(crate) fn read(&mut self, mut each: impl FnMut(Entry)) -> io::Result<u64> {
        let opened = match File::open(&self.file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let (mut reader, mut line) = (BufReader::new(opened), Vec::new());
        let (mut revision, mut lines, mut has_sums) = (0, 0_usize, true);
        self.damaged = None;
        loop {
            line.clear();
            let mut bounded = io::Read::take(&mut reader, limits::APPLICATION_LINE_BYTES_MAX);
            if bounded.read_until(b'\n', &mut line)? == 0 {
                let is_whole = self.damaged.is_none();
                self.revision = if is_whole && has_sums { revision } else { 0 };
                self.lines = is_whole.then_some(lines);
                return Ok(self.revision);
            }
            lines = lines.saturating_add(1);
            let content = lines::content(&line);
            has_sums &= content.is_none_or(|(_, has_sum)| has_sum);
            match content.and_then(|(content, _)| parse(content)) {
                Some(Line::Revision(number)) => revision = number,
                Some(Line::Entry(entry)) => each(entry),
                None => self.damaged = self.damaged.or(Some(lines)),
            }
        }
    }

    /// Adds a response.
    ///
    /// # Errors
    /// Errors of the file system. Afterwards nothing is added until all applications have been transferred again.
    pub(crate) fn add(&mut self, page: &ApplicationPage) -> io::Result<()> {
        if page.reset {
            (self.anew, self.lines, self.sync) = (true, Some(0), BackgroundSync::default());
            drop(fs::remove_file(self.new_file()));
        }
        self.check()?;
        let lines = self.lines.take().unwrap_or(0);
        self.append(page)?;
        let lines = lines.saturating_add(page.len()).saturating_add(1);
        if self.anew && !page.more {
            fs::rename(self.new_file(), &self.file)?;
            File::open(self.folder())?.sync_all()?;
            (self.anew, self.needed) = (false, lines);
        }
        (self.lines, self.revision) = (Some(lines), page.revision);
        Ok(())
    }

    /// Whether all applications should be transferred again, because most of the file is outdated.
    pub(crate) fn is_outdated(&self) -> bool {
        let most = self.needed.saturating_mul(2).saturating_add(SPARE_LINES);
        !self.anew && self.lines.is_some_and(|lines| lines > most)
    }

    /// Fails if the file lacks changes.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.lines.is_some() {
            return self.sync.check();
        }
        Err(io::Error::other("it could not be written before"))
    }

    /// The damage that was found when the file was read.
    pub(crate) fn damage(&self) -> Option<String> {
        let (line, file) = (self.damaged?, self.file.display());
        Some(format!(
            "{file}:{line}: the line is damaged or incomplete; everything is asked for again"
        ))
    }

    fn new_file(&self) -> PathBuf {
        self.file.with_extension("new")
    }

    fn append(&self, page: &ApplicationPage) -> io::Result<()> {
        let mut text = Vec::new();
        for plan in &page.plans {
            lines::push(&mut text, &[PLAN, &serde_json::to_vec(plan)?].concat());
        }
        for application in &page.applications {
            lines::push(&mut text, &serde_json::to_vec(application)?);
        }
        lines::push(&mut text, format!("== {}", page.revision).as_bytes());
        fs::create_dir_all(self.folder())?;
        let file = if self.anew { &self.new_file() } else { &self.file };
        let mut opened = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
        opened.write_all(&text)?;
        match (page.more, self.anew) {
            (true, _) => {}
            // The new file is complete before it replaces the other one.
            (false, true) => opened.sync_data()?,
            (false, false) => self.sync.start(move || opened.sync_data()),
        }
        Ok(())
    }
}

/// A change.
pub(crate) enum Entry {
    Application(PublishedApplication),
    Plan(PublishedPlan),
}

enum Line {
    Entry(Entry),
    Revision(u64),
}

/// Parses a line; `None` if it is damaged.
fn parse(line: &[u8]) -> Option<Line> {
    if let Some(number) = line.strip_prefix(b"== ") {
        return Some(Line::Revision(std::str::from_utf8(number).ok()?.parse().ok()?));
    }
    // Written by versions without plans.
    if line.starts_with(b"= ") {
        return Some(Line::Revision(0));
    }
    let entry = match line.strip_prefix(PLAN) {
        Some(plan) => Entry::Plan(serde_json::from_slice(plan).ok()?),
        None => Entry::Application(serde_json::from_slice(line).ok()?),
    };
    Some(Line::Entry(entry))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use serde_json::json;

    use super::*;

    fn page(revision: u64, names: &str, more: bool) -> ApplicationPage {
        let application = |name: &str| match name.strip_prefix('-') {
            Some(removed) => PublishedApplication { name: removed.to_owned(), application: None },
            None => PublishedApplication { name: name.to_owned(), application: Some(json!({})) },
        };
        let (plans, applications): (Vec<_>, Vec<_>) =
            names.split_whitespace().partition(|name| name.starts_with('/'));
        let plan = |name: &str| PublishedPlan { name: name.to_owned(), plan: Some(json!({})) };
        let applications = applications.into_iter().map(application).collect();
        let plans = plans.into_iter().map(plan).collect();
        ApplicationPage { revision, start: 1, reset: false, more, applications, plans }
    }

    fn log(folder: &Path) -> Log {
        Log::of(folder, "https://control")
    }

    /// Checks the revision and the names in the file, after a change of its bytes.
    #[track_caller]
    fn check(change: impl Fn(&mut Vec<u8>), expect: (u64, &str)) {
        let folder = tempfile::tempdir().unwrap();
        let mut log = log(folder.path());
        log.add(&page(3, "/p a b", false)).unwrap();
        log.add(&page(7, "c -a", false)).unwrap();
        let mut bytes = fs::read(log.file()).unwrap();
        change(&mut bytes);
        fs::write(log.file(), bytes).unwrap();
        assert_eq!(read(&mut log), (expect.0, expect.1.to_owned()));
    }

    fn read(log: &mut Log) -> (u64, String) {
        let mut names = Vec::new();
        let revision = log.read(|entry| match entry {
            Entry::Application(one) => {
                let removed = if one.application.is_none() { "-" } else { "" };
                names.push(format!("{removed}{}", one.name));
            }
            Entry::Plan(one) => names.push(one.name),
        });
        (revision.unwrap(), names.join(" "))
    }

    #[test]
    fn what_was_kept_is_read_again() {
        check(|_| {}, (7, "/p a b c -a"));
        check(Vec::clear, (0, ""));
        let old = |bytes: &mut Vec<u8>| {
            *bytes = without_sums(bytes).replace("== ", "= ").into_bytes();
        };
        check(old, (0, "/p a b c -a"));
        check(|bytes| *bytes = without_sums(bytes).into_bytes(), (0, "/p a b c -a"));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_asked_for_again() {
        check(|bytes| bytes.truncate(bytes.len() - 1), (0, "/p a b c -a"));
        check(
            |bytes| bytes.truncate(bytes.len() - "== 7 #0123456789abcdef\n".len()),
            (3, "/p a b c -a"),
        );
        check(|bytes| bytes.truncate(bytes.len() - 30), (0, "/p a b c"));
        check(|bytes| bytes[3] = 0, (0, "a b c -a"));
    }

    #[test]
    fn any_changed_byte_is_found_and_named_and_the_other_lines_count() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = log(folder.path());
        kept.add(&page(3, "/p a b", false)).unwrap();
        let bytes = fs::read(kept.file()).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            fs::write(kept.file(), &changed).unwrap();
            let mut kept = log(folder.path());
            let (revision, names) = read(&mut kept);
            assert!(revision == 0 && kept.check().is_err(), "{index}");
            assert!(names.split(' ').all(|name| ["/p", "a", "b", ""].contains(&name)), "{names}");
            assert!(kept.damage().unwrap().contains("applications-"), "{index}");
        }
    }

    /// The file as earlier versions wrote it.
    fn without_sums(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let line = |line: &str| line.rsplit_once(" #").unwrap().0.to_owned() + "\n";
        text.lines().map(line).collect()
    }

    #[test]
    fn a_new_file_replaces_the_old_one_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = log(folder.path());
        kept.add(&page(3, "a b", false)).unwrap();
        kept.add(&ApplicationPage { reset: true, ..page(5, "c", true) }).unwrap();
        assert_eq!(read(&mut log(folder.path())), (3, "a b".to_owned()));
        kept.add(&page(9, "d", false)).unwrap();
        kept.add(&page(11, "e", false)).unwrap();
        assert_eq!(read(&mut log(folder.path())), (11, "c d e".to_owned()));
    }

    #[test]
    fn after_a_failure_nothing_is_added_until_everything_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = log(folder.path());
        fs::create_dir(kept.file()).unwrap();
        kept.add(&page(3, "a", false)).unwrap_err();
        fs::remove_dir(kept.file()).unwrap();
        kept.add(&page(5, "b", false)).unwrap_err();
        assert_eq!(read(&mut log(folder.path())), (0, String::new()));
        kept.add(&ApplicationPage { reset: true, ..page(7, "a b", false) }).unwrap();
        assert_eq!(read(&mut log(folder.path())), (7, "a b".to_owned()));
    }

    #[test]
    fn after_a_failed_synchronisation_nothing_is_added_until_everything_comes_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = log(folder.path());
        // This device can be written to, but not synchronised.
        std::os::unix::fs::symlink("/dev/null", kept.file()).unwrap();
        kept.add(&page(3, "a", false)).unwrap();
        kept.sync.wait();
        kept.check().unwrap_err();
        // The same if the file is read again meanwhile.
        let mut again = log(folder.path());
        again.take_over(&mut kept);
        again.check().unwrap_err();
        again.add(&page(5, "b", false)).unwrap_err();
        again.add(&ApplicationPage { reset: true, ..page(7, "a b", false) }).unwrap();
        again.check().unwrap();
        assert_eq!(read(&mut log(folder.path())), (7, "a b".to_owned()));
    }

    #[test]
    fn a_file_of_outdated_lines_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = log(folder.path());
        let many = "a ".repeat(SPARE_LINES);
        kept.add(&page(3, &many, false)).unwrap();
        assert!(kept.is_outdated());
        kept.add(&ApplicationPage { reset: true, ..page(5, "a", false) }).unwrap();
        assert!(!kept.is_outdated());
        assert!(fs::metadata(kept.file()).unwrap().len() < 150);
    }

    #[test]
    fn different_names_have_different_files() {
        let feed = Feed {
            url: "https://control/applications".to_owned(),
            client_id: String::new(),
            client_secret: Vec::new(),
        };
        let one = ControlPlane::new(feed, Path::new(""), Now { unix_s: 0, mono_us: 0 });
        let names = ["a", "a/b", "a%2Fb", ".", "..", "%2E", "a/.", "/", "a/", "//"];
        let files: HashSet<_> = names.iter().map(|name| one.file(name)).collect();
        assert_eq!(files.len(), names.len());
        assert!(files.iter().all(|file| one.has(file)));
    }
}
