//! Between JSON and XML, by Synapse's convention.
//!
//! Members become elements, arrays repeated elements, `@name` an attribute and `$` the text beside attributes. The
//! document element is `jsonObject`, `jsonArray` or `jsonValue`; the elements of an array without a name are
//! `jsonElement`. Source: the manual of Micro Integrator, "Working with Message Payloads", and StAXON's mapping
//! convention, which Synapse uses.
//!
//! Back from XML, element and attribute names lose their prefixes, and texts that spell a JSON number, `true`,
//! `false` or `null` become such values.

use std::borrow::Cow;
use std::collections::HashMap;

use expression::json::{self, Builder, Kind, Ref};
use xml::{Node, QNameRef, Sink as _};

use crate::Failure;

const OBJECT: &str = "jsonObject";
const ARRAY: &str = "jsonArray";
const ELEMENT: &str = "jsonElement";
const VALUE: &str = "jsonValue";
/// Synapse's prefixes for names that start with a digit or `$`, which no element's name does.
const DIGIT: &str = "_JsonReader_PD_";
const DOLLAR: &str = "_JsonReader_PS_";

/// What is left to write; kept in a list, so that nesting needs no recursion.
enum Write<'j> {
    Value {
        name: Cow<'j, str>,
        value: Ref<'j>,
        /// It is an element of an array already, so that another array is nested.
        is_element: bool,
    },
    End,
}

/// # Errors
/// Text that XML does not allow, such as control characters.
pub(crate) fn to_xml(root: Ref<'_>) -> Result<xml::Document, Failure> {
    let mut out = xml::Builder::new();
    let name = match root.kind() {
        Kind::Object => OBJECT,
        Kind::Array => ARRAY,
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => VALUE,
    };
    let mut left = Vec::new();
    if root.kind() == Kind::Array {
        start(&mut out, name)?;
        left.push(Write::End);
        push_elements(&mut left, ELEMENT, root);
    } else {
        left.push(Write::Value { name: name.into(), value: root, is_element: false });
    }
    while let Some(next) = left.pop() {
        let Write::Value { name, value, is_element } = next else {
            out.end_element()?;
            continue;
        };
        match value.kind() {
            Kind::Array if !is_element => push_elements(&mut left, &name, value),
            Kind::Array => {
                start(&mut out, &name)?;
                start(&mut out, ARRAY)?;
                left.extend([Write::End, Write::End]);
                push_elements(&mut left, ELEMENT, value);
            }
            Kind::Object => {
                start(&mut out, &name)?;
                left.push(Write::End);
                push_members(&mut left, &mut out, value)?;
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {
                start(&mut out, &name)?;
                out.text(&text_of(value))?;
                out.end_element()?;
            }
        }
    }
    Ok(out.finish())
}

fn push_elements<'j>(left: &mut Vec<Write<'j>>, name: &str, array: Ref<'j>) {
    let at = left.len();
    left.extend(array.elements().map(|value| Write::Value {
        name: name.to_owned().into(),
        value,
        is_element: true,
    }));
    if let Some(new) = left.get_mut(at..) {
        new.reverse();
    }
}

/// Writes the attributes and the text of an object, and leaves its other members.
fn push_members<'j>(
    left: &mut Vec<Write<'j>>,
    out: &mut xml::Builder,
    object: Ref<'j>,
) -> Result<(), Failure> {
    let is_scalar = |value: Ref<'_>| !matches!(value.kind(), Kind::Array | Kind::Object);
    let attribute = |name: &str| {
        name.strip_prefix('@')
            .filter(|name| xml::is_ncname(name) && *name != "xmlns")
            .map(str::to_owned)
    };
    for (name, value) in object.members().filter(|(_, value)| is_scalar(*value)) {
        if let Some(name) = attribute(&name) {
            out.attribute(QNameRef::local(&name), &text_of(value))?;
        }
    }
    let at = left.len();
    for (name, value) in object.members() {
        if is_scalar(value) && attribute(&name).is_some() {
            continue;
        }
        if is_scalar(value) && name == "$" {
            out.text(&text_of(value))?;
            continue;
        }
        left.push(Write::Value { name, value, is_element: false });
    }
    if let Some(new) = left.get_mut(at..) {
        new.reverse();
    }
    Ok(())
}

fn start(out: &mut xml::Builder, name: &str) -> Result<(), Failure> {
    Ok(out.start_element(QNameRef::local(&element_name(name)))?)
}

/// The text of a scalar; `null` has none.
fn text_of(value: Ref<'_>) -> Cow<'_, str> {
    match value.kind() {
        Kind::String => value.string().unwrap_or_default(),
        Kind::Null => Cow::Borrowed(""),
        Kind::Boolean | Kind::Number | Kind::Array | Kind::Object => Cow::Borrowed(value.raw()),
    }
}

/// A member's name as the name of an element. Characters that XML does not allow there become `_xHHHH_`.
fn element_name(name: &str) -> Cow<'_, str> {
    if xml::is_ncname(name) {
        return Cow::Borrowed(name);
    }
    let mut made = String::new();
    let rest = match name.chars().next() {
        Some('$') => {
            made.push_str(DOLLAR);
            name.get(1..).unwrap_or_default()
        }
        Some(first) if first.is_ascii_digit() => {
            made.push_str(DIGIT);
            name
        }
        Some(_) | None => name,
    };
    for next in rest.chars() {
        let mut with = String::from("a");
        with.push(next);
        let allowed = if made.is_empty() { with.get(1..).unwrap_or_default() } else { &with };
        if xml::is_ncname(allowed) {
            made.push(next);
        } else {
            made.push_str(&format!("_x{:04X}_", u32::from(next)));
        }
    }
    if made.is_empty() { Cow::Borrowed("_") } else { Cow::Owned(made) }
}

/// The member's name that became an element's name.
fn member_name(name: &str) -> Cow<'_, str> {
    let plain = match (name.strip_prefix(DIGIT), name.strip_prefix(DOLLAR)) {
        (Some(rest), _) => Cow::Borrowed(rest),
        (None, Some(rest)) => Cow::Owned(format!("${rest}")),
        (None, None) => Cow::Borrowed(name),
    };
    if !plain.contains("_x") {
        return plain;
    }
    let mut made = String::new();
    let mut rest = &*plain;
    while let Some(at) = rest.find("_x") {
        made.push_str(rest.get(..at).unwrap_or_default());
        let code = rest.get(at + 2..at + 6).filter(|_| rest.get(at + 6..at + 7) == Some("_"));
        let code =
            code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        match code {
            Some(code) => {
                made.push(code);
                rest = rest.get(at + 7..).unwrap_or_default();
            }
            None => {
                made.push_str("_x");
                rest = rest.get(at + 2..).unwrap_or_default();
            }
        }
    }
    made.push_str(rest);
    Cow::Owned(made)
}

/// What is left to build.
enum Build<'x> {
    Key(Cow<'x, str>),
    Value(Node<'x>),
    BeginArray,
    End,
}

/// `root` is the payload: a document element, or the first one in a SOAP body.
pub(crate) fn to_json(root: Node<'_>) -> json::Document<'static> {
    let mut out = Builder::new();
    let mut left = Vec::new();
    if matches!(root.local_name(), OBJECT | ARRAY | VALUE) {
        left.push(Build::Value(root));
    } else {
        out.begin_object();
        left.extend([Build::End, Build::Value(root), Build::Key(member_name(root.local_name()))]);
    }
    while let Some(next) = left.pop() {
        match next {
            Build::Key(name) => {
                out.key(&name);
            }
            Build::BeginArray => {
                out.begin_array();
            }
            Build::End => {
                out.end();
            }
            Build::Value(node) => value(node, &mut out, &mut left),
        }
    }
    out.finish()
}

fn value<'x>(node: Node<'x>, out: &mut Builder, left: &mut Vec<Build<'x>>) {
    let has_attributes = node.attributes().next().is_some();
    let mut children = node.children().filter(|child| child.is_element());
    // An array inside an element stands for the element's value.
    let inner = match (children.next(), children.next()) {
        (Some(only), None) if node.local_name() != ARRAY && !has_attributes => Some(only),
        _ => None,
    };
    let node = inner.filter(|only| only.local_name() == ARRAY).unwrap_or(node);
    let elements = || node.children().filter(|child| child.is_element());
    if node.local_name() == ARRAY && !has_attributes {
        out.begin_array();
        left.push(Build::End);
        let at = left.len();
        left.extend(elements().map(Build::Value));
        return left.get_mut(at..).unwrap_or_default().reverse();
    }
    let is_object = node.local_name() == OBJECT || has_attributes || elements().next().is_some();
    if !is_object {
        return scalar(&node.string_value(), out);
    }
    out.begin_object();
    for attribute in node.attributes() {
        out.key(&format!("@{}", attribute.local_name()));
        scalar(attribute.text(), out);
    }
    let text: String = node.children().filter(|child| !child.is_element()).map(text_node).collect();
    let text = if elements().next().is_some() { text.trim() } else { &text };
    if !text.is_empty() {
        out.key("$");
        scalar(text, out);
    }
    left.push(Build::End);
    push_groups(elements(), left);
}

fn text_node(node: Node<'_>) -> &str {
    if node.kind() == xml::Kind::Text { node.text() } else { "" }
}

/// Elements of one name are one member, an array if there are several.
fn push_groups<'x>(elements: impl Iterator<Item = Node<'x>>, left: &mut Vec<Build<'x>>) {
    let mut groups: Vec<(&str, Vec<Node<'x>>)> = Vec::new();
    let mut places = HashMap::new();
    for element in elements {
        let name = element.local_name();
        let place = *places.entry(name).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(element),
            None => groups.push((name, vec![element])),
        }
    }
    for (name, group) in groups.into_iter().rev() {
        if let [element] = *group {
            left.push(Build::Value(element));
        } else {
            left.push(Build::End);
            left.extend(group.into_iter().rev().map(Build::Value));
            left.push(Build::BeginArray);
        }
        left.push(Build::Key(member_name(name)));
    }
}

/// A number, `true`, `false` or `null` if the text spells one; else a string.
fn scalar(text: &str, out: &mut Builder) {
    let trimmed = text.trim();
    let parsed = json::Document::parse(trimmed.as_bytes());
    let primitive = parsed
        .as_ref()
        .ok()
        .map(json::Document::root)
        .filter(|value| matches!(value.kind(), Kind::Number | Kind::Boolean | Kind::Null));
    match primitive {
        Some(value) => out.embed(value),
        None => out.string(text),
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// JSON to XML, and back again to the same JSON or to `back`.
    #[track_caller]
    fn check(json: &str, xml: &str, back: &str) {
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root()).unwrap();
        let options = xml::WriterOptions { declaration: false, ..Default::default() };
        let written = String::from_utf8(made.write(options).unwrap()).unwrap();
        assert_eq!(written, xml);
        assert_eq!(to_json(made.element().unwrap()).text(), back);
    }

    #[test]
    fn the_examples_of_the_manual_map_as_published() {
        check("[]", "<jsonArray/>", "[]");
        check(
            r#"{"array":[1,2]}"#,
            "<jsonObject><array>1</array><array>2</array></jsonObject>",
            r#"{"array":[1,2]}"#,
        );
        check(r#"{"array":[]}"#, "<jsonObject/>", "{}");
        check(r#"{"object":null}"#, "<jsonObject><object/></jsonObject>", r#"{"object":""}"#);
        check(r#"{"object":{}}"#, "<jsonObject><object/></jsonObject>", r#"{"object":""}"#);
        check(
            "[1,[]]",
            "<jsonArray><jsonElement>1</jsonElement><jsonElement><jsonArray/></jsonElement></jsonArray>",
            "[1,[]]",
        );
    }

    #[test]
    fn attributes_text_and_nested_arrays_survive() {
        check(
            r#"{"a":{"@id":7,"$":"x"},"b":[[1,2],[3]]}"#,
            "<jsonObject><a id=\"7\">x</a><b><jsonArray><jsonElement>1</jsonElement><jsonElement>2</jsonElement></jsonArray></b>\
             <b><jsonArray><jsonElement>3</jsonElement></jsonArray></b></jsonObject>",
            r#"{"a":{"@id":7,"$":"x"},"b":[[1,2],[3]]}"#,
        );
    }

    #[test]
    fn names_that_xml_does_not_allow_survive() {
        check(
            r#"{"12X":1,"$id":2,"a b":3,"@":4}"#,
            "<jsonObject><_JsonReader_PD_12X>1</_JsonReader_PD_12X><_JsonReader_PS_id>2</_JsonReader_PS_id>\
             <a_x0020_b>3</a_x0020_b><_x0040_>4</_x0040_></jsonObject>",
            r#"{"12X":1,"$id":2,"a b":3,"@":4}"#,
        );
    }

    #[test]
    fn xml_loses_prefixes_and_gains_types() {
        let xml = "<m:buy xmlns:m=\"urn:m\"><order><symbol>IBM</symbol><price>140.340</price></order><order/>\
                   <note lang=\"en\"> 1 <b>x</b></note><zip>0123</zip><yes>true</yes></m:buy>";
        let document = xml::Document::parse(xml.as_bytes()).unwrap();
        let expect = r#"{"buy":{"order":[{"symbol":"IBM","price":140.340},""],"note":{"@lang":"en","$":1,"b":"x"},"zip":"0123","yes":true}}"#;
        assert_eq!(to_json(document.element().unwrap()).text(), expect);
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let depth = 200;
        let xml = format!("{}{}", "<jsonArray>".repeat(depth), "</jsonArray>".repeat(depth));
        let document = xml::Document::parse(xml.as_bytes()).unwrap();
        let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(to_json(document.element().unwrap()).text(), json);

        let depth = 900;
        let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root()).unwrap();
        assert_eq!(to_json(made.element().unwrap()).text(), json);
    }
}
