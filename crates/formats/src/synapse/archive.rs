//! The entries of a `.car` archive, which is a ZIP file.
//!
//! Archives come from build servers and are treated as hostile: entries, sizes and ratio are limited, and each name is
//! a plain path that occurs once.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use base::limits;
use zip::{CompressionMethod, ZipArchive};

use crate::report::{Report, shorten};

/// Content by name; folders are left out.
pub(super) type Entries = BTreeMap<String, Arc<[u8]>>;

/// All entries; `None` after an error.
pub(super) fn entries(bytes: &[u8], report: &mut Report) -> Option<Entries> {
    match read(bytes) {
        Ok(entries) => Some(entries),
        Err((message, help)) => report.reject(None, message, help),
    }
}

type Wrong = (String, &'static str);

fn read(bytes: &[u8]) -> Result<Entries, Wrong> {
    let invalid = |error: &dyn std::fmt::Display| {
        (format!("not a valid archive: {error}"), "build it again, and copy it completely")
    };
    // The reader allocates a list of all entries at once.
    if let Some(count) = ends(bytes).find(|count| *count > limits::ARCHIVE_ENTRIES_MAX) {
        let most = limits::ARCHIVE_ENTRIES_MAX;
        return Err((format!("{count} entries; the limit is {most}"), "split the application"));
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| invalid(&error))?;
    let count = archive.len();
    // The reader keeps the last of several entries of one name.
    if ends(bytes).next() != Some(count) {
        return Err(("an entry occurs twice".to_owned(), "build the archive again"));
    }
    let mut entries = Entries::new();
    let mut left = bytes_max(bytes.len());
    for index in 0..count {
        let mut entry = archive.by_index(index).map_err(|error| invalid(&error))?;
        let name = entry.name().map_err(|error| invalid(&error))?.into_owned();
        let shown = shorten(&name);
        check_name(&name)
            .map_err(|problem| (format!("the entry `{shown}` {problem}"), "rename it"))?;
        if entry.is_dir() {
            continue;
        }
        if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
            let message = format!("the entry `{shown}` is compressed by {}", entry.compression());
            return Err((message, "use deflate, as every builder of archives does"));
        }
        let mut content = Vec::new();
        let most = left.saturating_add(1);
        entry.by_ref().take(most).read_to_end(&mut content).map_err(|error| invalid(&error))?;
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(length) else {
            let message = format!("the content is larger than {} bytes", bytes_max(bytes.len()));
            return Err((message, "split the application"));
        };
        left = rest;
        entries.insert(name, content.into());
    }
    Ok(entries)
}

/// Largest content of an archive of this size.
fn bytes_max(archive: usize) -> u64 {
    let archive = u64::try_from(archive).unwrap_or(u64::MAX);
    let by_ratio = archive.saturating_mul(limits::ARCHIVE_RATIO_MAX);
    by_ratio.clamp(limits::ARCHIVE_SMALL_BYTES, limits::ARCHIVE_BYTES_MAX)
}

/// The number of entries in each end record that the reader may use, the last record first. Source: APPNOTE.TXT 4.3.16.
fn ends(bytes: &[u8]) -> impl Iterator<Item = usize> {
    const SIGNATURE: &[u8] = b"PK\x05\x06";
    const BYTES: usize = 22;
    // A comment, whose length has 16 bits, follows the record.
    let from = bytes.len().saturating_sub(BYTES + SIGNATURE.len() + (1 << 16));
    let tail = bytes.get(from..).unwrap_or_default();
    tail.windows(BYTES).rev().filter(|record| record.starts_with(SIGNATURE)).map(|record| {
        let (_, fields) = record.split_at(10);
        let count = fields.first_chunk().map_or(0, |count| u16::from_le_bytes(*count));
        // A number, offset or length at its maximum means that another record has the true value: APPNOTE.TXT 4.4.1.4.
        let is_elsewhere =
            fields.get(2..10).is_some_and(|rest| rest.chunks(4).any(|it| it == [0xff; 4]));
        usize::from(if is_elsewhere { u16::MAX } else { count })
    })
}

/// A plain relative path.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.starts_with('/') || name.contains('\\') || name.contains(':') {
        return Err("is an absolute path");
    }
    let path = name.strip_suffix('/').unwrap_or(name);
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("leads out of the archive");
    }
    if name.chars().any(char::is_control) {
        return Err("has a control character");
    }
    Ok(())
}
