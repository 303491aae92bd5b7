//! Parameters in artefacts: `$SYSTEM:NAME`, `$FILE:NAME` and `$config:NAME`.
//!
//! As in Synapse, a parameter is the whole value of an endpoint's address or of a `parameter`, never a part of it.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::report::{Report, shorten};

use super::place;

/// The source of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
    /// `$SYSTEM:NAME`: an environment variable.
    System,
    /// `$FILE:NAME`: a property of `file.properties`.
    File,
    /// `$config:NAME`: a property of a project's environment.
    Config,
}

impl Parameter {
    const PREFIXES: [(&'static str, Self); 3] =
        [("$SYSTEM:", Self::System), ("$FILE:", Self::File), ("$config:", Self::Config)];

    fn help(self, name: &str) -> String {
        match self {
            Self::System | Self::Config => format!("set the environment variable `{name}`"),
            Self::File => {
                format!("add `{name}=value` to file.properties in the folder of [integration]")
            }
        }
    }
}

/// A value of the document that is a parameter.
struct Use {
    /// Offsets in the source.
    at: Range<usize>,
    value: String,
}

/// `bytes` with the values of all parameters in `document`, which was parsed from it. Lines stay the same.
pub(super) fn replaced(
    bytes: &[u8],
    document: &xml::Document,
    resolve: &dyn Fn(Parameter, &str) -> Option<String>,
    report: &mut Report,
) -> Vec<u8> {
    let mut uses = Vec::new();
    let mut candidates = candidates(document);
    candidates.sort_by_key(|(_, position)| (position.line, position.column));
    let mut source = Source::new(bytes);
    for (written, position) in candidates {
        let trimmed = written.trim();
        let Some((name, kind)) = parameter(trimmed) else { continue };
        let at = place(position);
        if !is_name(name) {
            let help = "put the whole value into the parameter";
            let message = format!("`{}` is more than a parameter", shorten(trimmed));
            report.error(at, message, help);
            continue;
        }
        let Some(value) = resolve(kind, name).filter(|value| xml::is_text(value)) else {
            report.error(at, format!("the parameter `{trimmed}` has no value"), kind.help(name));
            continue;
        };
        match source.find(position, trimmed) {
            Some(at) => uses.push(Use { at, value: escaped(&value) }),
            None => report.error(
                at,
                format!("the parameter `{trimmed}` is not written as it is read"),
                "write it in UTF-8, without character references",
            ),
        }
    }
    splice(bytes, uses)
}

/// The parameters that expressions of `document` read as `configs.NAME` or `get-property('file', 'NAME')`, with their
/// values. A parameter without a value causes a warning; its expression uses a default, or fails.
pub(super) fn configs(
    document: &xml::Document,
    resolve: &dyn Fn(Parameter, &str) -> Option<String>,
    report: &mut Report,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut note = |text: &str, position: xml::Position| {
        for name in config_names(text).into_iter().chain(file_names(text)) {
            if found.contains_key(name) {
                continue;
            }
            match resolve(Parameter::File, name) {
                Some(value) => drop(found.insert(name.to_owned(), value)),
                None => {
                    let message = format!("`configs.{}` has no value", shorten(name));
                    report.warning(place(position), message, Parameter::File.help(name));
                }
            }
        }
    };
    for node in document.root().descendants() {
        if node.kind() == xml::Kind::Text {
            note(node.text(), node.position());
        }
        for attribute in node.attributes() {
            note(attribute.text(), attribute.position());
        }
    }
    found
}

/// The names in `${configs.NAME}` and `${configs["NAME"]}`, anywhere in an expression.
fn config_names(text: &str) -> Vec<&str> {
    let expressions = text.split("${").skip(1);
    let expressions = expressions.map(|rest| rest.split('}').next().unwrap_or_default());
    let mut names = Vec::new();
    for expression in expressions {
        for (at, root) in expression.match_indices("config") {
            let before = expression.get(..at).unwrap_or_default();
            let is_root =
                !before.ends_with(|last: char| last.is_alphanumeric() || "_.\"'".contains(last));
            let rest = expression.get(at.saturating_add(root.len())..).unwrap_or_default();
            let rest = rest.strip_prefix('s').unwrap_or(rest).trim_start();
            let quoted = rest.strip_prefix("[\"").or_else(|| rest.strip_prefix("['"));
            let name = match (rest.strip_prefix('.'), quoted) {
                (Some(rest), _) => {
                    rest.split(|next: char| !(next.is_alphanumeric() || next == '_')).next()
                }
                (None, Some(rest)) => rest.split(['"', '\'']).next(),
                (None, None) => None,
            };
            names.extend(name.filter(|name| is_root && !name.is_empty()));
        }
    }
    names
}

/// The names in `get-property('file', 'NAME')`.
fn file_names(text: &str) -> impl Iterator<Item = &str> {
    let calls = text.split("get-property(").skip(1);
    calls.filter_map(|call| {
        let mut parts = call.split(['"', '\'']);
        let is_file = parts.next()?.trim().is_empty() && parts.next()? == "file";
        let is_next = parts.next()?.trim() == ",";
        parts.next().filter(|name| is_file && is_next && !name.is_empty())
    })
}

/// The values that may be parameters, and their positions.
fn candidates(document: &xml::Document) -> Vec<(&str, xml::Position)> {
    let mut found = Vec::new();
    for node in document.root().descendants().filter(|node| node.is_element()) {
        let attributes = node.attributes();
        let addresses =
            attributes.filter(|attribute| matches!(attribute.local_name(), "uri" | "uri-template"));
        found.extend(addresses.map(|attribute| (attribute.text(), attribute.position())));
        if node.local_name() == "parameter" {
            let text = node.first_child().filter(|child| child.kind() == xml::Kind::Text);
            found.extend(text.map(|text| (text.text(), text.position())));
        }
    }
    found
}

fn parameter(value: &str) -> Option<(&str, Parameter)> {
    let mut prefixes = Parameter::PREFIXES.iter();
    prefixes.find_map(|(prefix, kind)| Some((value.strip_prefix(prefix)?, *kind)))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text of a document, read once from start to end.
struct Source<'b> {
    /// The text of the document, in UTF-8.
    text: &'b str,
    /// The position of the next character; line ends are ` `, `\r ` and `\r`.
    at: usize,
    line: u32,
    column: u32,
    last: char,
}

impl<'b> Source<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let at = text.len() - text.strip_prefix('\u{FEFF}').unwrap_or(text).len();
        Self { text, at, line: 1, column: 1, last: '\0' }
    }

    /// The range of `written`, at `position` or after space. Positions must be ascending.
    fn find(&mut self, position: xml::Position, written: &str) -> Option<Range<usize>> {
        let rest = self.text.get(self.seek(position)?..)?;
        let space = rest.len().checked_sub(rest.trim_start().len())?;
        let start = self.at.checked_add(space)?;
        let end = start.checked_add(written.len())?;
        (self.text.get(start..end)? == written).then_some(start..end)
    }

    /// The offset of a position.
    fn seek(&mut self, position: xml::Position) -> Option<usize> {
        for character in self.text.get(self.at..)?.chars() {
            let is_here = (self.line, self.column) == (position.line, position.column);
            if is_here && (self.last, character) != ('\r', '\n') {
                return Some(self.at);
            }
            match character {
                '\n' if self.last == '\r' => {}
                '\n' | '\r' => (self.line, self.column) = (self.line.saturating_add(1), 1),
                _ => self.column = self.column.saturating_add(1),
            }
            self.last = character;
            self.at = self.at.saturating_add(character.len_utf8());
        }
        None
    }
}

/// Escapes a value for content or an attribute, on one line.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' | '<' | '>' | '"' | '\'' | '\n' | '\r' | '\t' => {
                out.push_str(&format!("&#{};", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out
}

fn splice(bytes: &[u8], mut uses: Vec<Use>) -> Vec<u8> {
    uses.sort_by_key(|one| one.at.start);
    let (mut out, mut from) = (Vec::with_capacity(bytes.len()), 0);
    for Use { at, value } in uses {
        out.extend_from_slice(bytes.get(from..at.start).unwrap_or_default());
        out.extend_from_slice(value.as_bytes());
        from = at.end;
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out
}
