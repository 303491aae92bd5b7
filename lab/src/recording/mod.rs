//! Recordings of a measurement for other tools: an HdrHistogram log ([`hlog`]) and JMeter's JTL ([`jtl`]).
//!
//! Each is written by its own thread, fed through a bounded queue. Samples that do not fit are dropped,
//! counted and reported as a warning, because waiting would slow down the load.
//!
//! Architecture invariant: existing files are never written to, and the generator never waits for a disk.

pub(crate) mod hlog;
pub(crate) mod jtl;

use std::io;
use std::path::{Path, PathBuf};

/// Which recordings to write. The files must not exist, except for pipes and devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    /// Latencies per second: HdrHistogram log (V2 with DEFLATE), in microseconds.
    pub hlog: Option<PathBuf>,
    /// Every request, including the warm-up, as written by JMeter: CSV with 17 columns, in milliseconds.
    pub jtl: Option<PathBuf>,
}

impl Recordings {
    /// The first of the files that exists already.
    pub(crate) fn existing(&self) -> Option<&Path> {
        let files = [&self.hlog, &self.jtl].into_iter().flatten();
        let taken = |error: io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        files.map(PathBuf::as_path).find(|path| files::check_new(path).is_err_and(taken))
    }
}

fn panicked() -> io::Error {
    io::Error::other("the writer thread panicked")
}
