//! Writes text and JSON as XML.

use std::borrow::Cow;

use crate::json::{Elements, Kind, Members, Ref};
use crate::mapping::element_name;
use crate::{Budget, Error};

/// Appends `text` as character data, or as part of an attribute in either quote. Characters that XML 1.0 does not
/// allow (section 2.2) become U+FFFD.
pub(super) fn push_escaped(into: &mut Vec<u8>, text: &str, attribute: bool) {
    let mut rest = text;
    while let Some(at) = first_that_may_change(rest.as_bytes()) {
        let (plain, other) = rest.split_at(at);
        into.extend_from_slice(plain.as_bytes());
        let mut characters = other.chars();
        if let Some(character) = characters.next() {
            push_character(into, character, attribute);
        }
        rest = characters.as_str();
    }
    into.extend_from_slice(rest.as_bytes());
}

fn first_that_may_change(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 16;
    // Without branches, so that a block is checked at once.
    let is_plain = |block: &&[u8; BLOCK]| {
        block.iter().fold(0, |found, byte| found | u8::from(may_change(*byte))) == 0
    };
    let plain = bytes.as_chunks::<BLOCK>().0.iter().take_while(is_plain).count() * BLOCK;
    let rest = bytes.get(plain..).unwrap_or_default();
    Some(plain + rest.iter().position(|byte| may_change(*byte))?)
}

/// Whether a character that begins with this byte may be written as another one. All that are not allowed above U+007F
/// begin with 0xef.
fn may_change(byte: u8) -> bool {
    may_grow(byte) | (byte == 0xef)
}

/// Whether a character of this byte may be written as a longer one. Without branches, for many bytes at once.
fn may_grow(byte: u8) -> bool {
    [b'&', b'<', b'>', b'"', b'\''].iter().fold(byte < b' ', |is, one| is | (byte == *one))
}

fn push_character(into: &mut Vec<u8>, character: char, attribute: bool) {
    match character {
        '&' => into.extend_from_slice(b"&amp;"),
        '<' => into.extend_from_slice(b"&lt;"),
        '>' => into.extend_from_slice(b"&gt;"),
        '"' if attribute => into.extend_from_slice(b"&quot;"),
        '\'' if attribute => into.extend_from_slice(b"&apos;"),
        '\n' if attribute => into.extend_from_slice(b"&#10;"),
        '\t' if attribute => into.extend_from_slice(b"&#9;"),
        '\r' => into.extend_from_slice(b"&#13;"),
        character => push_allowed(into, character),
    }
}

/// Appends `character` unescaped; U+FFFD if XML 1.0 does not allow it.
pub(super) fn push_allowed(into: &mut Vec<u8>, character: char) {
    let allowed = match character {
        '\r' | '\n' | '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => character,
        _ => '\u{fffd}',
    };
    into.extend_from_slice(allowed.encode_utf8(&mut [0; 4]).as_bytes());
}

/// What remains to be written: the rest of a container, whose elements share its name, or an end tag.
enum Work<'d> {
    Elements(Cow<'d, str>, Elements<'d>),
    Members(Members<'d>),
    Close(Cow<'d, str>),
}

/// Appends the members of an object as elements of their names, an array as elements that repeat its name, and a
/// scalar as its text. Elements of an array without a name are `jsonElement`.
///
/// # Errors
/// [`Error::Budget`].
pub(super) fn push_json(into: &mut Vec<u8>, value: Ref<'_>, budget: &Budget) -> Result<(), Error> {
    let nameless = Cow::Borrowed("jsonElement");
    let mut work: Vec<Work<'_>> =
        content(value, &nameless).filter(|_| !value.is_empty()).into_iter().collect();
    if work.is_empty() {
        push_scalar(into, value, budget)?;
    }
    while let Some(next) = work.last_mut() {
        let found = match next {
            Work::Elements(name, elements) => {
                elements.next().map(|element| (name.clone(), element))
            }
            Work::Members(members) => members.next().map(|(name, value)| (element_of(name), value)),
            Work::Close(name) => {
                push_tag(into, ["</", name, ">"], budget)?;
                None
            }
        };
        let Some((name, value)) = found else {
            work.pop();
            continue;
        };
        // An array inside an array takes the outer one's name.
        if value.kind() == Kind::Array {
            work.extend(content(value, &name));
            continue;
        }
        match content(value, &nameless) {
            Some(inner) => {
                push_tag(into, ["<", &name, ">"], budget)?;
                work.extend([Work::Close(name), inner]);
            }
            None => push_leaf(into, &name, value, budget)?,
        }
    }
    Ok(())
}

/// Appends a scalar as an element.
fn push_leaf(into: &mut Vec<u8>, name: &str, value: Ref<'_>, budget: &Budget) -> Result<(), Error> {
    budget.charge_scanning(value.raw().len())?;
    let value = crate::Value::Json(value);
    let text = value.text();
    if first_that_may_change(text.as_bytes()).is_none() {
        budget.charge_steps(1)?;
        return push_tag(into, ["<", name, ">", &text, "</", name, ">"], budget);
    }
    push_tag(into, ["<", name, ">"], budget)?;
    push_text(into, &text, budget)?;
    push_tag(into, ["</", name, ">"], budget)
}

/// The name of a member as that of an element.
fn element_of(name: Cow<'_, str>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => element_name(name),
        Cow::Owned(name) => Cow::Owned(element_name(&name).into_owned()),
    }
}

fn push_tag<const PARTS: usize>(
    into: &mut Vec<u8>,
    parts: [&str; PARTS],
    budget: &Budget,
) -> Result<(), Error> {
    let bytes = parts.iter().map(|part| part.len()).sum();
    budget.charge_steps(1)?;
    budget.charge_memory(bytes)?;
    into.reserve(bytes);
    parts.iter().for_each(|part| into.extend_from_slice(part.as_bytes()));
    Ok(())
}

/// The content of a container; `None` for a scalar.
fn content<'d>(value: Ref<'d>, name: &Cow<'d, str>) -> Option<Work<'d>> {
    match value.kind() {
        Kind::Object => Some(Work::Members(value.members())),
        Kind::Array => Some(Work::Elements(name.clone(), value.elements())),
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => None,
    }
}

fn push_scalar(into: &mut Vec<u8>, value: Ref<'_>, budget: &Budget) -> Result<(), Error> {
    budget.charge_scanning(value.raw().len())?;
    push_text(into, &crate::Value::Json(value).text(), budget)
}

fn push_text(into: &mut Vec<u8>, text: &str, budget: &Budget) -> Result<(), Error> {
    budget.charge_memory(escaped_len(text))?;
    push_escaped(into, text, false);
    Ok(())
}

/// An upper bound of what [`push_escaped`] appends.
pub(super) fn escaped_len(text: &str) -> usize {
    text.len() + 5 * text.bytes().map(|byte| usize::from(may_grow(byte))).sum::<usize>()
}

/// Appends JSON text with `&`, `<` and `>`, which occur in strings only, as XML references.
pub(super) fn push_escaped_markup(into: &mut Vec<u8>, json: &[u8]) {
    for &byte in json {
        match byte {
            b'&' => into.extend_from_slice(b"&amp;"),
            b'<' => into.extend_from_slice(b"&lt;"),
            b'>' => into.extend_from_slice(b"&gt;"),
            _ => into.push(byte),
        }
    }
}
