//! Why a command ended otherwise than well, as the user is told.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::commands::note;

/// Ends the program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked wrongly: exit 2.
    Usage(String),
    /// It couldn't: exit 1.
    Unable(String),
    /// Everything has been said already: exit 1.
    Told,
    /// Everything has been said already, and the answer is an exit code of the command's own.
    Verdict(u8),
}

impl Failure {
    pub(crate) fn unable(cause: impl Display) -> Self {
        Self::Unable(cause.to_string())
    }

    /// Something about a file or folder.
    pub(crate) fn file(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::Unable(format!("cannot {what} {}: {error}", path.display()))
    }

    /// Says it on stderr.
    pub(crate) fn tell(self) -> ExitCode {
        match self {
            Self::Usage(message) => {
                note(&format!("penstock: {message}\n"));
                ExitCode::from(2)
            }
            Self::Unable(message) => {
                note(&format!("penstock: {message}\n"));
                ExitCode::FAILURE
            }
            Self::Told => ExitCode::FAILURE,
            Self::Verdict(code) => ExitCode::from(code),
        }
    }
}
