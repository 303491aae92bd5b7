//! What a measurement needs of files: read once, by who asks for it.
//!
//! An agent gets the contents with its plan, and so never reads a file that a controller names.

use std::fs;
use std::path::Path;

use crate::limits;
use serde::{Deserialize, Serialize};

use crate::load::{LoadError, Options, Payload, Trust};
use crate::payload;

/// The contents of the files that [`Options`] name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) tokens: Vec<String>,
    pub(crate) authorities: Authorities,
}

/// As [`Trust`], with the file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Authorities {
    System,
    Any,
    Pem(String),
}

impl Inputs {
    /// # Errors
    /// [`LoadError`] for a file that can't be read or used.
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

/// The tokens of a file, one per line; lines are trimmed, empty ones passed over.
///
/// # Errors
/// [`LoadError`] for a file that can't be read, holds no token, too many, or a line that is none.
fn tokens(path: &Path) -> Result<Vec<String>, LoadError> {
    let text = read(path, limits::LOAD_TOKEN_FILE_BYTES_MAX)?;
    let content = |what: String| LoadError::Content(format!("{}{what}", path.display()));
    let mut tokens = Vec::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let token = line.trim_ascii();
        if token.len() > limits::TOKEN_BYTES_MAX || !token.iter().all(u8::is_ascii_graphic) {
            return Err(content(format!(":{}: this is no token", number + 1)));
        }
        if !token.is_empty() {
            tokens.push(String::from_utf8_lossy(token).into_owned());
        }
        if tokens.len() > limits::LOAD_TOKENS_MAX {
            return Err(content(format!(": more than {} tokens", limits::LOAD_TOKENS_MAX)));
        }
    }
    if tokens.is_empty() {
        return Err(content(": no token in it; write one per line".to_owned()));
    }
    Ok(tokens)
}

/// Reads a file of at most `most` bytes.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, LoadError> {
    let file = |source| LoadError::File { path: path.to_owned(), source };
    let bytes = fs::metadata(path).map_err(file)?.len();
    if bytes > most {
        let path = path.display();
        return Err(LoadError::Content(format!("{path}: {bytes} bytes; at most {most} are read")));
    }
    fs::read(path).map_err(file)
}
