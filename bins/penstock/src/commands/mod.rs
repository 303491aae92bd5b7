//! One module for each command, and what several of them share: [`serving`], [`signals`],
//! [`source`], [`say`], [`note`].

pub(crate) mod check;
pub(crate) mod echo;
pub(crate) mod expression;
pub(crate) mod gateway;
pub(crate) mod json;
pub(crate) mod lab;
pub(crate) mod serving;
pub(crate) mod signals;
pub(crate) mod source;
pub(crate) mod token;
pub(crate) mod transform;
pub(crate) mod up;
pub(crate) mod xml;

use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Prints to stdout. Whoever reads it may stop reading: that is no failure.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints to stderr, where a terminal may be gone: no work of hours ends for that.
pub(crate) fn note(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Writes a result to `out`, or to stdout.
pub(crate) fn deliver(out: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    match out {
        Some(file) => {
            std::fs::write(file, bytes).map_err(|error| Failure::file("write", file, &error))
        }
        None => {
            let mut stdout = io::stdout().lock();
            drop(stdout.write_all(bytes).and_then(|()| stdout.flush()));
            Ok(())
        }
    }
}

/// Whether there is a result that [`deliver_new`] would refuse to write over. Pipes and terminals are no
/// results.
pub(crate) fn is_kept(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

/// Writes a result into a file that wasn't there.
pub(crate) fn deliver_new(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if !file.exists() {
        options.create_new(true);
    } else if is_kept(file) {
        return Err(kept(file));
    }
    let written = options.open(file).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| Failure::file("write", file, &error))
}

/// What is said of a result that is there already.
pub(crate) fn kept(file: &Path) -> Failure {
    let name = file.display();
    Failure::Usage(format!("{name} is there already, and nothing is written over: name another"))
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
