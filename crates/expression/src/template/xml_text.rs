//! Text and JSON as they stand in XML.

use std::rc::Rc;

use crate::EvalError;
use crate::budget::fits;
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
            character => push_allowed(into, character),
        }
    }
}

/// Appends `character` as it is where nothing is markup; U+FFFD for what XML 1.0 can't hold.
pub(super) fn push_allowed(into: &mut Vec<u8>, character: char) {
    let allowed = match character {
        '\r' | '\n' | '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => character,
        _ => '\u{fffd}',
    };
    into.extend_from_slice(allowed.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Elements share the name of the member that they come from, however many they are.
enum Work<'d> {
    Value(Rc<str>, Ref<'d>),
    Close(Rc<str>),
}

/// Appends an object's members, or an array's elements, as elements: a member's name names them, an array repeats
/// its own name, elements without one are `jsonElement`. A scalar is its text.
///
/// # Errors
/// [`EvalError::Limit`] past `MADE_BYTES_MAX` after `start`.
pub(super) fn push_json(into: &mut Vec<u8>, start: usize, value: Ref<'_>) -> Result<(), EvalError> {
    let mut work = Vec::new();
    let nameless = Rc::from("jsonElement");
    schedule(&mut work, value, &nameless);
    if work.is_empty() {
        push_scalar(into, value);
    }
    while let Some(next) = work.pop() {
        let (Work::Value(name, _) | Work::Close(name)) = &next;
        fits(into.len() - start, name.len() + 3)?;
        match next {
            Work::Close(name) => into.extend_from_slice(format!("</{name}>").as_bytes()),
            Work::Value(name, value) if value.kind() == Kind::Array => {
                schedule(&mut work, value, &name)
            }
            Work::Value(name, value) => {
                into.extend_from_slice(format!("<{name}>").as_bytes());
                work.push(Work::Close(name));
                if value.kind() == Kind::Object {
                    schedule(&mut work, value, &nameless);
                } else {
                    push_scalar(into, value);
                }
            }
        }
    }
    fits(into.len() - start, 0)
}

fn schedule<'d>(work: &mut Vec<Work<'d>>, value: Ref<'d>, name: &Rc<str>) {
    let from = work.len();
    match value.kind() {
        Kind::Object => {
            work.extend(value.members().map(|(name, value)| Work::Value(tag(&name).into(), value)))
        }
        Kind::Array => {
            // An array directly inside an array has no name of its own.
            work.extend(value.elements().map(|element| Work::Value(Rc::clone(name), element)));
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
    for next in name.chars() {
        // A name may begin with less than it may go on with.
        let mut with_it = [b'_'; 5];
        let length = next.encode_utf8(&mut with_it[1..]).len();
        let from = usize::from(made.is_empty());
        let tried = with_it.get(from..=length).and_then(|bytes| str::from_utf8(bytes).ok());
        if tried.is_some_and(xml::is_ncname) {
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
