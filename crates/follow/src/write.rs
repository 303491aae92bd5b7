//! Writes what must survive a crash: whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a secret: readable by the owner alone from its first byte on.
///
/// # Errors
/// The file system's; then the file is as it was before.
pub fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    keep(file, bytes, 0o600)
}

/// Writes a file that others may read.
///
/// # Errors
/// The file system's; then the file is as it was before.
pub fn write_public(file: &Path, bytes: &[u8]) -> io::Result<()> {
    keep(file, bytes, 0o644)
}

fn keep(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let temporary = beside(file);
    // Left over from a crash, perhaps with other rights.
    drop(fs::remove_file(&temporary));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written?;
    // The rename itself is on disk only when its folder is.
    File::open(folder)?.sync_all()
}

fn write_new(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    opened.write_all(bytes)?;
    opened.sync_all()
}

/// A hidden name in the same folder, so that the rename stays within one file system.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_the_owners_alone_and_nothing_else_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tls.key");
        fs::write(&file, "old").unwrap();
        write_private(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(write_public(&folder.path().join("taken"), b"x").is_err());
        assert!(write_public(&folder.path().join("no/folder"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
