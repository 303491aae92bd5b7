//! Between JSON and XML, by Synapse's convention.
//!
//! Members become elements, arrays repeated elements, `@name` an attribute and `$` the text beside attributes. The
//! document element is `jsonObject`, `jsonArray` or `jsonValue`; the elements of an array without a name are
//! `jsonElement`. Source: the manual of Micro Integrator, "Working with Message Payloads", and StAXON's mapping
//! convention, which Synapse uses.
//!
//! Back from XML, `<?xml-multiple name?>` makes an array of children of that name even if there is only one, element and
//! attribute names lose their prefixes, and texts that spell a JSON number, `true`,
//! `false` or `null` become such values.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use xml::{Node, QNameRef, Sink as _};

use crate::json::{self, Builder, Kind, Ref};
use crate::{Budget, Error};

const OBJECT: &str = "jsonObject";
const ARRAY: &str = "jsonArray";
const ELEMENT: &str = "jsonElement";
const VALUE: &str = "jsonValue";
/// The instruction before children that are an array.
const MULTIPLE: &str = "xml-multiple";
/// Synapse's prefixes for names that start with a digit or `$`, which no element's name does.
const DIGIT: &str = "_JsonReader_PD_";
const DOLLAR: &str = "_JsonReader_PS_";
/// Memory of an element, an attribute or a text in an XML tree.
const XML_NODE_BYTES: usize = 32;

/// The name of an element, which the elements of an array share.
#[derive(Clone)]
enum Name<'j> {
    Borrowed(&'j str),
    Shared(Rc<str>),
}

impl<'j> Name<'j> {
    /// The name of a member as that of an element.
    fn of(member: Cow<'j, str>, budget: &Budget) -> Result<Self, Error> {
        budget.charge_scanning(member.len())?;
        if let Cow::Borrowed(name) = member
            && xml::is_ncname(name)
        {
            return Ok(Self::Borrowed(name));
        }
        // A character becomes `_xHHHH_` at most.
        budget.charge_memory(member.len().saturating_mul(8))?;
        Ok(Self::Shared(element_name(&member).into()))
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(name) => name,
            Self::Shared(name) => name,
        }
    }
}

/// What is left to write; kept in a list, so that nesting needs no recursion.
enum Write<'j> {
    Value {
        name: Name<'j>,
        value: Ref<'j>,
        /// It is an element of an array already, so that another array is nested.
        is_element: bool,
    },
    End,
}

/// The XML of a JSON value.
///
/// # Errors
/// Text that XML does not allow, such as control characters; or [`Error::Budget`].
pub fn to_xml(root: Ref<'_>, budget: &Budget) -> Result<xml::Document, Error> {
    let mut out = Tree { out: xml::Builder::new(), budget };
    let name = Name::Borrowed(match root.kind() {
        Kind::Object => OBJECT,
        Kind::Array => ARRAY,
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => VALUE,
    });
    let mut left = Vec::new();
    if root.kind() == Kind::Array {
        out.start(&name)?;
        left.push(Write::End);
        out.leave_elements(&mut left, &Name::Borrowed(ELEMENT), root)?;
    } else {
        left.push(Write::Value { name, value: root, is_element: false });
    }
    while let Some(next) = left.pop() {
        let Write::Value { name, value, is_element } = next else {
            out.out.end_element().map_err(body)?;
            continue;
        };
        match value.kind() {
            Kind::Array if !is_element => out.leave_elements(&mut left, &name, value)?,
            Kind::Array => {
                out.start(&name)?;
                out.start(&Name::Borrowed(ARRAY))?;
                left.extend([Write::End, Write::End]);
                out.leave_elements(&mut left, &Name::Borrowed(ELEMENT), value)?;
            }
            Kind::Object => {
                out.start(&name)?;
                left.push(Write::End);
                out.members(&mut left, value)?;
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {
                out.start(&name)?;
                out.text(value)?;
                out.out.end_element().map_err(body)?;
            }
        }
    }
    Ok(out.out.finish())
}

fn body(error: xml::Error) -> Error {
    Error::Body(error.to_string())
}

/// The tree under construction.
struct Tree<'b> {
    out: xml::Builder,
    budget: &'b Budget,
}

impl Tree<'_> {
    fn start(&mut self, name: &Name<'_>) -> Result<(), Error> {
        let name = name.as_str();
        self.budget.charge_steps(1)?;
        self.budget.charge_reading(name.len())?;
        self.budget.charge_memory(XML_NODE_BYTES)?;
        self.out.start_element(QNameRef::local(name)).map_err(body)
    }

    fn charged<'j>(&self, value: Ref<'j>) -> Result<Cow<'j, str>, Error> {
        let bytes = value.raw().len();
        self.budget.charge_scanning(bytes)?;
        self.budget.charge_memory(bytes + XML_NODE_BYTES)?;
        Ok(text_of(value))
    }

    fn text(&mut self, value: Ref<'_>) -> Result<(), Error> {
        let text = self.charged(value)?;
        self.out.text(&text).map_err(body)
    }

    /// Leaves the elements of `array`, each under `name`.
    fn leave_elements<'j>(
        &self,
        left: &mut Vec<Write<'j>>,
        name: &Name<'j>,
        array: Ref<'j>,
    ) -> Result<(), Error> {
        self.budget.charge_memory(array.len().saturating_mul(size_of::<Write<'_>>()))?;
        let at = left.len();
        left.extend(array.elements().map(|value| Write::Value {
            name: name.clone(),
            value,
            is_element: true,
        }));
        if let Some(new) = left.get_mut(at..) {
            new.reverse();
        }
        Ok(())
    }

    /// Writes the attributes and the text of an object, and leaves its other members.
    fn members<'j>(&mut self, left: &mut Vec<Write<'j>>, object: Ref<'j>) -> Result<(), Error> {
        self.budget.charge_memory(object.len().saturating_mul(size_of::<Write<'_>>()))?;
        for (name, value) in object.members().filter(|(_, value)| is_scalar(*value)) {
            if let Some(name) = attribute(&name) {
                self.budget.charge_scanning(name.len())?;
                let text = self.charged(value)?;
                self.out.attribute(QNameRef::local(name), &text).map_err(body)?;
            }
        }
        let at = left.len();
        for (name, value) in object.members() {
            if is_scalar(value) && attribute(&name).is_some() {
                continue;
            }
            if is_scalar(value) && name == "$" {
                self.text(value)?;
                continue;
            }
            let name = Name::of(name, self.budget)?;
            left.push(Write::Value { name, value, is_element: false });
        }
        if let Some(new) = left.get_mut(at..) {
            new.reverse();
        }
        Ok(())
    }
}

fn is_scalar(value: Ref<'_>) -> bool {
    !matches!(value.kind(), Kind::Array | Kind::Object)
}

/// The attribute's name in a member's.
fn attribute(member: &str) -> Option<&str> {
    member.strip_prefix('@').filter(|name| xml::is_ncname(name) && *name != "xmlns")
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
#[must_use]
pub fn element_name(name: &str) -> Cow<'_, str> {
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
#[must_use]
pub fn member_name(name: &str) -> Cow<'_, str> {
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
    Key(&'x str),
    Value(Node<'x>),
    BeginArray,
    End,
}

/// The JSON of an XML element: a document element, or the first one in a SOAP body.
///
/// # Errors
/// [`Error::Budget`].
pub fn to_json(root: Node<'_>, budget: &Budget) -> Result<json::Document<'static>, Error> {
    let mut out = Values { out: Builder::new(), budget };
    let mut left = Vec::new();
    if matches!(root.local_name(), OBJECT | ARRAY | VALUE) {
        left.push(Build::Value(root));
    } else {
        out.out.begin_object();
        left.extend([Build::End, Build::Value(root), Build::Key(root.local_name())]);
    }
    while let Some(next) = left.pop() {
        match next {
            Build::Key(name) => out.key(&member_name(name))?,
            Build::BeginArray => {
                out.out.begin_array();
            }
            Build::End => {
                out.out.end();
            }
            Build::Value(node) => out.value(node, &mut left)?,
        }
    }
    Ok(out.out.finish())
}

/// The document under construction.
struct Values<'b> {
    out: Builder,
    budget: &'b Budget,
}

impl Values<'_> {
    fn charge(&self, text: &str) -> Result<(), Error> {
        self.budget.charge_steps(1)?;
        self.budget.charge_scanning(text.len())?;
        Ok(self.budget.charge_memory(json::quoted_len(text) + json::NODE_BYTES + 1)?)
    }

    fn key(&mut self, name: &str) -> Result<(), Error> {
        self.charge(name)?;
        self.out.key(name);
        Ok(())
    }

    /// A number, `true`, `false` or `null` if the text spells one; else a string.
    fn scalar(&mut self, text: &str) -> Result<(), Error> {
        self.charge(text)?;
        let trimmed = text.trim();
        let could =
            trimmed.starts_with(|first: char| "-tfn".contains(first) || first.is_ascii_digit());
        let parsed = could.then(|| json::Document::parse(trimmed.as_bytes()).ok()).flatten();
        match parsed.as_ref().map(json::Document::root) {
            Some(value) => self.out.embed(value),
            None => self.out.string(text),
        };
        Ok(())
    }

    fn value<'x>(&mut self, node: Node<'x>, left: &mut Vec<Build<'x>>) -> Result<(), Error> {
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
            self.out.begin_array();
            left.push(Build::End);
            let at = left.len();
            left.extend(elements().map(Build::Value));
            if let Some(new) = left.get_mut(at..) {
                new.reverse();
            }
            return Ok(());
        }
        let is_object =
            node.local_name() == OBJECT || has_attributes || elements().next().is_some();
        if !is_object {
            return self.scalar(&node.string_value());
        }
        self.out.begin_object();
        for attribute in node.attributes() {
            self.key(&format!("@{}", attribute.local_name()))?;
            self.scalar(attribute.text())?;
        }
        let text: String =
            node.children().filter(|child| !child.is_element()).map(text_node).collect();
        let text = if elements().next().is_some() { text.trim() } else { &text };
        if !text.is_empty() {
            self.key("$")?;
            self.scalar(text)?;
        }
        left.push(Build::End);
        self.leave_groups(node, left)
    }

    /// Elements of one name are one member, an array if there are several, or if an instruction says so.
    fn leave_groups<'x>(&self, node: Node<'x>, left: &mut Vec<Build<'x>>) -> Result<(), Error> {
        let multiple = self.multiple(node)?;
        let elements = node.children().filter(|child| child.is_element());
        let mut groups: Vec<(&str, Vec<Node<'x>>)> = Vec::new();
        let mut places = HashMap::new();
        for element in elements {
            let name = element.local_name();
            self.budget.charge_reading(name.len())?;
            self.budget.charge_memory(2 * size_of::<Build<'_>>())?;
            let place = *places.entry(name).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, group)) => group.push(element),
                None => groups.push((name, vec![element])),
            }
        }
        for (name, group) in groups.into_iter().rev() {
            if let [element] = *group
                && !multiple.contains(name)
            {
                left.push(Build::Value(element));
            } else {
                left.push(Build::End);
                left.extend(group.into_iter().rev().map(Build::Value));
                left.push(Build::BeginArray);
            }
            left.push(Build::Key(name));
        }
        Ok(())
    }

    /// The names of the children that are arrays, even of one element: those in an instruction `xml-multiple`, or that of
    /// the element behind it. Source: StAXON's `JsonXMLStreamConstants.MULTIPLE_PI_TARGET`.
    fn multiple<'x>(&self, node: Node<'x>) -> Result<HashSet<&'x str>, Error> {
        let mut names = HashSet::new();
        let mut is_next = false;
        for child in node.children() {
            if child.is_element() && is_next {
                names.insert(child.local_name());
                is_next = false;
            }
            if child.kind() != xml::Kind::ProcessingInstruction || child.local_name() != MULTIPLE {
                continue;
            }
            let name = child.text().trim();
            self.budget.charge_reading(name.len())?;
            self.budget.charge_memory(size_of::<&str>())?;
            match name.rsplit(':').next().filter(|local| !local.is_empty()) {
                Some(local) => {
                    names.insert(local);
                }
                None => is_next = true,
            }
        }
        Ok(names)
    }
}

fn text_node(node: Node<'_>) -> &str {
    if node.kind() == xml::Kind::Text { node.text() } else { "" }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn json_of(document: &xml::Document) -> String {
        let json = to_json(document.element().unwrap(), &Budget::default()).unwrap();
        json.text().to_owned()
    }

    /// JSON to XML, and back again to the same JSON or to `back`.
    #[track_caller]
    fn check(json: &str, xml: &str, back: &str) {
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root(), &Budget::default()).unwrap();
        let options = xml::WriterOptions { declaration: false, ..Default::default() };
        let written = String::from_utf8(made.write(options).unwrap()).unwrap();
        assert_eq!(written, xml);
        assert_eq!(json_of(&made), back);
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
        assert_eq!(json_of(&document), expect);
    }

    #[test]
    fn an_instruction_makes_an_array_of_one_element() {
        for (xml, expect) in [
            ("<a><?xml-multiple b?><b>1</b><c>2</c></a>", r#"{"a":{"b":[1],"c":2}}"#),
            (
                "<a><?xml-multiple?><b><?xml-multiple x:d?><x:d xmlns:x='x'/></b></a>",
                r#"{"a":{"b":[{"d":[""]}]}}"#,
            ),
            ("<a><?other b?><b>1</b></a>", r#"{"a":{"b":1}}"#),
        ] {
            let document = xml::Document::parse(xml.as_bytes()).unwrap();
            assert_eq!(json_of(&document), expect, "{xml}");
        }
    }

    #[test]
    fn deep_nesting_needs_no_stack() {
        let depth = 200;
        let xml = format!("{}{}", "<jsonArray>".repeat(depth), "</jsonArray>".repeat(depth));
        let document = xml::Document::parse(xml.as_bytes()).unwrap();
        let json = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(json_of(&document), json);

        let depth = 900;
        let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let document = json::Document::parse(json.as_bytes()).unwrap();
        let made = to_xml(document.root(), &Budget::default()).unwrap();
        assert_eq!(json_of(&made), json);
    }

    #[test]
    fn a_long_name_of_many_elements_is_kept_once_and_charged() {
        let name = "n".repeat(100_000);
        let json = format!("{{\"{name}\":[{}1]}}", "1,".repeat(20_000));
        let document = json::Document::parse(json.as_bytes()).unwrap();
        // A copy of the name for each element would take 2 GB.
        let budget = Budget::new(u64::MAX, 16 << 20);
        let made = to_xml(document.root(), &budget).unwrap();
        assert!(made.heap_bytes() < 4 << 20, "{}", made.heap_bytes());
        let few = Budget::new(1_000_000, 16 << 20);
        assert!(matches!(to_xml(document.root(), &few), Err(Error::Budget(_))));
    }
}
