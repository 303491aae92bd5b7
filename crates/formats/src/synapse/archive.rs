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

/// All entries, if there is no error.
pub(super) fn entries(bytes: &[u8], report: &mut Report) -> Option<Entries> {
    match read(bytes) {
        Ok(entries) => Some(entries),
        Err((message, help)) => {
            report.error(None, message, help);
            None
        }
    }
}

type Wrong = (String, &'static str);

fn read(bytes: &[u8]) -> Result<Entries, Wrong> {
    let invalid = |error: &dyn std::fmt::Display| {
        (format!("not a valid archive: {error}"), "build it again, and copy it completely")
    };
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| invalid(&error))?;
    let count = archive.len();
    if count > limits::ARCHIVE_ENTRIES_MAX {
        let most = limits::ARCHIVE_ENTRIES_MAX;
        return Err((format!("{count} entries; the limit is {most}"), "split the application"));
    }
    // The reader keeps the last of several entries of one name.
    if announced(bytes) != Some(count) {
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

/// The number of entries in the archive's end record. Source: APPNOTE.TXT 4.3.16.
fn announced(bytes: &[u8]) -> Option<usize> {
    const SIGNATURE: &[u8] = b"PK\x05\x06";
    const COUNT_AT: usize = 10;
    let at = bytes.windows(SIGNATURE.len()).rposition(|window| window == SIGNATURE)?;
    let count = bytes.get(at.checked_add(COUNT_AT)?..)?.first_chunk::<2>()?;
    Some(usize::from(u16::from_le_bytes(*count)))
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
