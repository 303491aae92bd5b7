//! One module for each command, and what several of them share: [`serving`], [`signals`], [`say`].

pub(crate) mod check;
pub(crate) mod echo;
pub(crate) mod gateway;
pub(crate) mod lab;
pub(crate) mod serving;
pub(crate) mod signals;
pub(crate) mod token;
pub(crate) mod up;

use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Prints to stdout. Whoever reads it may stop reading: that is no failure.
pub(crate) fn say(text: &str) {
    let mut out = io::stdout().lock();
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
