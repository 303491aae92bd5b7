//! Text and values as XML spells them.

use std::fmt::Write;

use super::Encoding;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    Attribute,
}

/// Spelt otherwise: bit 0 in text, bit 1 in values. Line feeds and tabs in values would be normalised away
/// when read, carriage returns everywhere.
const SPECIAL: [u8; 256] = special();

const fn special() -> [u8; 256] {
    let mut table = [0; 256];
    table[b'&' as usize] = 3;
    table[b'<' as usize] = 3;
    table[b'>' as usize] = 1;
    table[b'\r' as usize] = 3;
    table[b'"' as usize] = 2;
    table[b'\n' as usize] = 2;
    table[b'\t' as usize] = 2;
    table
}

pub(super) fn push(out: &mut String, text: &str, place: Place, encoding: Encoding) {
    let whole = matches!(encoding, Encoding::Utf8 | Encoding::Utf16) || text.is_ascii();
    let mask = match place {
        Place::Text => 1,
        Place::Attribute => 2,
    };
    let mut from = 0usize;
    let bytes = text.as_bytes();
    let is_special = |byte: u8| SPECIAL.get(usize::from(byte)).is_some_and(|bits| bits & mask != 0);
    let plain = |from: usize, to: usize| text.get(from..to).unwrap_or("");
    for (at, &byte) in bytes.iter().enumerate() {
        if !is_special(byte) {
            continue;
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
    // Writing to a String can't fail.
    let _ = write!(out, "&#{};", u32::from(c));
}

/// Inside a CDATA section. `]]>` is split between two, also when its parts came one after the other;
/// what the encoding can't say, and carriage returns, stand between two.
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
