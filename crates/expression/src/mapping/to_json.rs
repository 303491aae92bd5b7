//! From XML to JSON.

use std::borrow::Cow;
use std::collections::HashMap;

use xml::Node;
use xpath::Budget;

use super::{ARRAY, MULTIPLE, NIL, OBJECT, Rules, VALUE, XSI, member_name};
use crate::error::Error;
use crate::json::{self, Builder};

/// Parts left to build.
enum Build<'x> {
    Key(Cow<'x, str>),
    Value(Node<'x>),
    BeginArray,
    End,
}

/// The elements of one member.
struct Group<'x> {
    key: Cow<'x, str>,
    /// An instruction asks for it.
    is_array: bool,
    elements: Vec<Node<'x>>,
}

/// The JSON of an XML element: a document element, or the first one in a SOAP body.
///
/// # Errors
/// [`Error::Budget`].
pub fn to_json(
    root: Node<'_>,
    rules: &Rules,
    budget: &Budget,
) -> Result<json::Document<'static>, Error> {
    let mut out = Values { out: Builder::new(), rules, budget };
    let mut left = Vec::new();
    if matches!(root.local_name(), OBJECT | ARRAY | VALUE) {
        left.push(Build::Value(root));
    } else {
        out.out.begin_object();
        left.extend([Build::End, Build::Value(root), Build::Key(out.name(root))]);
    }
    while let Some(next) = left.pop() {
        match next {
            Build::Key(name) => out.key(&member_name(&name))?,
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
    rules: &'b Rules,
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

    fn name<'x>(&self, node: Node<'x>) -> Cow<'x, str> {
        if !self.rules.prefixes || node.prefix().is_empty() {
            return node.local_name().into();
        }
        format!("{}{}{}", node.prefix(), self.rules.separator, node.local_name()).into()
    }

    /// A number, `true`, `false` or `null` if the text spells one; else a string.
    fn scalar(&mut self, text: &str) -> Result<(), Error> {
        self.charge(text)?;
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let could = self.rules.auto_primitive
            && (is_number || matches!(text, "true" | "false" | "null"))
            && !text.ends_with(|last: char| last.is_ascii_whitespace());
        let is_string = match &self.rules.strings {
            Some(strings) if could && is_number => strings.is_match(text, self.budget)?,
            Some(_) | None => false,
        };
        let parse = || json::Document::parse(text.as_bytes()).ok();
        let parsed = (could && !is_string).then(parse).flatten();
        match parsed.as_ref().map(json::Document::root) {
            Some(value) => self.out.embed(value),
            None => self.out.string(text),
        };
        Ok(())
    }

    fn value<'x>(&mut self, node: Node<'x>, left: &mut Vec<Build<'x>>) -> Result<(), Error> {
        let has_members =
            node.attributes().next().is_some() || self.declarations(node).next().is_some();
        if self.rules.nil && is_nil(node) {
            return self.null();
        }
        let mut children = node.elements();
        // An array inside an element stands for the element's value.
        let inner = match (children.next(), children.next()) {
            (Some(only), None) if node.local_name() != ARRAY && !has_members => Some(only),
            _ => None,
        };
        let node = inner.filter(|only| only.local_name() == ARRAY).unwrap_or(node);
        let elements = || node.elements();
        if node.local_name() == ARRAY && !has_members {
            self.out.begin_array();
            left.push(Build::End);
            let at = left.len();
            left.extend(elements().map(Build::Value));
            if let Some(new) = left.get_mut(at..) {
                new.reverse();
            }
            return Ok(());
        }
        let is_object = node.local_name() == OBJECT
            || has_members
            || elements().next().is_some()
            || self.rules.reads_multiple && node.children().any(|child| multiple(child).is_some());
        if !is_object {
            return match node.string_value() {
                empty if empty.is_empty() && self.rules.null_for_empty => self.null(),
                text => self.scalar(&text),
            };
        }
        self.out.begin_object();
        self.attributes(node)?;
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

    fn null(&mut self) -> Result<(), Error> {
        self.charge("")?;
        self.out.null();
        Ok(())
    }

    /// Prefixes and namespaces that become members.
    fn declarations<'x>(&self, node: Node<'x>) -> impl Iterator<Item = (&'x str, &'x str)> {
        let all = node.declarations().filter(|_| self.rules.prefixes && self.rules.declarations);
        let nil = self.rules.nil;
        all.filter(move |(_, uri)| !(nil && *uri == XSI))
    }

    fn attributes(&mut self, node: Node<'_>) -> Result<(), Error> {
        for (prefix, uri) in self.declarations(node).collect::<Vec<_>>() {
            let key = match prefix {
                "" => "@xmlns".to_owned(),
                prefix => format!("@xmlns{}{prefix}", self.rules.separator),
            };
            self.key(&key)?;
            self.charge(uri)?;
            self.out.string(uri);
        }
        for attribute in node.attributes() {
            self.key(&format!("@{}", self.name(attribute)))?;
            self.scalar(attribute.text())?;
        }
        Ok(())
    }

    /// Elements of one name are one member, an array if there are several, or if an instruction asks for it.
    fn leave_groups<'x>(&self, node: Node<'x>, left: &mut Vec<Build<'x>>) -> Result<(), Error> {
        let mut groups: Vec<Group<'x>> = Vec::new();
        let mut places: HashMap<Cow<'x, str>, usize> = HashMap::new();
        // By an instruction without a name.
        let mut is_next_array = false;
        for child in node.children() {
            let (key, element) = match multiple(child) {
                Some("") => {
                    is_next_array = self.rules.reads_multiple;
                    continue;
                }
                Some(name) if self.rules.reads_multiple => (self.named(name), None),
                None if child.is_element() => (self.name(child), Some(child)),
                Some(_) | None => continue,
            };
            self.budget.charge_reading(key.len())?;
            self.budget.charge_memory(2 * size_of::<Build<'_>>() + size_of::<Group<'_>>())?;
            let is_array = element.is_none() || std::mem::take(&mut is_next_array);
            let known = places.get(&key).copied();
            match known.and_then(|place| groups.get_mut(place)) {
                Some(group) if self.rules.auto_array || group.is_array || is_array => {
                    group.is_array |= is_array;
                    group.elements.extend(element);
                }
                Some(_) | None => {
                    places.insert(key.clone(), groups.len());
                    groups.push(Group { key, is_array, elements: element.into_iter().collect() });
                }
            }
        }
        for Group { key, is_array, elements } in groups.into_iter().rev() {
            if let ([element], false) = (&*elements, is_array) {
                left.push(Build::Value(*element));
            } else {
                left.push(Build::End);
                left.extend(elements.into_iter().rev().map(Build::Value));
                left.push(Build::BeginArray);
            }
            left.push(Build::Key(key));
        }
        Ok(())
    }

    /// The name in an instruction as that of a member.
    fn named<'x>(&self, name: &'x str) -> Cow<'x, str> {
        match name.split_once(':') {
            Some((prefix, local)) if self.rules.prefixes => {
                format!("{prefix}{}{local}", self.rules.separator).into()
            }
            Some((_, local)) => local.into(),
            None => name.into(),
        }
    }
}

/// The name in an instruction `xml-multiple`; empty: that of the next element. Source: StAXON's
/// `JsonXMLStreamConstants.MULTIPLE_PI_TARGET`.
fn multiple(child: Node<'_>) -> Option<&str> {
    let is_one = child.kind() == xml::Kind::ProcessingInstruction && child.local_name() == MULTIPLE;
    is_one.then(|| child.text().trim())
}

fn is_nil(node: Node<'_>) -> bool {
    [XSI, ""].iter().any(|namespace| node.attribute(namespace, NIL) == Some("true"))
}

fn text_node(node: Node<'_>) -> &str {
    if node.kind() == xml::Kind::Text { node.text() } else { "" }
}
