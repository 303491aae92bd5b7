//! Text and JSON as they stand in XML.

use crate::json::{Kind, Ref};

/// Appends `text` as XML character data, or inside an attribute in either quote. Characters that XML 1.0 can't
/// hold (section 2.2) become U+FFFD.
pub(super) fn push_escaped(into: &mut Vec<u8>, text: &str, attribute: bool) {
    for character in text.chars() {
        match character {
            '&' => into.extend_from_slice(b"&amp;"),
            '<' => into.extend_from_slice(b"&lt;"),
            '>' => into.extend_from_slice(b"&gt;"),
            '"' if attribute => into.extend_from_slice(b"&quot;"),
            '\'' if attribute => into.extend_from_slice(b"&apos;"),
            '\n' | '\t' if attribute => {
                into.extend_from_slice(format!("&#{};", u32::from(character)).as_bytes());
            }
            '\r' => into.extend_from_slice(b"&#13;"),
            '\n' | '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => {
                into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => into.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
}

enum Work<'d> {
    Value(String, Ref<'d>),
    Close(String),
}

/// Appends an object's members, or an array's elements, as elements: a member's name names them, an array repeats
/// its own name, elements without one are `jsonElement`. A scalar is its text.
pub(super) fn push_json(into: &mut Vec<u8>, value: Ref<'_>) {
    let mut work = Vec::new();
    schedule(&mut work, value, "jsonElement");
    if work.is_empty() {
        push_scalar(into, value);
    }
    while let Some(next) = work.pop() {
        match next {
            Work::Close(name) => into.extend_from_slice(format!("</{name}>").as_bytes()),
            Work::Value(name, value) if value.kind() == Kind::Array => {
                schedule(&mut work, value, &name)
            }
            Work::Value(name, value) => {
                into.extend_from_slice(format!("<{name}>").as_bytes());
                work.push(Work::Close(name));
                if value.kind() == Kind::Object {
                    schedule(&mut work, value, "jsonElement");
                } else {
                    push_scalar(into, value);
                }
            }
        }
    }
}

fn schedule<'d>(work: &mut Vec<Work<'d>>, value: Ref<'d>, name: &str) {
    let from = work.len();
    match value.kind() {
        Kind::Object => {
            work.extend(value.members().map(|(name, value)| Work::Value(tag(&name), value)))
        }
        Kind::Array => {
            // An array directly inside an array has no name of its own.
            work.extend(value.elements().map(|element| Work::Value(name.to_owned(), element)));
        }
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {}
    }
    if let Some(added) = work.get_mut(from..) {
        added.reverse();
    }
}

fn push_scalar(into: &mut Vec<u8>, value: Ref<'_>) {
    let value = crate::Value::Json(value);
    push_escaped(into, &value.text(), false);
}

/// A member's name as an XML name: what can't stand in one becomes `_xHHHH_`.
fn tag(name: &str) -> String {
    let mut made = String::new();
    for (at, next) in name.char_indices() {
        let fits = next.is_alphabetic()
            || next == '_'
            || at > 0 && (next.is_ascii_digit() || ".-".contains(next));
        if fits {
            made.push(next);
        } else {
            made.push_str(&format!("_x{:04X}_", u32::from(next)));
        }
    }
    if made.is_empty() { "_".to_owned() } else { made }
}

/// Appends JSON text with `&`, `<` and `>` as XML's references; they can stand in strings only.
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
