//! Revoked tokens on disk, so that a restarted gateway rejects them while their issuer is down.
//!
//! The file is appended to: `HASH UNTIL` for each token, `HASH UNTIL ISSUED` for the tokens of a client issued up to
//! that time, and `= REVISION` after each response, each with a checksum ([`crate::lines`]). If a line is incomplete,
//! damaged or without checksum, everything is requested again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base::limits;
use jose::RevocationPage;
use model::{Extent, Revoked};

use crate::lines;
use crate::revocations::extent;
use crate::sync::BackgroundSync;
use crate::write::write_private;

/// Longest line, in bytes: a hash, two numbers after a space each, the checksum, a newline.
const LINE_BYTES_MAX: usize = 43 + 2 * (1 + 20) + 18 + 1;
/// The file is rewritten if it has this many lines more than twice the remaining tokens.
const SPARE_LINES: usize = 4_096;

/// The file of one issuer.
#[derive(Debug)]
pub(crate) struct Kept {
    file: PathBuf,
    /// Number of lines; `usize::MAX` if the file lacks revocations and is to be rewritten.
    lines: usize,
    /// The number of the first line that was damaged when the file was read.
    damaged: Option<usize>,
    sync: BackgroundSync,
}

impl Kept {
    /// The file of the issuer `iss` in `folder`.
    pub(crate) fn of(folder: &Path, iss: &str) -> Self {
        let name = lines::short_hash(iss.as_bytes());
        let (file, sync) = (folder.join(format!("revoked-{name}")), BackgroundSync::default());
        Self { file, lines: 0, damaged: None, sync }
    }

    /// The revision up to which the file is complete, and the tokens of undamaged lines. If any line is damaged, the
    /// revision is 0, so that everything is requested again.
    ///
    /// # Errors
    /// The file exists but cannot be read.
    pub(crate) fn read(&mut self) -> io::Result<(u64, Revoked)> {
        let (mut revision, mut revoked) = (0, Revoked::default());
        let opened = match File::open(&self.file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((revision, revoked)),
            Err(error) => return Err(error),
        };
        let (mut reader, mut line, mut damaged) = (BufReader::new(opened), Vec::new(), None);
        let mut has_sums = true;
        while revoked.len() < limits::REVOKED_TOKENS_MAX {
            line.clear();
            let mut bounded = io::Read::take(&mut reader, LINE_BYTES_MAX as u64);
            if bounded.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            self.lines = self.lines.saturating_add(1);
            let content = lines::content(&line);
            has_sums &= content.is_none_or(|(_, has_sum)| has_sum);
            match content.and_then(|(content, _)| parse(content)) {
                Some(Line::Revision(number)) => revision = number,
                Some(Line::Revoked(hash, extent)) => {
                    revoked.add(hash, extent);
                }
                None => damaged = damaged.or(Some(self.lines)),
            }
        }
        if damaged.is_some() || !has_sums {
            revision = 0;
            self.lines = usize::MAX;
        }
        self.damaged = damaged;
        Ok((revision, revoked))
    }

    /// Adds `page`. `revoked` includes the tokens of `page`.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn add(&mut self, page: &RevocationPage, revoked: &Revoked) -> io::Result<()> {
        let most = revoked.len().saturating_mul(2).saturating_add(SPARE_LINES);
        let added = if self.lines > most || self.sync.check().is_err() {
            self.write(page.revision, revoked)
        } else {
            self.append(page)
        };
        if added.is_err() {
            // A later revision would hide the missing revocations.
            self.lines = usize::MAX;
        }
        added
    }

    fn append(&mut self, page: &RevocationPage) -> io::Result<()> {
        let mut text = Vec::new();
        for revocation in &page.revoked {
            push(&mut text, &revocation.hash, extent(revocation));
        }
        lines::push(&mut text, format!("= {}", page.revision).as_bytes());
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file);
        let mut opened = opened?;
        opened.write_all(&text)?;
        self.sync.start(move || opened.sync_data());
        self.lines = self.lines.saturating_add(page.revoked.len()).saturating_add(1);
        Ok(())
    }

    fn write(&mut self, revision: u64, revoked: &Revoked) -> io::Result<()> {
        let mut text = Vec::new();
        revoked.iter().for_each(|(hash, extent)| push(&mut text, hash, extent));
        lines::push(&mut text, format!("= {revision}").as_bytes());
        write_private(&self.file, &text)?;
        (self.lines, self.sync) = (revoked.len().saturating_add(1), BackgroundSync::default());
        Ok(())
    }

    /// Whether the file lacks revocations that could not be written.
    pub(crate) fn lacks_some(&self) -> bool {
        self.lines == usize::MAX || self.sync.check().is_err()
    }

    /// The damage that was found when the file was read.
    pub(crate) fn damage(&self) -> Option<String> {
        let (line, file) = (self.damaged?, self.file.display());
        Some(format!(
            "{file}:{line}: the line is damaged or incomplete; everything is asked for again"
        ))
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
}

fn push(text: &mut Vec<u8>, hash: &[u8; 32], extent: Extent) {
    let mut line = format!("{} {}", jose::token_hash_text(hash), extent.until_s);
    if extent.issued_s != u64::MAX {
        line.push_str(&format!(" {}", extent.issued_s));
    }
    lines::push(text, line.as_bytes());
}

enum Line {
    Revoked([u8; 32], Extent),
    Revision(u64),
}

/// Parses a line; `None` if it is damaged or incomplete.
fn parse(line: &[u8]) -> Option<Line> {
    let line = std::str::from_utf8(line).ok()?;
    let (first, numbers) = line.split_once(' ')?;
    if first == "=" {
        return Some(Line::Revision(numbers.parse().ok()?));
    }
    let (until_s, issued_s) = match numbers.split_once(' ') {
        Some((until_s, issued_s)) => (until_s, issued_s.parse().ok()?),
        None => (numbers, u64::MAX),
    };
    let extent = Extent { issued_s, until_s: until_s.parse().ok()? };
    Some(Line::Revoked(jose::token_hash(first)?, extent))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::PermissionsExt;

    use jose::Revocation;

    use super::*;

    /// Checks the revision and the tokens of a file, after a change of its bytes.
    #[track_caller]
    fn check(change: impl Fn(&mut Vec<u8>), expect: (u64, &[u8])) {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, (revision, mut all)) = open(folder.path());
        assert_eq!((revision, all.len()), (0, 0));
        for (revision, bytes) in [(3, &[1_u8, 2][..]), (7, &[3])] {
            let page = page(revision, bytes);
            for revocation in &page.revoked {
                all.add(revocation.hash, extent(revocation));
            }
            kept.add(&page, &all).unwrap();
        }
        let mut bytes = fs::read(kept.file()).unwrap();
        change(&mut bytes);
        fs::write(kept.file(), bytes).unwrap();
        let (mut kept, (revision, revoked)) = open(folder.path());
        for (hash, found) in revoked.iter() {
            let of_page = page(0, &hash[..1]).revoked[0];
            assert_eq!(found, extent(&of_page));
        }
        let hashes: Vec<u8> = revoked.iter().map(|(hash, _)| hash[0]).collect();
        assert_eq!((revision, hashes.as_slice()), expect);
        // The next page completes the file again.
        kept.add(&page(9, &[]), &revoked).unwrap();
        let (_, (revision, again)) = open(folder.path());
        assert_eq!((revision, again.len()), (9, revoked.len()));
        let mode = fs::metadata(kept.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Kept::of(folder.path(), "b").read().unwrap().0, 0, "of another issuer");
    }

    fn open(folder: &Path) -> (Kept, (u64, Revoked)) {
        let mut kept = Kept::of(folder, "a");
        let read = kept.read().unwrap();
        (kept, read)
    }

    /// A page that revokes a token for each odd byte, and a client for each even one.
    fn page(revision: u64, bytes: &[u8]) -> RevocationPage {
        let revocation = |byte: &u8| {
            let issued_s = byte.is_multiple_of(2).then_some(500);
            Revocation { hash: [*byte; 32], exp_s: 1_000, issued_s }
        };
        RevocationPage { revision, revoked: bytes.iter().map(revocation).collect() }
    }

    #[test]
    fn what_was_kept_is_read_again() {
        check(|_| {}, (7, &[1, 2, 3]));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_asked_for_again() {
        check(|bytes| bytes.truncate(bytes.len() - 1), (0, &[1, 2, 3]));
        check(|bytes| bytes.truncate(bytes.len() - 30), (0, &[1, 2]));
        check(|bytes| bytes[3] = 0, (0, &[2, 3]));
        check(|bytes| bytes.extend([0; 4_096]), (0, &[1, 2, 3]));
        check(Vec::clear, (0, &[]));
    }

    #[test]
    fn a_file_of_expired_tokens_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::of(folder.path(), "a");
        for revision in 1..100 {
            kept.add(&page(revision, &[]), &Revoked::default()).unwrap();
        }
        assert!(fs::read(kept.file()).unwrap().len() > 300);
        kept.lines = SPARE_LINES + 1;
        kept.add(&page(100, &[]), &Revoked::default()).unwrap();
        let written = fs::read_to_string(kept.file()).unwrap();
        assert!(written.starts_with("= 100 #") && written.lines().count() == 1, "{written}");
    }

    #[test]
    fn any_changed_byte_is_found_and_named_and_the_other_lines_count() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, _) = open(folder.path());
        kept.add(&page(7, &[1, 2]), &Revoked::default()).unwrap();
        let bytes = fs::read(kept.file()).unwrap();
        for (index, byte) in bytes.iter().enumerate() {
            for other in [byte ^ 1, byte ^ 4, b'0'] {
                if other == *byte {
                    continue;
                }
                let mut changed = bytes.clone();
                changed[index] = other;
                fs::write(kept.file(), &changed).unwrap();
                let (kept, (revision, revoked)) = open(folder.path());
                let left = revoked
                    .iter()
                    .all(|(hash, extent)| extent == self::extent(&page(0, &hash[..1]).revoked[0]));
                assert!(revision == 0 && left && kept.lacks_some(), "{index}");
                assert!(kept.damage().unwrap().contains("revoked-"), "{index}");
            }
        }
    }

    #[test]
    fn a_file_without_checksums_counts_and_everything_is_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, _) = open(folder.path());
        let hash = jose::token_hash_text(&[1; 32]);
        fs::write(kept.file(), format!("{hash} 1300\n= 7\n")).unwrap();
        let (kept, (revision, revoked)) = open(folder.path());
        assert_eq!((revision, revoked.len(), kept.damage()), (0, 1, None));
        assert!(kept.lacks_some());
    }

    #[test]
    fn what_could_not_be_written_is_written_with_the_next_response() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::of(folder.path(), "a");
        let mut all = Revoked::default();
        fs::create_dir(kept.file()).unwrap();
        all.add([1; 32], extent(&page(0, &[1]).revoked[0]));
        kept.add(&page(5, &[1]), &all).unwrap_err();
        assert!(kept.lacks_some());
        fs::remove_dir(kept.file()).unwrap();
        all.add([2; 32], extent(&page(0, &[2]).revoked[0]));
        kept.add(&page(6, &[2]), &all).unwrap();
        assert!(!kept.lacks_some());
        let (revision, revoked) = Kept::of(folder.path(), "a").read().unwrap();
        assert_eq!((revision, revoked.len()), (6, 2));
    }

    #[test]
    fn after_a_failed_synchronisation_everything_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = Kept::of(folder.path(), "a");
        // This device can be written to, but not synchronised.
        std::os::unix::fs::symlink("/dev/null", kept.file()).unwrap();
        let mut all = Revoked::default();
        for byte in [1, 2] {
            let page = page(byte.into(), &[byte]);
            all.add([byte; 32], extent(&page.revoked[0]));
            kept.add(&page, &all).unwrap();
            kept.sync.wait();
            assert_eq!(kept.lacks_some(), byte == 1);
        }
        let (revision, revoked) = Kept::of(folder.path(), "a").read().unwrap();
        assert_eq!((revision, revoked.len()), (2, 2));
    }
}
