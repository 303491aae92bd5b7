//! `penstock.toml` (DESIGN.md section 5).

use std::path::Path;

use model::{Diagnostic, Settings};

/// Reads the configuration file. `file` gives the folder that relative paths are joined to; `env`
/// looks up an environment variable and `read_file` a file, both only for secrets.
/// The settings are absent when any diagnostic is an error.
#[must_use]
pub fn read(
    file: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read_file: &dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
) -> (Option<Settings>, Vec<Diagnostic>) {
    let _ = (file, text, env, read_file);
    (None, Vec::new())
}

/// What `penstock up` writes on its first start, into the folder that becomes the file's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstStart<'a> {
    /// The folder of API descriptions, relative to the file.
    pub apis: &'a str,
    /// Name of the first issuer, and the claim that its tokens carry.
    pub issuer_name: &'a str,
    pub iss: &'a str,
    /// Its JWKS file, relative to the configuration file.
    pub jwks: &'a str,
}

/// The commented `penstock.toml` of a first start; [`read`] accepts it.
#[must_use]
pub fn render_default(first: &FirstStart<'_>) -> String {
    let _ = first;
    String::new()
}

/// Every key: its name with table, its type and default, its meaning. `docs/configuration.md` is
/// made of it, and a test keeps the two in step.
pub const MANUAL: &[(&str, &str, &str)] = &[];
