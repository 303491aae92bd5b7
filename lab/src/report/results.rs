//! Reading results: every `result.json` below a folder, or a file written by `penstock lab load --json`.

use std::path::{Path, PathBuf};

use crate::limits;
use regex::Regex;

use crate::result::CaseResult;

/// A case of a results folder, or the result of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredResult {
    /// The `result.json`, or the file of the measurement.
    pub file: PathBuf,
    pub result: CaseResult,
}

/// Reads the file `folder`, or all results below it, sorted by name with numbers by value (50 users before 100).
/// Symbolic links are not followed; unfinished cases and failed attempts are skipped.
///
/// # Errors
/// A folder or file cannot be read, a file is invalid, there are no results, or more than
/// [`limits::LAB_TABLE_ROWS_MAX`].
pub fn read(folder: &Path) -> Result<Vec<StoredResult>, String> {
    if folder.is_file() {
        return CaseResult::read_any(folder)
            .map(|result| vec![StoredResult { file: folder.to_path_buf(), result }]);
    }
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let describe = |error: std::io::Error| format!("{}: {error}", next.display());
        for entry in std::fs::read_dir(&next).map_err(describe)? {
            let entry = entry.map_err(describe)?;
            let kind = entry.file_type().map_err(describe)?;
            if kind.is_dir() {
                if !is_unfinished(&entry.file_name().to_string_lossy()) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() && entry.file_name() == "result.json" {
                files.push(entry.path());
            }
        }
        if files.len() > limits::LAB_TABLE_ROWS_MAX {
            let most = limits::LAB_TABLE_ROWS_MAX;
            return Err(format!("{}: more than {most} results", folder.display()));
        }
    }
    if files.is_empty() {
        return Err(format!("{}: no result.json found", folder.display()));
    }
    files.sort_by_cached_key(|file| natural(&file.to_string_lossy()));
    files
        .into_iter()
        .map(|file| CaseResult::read(&file).map(|result| StoredResult { file, result }))
        .collect()
}

/// The results whose `<id>/<repetition>` matches `only`, as in `penstock lab run --only`.
///
/// # Errors
/// `only` is not a valid regular expression, or matches nothing.
pub fn chosen(found: Vec<StoredResult>, only: Option<&str>) -> Result<Vec<StoredResult>, String> {
    let Some(only) = only else { return Ok(found) };
    let pattern = Regex::new(only).map_err(|error| format!("--only: {error}"))?;
    let name =
        |one: &StoredResult| format!("{}/{}", one.result.case.id, one.result.case.repetition);
    let example = found.first().map(name).unwrap_or_default();
    let kept: Vec<StoredResult> =
        found.into_iter().filter(|one| pattern.is_match(&name(one))).collect();
    if kept.is_empty() {
        return Err(format!("--only {only}: no case matches; the first case is {example}"));
    }
    Ok(kept)
}

/// Whether a folder is an unfinished case (`1.partial`) or a failed attempt (`1.failed-1`).
fn is_unfinished(name: &str) -> bool {
    let Some((repetition, state)) = name.split_once('.') else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    number(repetition) && (state == "partial" || state.strip_prefix("failed-").is_some_and(number))
}

/// A sort key that orders digits by value, like `sort -V`.
#[must_use]
pub fn natural(text: &str) -> Vec<NaturalKey> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits > 0 {
            let (number, after) = rest.split_at(digits);
            parts.push(NaturalKey::Number(number.parse().unwrap_or(u64::MAX)));
            rest = after;
        }
        let words = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        if words > 0 {
            let (word, after) = rest.split_at(words);
            parts.push(NaturalKey::Word(word.to_owned()));
            rest = after;
        }
    }
    parts
}

/// A run of digits, or of other characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NaturalKey {
    Number(u64),
    Word(String),
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn unfinished_cases_and_failed_attempts_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let valid = crate::result::tests::sample().to_json();
        for (name, text) in [
            ("1", valid.as_str()),
            ("1.failed-1", valid.as_str()),
            ("1.failed-12", valid.as_str()),
            ("2.partial", ""),
            ("v1.partial-load", valid.as_str()),
        ] {
            let place = folder.path().join("forward/nginx").join(name);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("result.json"), text).unwrap();
        }
        let found = read(folder.path()).unwrap();
        let names: Vec<_> = found.iter().map(|f| f.file.iter().rev().nth(1).unwrap()).collect();
        assert_eq!(names, ["1", "v1.partial-load"]);
    }

    #[test]
    fn numbers_sort_by_value() {
        let mut names = ["b/100_users", "b/50_users", "a/1000_users", "b/50_users/1", "b"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a/1000_users", "b", "b/50_users", "b/50_users/1", "b/100_users"]);
    }
}
