//! Text of an outline about an element.

use mediation::NAMESPACE;
use model::Place;

use super::{Branch, Entry, Split};

/// The URLs in an endpoint, after its kind if it is a group.
pub(super) fn addresses(endpoint: xml::Node<'_>) -> String {
    let mut found = Vec::new();
    for node in endpoint.descendants().filter(|node| node.is_element()) {
        if let kind @ ("loadbalance" | "failover" | "recipientlist") = node.local_name() {
            found.push(format!("{kind}:"));
        }
        let uri = node.attribute("", "uri").or(node.attribute("", "uri-template"));
        let key = node.attribute("", "key").filter(|_| node != endpoint);
        found.extend(uri.or(key).map(str::to_owned));
    }
    found.join(" ")
}

/// The first of a handler's own branches takes over; the others handle its errors.
pub(super) fn as_handler(mut branch: Branch) -> Branch {
    branch.entry = Entry::Failure;
    branch
}

pub(super) fn split(element: &str) -> Split {
    match element {
        "filter" | "switch" | "conditionalRouter" | "validate" | "cache" | "throttle" | "in"
        | "out" => Split::One,
        "clone" | "iterate" | "scatter-gather" | "foreach" => Split::Copies,
        _ => Split::All,
    }
}

/// Attributes as they are written; those of `sequence` and `call-template` are in their branches too.
pub(super) fn attributes(node: xml::Node<'_>) -> String {
    let shown = node.attributes().filter(|attribute| {
        let name = attribute.local_name();
        !matches!(name, "description" | "trace" | "statistics") && !attribute.text().is_empty()
    });
    let shown = shown.map(|attribute| {
        let value = attribute.text().split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}={value}", attribute.local_name())
    });
    shown.collect::<Vec<_>>().join("  ")
}

/// The attributes of a step; `enrich` has them in its children.
pub(super) fn described(node: xml::Node<'_>) -> String {
    if node.local_name() == "enrich" {
        return children(node).map(label).collect::<Vec<_>>().join("  ");
    }
    attributes(node)
}

/// Name of a branch: `then`, `case regex=IBM`.
pub(super) fn label(node: xml::Node<'_>) -> String {
    format!("{} {}", node.local_name(), attributes(node)).trim().to_owned()
}

pub(super) fn named<'d>(node: xml::Node<'d>) -> &'d str {
    node.attribute("", "name").unwrap_or_default()
}

pub(super) fn child<'d>(parent: xml::Node<'d>, name: &str) -> Option<xml::Node<'d>> {
    children(parent).find(|child| child.local_name() == name)
}

pub(super) fn children<'d>(parent: xml::Node<'d>) -> impl Iterator<Item = xml::Node<'d>> {
    parent.children().filter(|child| child.is_element() && child.namespace() == NAMESPACE)
}

pub(super) fn place(node: xml::Node<'_>) -> Place {
    let xml::Position { line, column } = node.position();
    Place { line, column }
}
