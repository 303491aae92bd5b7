//! Reading the lab's TOML files, with diagnostics that have a position and suggest the nearest valid name.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::limits;
use base::names::{nearest, one_of};
use nix::sched::CpuSet;
use serde::de::DeserializeOwned;
use toml::Spanned;

/// Names used by the run's folder itself.
const OWN_NAMES: [&str; 4] = ["fixtures", "report", "sources", "suite.json"];

/// A file's text and its name.
#[derive(Clone, Debug)]
pub struct Source {
    pub name: PathBuf,
    pub text: String,
}

impl Source {
    /// # Errors
    /// The file cannot be read, or is too large.
    pub fn read(name: &Path) -> Result<Self, String> {
        let describe = |error: &dyn Display| format!("{}: {error}", name.display());
        let text = files::read_text(name, limits::SUITE_BYTES_MAX);
        let text = text.map_err(|error| describe(&error))?;
        Ok(Self { name: name.to_owned(), text })
    }

    /// # Errors
    /// `file:line:column: error: ...` and a line of help.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        toml::from_str(&self.text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let (message, help) = explain(error.message());
            self.error_at_offset(start, &message, &help)
        })
    }

    /// A diagnostic for `value`.
    pub(crate) fn error_at<T>(&self, value: &Spanned<T>, message: &str, help: &str) -> String {
        self.error_at_offset(value.span().start, message, help)
    }

    fn error_at_offset(&self, at: usize, message: &str, help: &str) -> String {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let help = if help.is_empty() { String::new() } else { format!("\n    help: {help}") };
        format!("{}:{line}:{column}: error: {message}{help}", self.name.display())
    }

    /// Rejects names that cannot be used as a folder in the run's folder.
    pub(crate) fn check_name(&self, name: &Spanned<String>) -> Result<(), String> {
        let text = name.get_ref();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) || !text.chars().all(plain) {
            let message = "a name consists of letters, digits, `-`, `_` and `.`, and starts with a letter \
             or digit";
            return Err(self.error_at(name, message, ""));
        }
        if OWN_NAMES.contains(&text.as_str()) {
            let message = format!("`{text}` is reserved");
            return Err(self.error_at(name, &message, "choose a different name"));
        }
        Ok(())
    }

    /// Rejects CPU limits that the kernel cannot enforce.
    pub(crate) fn check_cpus(&self, cpus: &Spanned<f64>) -> Result<(), String> {
        /// The kernel's shortest quota is 1 ms per 100 ms.
        const LEAST: f64 = 0.01;
        let most = CpuSet::count();
        if (LEAST..=most as f64).contains(cpus.get_ref()) {
            return Ok(());
        }
        let message = format!("{} CPUs; expected {LEAST} to {most}", cpus.get_ref());
        Err(self.error_at(cpus, &message, "cpus = 1.5"))
    }

    /// Rejects an invalid size, and zero.
    pub(crate) fn check_memory(&self, memory: &Spanned<String>) -> Result<(), String> {
        match parse_bytes(memory.get_ref()) {
            Ok(0) => Err(self.error_at(memory, "the memory limit is 0", "write 512MiB")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.error_at(memory, &error, "")),
        }
    }

    /// Rejects duplicates in a list: their cases would share a folder.
    pub(crate) fn check_duplicates<T: PartialEq + Display>(
        &self,
        list: &[Spanned<T>],
    ) -> Result<(), String> {
        for (index, value) in list.iter().enumerate() {
            let before = list.get(..index).unwrap_or_default();
            if before.iter().any(|earlier| earlier.get_ref() == value.get_ref()) {
                let message = format!("duplicate value `{}`", value.get_ref());
                let help = "to measure each case several times, set `repetitions`";
                return Err(self.error_at(value, &message, help));
            }
        }
        Ok(())
    }

    /// A diagnostic for a name that is not one of `valid`.
    pub(crate) fn unknown_name<'n>(
        &self,
        written: &Spanned<String>,
        what: &str,
        valid: impl Iterator<Item = &'n str> + Clone,
    ) -> String {
        let name = written.get_ref();
        self.error_at(written, &format!("unknown {what} `{name}`"), &suggest(name, valid))
    }
}

fn suggest<'n>(written: &str, valid: impl Iterator<Item = &'n str> + Clone) -> String {
    match nearest(written, valid.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("write {}", one_of(valid)),
    }
}

/// Extracts the valid names from serde's message: ``unknown field `a`, expected one of `b`, `c` ``. A test
/// detects changes of that wording.
fn explain(message: &str) -> (String, String) {
    let message = message.lines().collect::<Vec<_>>().join(", ");
    for (prefix, what) in [("unknown field `", "key"), ("unknown variant `", "value")] {
        let Some((written, rest)) =
            message.strip_prefix(prefix).and_then(|rest| rest.split_once('`'))
        else {
            continue;
        };
        let names: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let help = match names.as_slice() {
            [] => "remove it".to_owned(),
            names => suggest(written, names.iter().copied()),
        };
        return (format!("unknown {what} `{written}`"), help);
    }
    (message, String::new())
}

/// A duration as in the load generator's flags: `10s`, `500ms`, `2m`.
pub(crate) mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, de::Error};

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        crate::load::parse_duration(&text).map_err(D::Error::custom)
    }
}

/// A number of bytes, optionally with KiB, MiB or GiB (or K, M, G as in JVM flags).
///
/// # Errors
/// The text is not a size.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        _ => {
            return Err(format!(
                "`{text}` is not a size; write a whole number with KiB, MiB or GiB"
            ));
        }
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("`{text}` is not a size; write 512MiB"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only its parsing is tested")]
    struct Sample {
        users: u32,
        #[serde(default)]
        order: Option<Order>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Order {
        Block,
        Interleaved,
    }

    #[test]
    fn diagnostics_have_a_position_and_the_nearest_name() {
        check("users = 1\nuser = 2\n", "a.toml:2:1: error: unknown key `user`", "`users`");
        check("users = 1\norder = 'blok'\n", "a.toml:2:9: error: unknown value `blok`", "`block`");
        check("users = 1\nzzzz = 2\n", "a.toml:2:1: ", "write `users` or `order`");
        check("users = 'x'\n", "a.toml:1:9: error: invalid type", "");
        check("users = \n", "a.toml:1:9: error: ", "");
        check("order = 'block'\n", "a.toml:1:1: error: missing field `users`", "");
    }

    #[track_caller]
    fn check(text: &str, begins: &str, contains: &str) {
        let source = Source { name: "a.toml".into(), text: text.to_owned() };
        let error = source.parse::<Sample>().unwrap_err();
        assert!(error.starts_with(begins) && error.contains(contains), "{error}");
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("7", 7), ("4G", 4 << 30), ("500MiB", 500 << 20), ("1 KiB", 1024)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1", "1T", "99999999999G"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
