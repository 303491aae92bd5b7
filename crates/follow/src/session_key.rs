//! The secret that seals session cookies, unless the configuration has one: generated, and kept in the data folder.

use std::io::ErrorKind;
use std::path::Path;

use base::{Entropy as _, SystemEntropy};

use crate::write::write_private;

const FILE: &str = "session.key";

/// The secret; empty if there is none yet.
pub(crate) fn find(data: &Path) -> Result<Vec<u8>, String> {
    let file = data.join(FILE);
    match std::fs::read(&file) {
        Ok(secret) => Ok(secret),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("the key of sessions, `{}`: {error}", file.display())),
    }
}

pub(crate) fn find_or_generate(data: &Path) -> Result<Vec<u8>, String> {
    let known = find(data)?;
    if !known.is_empty() {
        return Ok(known);
    }
    let mut secret = [0; 32];
    SystemEntropy.fill(&mut secret);
    let text = format!("{}\n", jose::token_hash_text(&secret)).into_bytes();
    let file = data.join(FILE);
    let written = std::fs::create_dir_all(data).and_then(|()| write_private(&file, &text));
    written.map_err(|error| format!("the key of sessions, `{}`: {error}", file.display()))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot make its files has failed")]

    use super::*;

    #[test]
    fn a_key_is_generated_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        assert_eq!(find(&data).unwrap(), b"");
        let key = find_or_generate(&data).unwrap();
        assert!(jose::SealingKeys::new(&key).is_ok());
        assert_eq!((find(&data).unwrap(), find_or_generate(&data).unwrap()), (key.clone(), key));
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(find_or_generate(&folder.path().join("file")).unwrap_err().contains("session.key"));
    }
}
