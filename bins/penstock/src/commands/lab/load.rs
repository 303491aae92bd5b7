//! `penstock lab load`: one measurement.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use lab::load::{self, LoadError, Progress, Trust};
use lab::payload::Shape;

use crate::commands::{deliver, say};
use crate::failure::Failure;

/// Put load on a URL and report latency, throughput and errors
///
/// A closed loop: each user has one connection and one request under way. The report says what speaks
/// against it: errors, users that idled, a generator that was the limit.
#[derive(Args)]
#[command(group = ArgGroup::new("body").args(["payload", "payload_bytes"]))]
#[command(group = ArgGroup::new("trust").args(["insecure", "ca"]))]
#[command(after_help = "Examples:
  penstock lab load http://127.0.0.1:8688/ --users 100 --duration 10s --warm-up 3s \\
      --payload-bytes 1024 --shape array
  penstock lab load https://127.0.0.1:8243/echo/1.0.0/ --users 100 --tokens tokens.txt \\
      --ca penstock-data/data/tls.crt --expect payload --json result.json")]
pub(crate) struct Load {
    /// http:// or https://
    url: String,
    /// Connections, each with one request under way
    #[arg(long, value_name = "N", default_value_t = 1)]
    users: usize,
    /// Measured time, such as 10s, 500ms or 2m; the warm-up comes before it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    duration: Duration,
    /// Time at the start that does not count
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    warm_up: Duration,
    /// [default: POST with a payload, GET without]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File to send
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Make a payload of exactly this many bytes
    #[arg(long, value_name = "N")]
    payload_bytes: Option<usize>,
    /// Shape of the payload that is made: array, simple or object
    #[arg(long, value_name = "S", default_value = "array", requires = "payload_bytes")]
    shape: Shape,
    /// File with one token per line, sent in turn as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// A header line more; may be given several times. Content-Type is application/json unless given
    #[arg(long = "header", value_name = "K: V", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Text that every answer's body must contain
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Take any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the authorities in this file and no others
    #[arg(long, value_name = "PEM")]
    ca: Option<PathBuf>,
    /// Write the report as JSON as well
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

pub(crate) fn run(asked: Load) -> Result<(), Failure> {
    let json = asked.json.clone();
    let report = load::run(&options(asked), &mut show).map_err(|error| match error {
        LoadError::Usage(message) => Failure::Usage(message),
        LoadError::File { .. }
        | LoadError::Content(_)
        | LoadError::Name { .. }
        | LoadError::Connect { .. }
        | LoadError::Tls(_)
        | LoadError::System(_) => Failure::unable(error),
    })?;
    say(&report.table());
    match json {
        Some(file) => deliver(Some(&file), format!("{:#}\n", report.json()).as_bytes()),
        None => Ok(()),
    }
}

fn options(asked: Load) -> load::Options {
    let payload = match (asked.payload, asked.payload_bytes) {
        (Some(file), _) => load::Payload::File(file),
        (None, Some(bytes)) => load::Payload::Made { shape: asked.shape, bytes },
        (None, None) => load::Payload::None,
    };
    let trust = match (asked.insecure, asked.ca) {
        (true, _) => Trust::Insecure,
        (false, Some(file)) => Trust::Ca(file),
        (false, None) => Trust::System,
    };
    load::Options {
        users: asked.users,
        duration: asked.duration,
        warm_up: asked.warm_up,
        method: asked.method,
        payload,
        tokens: asked.tokens,
        headers: asked.headers,
        expect: asked.expect,
        trust,
        ctrl_c: true,
        ..load::Options::new(asked.url)
    }
}

/// A line on stderr, written over where that can be.
fn show(progress: &Progress) {
    let phase = if progress.warming_up { "warm-up" } else { "measuring" };
    let line = format!(
        "{phase}: {} requests, {} errors, {:.0}/s, {} s left",
        progress.requests,
        progress.errors,
        progress.rate_per_s,
        progress.left.as_secs()
    );
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    } else {
        eprintln!("{line}");
    }
}

/// `10s`, `500ms`, `2m`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match text.get(digits.len()..).unwrap_or_default() {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        _ => return Err("write a number and its unit: 500ms, 10s, 2m".to_owned()),
    };
    let count: f64 = digits.parse().map_err(|_| format!("`{digits}` is no number"))?;
    Duration::try_from_secs_f64(count * unit_ms / 1_000.0).map_err(|error| error.to_string())
}

fn header(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or("write it as 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expect_ms) in [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1.5s", 1_500)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(expect_ms)), "{text}");
        }
        for text in ["10", "s", "", "-1s", "1h", "1e30s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_colon() {
        assert_eq!(header("Host: a:1"), Ok(("Host".to_owned(), "a:1".to_owned())));
        assert!(header("Host").is_err());
    }
}
