//! How a command fails: the message on stderr and the exit code.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::commands::stderr;

/// Ends the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Wrong flags or arguments: exit code 2.
    Usage(String),
    /// The command failed: exit code 1.
    Error(String),
    /// The command failed and has already printed why: exit code 1.
    Reported,
    /// The command has printed its result, which has an exit code of its own.
    #[cfg_attr(not(feature = "lab"), allow(dead_code, reason = "only the lab's commands have one"))]
    Exit(u8),
}

impl Failure {
    pub(crate) fn error(cause: impl Display) -> Self {
        Self::Error(cause.to_string())
    }

    /// `cannot ACTION PATH: ERROR`
    pub(crate) fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::Error(format!("cannot {action} {}: {error}", path.display()))
    }

    /// Prints the message to stderr and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                stderr(&format!("penstock: {message}\n"));
                ExitCode::from(2)
            }
            Self::Error(message) => {
                stderr(&format!("penstock: {message}\n"));
                ExitCode::FAILURE
            }
            Self::Reported => ExitCode::FAILURE,
            Self::Exit(code) => ExitCode::from(code),
        }
    }
}
