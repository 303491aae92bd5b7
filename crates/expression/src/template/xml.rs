//! Writes text and JSON as XML.

use std::borrow::Cow;

use xpath::Budget;

use crate::error::Error;
use crate::json::{Elements, Kind, Members, Ref, Scalar};
use crate::mapping::element_name;

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
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let plain = blocks.iter().take_while(|block| is_plain_block(block)).count() * BLOCK;
    let rest = bytes.get(plain..).unwrap_or_default();
    Some(plain + rest.iter().position(|byte| may_change(*byte))?)
}

/// Whether no character may be written as another one.
#[inline(always)]
fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let is_other = |found, byte: &u8| found | MAY_CHANGE[usize::from(*byte)];
    !rest.iter().fold(false, is_other) && blocks.iter().all(is_plain_block)
}

const BLOCK: usize = 16;

/// Without branches, so that a block is checked at once.
fn is_plain_block(block: &[u8; BLOCK]) -> bool {
    block.iter().fold(0, |found, byte| found | u8::from(may_change(*byte))) == 0
}

/// [`may_change`] of each byte, for those that are looked at one by one.
static MAY_CHANGE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < u8::MAX {
        table[byte as usize] = may_change(byte);
        byte += 1;
    }
    table
};

/// Whether a character that begins with this byte may be written as another one. All that are not allowed above U+007F
/// begin with 0xef.
const fn may_change(byte: u8) -> bool {
    may_grow(byte) | (byte == 0xef)
}

/// Whether a character of this byte may be written as a longer one. Without branches, for many bytes at once.
const fn may_grow(byte: u8) -> bool {
    (byte < b' ')
        | (byte == b'&')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'"')
        | (byte == b'\'')
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

/// Parts left to write: the rest of a container, whose elements share its name, or an end tag.
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
    let Some(all) = content(value, &nameless).filter(|_| !value.is_empty()) else {
        budget.charge_scanning(value.raw().len())?;
        return push_text(into, value, 0, budget);
    };
    let mut work = Vec::with_capacity(USUAL_DEPTH);
    work.push(all);
    while let Some(next) = work.last_mut() {
        let container = match next {
            Work::Elements(name, elements) => {
                push_leaves(into, name, elements, budget)?.map(|value| (name.clone(), value))
            }
            Work::Members(members) => loop {
                let Some((name, value)) = members.next() else { break None };
                let name = element_of(name);
                let Some(leaf) = value.scalar() else { break Some((name, value)) };
                charge_leaf(&name, &leaf, budget)?;
                push_parts(into, ["<", &name, ">"]);
                push_charged(into, &leaf, budget)?;
                push_parts(into, ["</", &name, ">"]);
            },
            Work::Close(name) => {
                push_tag(into, ["</", name, ">"], budget)?;
                None
            }
        };
        let Some((name, value)) = container else {
            work.pop();
            continue;
        };
        // An array inside an array takes the outer one's name.
        if value.kind() == Kind::Array {
            work.extend(content(value, &name));
            continue;
        }
        push_tag(into, ["<", &name, ">"], budget)?;
        work.push(Work::Close(name));
        work.extend(content(value, &nameless));
    }
    Ok(())
}

/// Room for the remaining parts of most documents.
const USUAL_DEPTH: usize = 8;

/// Elements that are charged and written together.
const AT_ONCE: usize = 64;

/// Appends the scalars at the beginning of `elements` as elements of this name; returns the other elements.
#[inline(never)]
fn push_leaves<'d>(
    into: &mut Vec<u8>,
    name: &str,
    elements: &mut Elements<'d>,
    budget: &Budget,
) -> Result<Option<Ref<'d>>, Error> {
    // Between any two of them; cut after the last one.
    let mut tags = Vec::new();
    loop {
        let leaves = elements.next_scalars(AT_ONCE);
        if leaves.len() == 0 {
            break;
        }
        let source = leaves.source();
        budget.charge_reading(source.len())?;
        budget.charge_scanning(leaves.raw_len)?;
        budget.charge_steps(2 * leaves.len() as u64)?;
        if tags.is_empty() {
            push_parts(into, ["<", name, ">"]);
            push_parts(&mut tags, ["</", name, "><", name, ">"]);
        }
        match leaves.plain_len.filter(|_| is_plain_source(source)) {
            Some(plain_len) => {
                let len = plain_len + leaves.len() * tags.len();
                budget.charge_memory(len)?;
                push_each(into, (leaves.document_text(), leaves.places()), &tags, len);
            }
            None => {
                for leaf in leaves.each() {
                    budget.charge_memory(tags.len() + leaf.plain.map_or(0, <[u8]>::len))?;
                    push_charged(into, &leaf, budget)?;
                    into.extend_from_slice(&tags);
                }
            }
        }
    }
    if !tags.is_empty() {
        into.truncate(into.len().saturating_sub(name.len() + "<>".len()));
    }
    Ok(elements.next())
}

/// Bytes that are copied at once: most texts, and most tags, have fewer.
const COPIED: usize = 32;

/// Appends the parts of `text` at these places, by start and length, each followed by `tags`: `len` bytes together.
#[inline(always)]
fn push_each(
    into: &mut Vec<u8>,
    (text, places): (&[u8], impl Iterator<Item = (usize, usize)>),
    tags: &[u8],
    len: usize,
) {
    let mut padded = [0; COPIED];
    let mut most = None;
    if let Some(beginning) = padded.get_mut(..tags.len()) {
        beginning.copy_from_slice(tags);
        most = Some(COPIED);
    }
    let mut at = into.len();
    let end = at + len;
    // Excess bytes are overwritten by the following ones, or cut.
    into.resize(end + 2 * COPIED, 0);
    for (from, len) in places {
        let source = text.get(from..).and_then(<[u8]>::first_chunk::<COPIED>);
        let place = into.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<{ 2 * COPIED }>);
        match (source, place) {
            (Some(source), Some(place)) if most.is_some_and(|most| len <= most) => {
                let (texts, _) = place.split_at_mut(COPIED);
                texts.copy_from_slice(source);
                if let Some(tags) = place.get_mut(len..).and_then(<[u8]>::first_chunk_mut) {
                    *tags = padded;
                }
            }
            _ => {
                copy(into, at, text.get(from..from + len).unwrap_or_default());
                copy(into, at + len, tags);
            }
        }
        at += len + tags.len();
    }
    into.truncate(end);
}

fn copy(into: &mut [u8], at: usize, part: &[u8]) {
    if let Some(place) = into.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

/// Whether no character of JSON without escapes may be written as another one: its strings have no quotes and no
/// control characters.
fn is_plain_source(source: &[u8]) -> bool {
    memchr::memchr3(b'&', b'<', b'>', source).is_none() && memchr::memchr(0xef, source).is_none()
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
    budget.charge_steps(1)?;
    budget.charge_memory(parts.iter().map(|part| part.len()).sum())?;
    push_parts(into, parts);
    Ok(())
}

/// Charges a scalar as an element: two steps for its tags, and its text as far as that is plain.
#[inline(always)]
fn charge_leaf(name: &str, leaf: &Scalar<'_>, budget: &Budget) -> Result<(), Error> {
    let text = leaf.plain.map_or(0, <[u8]>::len);
    budget.charge_scanning(leaf.raw_len)?;
    budget.charge_steps(2)?;
    Ok(budget.charge_memory(2 * name.len() + "<></>".len() + text)?)
}

fn push_parts<const PARTS: usize>(into: &mut Vec<u8>, parts: [&str; PARTS]) {
    into.reserve(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| into.extend_from_slice(part.as_bytes()));
}

/// The content of a container; `None` for a scalar.
fn content<'d>(value: Ref<'d>, name: &Cow<'d, str>) -> Option<Work<'d>> {
    match value.kind() {
        Kind::Object => Some(Work::Members(value.members())),
        Kind::Array => Some(Work::Elements(name.clone(), value.elements())),
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => None,
    }
}

/// Appends the text of a scalar as [`charge_leaf`] charged it.
#[inline(always)]
fn push_charged(into: &mut Vec<u8>, leaf: &Scalar<'_>, budget: &Budget) -> Result<(), Error> {
    match leaf.plain {
        Some(text) if is_plain(text) => {
            into.extend_from_slice(text);
            Ok(())
        }
        plain => push_text(into, leaf.value, plain.map_or(0, <[u8]>::len), budget),
    }
}

/// Appends the text of a value, of which `charged` bytes are charged.
#[inline(never)]
fn push_text(
    into: &mut Vec<u8>,
    value: Ref<'_>,
    charged: usize,
    budget: &Budget,
) -> Result<(), Error> {
    let value = crate::value::Value::Json(value);
    let text = value.text();
    budget.charge_memory(escaped_len(&text).saturating_sub(charged))?;
    push_escaped(into, &text, false);
    Ok(())
}

/// An upper bound of the bytes that [`push_escaped`] appends.
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
