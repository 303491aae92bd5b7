//! Writes files atomically and durably.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file that only its owner may read.
///
/// # Errors
/// Errors of the file system; the file is then unchanged.
pub fn write_private(file: &Path, bytes: &[u8]) -> io::Result<()> {
    write(file, bytes, 0o600)
}

/// Writes a file that everyone may read.
///
/// # Errors
/// Errors of the file system; the file is then unchanged.
pub fn write_public(file: &Path, bytes: &[u8]) -> io::Result<()> {
    write(file, bytes, 0o644)
}

fn write(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let temporary = temporary_name(file);
    // A crash may have left a temporary file, perhaps with other permissions.
    drop(fs::remove_file(&temporary));
    let written = write_new(&temporary, bytes, mode).and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written?;
    // The rename is durable only once the folder is synced.
    File::open(folder)?.sync_all()
}

fn write_new(file: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    opened.write_all(bytes)?;
    opened.sync_all()
}

/// A hidden name in the same folder, so that the rename stays within one file system.
fn temporary_name(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_readable_by_its_owner_only_and_no_other_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tls.key");
        fs::write(&file, "old").unwrap();
        write_private(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(write_public(&folder.path().join("folder"), b"x").is_err());
        assert!(write_public(&folder.path().join("no/folder"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
