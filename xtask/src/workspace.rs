//! The work tree: its root, files and packages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders to skip where git is not available to list files.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "peers", "corpus", "artifacts"];

/// The folder of the workspace's Cargo.toml.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) if Path::new(&folder).is_absolute() => folder.into(),
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Every file that git tracks or would track, relative to `root`, sorted. Without git: every file.
pub(crate) fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = tracked(root).unwrap_or_else(|| {
        let mut all = Vec::new();
        walk(root, root, &mut all);
        all
    });
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    files
}

fn tracked(root: &Path) -> Option<Vec<PathBuf>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listing.stdout).ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !SKIPPED.contains(&name) {
            walk(root, &path, found);
        } else if let Ok(relative) = path.strip_prefix(root) {
            found.push(relative.to_path_buf());
        }
    }
}

/// A package of the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    /// Without the prefix `penstock-`: the name that others import.
    pub(crate) name: String,
    /// Folder, relative to the root.
    pub(crate) folder: PathBuf,
    /// Names of `[dependencies]`, `[dev-dependencies]` and `[build-dependencies]`, each with its line.
    pub(crate) dependencies: Vec<(String, usize)>,
    /// The package's Cargo.toml has `[lints] workspace = true`.
    pub(crate) shared_lints: bool,
}

/// The packages among `files`, except the root and the fuzz workspace.
pub(crate) fn packages(root: &Path, files: &[PathBuf]) -> Result<Vec<Package>, String> {
    files
        .iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "Cargo.toml"))
        .filter(|file| !file.starts_with("fuzz") && file.components().count() > 1)
        .map(|file| read_package(root, file))
        .collect()
}

fn read_package(root: &Path, manifest: &Path) -> Result<Package, String> {
    let text = std::fs::read_to_string(root.join(manifest))
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    parse_package(manifest, &text)
}

/// Parses one Cargo.toml.
///
/// # Errors
/// `text` is not TOML, or has no package name.
pub(crate) fn parse_package(manifest: &Path, text: &str) -> Result<Package, String> {
    let table: toml::Table =
        text.parse().map_err(|error| format!("{}: {error}", manifest.display()))?;
    let name = table
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str)
        .ok_or_else(|| format!("{}: no package name", manifest.display()))?;
    let dependencies = ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .filter_map(|section| table.get(*section)?.as_table())
        .flat_map(toml::Table::keys)
        .map(|key| (key.clone(), line_of_key(text, key)))
        .collect();
    let lints = table.get("lints").and_then(|lints| lints.get("workspace"));
    Ok(Package {
        name: name.strip_prefix("penstock-").unwrap_or(name).to_owned(),
        folder: manifest.parent().unwrap_or(manifest).to_path_buf(),
        dependencies,
        shared_lints: lints.and_then(toml::Value::as_bool) == Some(true),
    })
}

fn line_of_key(text: &str, key: &str) -> usize {
    let starts =
        |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    text.lines().position(starts).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_a_manifest_have_their_lines() {
        let text = "[package]\nname = \"penstock-jose\"\n[lints]\nworkspace = true\n[dependencies]\n\
                    base.workspace = true\nmodel = { path = \"../model\" }\n";
        let package = parse_package(Path::new("crates/jose/Cargo.toml"), text).unwrap();
        assert_eq!(package.name, "jose");
        assert_eq!(package.folder, Path::new("crates/jose"));
        assert_eq!(package.dependencies, [("base".to_owned(), 6), ("model".to_owned(), 7)]);
        assert!(package.shared_lints);
    }
}
