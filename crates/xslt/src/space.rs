//! `xsl:strip-space`: a copy of a source without the white space that the sheet doesn't want to see.

use xml::{Builder, Document, EditError, Kind, Node, Sink, XML_NAMESPACE};

use crate::is_out;
use crate::program::Spaces;

/// Section 3.4.
pub(crate) fn stripped(source: &Document, spaces: &Spaces) -> Result<Document, EditError> {
    let mut builder = Builder::new();
    // For each open element: does it strip, does `xml:space` keep?
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut next = source.root().first_child();
    while let Some(node) = next {
        let (strips, keeps) = open.last().copied().unwrap_or((false, false));
        copy(node, strips && !keeps, &mut builder)?;
        if node.is_element() {
            let keeps = match node.attribute(XML_NAMESPACE, "space") {
                Some("preserve") => !is_out(&["xml:space in a source"]),
                Some("default") => false,
                Some(_) | None => keeps,
            };
            open.push((spaces.strips(node.namespace(), node.local_name()), keeps));
        }
        next = node.first_child();
        let mut at = node;
        while next.is_none() {
            if at.is_element() {
                builder.end_element()?;
                open.pop();
            }
            next = at.next_sibling();
            match at.parent() {
                Some(parent) if next.is_none() && parent.is_element() => at = parent,
                Some(_) | None => break,
            }
        }
    }
    Ok(builder.finish())
}

fn copy(node: Node<'_>, strip: bool, builder: &mut Builder) -> Result<(), EditError> {
    match node.kind() {
        Kind::Element => {
            builder.start_element(node.qname_ref())?;
            for (prefix, uri) in node.declarations() {
                builder.namespace(prefix, uri)?;
            }
            for attribute in node.attributes() {
                builder.attribute(attribute.qname_ref(), attribute.text())?;
            }
            Ok(())
        }
        Kind::Text => {
            let space =
                |text: &str| text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
            if strip && space(node.text()) { Ok(()) } else { builder.text(node.text()) }
        }
        Kind::Comment => builder.comment(node.text()),
        Kind::ProcessingInstruction => {
            builder.processing_instruction(node.local_name(), node.text())
        }
        Kind::Root | Kind::Attribute | Kind::Namespace => Ok(()),
    }
}
