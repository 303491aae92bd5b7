//! One module for each command, and the helpers that several of them share: [`serving`], [`signals`], [`source`].

pub(crate) mod check;
#[cfg(feature = "control")]
pub(crate) mod control;
pub(crate) mod echo;
pub(crate) mod explain;
pub(crate) mod expression;
pub(crate) mod gateway;
pub(crate) mod json;
#[cfg(feature = "lab")]
pub(crate) mod lab;
#[cfg(not(feature = "lab"))]
#[path = "without_lab.rs"]
pub(crate) mod lab;
pub(crate) mod serving;
pub(crate) mod signals;
pub(crate) mod source;
pub(crate) mod token;
pub(crate) mod transform;
pub(crate) mod trial;
pub(crate) mod unit_test;
pub(crate) mod up;
pub(crate) mod xml;

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use crate::failure::Failure;

/// Prints to stdout.
///
/// # Errors
/// As [`print`].
pub(crate) fn stdout(text: &str) -> Result<(), Failure> {
    print(|out| out.write_all(text.as_bytes()))
}

/// Writes a result to stdout.
///
/// # Errors
/// The write fails, for example on a full disk. A closed pipe is not an error: the reader wants no more output.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Error(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints to stderr. A closed terminal is not an error.
pub(crate) fn stderr(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes `bytes` to stdout, or to `out`: a new file, or an existing pipe or device.
pub(crate) fn write_result(out: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match out {
        Some(file) => files::write_new(file, bytes).map_err(|error| not_written(file, &error)),
        None => print(|out| out.write_all(bytes)),
    }
}

/// The error for an output file that cannot be written.
pub(crate) fn not_written(file: &Path, error: &io::Error) -> Failure {
    if error.kind() != ErrorKind::AlreadyExists {
        return Failure::file("write", file, error);
    }
    let name = file.display();
    Failure::Usage(format!("{name} already exists and is not overwritten; choose another name"))
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
