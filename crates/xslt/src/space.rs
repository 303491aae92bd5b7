//! `xsl:strip-space`: a copy of a source without the white space that the sheet doesn't want to see.

use xml::{Document, Kind, Node, XML_NAMESPACE};

use crate::is_out;
use crate::program::Spaces;

/// What is so for the texts of an open element.
#[derive(Clone, Copy, Default)]
struct Open<'d> {
    element: Option<Node<'d>>,
    strips: bool,
    /// By `xml:space`, here or further out.
    keeps: bool,
}

/// Section 3.4.
pub(crate) fn stripped(source: &Document, spaces: &Spaces) -> Document {
    let mut open: Vec<Open<'_>> = Vec::new();
    source.pruned(|node| {
        while open.last().is_some_and(|open| open.element != node.parent()) {
            open.pop();
        }
        let Open { strips, keeps, .. } = open.last().copied().unwrap_or_default();
        if node.is_element() {
            let keeps = match node.attribute(XML_NAMESPACE, "space") {
                Some("preserve") => !is_out(&["xml:space in a source"]),
                Some("default") => false,
                Some(_) | None => keeps,
            };
            let strips = spaces.strips(node.namespace(), node.local_name());
            open.push(Open { element: Some(node), strips, keeps });
        }
        let is_space = |text: &str| text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        strips && !keeps && node.kind() == Kind::Text && is_space(node.text())
    })
}
