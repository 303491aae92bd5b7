//! The XML declaration (section 2.8, production 23).

use crate::decode::InputEncoding;
use crate::error::{Error, ErrorKind, OffsetError};
use crate::scan::Search;

/// A parsed declaration; `end` is where the document continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct XmlDeclaration<'t> {
    pub(crate) encoding: Option<&'t str>,
    pub(crate) end: usize,
}

/// The declaration of most documents, and the range of the encoding in it.
const USUAL: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
const USUAL_ENCODING: std::ops::Range<usize> = 30..35;

const START: &str = "<?xml";

/// The kind of text that a declaration begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A document: the version is required, `standalone` is allowed (production 23).
    Document,
    /// An external entity: the version is optional, the encoding is required (production 77).
    Entity,
}

/// Where the document continues after its declaration; `None` if more text is needed, which is never so if `text` is
/// the `whole`. `broken` is the reason why the text ends early.
///
/// # Errors
/// A malformed declaration, or one that contradicts the `encoding` of the bytes.
pub(crate) fn pass(
    text: &str,
    form: Form,
    encoding: InputEncoding,
    broken: Option<&OffsetError>,
    whole: bool,
    search: &mut Search,
) -> Result<Option<usize>, Error> {
    if !begins(text) {
        let undecided = !whole && text.len() <= START.len() && START.starts_with(text);
        return Ok((!undecided).then_some(0));
    }
    // No valid value contains `?>`.
    let head = match end(text.as_bytes(), search) {
        Some(end) => text.get(..end).unwrap_or(text),
        None if whole => text,
        None => return Ok(None),
    };
    match (read(head, form), broken) {
        (Ok(declared), _) => {
            let declared = declared.unwrap_or_default();
            let name = declared.encoding.unwrap_or_default();
            match encoding.disagrees(name).filter(|_| declared.encoding.is_some()) {
                None => Ok(Some(declared.end)),
                Some(found) => {
                    let at = head.find(name).unwrap_or(0);
                    let declared = name.to_owned();
                    let kind = ErrorKind::EncodingMismatch { declared, found };
                    Err(OffsetError::new(at, kind).locate(text))
                }
            }
        }
        (Err(error), Some(broken)) if error.at >= text.len() => Err(broken.clone().locate(text)),
        (Err(error), _) => Err(error.locate(text)),
    }
}

/// Where the declaration at the beginning of `bytes` ends, once its end has arrived.
pub(crate) fn end(bytes: &[u8], search: &mut Search) -> Option<usize> {
    if bytes.starts_with(USUAL.as_bytes()) {
        return Some(USUAL.len());
    }
    search.find(bytes, b"?>")?.checked_add("?>".len())
}

fn begins(text: &str) -> bool {
    text.strip_prefix(START).is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '\r', '?']))
}

/// Parses the declaration at the start of `text`; `None` if there isn't one.
pub(crate) fn read(text: &str, form: Form) -> Result<Option<XmlDeclaration<'_>>, OffsetError> {
    if !begins(text) {
        return Ok(None);
    }
    if text.starts_with(USUAL) {
        let encoding = text.get(USUAL_ENCODING);
        return Ok(Some(XmlDeclaration { encoding, end: USUAL.len() }));
    }
    let bad = |at: usize, why| OffsetError::new(at, ErrorKind::BadDeclaration(why));
    let mut at = START.len();
    let mut found = XmlDeclaration::default();
    // The attributes come in this order, each at most once: 0 version, 1 encoding, 2 standalone.
    let mut passed = 0;
    loop {
        let rest = text.get(at..).unwrap_or("");
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let space = rest.len().saturating_sub(trimmed.len());
        at = at.saturating_add(space);
        if trimmed.starts_with("?>") {
            if passed == 0 {
                return Err(bad(at, "it needs `version=\"1.0\"`"));
            }
            if form == Form::Entity && passed != 2 {
                return Err(bad(at, "an external entity's declaration needs an `encoding`"));
            }
            found.end = at.saturating_add(2);
            return Ok(Some(found));
        }
        if trimmed.is_empty() {
            return Err(OffsetError::new(at, ErrorKind::UnexpectedEnd("the XML declaration")));
        }
        if space == 0 {
            return Err(bad(at, "a space is missing"));
        }
        let Some((name, value, len)) = pseudo_attribute(trimmed) else {
            return Err(bad(
                at,
                "expected `version`, `encoding` or `standalone` with a quoted value",
            ));
        };
        passed = match (name, passed) {
            ("version", 0) if is_version(value) => 1,
            ("version", 0) => return Err(bad(at, "the version must be 1.0")),
            ("encoding", passed)
                if (passed == 1 || (passed == 0 && form == Form::Entity))
                    && is_encoding_name(value) =>
            {
                found.encoding = Some(value);
                2
            }
            ("encoding", 1) => return Err(bad(at, "invalid name of an encoding")),
            ("standalone", 1 | 2) if form == Form::Document && matches!(value, "yes" | "no") => 3,
            ("standalone", 1 | 2) => return Err(bad(at, "`standalone` is `yes` or `no`")),
            (_, 0) => return Err(bad(at, "it must begin with `version`")),
            _ => return Err(bad(at, "only `encoding` and then `standalone` may follow `version`")),
        };
        at = at.saturating_add(len);
    }
}

/// `name = "value"`: name, value, and the length of the whole.
fn pseudo_attribute(text: &str) -> Option<(&str, &str, usize)> {
    let space = [' ', '\t', '\n', '\r'];
    let name_len = text.find(|c: char| !c.is_ascii_lowercase())?;
    let (name, rest) = text.split_at_checked(name_len)?;
    let rest = rest.trim_start_matches(space).strip_prefix('=')?.trim_start_matches(space);
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let rest = rest.get(1..)?;
    let (value, after) = rest.split_at_checked(rest.find(quote)?)?;
    Some((name, value, text.len().checked_sub(after.len())?.checked_add(1)?))
}

/// Whether `value` is a version (production 26). A 1.0 reader reads any 1.x as 1.0 (section 2.8).
fn is_version(value: &str) -> bool {
    value
        .strip_prefix("1.")
        .is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether `value` is the name of an encoding (production 81).
fn is_encoding_name(value: &str) -> bool {
    value.starts_with(|c: char| c.is_ascii_alphabetic())
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_declaration_is_read_like_any_other() {
        let spaced = USUAL.replace(" encoding", "  encoding");
        let general = read(&spaced, Form::Document).unwrap().unwrap();
        let quick = read(USUAL, Form::Document).unwrap().unwrap();
        assert_eq!((quick.encoding, quick.end + 1), (general.encoding, general.end));
        assert_eq!(quick.encoding, Some("UTF-8"));
    }
}
