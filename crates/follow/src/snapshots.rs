//! Snapshots on disk: the texts of everything that is served, so that a gateway can start while its sources are
//! unavailable.
//!
//! They are numbered files in one folder, which only the gateway may read. Each is complete; the two newest undamaged
//! ones are kept. docs/decisions/0026-snapshots-are-texts.md has the reason for storing texts.
//!
//! Architecture invariant: nothing here is needed for serving. A snapshot that cannot be written is only reported.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use formats::snapshot::{self, Kind, Record, Saved, Writer};
use model::{Diagnostic, Severity};

use crate::documents::{read_bounded, read_up_to};

const PREFIX: &str = "snapshot-";
/// Number of snapshots that are kept: the newest, and one in case that is damaged.
const KEPT: usize = 2;
/// With this many files, no snapshot is written: files that cannot be read are not removed.
const FILES_MAX: usize = 16;
/// A name has 16 digits.
const NUMBER_MAX: u64 = 9_999_999_999_999_999;
/// The records' kinds, lengths and names, and the checksum, on top of the texts.
const BYTES_MAX: u64 = limits::SNAPSHOT_BYTES_MAX + 64 * 1024;

/// The contents of a snapshot to write.
#[derive(Debug, Default)]
pub(crate) struct Job {
    pub(crate) folder: PathBuf,
    pub(crate) written_s: u64,
    /// Files, each with the hash of its valid text. Another text is not written.
    pub(crate) files: Vec<(Kind, Arc<Path>, u64)>,
    pub(crate) hashing: RandomState,
    /// Texts of keys by issuer.
    pub(crate) keys: Vec<(String, Vec<u8>)>,
    /// The texts of plan files.
    pub(crate) plans: Vec<(PathBuf, Vec<u8>)>,
    /// Device and inode of each configured folder.
    pub(crate) roots: Vec<(PathBuf, (u64, u64))>,
    /// Configured folders that have been unavailable since the start. Their records in the earlier snapshot are kept.
    pub(crate) unavailable: Vec<PathBuf>,
    /// Issuers whose keys have been unavailable since the start. Their records are kept too.
    pub(crate) keyless: Vec<String>,
    /// The lock of an earlier snapshot in the same folder.
    pub(crate) lock: Option<Arc<File>>,
}

/// The result of writing a snapshot.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) bytes: u64,
    /// Files whose valid text is neither at its place nor in an earlier snapshot.
    pub(crate) left_out: usize,
    /// Problems of the folder that did not prevent writing.
    pub(crate) problems: Vec<String>,
    /// While it is kept, no other process writes to the folder.
    pub(crate) lock: Arc<File>,
}

/// The texts of a snapshot by kind and name.
pub(crate) type Texts<'s> = HashMap<(Kind, &'s [u8]), &'s [u8]>;

/// The newest undamaged snapshot, and the reasons why newer ones are not used.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    pub(crate) whole: Option<(PathBuf, Vec<u8>)>,
    pub(crate) unusable: Vec<Diagnostic>,
}

/// Finds the newest undamaged snapshot.
pub(crate) fn newest(folder: &Path) -> Newest {
    let mut newest = Newest::default();
    let found = numbered(folder).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            let message = format!("the folder of snapshots cannot be read: {error}");
            newest.unusable.push(diagnostic(
                folder,
                message,
                "correct the path or its permissions",
            ));
        }
        Vec::new()
    });
    for (_, file) in found {
        let bytes = match read_up_to(&file, BYTES_MAX) {
            Ok((bytes, _)) => bytes,
            Err(why) => {
                let help = "it is not used; correct its permissions, or move it away";
                newest.unusable.push(diagnostic(
                    &file,
                    format!("the snapshot is unusable: {why}"),
                    help,
                ));
                continue;
            }
        };
        match snapshot::read(&bytes) {
            Ok(_) => {
                newest.whole = Some((file, bytes));
                break;
            }
            Err(damage) => {
                let message = format!("the snapshot is damaged: {damage}");
                newest.unusable.push(diagnostic(&file, message, "it is not used; remove it"));
            }
        }
    }
    newest
}

pub(crate) fn diagnostic(file: &Path, message: String, help: &str) -> Diagnostic {
    let help = Some(help.to_owned()).filter(|help| !help.is_empty());
    Diagnostic { severity: Severity::Error, file: file.to_owned(), place: None, message, help }
}

pub(crate) fn texts<'s>(saved: &Saved<'s>) -> Texts<'s> {
    saved.records.iter().map(|one| ((one.kind, one.name), one.text)).collect()
}

/// The name of a path in a snapshot: absolute, so that it does not depend on how the configuration was named.
pub(crate) fn name(path: &Path) -> Vec<u8> {
    absolute(path).into_os_string().into_vec()
}

pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The text of a root in a snapshot.
pub(crate) fn identity_text((device, inode): (u64, u64)) -> String {
    format!("{device} {inode}")
}

/// Writes a snapshot, and removes snapshots that are no longer needed.
///
/// # Errors
/// Errors of the file system. The newest undamaged snapshot is kept.
pub(crate) fn write(job: &Job) -> io::Result<Written> {
    DirBuilder::new().recursive(true).mode(0o700).create(&job.folder)?;
    let lock = match &job.lock {
        Some(lock) => Arc::clone(lock),
        None => Arc::new(locked(&job.folder)?),
    };
    remove_unfinished(&job.folder)?;
    let number = next_number(&job.folder)?;
    let file = job.folder.join(format!("{PREFIX}{number:016}"));
    let temporary = job.folder.join(format!(".{PREFIX}{number:016}.tmp"));
    let written = write_new(job, &temporary).and_then(|written| {
        fs::rename(&temporary, &file)?;
        Ok(written)
    });
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    let (bytes, left_out) = written?;
    // The rename is durable only once the folder is synced. If it cannot be, each attempt has added a file.
    let (synced, pruned) = (sync_folder(&job.folder), prune(&job.folder, Some(number)));
    synced?;
    let pruned = pruned.err().map(|error| error.to_string());
    let problems = pruned.into_iter().chain(exposure(&job.folder, &file)).collect();
    Ok(Written { bytes, left_out, problems, lock })
}

/// Locks the folder, because another gateway would remove snapshots of this one.
fn locked(folder: &Path) -> io::Result<File> {
    let opened = File::open(folder)?;
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::other("another process uses the folder; each gateway needs its own"))
        }
        Err(TryLockError::Error(error)) if !is_unsupported(&error) => Err(error),
        // Without support for locks, as on some network file systems, this is not checked.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(opened),
    }
}

/// The way in which users other than the owner of the snapshot `file` could replace it, if there is one.
pub(crate) fn exposure(folder: &Path, file: &Path) -> Option<String> {
    let (folder, file) = (fs::metadata(folder).ok()?, fs::metadata(file).ok()?);
    let mode = folder.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Some(format!(
            "other users can write to the folder of snapshots (mode {mode:o}) and replace the served configuration"
        ));
    }
    let owner = folder.uid();
    (owner != 0 && owner != file.uid()).then(|| {
        format!("the folder of snapshots belongs to user {owner}, who can replace the served configuration")
    })
}

/// The number of the next snapshot.
fn next_number(folder: &Path) -> io::Result<u64> {
    let mut before = numbered(folder)?;
    if before.len() >= FILES_MAX {
        prune(folder, None)?;
        before = numbered(folder)?;
    }
    if before.len() >= FILES_MAX {
        let message = format!("the folder has {} snapshots already; remove some", before.len());
        return Err(io::Error::other(message));
    }
    let Some((newest, file)) = before.first() else { return Ok(1) };
    newest.checked_add(1).filter(|number| *number <= NUMBER_MAX).ok_or_else(|| {
        io::Error::other(format!("{} has the highest number; remove it", file.display()))
    })
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if is_unsupported(&error) => Ok(()),
        result => result,
    }
}

/// Whether the file system has no way to sync a folder: EINVAL or ENOTSUP.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Writes the file. Returns its size in bytes, and the number of files left out.
fn write_new(job: &Job, file: &Path) -> io::Result<(u64, usize)> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let mut writer = Writer::new(opened, job.written_s)?;
    // The earlier snapshot, read if the text of a file that is now invalid or unavailable is needed.
    let (bytes, saved) = (OnceCell::new(), OnceCell::new());
    let earlier = || {
        let read = || newest(&job.folder).whole.map(|(_, bytes)| bytes).unwrap_or_default();
        let bytes: &Vec<u8> = bytes.get_or_init(read);
        saved.get_or_init(|| snapshot::read(bytes).as_ref().map(texts).unwrap_or_default())
    };
    let mut left_out = 0;
    for (kind, path, hash) in &job.files {
        let name = name(path);
        let now = read_bounded(path).ok().filter(|text| job.hashing.hash_one(text) == *hash);
        let saved = || {
            let text = earlier().get(&(*kind, name.as_slice())).copied();
            // The text of an even earlier version is not used, because it may contain access that was revoked.
            text.filter(|text| job.hashing.hash_one(text) == *hash)
        };
        match now.as_deref().or_else(saved) {
            Some(text) => writer.add(&Record { kind: *kind, name: &name, text })?,
            None => left_out += 1,
        }
    }
    if !job.unavailable.is_empty() || !job.keyless.is_empty() {
        for record in unrestored(job, earlier()) {
            writer.add(&record)?;
        }
    }
    for (name, text) in &job.keys {
        writer.add(&Record { kind: Kind::Keys, name: name.as_bytes(), text })?;
    }
    for (file, text) in &job.plans {
        writer.add(&Record { kind: Kind::Plans, name: &name(file), text })?;
    }
    for (root, identity) in &job.roots {
        let text = identity_text(*identity);
        writer.add(&Record { kind: Kind::Root, name: &name(root), text: text.as_bytes() })?;
    }
    let opened = writer.finish()?;
    opened.sync_all()?;
    Ok((opened.metadata()?.len(), left_out))
}

/// Records of the earlier snapshot for sources that have been unavailable since the start and were not restored.
/// Without them, the next snapshots would replace the last ones that have these records.
fn unrestored<'s>(job: &Job, earlier: &Texts<'s>) -> Vec<Record<'s>> {
    let roots: Vec<PathBuf> = job.unavailable.iter().map(|root| absolute(root)).collect();
    let known: HashSet<(Kind, Vec<u8>)> =
        job.files.iter().map(|(kind, path, _)| (*kind, name(path))).collect();
    let is_needed = |kind, name: &[u8]| match kind {
        Kind::File => {
            let path = Path::new(OsStr::from_bytes(name));
            roots.iter().any(|root| path.starts_with(root))
        }
        // Any of the unavailable files may refer to it.
        Kind::Reference => !roots.is_empty(),
        Kind::Keys => job.keyless.iter().any(|keyless| keyless.as_bytes() == name),
        Kind::Root | Kind::Plans => false,
    };
    let mut records: Vec<Record<'s>> = earlier
        .iter()
        .filter(|((kind, name), _)| {
            is_needed(*kind, name) && !known.contains(&(*kind, name.to_vec()))
        })
        .map(|((kind, name), text)| Record { kind: *kind, name, text })
        .collect();
    records.sort_unstable_by_key(|record| (record.kind, record.name));
    records
}

/// Removes all snapshots but the newest undamaged ones, including number `written`, and those that cannot be read.
///
/// # Errors
/// The first file that cannot be read or removed; the others are processed nevertheless.
fn prune(folder: &Path, written: Option<u64>) -> io::Result<()> {
    let (mut whole, mut result) = (0_usize, Ok(()));
    for (number, file) in numbered(folder)? {
        let is_kept = match whole < KEPT {
            _ if written == Some(number) => Ok(true),
            true => is_whole(&file),
            false => Ok(false),
        };
        let done = is_kept.and_then(|is_kept| {
            whole = whole.saturating_add(usize::from(is_kept));
            if is_kept { Ok(()) } else { fs::remove_file(&file) }
        });
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{} is not removed: {error}", file.display()))
        };
        result = result.and(done.map_err(named));
    }
    result
}

fn is_whole(file: &Path) -> io::Result<bool> {
    // Opening a pipe or a device could block.
    let metadata = fs::metadata(file)?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > BYTES_MAX {
        return Ok(false);
    }
    snapshot::is_whole(File::open(file)?, metadata.len())
}

/// Removes unfinished files that a crash has left.
fn remove_unfinished(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let ours = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".tmp"));
        if ours.is_some_and(|name| number(name).is_some()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The snapshots in a folder, newest first.
fn numbered(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(number) = entry.file_name().to_str().and_then(number) {
            found.push((number, entry.path()));
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let is_number = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A job for the file `a.toml`, whose valid text was `valid`.
    fn job(folder: &Path, valid: &str) -> Job {
        let hashing = RandomState::new();
        let hash = hashing.hash_one(valid.as_bytes().to_vec());
        let files = vec![(Kind::File, Arc::from(folder.join("a.toml")), hash)];
        let folder = folder.join("snapshots");
        Job { folder, written_s: 1, files, hashing, ..Job::default() }
    }

    /// The text of `a.toml` in the newest snapshot.
    fn saved(folder: &Path) -> Option<String> {
        let (_, bytes) = newest(&folder.join("snapshots")).whole?;
        let saved = snapshot::read(&bytes).unwrap();
        let text =
            texts(&saved).get(&(Kind::File, name(&folder.join("a.toml")).as_slice())).copied()?;
        Some(String::from_utf8(text.to_vec()).unwrap())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder.join("snapshots")).unwrap();
        let mut names: Vec<_> =
            entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_two_newest_are_kept_and_only_their_owner_may_read_them() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["one", "two", "three"] {
            fs::write(folder.path().join("a.toml"), text).unwrap();
            write(&job(folder.path(), text)).unwrap();
        }
        let [second, third] = [2, 3].map(|number| format!("{PREFIX}{number:016}"));
        assert_eq!(names(folder.path()), [second, third.clone()]);
        assert_eq!(saved(folder.path()).as_deref(), Some("three"));
        let mode = |path: &str| {
            let path = folder.path().join("snapshots").join(path);
            fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode(""), mode(&third)), (0o700, 0o600));
    }

    #[test]
    fn a_file_that_is_broken_or_unavailable_now_is_taken_from_the_earlier_snapshot() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        write(&job(folder.path(), "good")).unwrap();
        fs::write(folder.path().join("a.toml"), "broken").unwrap();
        assert_eq!(write(&job(folder.path(), "good")).unwrap().left_out, 0);
        assert_eq!(saved(folder.path()).as_deref(), Some("good"));
        fs::remove_file(folder.path().join("a.toml")).unwrap();
        write(&job(folder.path(), "good")).unwrap();
        assert_eq!(saved(folder.path()).as_deref(), Some("good"));
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("a.toml"), "broken").unwrap();
        assert_eq!(write(&job(other.path(), "good")).unwrap().left_out, 1);
        assert_eq!(saved(other.path()), None);
    }

    #[test]
    fn a_version_before_the_valid_one_is_not_saved_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "with a revoked key").unwrap();
        write(&job(folder.path(), "with a revoked key")).unwrap();
        // The valid version is overwritten before it is saved.
        fs::write(folder.path().join("a.toml"), "broken").unwrap();
        assert_eq!(write(&job(folder.path(), "valid")).unwrap().left_out, 1);
        assert_eq!(saved(folder.path()), None);
    }

    #[test]
    fn a_damaged_one_does_not_count_as_one_of_the_two() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        write(&job(folder.path(), "good")).unwrap();
        let damaged = folder.path().join("snapshots").join(format!("{PREFIX}{:016}", 7));
        fs::write(&damaged, "x").unwrap();
        fs::write(folder.path().join("snapshots/.snapshot-0000000000000009.tmp"), "x").unwrap();
        let found = newest(&folder.path().join("snapshots"));
        assert_eq!(found.unusable.first().map(|one| &one.file), Some(&damaged));
        assert!(found.whole.is_some());
        write(&job(folder.path(), "good")).unwrap();
        let expect = [1, 8].map(|number| format!("{PREFIX}{number:016}"));
        assert_eq!(names(folder.path()), expect);
    }

    #[test]
    fn a_folder_that_another_process_uses_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        let first = write(&job(folder.path(), "good")).unwrap();
        let problem = write(&job(folder.path(), "good")).unwrap_err().to_string();
        assert!(problem.contains("another process"), "{problem}");
        assert_eq!(names(folder.path()).len(), 1);
        let lock = Some(first.lock);
        write(&Job { lock, ..job(folder.path(), "good") }).unwrap();
        write(&job(folder.path(), "good")).unwrap();
    }

    #[test]
    fn one_that_cannot_be_read_is_kept_and_reported_and_their_number_has_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        write(&job(folder.path(), "good")).unwrap();
        let path = |number: usize| {
            let name = format!("{PREFIX}{number:016}");
            (folder.path().join("snapshots").join(&name), name)
        };
        // A link to itself cannot be opened, not even by root.
        for number in 2..FILES_MAX {
            let (file, name) = path(number);
            std::os::unix::fs::symlink(name, file).unwrap();
        }
        let written = write(&job(folder.path(), "good")).unwrap();
        let problem = written.problems.first().unwrap();
        assert!(problem.contains("snapshot-0") && problem.contains("not removed"), "{problem}");
        let expect: Vec<_> = (1..=FILES_MAX).map(|number| path(number).1).collect();
        assert_eq!(names(folder.path()), expect);
        assert!(write(&job(folder.path(), "good")).is_err());
        assert_eq!(names(folder.path()), expect);
    }

    #[test]
    fn what_was_not_restored_from_an_unavailable_source_stays_in_the_snapshots() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        write(&job(folder.path(), "good")).unwrap();
        fs::remove_file(folder.path().join("a.toml")).unwrap();
        let none = || Job { files: Vec::new(), ..job(folder.path(), "good") };
        for _ in 0..3 {
            write(&Job { unavailable: vec![folder.path().to_owned()], ..none() }).unwrap();
        }
        assert_eq!(saved(folder.path()).as_deref(), Some("good"));
        let elsewhere = folder.path().join("elsewhere");
        write(&Job { unavailable: vec![elsewhere], ..none() }).unwrap();
        assert_eq!(saved(folder.path()), None);
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_one_that_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(&folder.path().join("absent")).unusable, []);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("link", &link).unwrap();
        assert_eq!(newest(&link).unusable.first().map(|one| &one.file), Some(&link));
    }

    #[test]
    fn the_name_of_a_path_is_absolute() {
        let folder = std::env::current_dir().unwrap();
        assert_eq!(name(Path::new("apis/a.yaml")), name(&folder.join("apis/a.yaml")));
    }

    #[test]
    fn a_folder_that_other_users_can_write_to_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.toml"), "good").unwrap();
        for (mode, reported) in [(0o700, false), (0o755, false), (0o770, true), (0o702, true)] {
            write(&job(folder.path(), "good")).unwrap();
            let snapshots = folder.path().join("snapshots");
            fs::set_permissions(snapshots, fs::Permissions::from_mode(mode)).unwrap();
            let problems = write(&job(folder.path(), "good")).unwrap().problems;
            assert_eq!(!problems.is_empty(), reported, "{mode:o}: {problems:?}");
        }
    }

    #[test]
    fn a_number_beyond_the_digits_of_a_name_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("snapshots")).unwrap();
        let highest = format!("{PREFIX}{NUMBER_MAX}");
        fs::write(folder.path().join("snapshots").join(&highest), "x").unwrap();
        let error = write(&job(folder.path(), "good")).unwrap_err().to_string();
        assert!(error.contains(&highest), "{error}");
    }

    #[test]
    fn a_file_system_that_cannot_sync_a_folder_is_no_failure() {
        // EINVAL and ENOTSUP; EIO is one.
        let of = |code| is_unsupported(&io::Error::from_raw_os_error(code));
        assert_eq!([22, 95, 5].map(of), [true, true, false]);
    }

    #[test]
    fn what_cannot_be_written_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("snapshots"), "a file").unwrap();
        assert!(write(&job(folder.path(), "good")).is_err());
        assert_eq!(fs::read(folder.path().join("snapshots")).unwrap(), b"a file");
    }
}
