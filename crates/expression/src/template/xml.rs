//! Writes text and JSON as XML.

use std::rc::Rc;

use crate::json::{Kind, Ref};
use crate::{Budget, Error};

/// Appends `text` as character data, or as part of an attribute in either quote. Characters that XML 1.0 does not
/// allow (section 2.2) become U+FFFD.
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

/// Appends `character` unescaped; U+FFFD if XML 1.0 does not allow it.
pub(super) fn push_allowed(into: &mut Vec<u8>, character: char) {
    let allowed = match character {
        '\r' | '\n' | '\t' | ' '..='\u{fffd}' | '\u{10000}'.. => character,
        _ => '\u{fffd}',
    };
    into.extend_from_slice(allowed.encode_utf8(&mut [0; 4]).as_bytes());
}

/// What remains to be written. The elements of an array share their name.
enum Work<'d> {
    Value(Rc<str>, Ref<'d>),
    Close(Rc<str>),
}

/// Appends the members of an object as elements of their names, an array as elements that repeat its name, and a
/// scalar as its text. Elements of an array without a name are `jsonElement`.
///
/// # Errors
/// [`Error::Budget`].
pub(super) fn push_json(into: &mut Vec<u8>, value: Ref<'_>, budget: &Budget) -> Result<(), Error> {
    let mut work = Vec::new();
    let nameless = Rc::from("jsonElement");
    schedule(&mut work, value, &nameless);
    if work.is_empty() {
        push_scalar(into, value, budget)?;
    }
    while let Some(next) = work.pop() {
        let (Work::Value(name, _) | Work::Close(name)) = &next;
        budget.charge_steps(1)?;
        budget.charge_memory(name.len() + 3)?;
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
                    push_scalar(into, value, budget)?;
                }
            }
        }
    }
    Ok(())
}

fn schedule<'d>(work: &mut Vec<Work<'d>>, value: Ref<'d>, name: &Rc<str>) {
    let from = work.len();
    match value.kind() {
        Kind::Object => {
            work.extend(value.members().map(|(name, value)| Work::Value(tag(&name).into(), value)))
        }
        Kind::Array => {
            // An array inside an array takes the outer one's name.
            work.extend(value.elements().map(|element| Work::Value(Rc::clone(name), element)));
        }
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {}
    }
    if let Some(added) = work.get_mut(from..) {
        added.reverse();
    }
}

fn push_scalar(into: &mut Vec<u8>, value: Ref<'_>, budget: &Budget) -> Result<(), Error> {
    budget.charge_scanning(value.raw().len())?;
    let value = crate::Value::Json(value);
    let text = value.text();
    budget.charge_memory(escaped_len(&text))?;
    push_escaped(into, &text, false);
    Ok(())
}

/// An upper bound of what [`push_escaped`] appends.
pub(super) fn escaped_len(text: &str) -> usize {
    let longer = text.bytes().filter(|byte| b"&<>\"'\n\t\r".contains(byte) || *byte < b' ').count();
    text.len() + 5 * longer
}

/// A member name as an XML name; characters that are not allowed become `_xHHHH_`.
fn tag(name: &str) -> String {
    let mut made = String::new();
    for next in name.chars() {
        // Fewer characters are allowed at the start than after it.
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
