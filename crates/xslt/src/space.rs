//! `xsl:strip-space`: copies a source without the whitespace-only text that the stylesheet strips.

use xml::{Document, Kind, Node, XML_NAMESPACE};
use xpath::{Budget, BudgetExceeded};

use crate::knock_out::is_out;
use crate::program::Spaces;

/// An open element.
#[derive(Clone, Copy, Default)]
struct Open<'d> {
    element: Option<Node<'d>>,
    strips: bool,
    /// `xml:space="preserve"` is in effect.
    preserves: bool,
}

/// Copies a document without stripped whitespace (section 3.4). Charges a step per node.
pub(crate) fn stripped(
    source: &Document,
    spaces: &Spaces,
    budget: &Budget,
) -> Result<Document, BudgetExceeded> {
    budget.charge_memory(source.heap_bytes())?;
    let mut exceeded = None;
    let mut open: Vec<Open<'_>> = Vec::new();
    let copy = source.pruned(|node| {
        if let Err(error) = budget.charge_steps(1) {
            exceeded = Some(error);
            return true;
        }
        while open.last().is_some_and(|open| open.element != node.parent()) {
            open.pop();
        }
        let Open { strips, preserves, .. } = open.last().copied().unwrap_or_default();
        if node.is_element() {
            let preserves = match node.attribute(XML_NAMESPACE, "space") {
                Some("preserve") => !is_out(&["xml:space in a source"]),
                Some("default") => false,
                Some(_) | None => preserves,
            };
            let strips = spaces.strips(node.namespace(), node.local_name());
            open.push(Open { element: Some(node), strips, preserves });
        }
        let is_space = |text: &str| text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        strips && !preserves && node.kind() == Kind::Text && is_space(node.text())
    });
    exceeded.map_or(Ok(copy), Err)
}
