//! SOAP envelopes. Source: SOAP 1.1, and SOAP 1.2 part 1.

use expression::{Budget, markup};
use xml::{Node, Sink as _};

use super::Format;
use crate::Failure;

pub(crate) const SOAP11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
pub(crate) const SOAP12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// The namespace of an envelope in `format`; `None` if it has no envelope.
pub(crate) fn namespace(format: Format) -> Option<&'static str> {
    match format {
        Format::Soap11 => Some(SOAP11),
        Format::Soap12 => Some(SOAP12),
        Format::Json
        | Format::Xml
        | Format::Form
        | Format::Multipart
        | Format::Text
        | Format::Binary => None,
    }
}

/// The envelope's `Header` or `Body`, if the document is an envelope.
pub(crate) fn part<'d>(document: &'d xml::Document, local: &str) -> Option<Node<'d>> {
    let envelope = document.element().filter(|root| is_soap(*root, "Envelope"))?;
    envelope.children().find(|child| child.is_element() && is_soap(*child, local))
}

fn is_soap(node: Node<'_>, local: &str) -> bool {
    node.local_name() == local && matches!(node.namespace(), SOAP11 | SOAP12)
}

/// What Synapse calls the payload: the first element in the envelope's body, or the document element.
pub(crate) fn payload(document: &xml::Document) -> Option<Node<'_>> {
    match part(document, "Body") {
        Some(body) => body.children().find(|child| child.is_element()),
        None => document.element().filter(|root| !is_soap(*root, "Envelope")),
    }
}

/// The reason of a fault, if the envelope has one as its payload. Source: SOAP 1.1 section 4.4; SOAP 1.2 part 1, 5.4.2.
pub(crate) fn fault_reason(document: &xml::Document) -> Option<String> {
    let fault = payload(document).filter(|payload| is_soap(*payload, "Fault"))?;
    let children = fault.children().filter(|child| child.is_element());
    let mut reasons =
        children.filter(|child| matches!(child.local_name(), "faultstring" | "Reason"));
    Some(reasons.next().map_or_else(String::new, |reason| reason.string_value().trim().to_owned()))
}

/// The text of a header block of WS-Addressing; of an endpoint reference, its address. Source: Web Services Addressing 1.0,
/// and its submission of August 2004.
pub(crate) fn addressing(document: &xml::Document, local: &str) -> Option<String> {
    const NAMESPACES: [&str; 2] = [
        "http://www.w3.org/2005/08/addressing",
        "http://schemas.xmlsoap.org/ws/2004/08/addressing",
    ];
    let is_it = |node: &Node<'_>, local: &str| {
        node.is_element() && node.local_name() == local && NAMESPACES.contains(&node.namespace())
    };
    let block = part(document, "Header")?.children().find(|node| is_it(node, local))?;
    let address = block.children().find(|node| is_it(node, "Address"));
    Some(address.unwrap_or(block).string_value().trim().to_owned())
}

/// Whether the first element of `text` is called `Envelope`.
pub(crate) fn is_envelope(text: &str) -> bool {
    let tag = without_declaration(text).trim_start().strip_prefix('<').unwrap_or_default();
    let name = tag.split(|next: char| next.is_whitespace() || next == '>').next();
    name.and_then(|name| name.rsplit(':').next()) == Some("Envelope")
}

/// An envelope up to the start tag of its body, or a little further. `None` if that is not before the last piece, or
/// something is malformed: then the whole has to be read.
pub(crate) fn up_to_body(
    bytes: &[u8],
    budget: &Budget,
) -> Result<Option<xml::Document>, expression::Error> {
    const FIRST: usize = 256;
    let mut feed = xml::DocumentFeed::new(&xml::Options::default());
    let (mut rest, mut len) = (bytes, FIRST);
    while let Some((piece, more)) = rest.split_at_checked(len).filter(|(_, more)| !more.is_empty())
    {
        budget.charge_reading(piece.len())?;
        if feed.feed(piece).is_err() {
            return Ok(None);
        }
        if [SOAP11, SOAP12].iter().any(|uri| feed.has_child(uri, "Body")) {
            return Ok(Some(feed.cut()));
        }
        (rest, len) = (more, len.saturating_mul(2));
    }
    Ok(None)
}

/// The source of an envelope in `namespace` up to its payload, and what comes after a new one. `None` if a new payload
/// without a namespace would get one there.
pub(crate) fn around_payload<'d>(
    old: &'d xml::Document,
    namespace: &str,
) -> Option<(&'d str, String)> {
    let body = part(old, "Body").filter(|body| body.namespace() == namespace)?;
    let envelope = body.parent()?;
    let payload = body.children().find(|child| child.is_element())?;
    let has_default = body.lookup_namespace("").is_some_and(|uri| !uri.is_empty());
    let before = envelope.source_before(payload).filter(|_| !has_default)?;
    let end = |node: Node<'_>| format!("</{}:{}>", node.prefix(), node.local_name());
    Some((before, end(body) + &end(envelope)))
}

/// An envelope in `namespace` with the header of `old`, if that is an envelope, and `payload` as its body.
///
/// # Errors
/// Text that XML does not allow.
pub(crate) fn envelope(
    namespace: &str,
    old: Option<&xml::Document>,
    payload: &str,
    budget: &Budget,
) -> Result<Vec<u8>, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = xml::Writer::new(options)?;
    let old_root = old.and_then(xml::Document::element).filter(|root| is_soap(*root, "Envelope"));
    let prefix = old_root.map_or("soapenv", Node::prefix);
    writer.start_element(xml::QNameRef::new(prefix, namespace, "Envelope"))?;
    for (prefix, uri) in old_root.into_iter().flat_map(Node::declarations) {
        writer.namespace(prefix, uri)?;
    }
    if let Some(header) = old.and_then(|old| part(old, "Header")) {
        markup::charge_copy(header, budget)?;
        writer.tree(header)?;
    }
    writer.start_element(xml::QNameRef::new(prefix, namespace, "Body"))?;
    writer.raw(without_declaration(payload))?;
    Ok(writer.finish()?)
}

/// The text after an XML declaration and the white space that follows it.
pub(crate) fn without_declaration(text: &str) -> &str {
    if !text.starts_with("<?xml") || text.starts_with("<?xml-") {
        return text;
    }
    let end = text.as_bytes().windows(2).position(|two| two == b"?>");
    end.and_then(|end| text.get(end + 2..)).map_or(text, str::trim_start)
}
