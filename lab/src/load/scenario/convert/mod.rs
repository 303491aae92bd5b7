//! Scenario files made from common sources: a HAR file of a browser, a curl command, the examples of an OpenAPI
//! description.
//!
//! A feature that a scenario cannot express is an error, or is listed in a comment at the beginning of the file.

mod curl;
mod har;
mod openapi;
mod yaml;

use std::collections::BTreeMap;

use toml::Spanned;

use super::Scenario;
use super::file::{File, RequestEntry, SequenceEntry};
use crate::suite::source::Source;

pub use curl::from_curl;
pub use har::from_har;
pub use openapi::from_openapi;

/// Header fields that belong to a connection, or that the generator sets.
const NOT_KEPT: [&str; 6] =
    ["host", "connection", "content-length", "transfer-encoding", "keep-alive", "upgrade"];

/// A scenario in the making.
#[derive(Default)]
struct Draft {
    comments: Vec<String>,
    requests: Vec<RequestEntry>,
    names: BTreeMap<String, u32>,
}

impl Draft {
    fn comment(&mut self, text: impl AsRef<str>) {
        // No comment of TOML has other control characters.
        let plain = |line: &str| line.replace(|c: char| c.is_control(), " ");
        self.comments.extend(text.as_ref().lines().map(plain));
    }

    /// The scenario's command, with the URL that it needs.
    fn usage(&mut self, base: &str) {
        self.comment(format!("penstock lab load {base} --scenario THIS-FILE"));
    }

    /// Adds a request; header fields that cannot be sent are left out.
    fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        body: Option<String>,
    ) -> &mut RequestEntry {
        let name = self.name(method, path);
        let mut kept = BTreeMap::new();
        for (field, value) in headers {
            let is_kept = !field.starts_with(':')
                && NOT_KEPT.iter().all(|name| !field.eq_ignore_ascii_case(name));
            if is_kept {
                kept.insert(plain(field), plain(value));
            }
        }
        // The method is that of a request with or without a body, if it is not given.
        let usual = if body.is_some() { "POST" } else { "GET" };
        self.requests.push(RequestEntry {
            name: plain(name),
            weight: None,
            method: (method != usual).then(|| plain(method.to_owned())),
            path: plain(path.to_owned()),
            think_time: None,
            body: body.map(plain),
            body_file: None,
            status: None,
            expect: None,
            headers: kept,
            extract: BTreeMap::new(),
        });
        let last = self.requests.len().saturating_sub(1);
        &mut self.requests[last]
    }

    /// Method and path without query, numbered if it is not the first.
    fn name(&mut self, method: &str, path: &str) -> String {
        let path = path.split('?').next().unwrap_or_default();
        let name: String = format!("{method} {path}").chars().take(NAME_CHARS_MAX).collect();
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} #{count}") }
    }

    /// The file: the requests one after the other, or each on its own.
    ///
    /// # Errors
    /// The file would not be a valid scenario: for example, because a body contains `{{`.
    fn text(self, in_sequence: bool) -> Result<String, String> {
        let mut file = File::default();
        if in_sequence {
            file.sequence.push(SequenceEntry { weight: None, request: self.requests });
        } else {
            file.request = self.requests;
        }
        let body = toml::to_string_pretty(&file).map_err(|error| error.to_string())?;
        let comments: String = self.comments.iter().map(|line| format!("# {line}\n")).collect();
        let text = format!("{comments}\n{body}");
        // Files are relative to the scenario, which is nowhere yet: checked as if they were empty.
        let in_sequences = file.sequence.iter_mut().flat_map(|sequence| &mut sequence.request);
        for request in file.request.iter_mut().chain(in_sequences) {
            if request.body_file.take().is_some() {
                request.body = Some(plain(String::new()));
            }
        }
        let checked = toml::to_string_pretty(&file).map_err(|error| error.to_string())?;
        let source = Source { name: "scenario".into(), text: checked };
        Scenario::from_source(&source).map_err(|error| {
            let reason = error.split_once(": error: ").map_or(&*error, |(_, reason)| reason);
            format!("cannot be written as a scenario: {reason}")
        })?;
        Ok(text)
    }
}

/// Leaves room for a number.
const NAME_CHARS_MAX: usize = crate::limits::SCENARIO_NAME_CHARS_MAX - 8;

fn plain<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Scheme and authority of a URL, and the rest without its fragment. `None`: not an absolute URL.
fn split_url(url: &str) -> Option<(&str, String)> {
    let start = url.find("://")? + 3;
    let end = url.get(start..)?.find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    let (base, rest) = url.split_at_checked(end)?;
    let rest = rest.split('#').next().unwrap_or_default();
    let slash = if rest.starts_with('/') { "" } else { "/" };
    Some((base, super::encoded(&format!("{slash}{rest}"))))
}
