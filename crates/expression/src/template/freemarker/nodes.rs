//! XML as a template reads it: the nodes that a name selects are a sequence, and a single one is also a hash and a
//! text. Source: FreeMarker's `freemarker.ext.dom`.

use std::borrow::Cow;
use std::rc::Rc;

use xml::{Kind, Node};
use xpath::Budget;

use super::evaluate::{Model, Step, fail};
use crate::error::Error;
use crate::markup;
use crate::value::Value;

/// Prefixes and their namespaces, of `<#ftl ns_prefixes={...}>`. `D` is the default namespace.
pub(super) type Namespaces = [(Box<str>, Box<str>)];

#[derive(Clone)]
pub(super) enum Nodes<'s> {
    /// The payload, whose only child is this element.
    Document(Node<'s>),
    One(Node<'s>),
    Many(Rc<[Node<'s>]>),
}

impl<'s> Nodes<'s> {
    /// Nodes that have been charged.
    fn of(found: Vec<Node<'s>>) -> Self {
        match *found {
            [only] => Self::One(only),
            _ => Self::Many(found.into()),
        }
    }

    /// Charges and collects `nodes`.
    pub(super) fn collect(nodes: impl Iterator<Item = Node<'s>>, budget: &Budget) -> Step<Self> {
        let mut found = Vec::new();
        for node in nodes {
            push(&mut found, node, budget)?;
        }
        Ok(Self::of(found))
    }

    pub(super) fn as_slice(&self) -> &[Node<'s>] {
        match self {
            Self::Document(node) | Self::One(node) => std::slice::from_ref(node),
            Self::Many(nodes) => nodes,
        }
    }

    /// What `key` selects in all nodes: children by name, `*` for all, `**` for all descendants, `@name` for an
    /// attribute, `@@` for all, or a text: `@@text`, `@@markup`, `@@local_name`.
    pub(super) fn member(
        &self,
        key: &str,
        namespaces: &Namespaces,
        at: usize,
        budget: &Budget,
    ) -> Step<Model<'s>> {
        if let Some(key) = key.strip_prefix("@@").filter(|key| !key.is_empty()) {
            return self.special(key, at, budget).map(|text| Model::Value(Value::Text(text)));
        }
        let attribute = key.strip_prefix('@');
        let name = expanded(key, namespaces);
        let mut found = Vec::new();
        for node in self.as_slice() {
            if let Some(name) = attribute {
                for attribute in node.attributes() {
                    budget.charge_steps(1)?;
                    if matches!(name, "@" | "*") || is_attribute(attribute, name, namespaces) {
                        push(&mut found, attribute, budget)?;
                    }
                }
                continue;
            }
            // An element whose name no element has is not looked for.
            let name = match (key, name) {
                ("*" | "**", _) => None,
                (_, Some((namespace, local))) => {
                    let Some(name) = node.document().name_id(namespace, local) else { continue };
                    Some(name)
                }
                (_, None) => continue,
            };
            let mut select = |node: Node<'s>| {
                budget.charge_steps(1)?;
                if node.is_element() && name.is_none_or(|name| node.name() == name) {
                    push(&mut found, node, budget)?;
                }
                Step::Ok(())
            };
            match (self, key) {
                (Self::Document(_), "**") => {
                    std::iter::once(*node).chain(node.descendants()).try_for_each(select)?;
                }
                (Self::Document(_), _) => select(*node)?,
                (_, "**") => node.descendants().try_for_each(select)?,
                (_, _) => node.children().try_for_each(select)?,
            }
        }
        Ok(Model::Nodes(Self::of(found)))
    }

    fn special(&self, key: &str, at: usize, budget: &Budget) -> Step<Cow<'s, str>> {
        match key {
            "text" => {
                let mut text = String::new();
                for node in self.as_slice() {
                    let mut bytes = node.text().len();
                    for part in node.descendants() {
                        budget.charge_steps(1)?;
                        bytes += part.text().len();
                    }
                    budget.charge_scanning(bytes)?;
                    budget.charge_memory(bytes)?;
                    node.write_string_value(&mut text);
                }
                Ok(text.into())
            }
            "markup" => {
                let mut text = String::new();
                for node in self.as_slice() {
                    if !node.is_element() {
                        return fail(at, "`@@markup` requires elements");
                    }
                    match markup::write(*node, budget) {
                        Ok(written) => text.push_str(&String::from_utf8_lossy(&written)),
                        Err(Error::Budget(exceeded)) => return Err(exceeded.into()),
                        Err(error) => return fail(at, error.to_string()),
                    }
                }
                Ok(text.into())
            }
            "local_name" => self.single(at).map(|node| Cow::Borrowed(node.local_name())),
            other => {
                let known = "`@@text`, `@@markup` and `@@local_name`";
                fail(at, format!("unsupported `@@{other}`; supported are {known}"))
            }
        }
    }

    /// The only node.
    pub(super) fn single(&self, at: usize) -> Step<Node<'s>> {
        match *self.as_slice() {
            [node] => Ok(node),
            [] => fail(
                at,
                "no node of the XML payload is selected; give a default with `[0]!`, or test with `?has_content`. For \
                 nodes in a namespace write `<#ftl ns_prefixes={\"p\": \"urn:x\"}>` at the beginning, and `[\"p:name\"]`",
            ),
            [_, _, ..] => {
                let count = self.as_slice().len();
                fail(
                    at,
                    format!("{count} nodes, but one is expected; use `[0]`, `<#list>` or `?join`"),
                )
            }
        }
    }

    /// The text of one attribute, or of one element that has no elements in it.
    pub(super) fn text(&self, at: usize, budget: &Budget) -> Step<Cow<'s, str>> {
        let node = self.single(at)?;
        if let Self::Document(_) = self {
            let name = node.local_name();
            return fail(
                at,
                format!("`payload` is an XML document; use `payload.{name}` or `payload.@@markup`"),
            );
        }
        if node.kind() != Kind::Element {
            return Ok(Cow::Borrowed(node.text()));
        }
        if let Some(text) = node.sole_text() {
            return Ok(Cow::Borrowed(text));
        }
        let mut bytes = 0;
        for child in node.children() {
            budget.charge_steps(1)?;
            if child.is_element() {
                let (name, child) = (node.local_name(), child.local_name());
                return fail(
                    at,
                    format!(
                        "the element `{name}` has elements in it; use `.{child}`, `.@@text` or `.@@markup`"
                    ),
                );
            }
            bytes += child.text().len();
        }
        budget.charge_reading(bytes)?;
        budget.charge_memory(bytes)?;
        Ok(node.string_value())
    }
}

fn push<'s>(found: &mut Vec<Node<'s>>, node: Node<'s>, budget: &Budget) -> Step<()> {
    // A vector that grew, and its copy.
    budget.charge_memory(3 * size_of::<Node<'_>>())?;
    found.push(node);
    Ok(())
}

/// The namespace and the local name; `None` for a prefix that is not declared.
fn expanded<'n>(name: &'n str, namespaces: &'n Namespaces) -> Option<(&'n str, &'n str)> {
    let of = |prefix: &str| {
        let found = namespaces.iter().find(|(known, _)| **known == *prefix);
        found.map(|(_, namespace)| &**namespace)
    };
    match name.split_once(':') {
        None => Some((of("D").unwrap_or_default(), name)),
        Some(("N", local)) => Some(("", local)),
        Some((prefix, local)) => Some((of(prefix)?, local)),
    }
}

/// Whether the attribute has this name as it is written in the document, or with a declared prefix.
fn is_attribute(attribute: Node<'_>, name: &str, namespaces: &Namespaces) -> bool {
    let (prefix, local) = name.split_once(':').unwrap_or(("", name));
    if attribute.local_name() != local {
        return false;
    }
    let is_declared = || {
        let found = expanded(name, namespaces).filter(|_| !prefix.is_empty());
        found.is_some_and(|(namespace, _)| attribute.namespace() == namespace)
    };
    attribute.prefix() == prefix || is_declared()
}
