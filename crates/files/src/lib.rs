//! Files named by users: inputs have a maximum size, and an existing file is never overwritten.
//!
//! For the program's commands and the lab, which read and write at once. Returns the operating system's errors.
//!
//! Architecture invariant: reads no more than its caller allows, and removes no file that it did not create.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// Reads a file of at most `bytes_max` bytes. No more than that is read from a pipe or device either.
///
/// # Errors
/// The file cannot be read; `FileTooLarge` for a larger one.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("larger than the limit of {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// As [`read`], for text in UTF-8.
///
/// # Errors
/// As [`read`]; `InvalidData` for other bytes.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let invalid = |error| io::Error::new(ErrorKind::InvalidData, error);
    String::from_utf8(read(path, bytes_max)?).map_err(invalid)
}

/// Whether [`create`] can be expected to succeed: checked before a measurement rather than after it.
///
/// # Errors
/// `AlreadyExists`; `NotFound` if the folder does not exist.
pub fn check_new(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(_) if standard_stream(path).is_some() => Ok(()),
        Ok(found) if found.is_file() || found.is_dir() => Err(ErrorKind::AlreadyExists.into()),
        Ok(_) => Ok(()),
        Err(_) => match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => fs::metadata(folder).map(|_| ()),
            None => Ok(()),
        },
    }
}

/// Opens a new file for writing, or an existing pipe, terminal or other device.
///
/// # Errors
/// `AlreadyExists`; or the file cannot be created.
pub fn create(path: &Path) -> io::Result<File> {
    if let Some(stream) = standard_stream(path) {
        return stream;
    }
    check_new(path)?;
    // Another process may have created the file meanwhile.
    let is_new = fs::metadata(path).is_err();
    OpenOptions::new().write(true).create_new(is_new).open(path)
}

/// Writes `bytes` to a new file, pipe or device. If a write fails, the new file is removed.
///
/// # Errors
/// As [`create`]; or the write fails.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create(path)?;
    let written = file.write_all(bytes);
    if written.is_err() && fs::metadata(path).is_ok_and(|found| found.is_file()) {
        let _ = fs::remove_file(path);
    }
    written
}

/// `/dev/stdout` and `/dev/stderr`, even if they are redirected to a file. A duplicate shares the position in
/// that file; opening it again would overwrite its beginning.
fn standard_stream(path: &Path) -> Option<io::Result<File>> {
    let descriptor = match path.to_str()? {
        "/dev/stdout" => io::stdout().as_fd().try_clone_to_owned(),
        "/dev/stderr" => io::stderr().as_fd().try_clone_to_owned(),
        _ => return None,
    };
    Some(descriptor.map(File::from))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn large_and_endless_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
        let error = read(Path::new("/dev/zero"), 1_000).unwrap_err();
        assert_eq!(error.to_string(), "larger than the limit of 1000 bytes");
        fs::write(&path, b"\xFF").unwrap();
        assert_eq!(read_text(&path, 5).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn existing_files_and_missing_folders_are_rejected_before_the_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        check_new(&path).unwrap();
        check_new(Path::new("no-such-file-here")).unwrap();
        write_new(&path, b"one").unwrap();
        for taken in [path.as_path(), folder.path()] {
            assert_eq!(check_new(taken).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(write_new(taken, b"two").unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let missing = folder.path().join("missing").join("file");
        assert_eq!(check_new(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn pipes_and_devices_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        check_new(&pipe).unwrap();
        let reader = thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        write_new(&pipe, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(pipe.exists(), "the pipe was removed");
        let error = write_new(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn stdout_that_is_redirected_to_a_file_keeps_what_it_has() {
        const CHILD: &str = "PENSTOCK_FILES_TEST_WRITES_TO_STDOUT";
        let stdout = Path::new("/dev/stdout");
        if std::env::var_os(CHILD).is_some() {
            check_new(stdout).unwrap();
            return write_new(stdout, b"second\n").unwrap();
        }
        // This test again, in a process with its own stdout.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut out = File::create(&path).unwrap();
        out.write_all(b"first\n").unwrap();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture"]);
        again.arg("tests::stdout_that_is_redirected_to_a_file_keeps_what_it_has");
        assert!(again.env(CHILD, "1").stdout(out).status().unwrap().success());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("first\n") && text.contains("second\n"), "{text}");
        assert!(text.contains("test result: ok. 1 passed"), "{text}");
    }
}
