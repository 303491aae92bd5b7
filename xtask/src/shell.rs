//! Starting other programs, with an error that names them.

use std::process::Command;

/// Runs `command` to its end, its output going where ours goes.
///
/// # Errors
/// The program isn't there, or its exit status isn't 0.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| missing(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", name(command))) }
}

/// Runs `command` to its end and answers what it wrote to stdout.
///
/// # Errors
/// As [`run`]; the message then holds what it wrote to stderr.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| missing(command, &error))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}\n{}", name(command), output.status, told.trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn missing(command: &Command, error: &std::io::Error) -> String {
    format!("{} could not be started: {error}", name(command))
}

/// Options of the form `--name VALUE` and the rest, in order.
///
/// # Errors
/// An option that isn't in `known`, or lacks its value.
pub(crate) struct Options {
    values: Vec<(String, String)>,
    /// Arguments that are no option.
    pub(crate) rest: Vec<String>,
}

impl Options {
    /// Splits `arguments`; `known` options take a value, `switches` take none.
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
                let value = left.next().ok_or_else(|| format!("{argument} wants a value"))?;
                options.values.push((argument.clone(), value.clone()));
            } else {
                let all: Vec<&str> = known.iter().chain(switches).copied().collect();
                return Err(format!("{argument} is unknown; there are {}", all.join(", ")));
            }
        }
        Ok(options)
    }

    /// The value of `name`, the last one when repeated.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The switch `name` was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The value of `name` as a number, or `default`.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        text.parse().map_err(|_| format!("{name} wants a whole number, not `{text}`"))
    }
}

/// Waits. Measuring takes time by its nature; nothing else here should.
#[expect(
    clippy::disallowed_methods,
    reason = "a chore has no worker to block, and a measurement lasts"
)]
pub(crate) fn pause(time: std::time::Duration) {
    std::thread::sleep(time);
}
