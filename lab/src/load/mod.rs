//! A closed-loop load generator.
//!
//! Architecture invariant: of our own crates only `base` and `wire` are imported here.

mod options;
mod report;

use std::path::PathBuf;

pub use options::{Options, Payload, Stop, Trust};
pub use report::{Progress, Report};

/// Why a measurement could not be made. Errors during one are counted in its [`Report`] instead.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The command line asks for something that cannot be done: exit 2.
    #[error("{0}")]
    Usage(String),
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{0}")]
    Content(String),
    #[error("{host}: name not known: {source}")]
    Name {
        host: String,
        source: std::io::Error,
    },
    #[error("no connection to {target}: {source}")]
    Connect {
        target: String,
        source: std::io::Error,
    },
    #[error("TLS: {0}")]
    Tls(String),
    #[error("the system refused threads, sockets or signals: {0}")]
    System(#[from] std::io::Error),
}

/// Runs one measurement; returns when it is over. `progress` is called about once a second.
///
/// # Errors
/// [`LoadError`] when nothing could be measured: bad options, unreadable files, unknown host, or
/// nobody listening at the start.
pub fn run(options: &Options, progress: &mut dyn FnMut(&Progress)) -> Result<Report, LoadError> {
    let _ = (options, progress);
    Err(LoadError::Usage("being written".to_owned()))
}
