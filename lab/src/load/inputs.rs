//! The input files of a measurement, read once before it starts.
//!
//! An agent receives the contents with its plan, so it never reads a file named by a controller.

use std::path::Path;

use crate::limits;
use serde::{Deserialize, Serialize};

use crate::load::{LoadError, Options, Payload, Trust};
use crate::payload;

/// The contents of the files named in [`Options`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) tokens: Vec<String>,
    pub(crate) authorities: Authorities,
}

/// As [`Trust`], with the content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Authorities {
    System,
    Any,
    Pem(String),
}

impl Inputs {
    /// # Errors
    /// [`LoadError`]: a file cannot be read or is invalid.
    pub(crate) fn read(options: &Options) -> Result<Self, LoadError> {
        let payload = match &options.payload {
            Payload::None => None,
            Payload::File(path) => Some(read(path, limits::PAYLOAD_BYTES_MAX as u64)?),
            Payload::Made { shape, bytes } => {
                Some(payload::make(*shape, *bytes).map_err(LoadError::Usage)?)
            }
        };
        let authorities = match &options.trust {
            Trust::System => Authorities::System,
            Trust::Insecure => Authorities::Any,
            Trust::Ca(path) => {
                let pem = read(path, limits::DOCUMENT_BYTES_MAX)?;
                Authorities::Pem(String::from_utf8_lossy(&pem).into_owned())
            }
        };
        let tokens = options.tokens.as_deref().map_or(Ok(Vec::new()), tokens)?;
        Ok(Self { payload, tokens, authorities })
    }
}

/// The tokens of a file, one per line, trimmed; empty lines are skipped.
///
/// # Errors
/// [`LoadError`]: the file cannot be read, contains no token or too many, or has an invalid line.
fn tokens(path: &Path) -> Result<Vec<String>, LoadError> {
    let text = read(path, limits::LOAD_TOKEN_FILE_BYTES_MAX)?;
    let content = |what: String| LoadError::Content(format!("{}{what}", path.display()));
    let mut tokens = Vec::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let token = line.trim_ascii();
        if token.len() > limits::TOKEN_BYTES_MAX || !token.iter().all(u8::is_ascii_graphic) {
            let (line, most) = (number + 1, limits::TOKEN_BYTES_MAX);
            let expected =
                format!("expected at most {most} printable ASCII characters without spaces");
            return Err(content(format!(":{line}: invalid token; {expected}")));
        }
        if !token.is_empty() {
            tokens.push(String::from_utf8_lossy(token).into_owned());
        }
        if tokens.len() > limits::LOAD_TOKENS_MAX {
            return Err(content(format!(": more than {} tokens", limits::LOAD_TOKENS_MAX)));
        }
    }
    if tokens.is_empty() {
        return Err(content(": no tokens found; write one per line".to_owned()));
    }
    Ok(tokens)
}

/// Reads a file of at most `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, LoadError> {
    files::read(path, most).map_err(|source| LoadError::File { path: path.to_owned(), source })
}
