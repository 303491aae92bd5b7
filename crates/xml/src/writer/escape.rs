//! Escaping of text and attribute values.

use std::fmt::Write;

use super::Encoding;
use crate::chars::{self, FIRST_OF_NONCHARACTERS};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    Attribute,
}

/// Escaped: bit 0 in text, bit 1 in values; bit 2: possibly not allowed at all. A parser would normalise line
/// feeds and tabs in values, and carriage returns everywhere.
const SPECIAL: [u8; 256] = special();
const SUSPECT: u8 = 4;

#[expect(clippy::indexing_slicing, reason = "a byte is below 256, and the compiler runs this")]
const fn special() -> [u8; 256] {
    let mut table = [0; 256];
    let mut control = 0;
    while control < 0x20 {
        table[control] = SUSPECT;
        control += 1;
    }
    table[FIRST_OF_NONCHARACTERS as usize] = SUSPECT;
    table[b'&' as usize] = 3;
    table[b'<' as usize] = 3;
    table[b'>' as usize] = 1;
    table[b'\r' as usize] = 3;
    table[b'"' as usize] = 2;
    table[b'\n' as usize] = 2;
    table[b'\t' as usize] = 2;
    table
}

/// Whether [`push`] is known to write `text` unchanged in UTF-8, in any place. May return false for such a text.
#[inline]
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let rest = if bytes.len() < BLOCK {
        bytes
    } else {
        let (blocks, rest) = bytes.as_chunks();
        if !are_plain_blocks(blocks) {
            return false;
        }
        rest
    };
    rest.iter().all(|byte| SPECIAL.get(usize::from(*byte)) == Some(&0))
}

const BLOCK: usize = 16;

/// Whether all blocks are plain. Not inlined, so that it costs nothing for a short text.
#[inline(never)]
fn are_plain_blocks(blocks: &[[u8; BLOCK]]) -> bool {
    blocks.iter().all(is_plain_block)
}

/// As [`is_plain`] for one block, without branches, so that all bytes are checked at once.
#[inline]
fn is_plain_block(block: &[u8; BLOCK]) -> bool {
    // The result of a vector comparison: all bits set, or none.
    let mask = |holds: bool| if holds { u8::MAX } else { 0 };
    let special = block.map(|byte| {
        mask(byte < b' ')
            | mask(byte == b'&')
            | mask(byte == b'<')
            | mask(byte == b'>')
            | mask(byte == b'"')
            | mask(byte == FIRST_OF_NONCHARACTERS)
    });
    special == [0; BLOCK]
}

/// Returns false, and writes nothing, if XML doesn't allow a character of `text`.
#[inline(always)]
pub(super) fn push(out: &mut String, text: &str, place: Place, encoding: Encoding) -> bool {
    if matches!(encoding, Encoding::Utf8 | Encoding::Utf16) && is_plain(text) {
        out.push_str(text);
        return true;
    }
    push_escaped(out, text, place, encoding)
}

#[inline(never)]
fn push_escaped(out: &mut String, text: &str, place: Place, encoding: Encoding) -> bool {
    let before = out.len();
    let whole = matches!(encoding, Encoding::Utf8 | Encoding::Utf16) || text.is_ascii();
    let mask = match place {
        Place::Text => 1 | SUSPECT,
        Place::Attribute => 2 | SUSPECT,
    };
    let mut from = 0usize;
    let bytes = text.as_bytes();
    let special = |byte: u8| SPECIAL.get(usize::from(byte)).map_or(0, |bits| bits & mask);
    let plain = |from: usize, to: usize| text.get(from..to).unwrap_or("");
    for (at, &byte) in bytes.iter().enumerate() {
        let bits = special(byte);
        if bits == 0 {
            continue;
        }
        if bits & SUSPECT != 0 {
            if text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(chars::is_char) {
                continue;
            }
            out.truncate(before);
            return false;
        }
        push_plain(out, plain(from, at), whole, encoding);
        out.push_str(match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\n' => "&#10;",
            b'\t' => "&#9;",
            _ => "&#13;",
        });
        from = at.wrapping_add(1);
    }
    push_plain(out, plain(from, bytes.len()), whole, encoding);
    true
}

fn push_plain(out: &mut String, text: &str, whole: bool, encoding: Encoding) {
    if whole {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        if encoding.has(c) { out.push(c) } else { push_reference(out, c) }
    }
}

fn push_reference(out: &mut String, c: char) {
    // Writing to a `String` doesn't fail.
    let _ = write!(out, "&#{};", u32::from(c));
}

/// Appends text inside a CDATA section. `]]>` is split between two sections, even if its parts are pushed
/// separately. Characters that the encoding lacks, and carriage returns, are written between two sections.
pub(super) fn push_cdata(out: &mut String, text: &str, encoding: Encoding) {
    for c in text.chars() {
        if c == '\r' || !encoding.has(c) {
            out.push_str("]]>");
            push_reference(out, c);
            out.push_str("<![CDATA[");
            continue;
        }
        if c == '>' && out.ends_with("]]") {
            out.push_str("]]><![CDATA[");
        }
        out.push(c);
    }
}
