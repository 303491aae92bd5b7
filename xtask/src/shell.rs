//! Runs other programs, and parses options.

use std::process::Command;

/// Runs `command` with our stdout and stderr, and waits for it.
///
/// # Errors
/// The program cannot be started, or its exit status is not 0.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| missing(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name(command))) }
}

/// Runs `command`, waits for it, and returns its stdout.
///
/// # Errors
/// As [`run`]; the message includes its stderr.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| missing(command, &error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}\n{}", name(command), output.status, stderr.trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn missing(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", name(command))
}

/// Parsed command-line arguments.
pub(crate) struct Options {
    values: Vec<(String, String)>,
    /// Positional arguments, in order.
    pub(crate) rest: Vec<String>,
}

impl Options {
    /// Parses `arguments`; the options in `known` take a value, those in `switches` take none.
    ///
    /// # Errors
    /// An unknown option, or one without its value.
    pub(crate) fn read(
        arguments: &[String],
        known: &[&str],
        switches: &[&str],
    ) -> Result<Self, String> {
        let mut options = Self { values: Vec::new(), rest: Vec::new() };
        let mut left = arguments.iter();
        while let Some(argument) = left.next() {
            if !argument.starts_with("--") {
                options.rest.push(argument.clone());
            } else if switches.contains(&argument.as_str()) {
                options.values.push((argument.clone(), String::new()));
            } else if known.contains(&argument.as_str()) {
                let value = left.next().ok_or_else(|| format!("{argument} requires a value"))?;
                options.values.push((argument.clone(), value.clone()));
            } else {
                let all: Vec<&str> = known.iter().chain(switches).copied().collect();
                return Err(format!(
                    "unknown option {argument}; known options: {}",
                    all.join(", ")
                ));
            }
        }
        Ok(options)
    }

    /// The value of option `name`; the last one if repeated.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether `name` was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The value of option `name` as a number, or `default`.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse().map_err(|_| format!("{name} requires a whole number, not `{text}`"))
    }
}
