//! Recordings data of a measurement, for other tools: an HdrHistogram log ([`hlog`]) and JMeter's JTL
//! ([`jtl`]).
//!
//! Not part of a request's life. Reads what the generator wrote down; answers files. Each has a
//! thread of its own, fed through a bounded queue: what it can't take in time is left out, counted,
//! and flagged, since waiting for it would slow the load.
//!
//! Architecture invariant: no file that exists is written to. The generator never waits for a disk.

pub(crate) mod hlog;
pub(crate) mod jtl;

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Which raw data is kept, and where. Files must not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    /// Latencies per second, HdrHistogram log with V2 + DEFLATE, in microseconds.
    pub hlog: Option<PathBuf>,
    /// Every request, warm-up included, as JMeter writes it: CSV, 17 columns, in milliseconds.
    pub jtl: Option<PathBuf>,
}

impl Recordings {
    /// The first of the files that is there already.
    pub(crate) fn existing(&self) -> Option<&Path> {
        let files = [&self.hlog, &self.jtl].into_iter().flatten();
        files.map(PathBuf::as_path).find(|path| path.exists())
    }
}

/// Makes a file that wasn't there.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn panicked() -> io::Error {
    io::Error::other("the thread that writes it panicked")
}
