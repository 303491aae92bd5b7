//! Parameters in artefacts: `$SYSTEM:NAME`, `$FILE:NAME` and `$config:NAME`.
//!
//! As in Synapse, one is the whole value of an endpoint's address or of a `parameter`, never a part of it.

use std::ops::Range;

use crate::report::{Report, shorten};

use super::place;

/// Where a parameter's value comes from.
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
    for (written, position) in candidates(document) {
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
        match find(bytes, position, trimmed) {
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

/// Where `written` is in the source, at `position` or after space.
fn find(bytes: &[u8], position: xml::Position, written: &str) -> Option<Range<usize>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let body = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let before = text.len().checked_sub(body.len())?;
    let from = offset(body, position)?;
    let rest = body.get(from..)?;
    let space = rest.len().checked_sub(rest.trim_start().len())?;
    let start = before.checked_add(from)?.checked_add(space)?;
    let end = start.checked_add(written.len())?;
    (text.get(start..end)? == written).then_some(start..end)
}

/// The offset of a position; line ends are `\n`, `\r\n` and `\r`.
fn offset(text: &str, position: xml::Position) -> Option<usize> {
    let (mut line, mut column, mut last) = (1u32, 1u32, '\0');
    for (at, character) in text.char_indices() {
        if (line, column) == (position.line, position.column) && (last, character) != ('\r', '\n') {
            return Some(at);
        }
        match character {
            '\n' if last == '\r' => {}
            '\n' | '\r' => (line, column) = (line.saturating_add(1), 1),
            _ => column = column.saturating_add(1),
        }
        last = character;
    }
    None
}

/// As content or attribute value, on one line.
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
