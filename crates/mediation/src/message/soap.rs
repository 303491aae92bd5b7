//! SOAP envelopes. Source: SOAP 1.1, and SOAP 1.2 part 1.

use expression::{Budget, markup};
use xml::reader::{Event, Reader};
use xml::{Node, Sink as _};

use super::Format;
use crate::error::Failure;

pub(crate) const SOAP11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
pub(crate) const SOAP12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// The namespaces of WS-Addressing: the final one, and that of the submission.
pub(crate) const ADDRESSING: [&str; 2] =
    ["http://www.w3.org/2005/08/addressing", "http://schemas.xmlsoap.org/ws/2004/08/addressing"];

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
    is_named((node.local_name(), node.namespace()), local)
}

fn is_named((name, namespace): (&str, &str), local: &str) -> bool {
    name == local && matches!(namespace, SOAP11 | SOAP12)
}

/// Synapse's payload: the first element in the envelope's body, or the document element.
pub(crate) fn payload(document: &xml::Document) -> Option<Node<'_>> {
    match part(document, "Body") {
        Some(body) => body.elements().next(),
        None => document.element().filter(|root| !is_soap(*root, "Envelope")),
    }
}

/// The reason of a fault, if the envelope has one as its payload. Source: SOAP 1.1 section 4.4; SOAP 1.2 part 1, 5.4.2.
pub(crate) fn fault_reason(document: &xml::Document) -> Option<String> {
    let fault = payload(document).filter(|payload| is_fault(*payload))?;
    let children = fault.elements();
    let mut reasons =
        children.filter(|child| matches!(child.local_name(), "faultstring" | "Reason"));
    Some(reasons.next().map_or_else(String::new, |reason| reason.string_value().trim().to_owned()))
}

/// The text of a header block of WS-Addressing; of an endpoint reference, its address. Source: Web Services Addressing
/// 1.0, and its submission of August 2004.
pub(crate) fn addressing(document: &xml::Document, local: &str) -> Option<String> {
    let is_it = |node: &Node<'_>, local: &str| {
        node.is_element() && node.local_name() == local && ADDRESSING.contains(&node.namespace())
    };
    let block = part(document, "Header")?.children().find(|node| is_it(node, local))?;
    let address = block.children().find(|node| is_it(node, "Address"));
    Some(address.unwrap_or(block).string_value().trim().to_owned())
}

/// Whether the payload of the document `bytes` is a fault. Nothing is parsed after its start tag, which is mostly near
/// the beginning.
pub(crate) fn begins_with_fault(bytes: &[u8]) -> bool {
    const BEGINNING: usize = 512;
    if memchr::memmem::find(bytes, b"Fault").is_none() {
        return false;
    }
    let beginning = bytes.get(..BEGINNING).and_then(is_fault_first);
    beginning.or_else(|| is_fault_first(bytes)).unwrap_or_default()
}

/// `None` without a payload, or if the text before it is malformed.
fn is_fault_first(bytes: &[u8]) -> Option<bool> {
    let input = xml::Input::new(bytes, &xml::Options::default()).ok()?;
    let mut reader = Reader::new(&input);
    // How many elements are open, and how many of them are around the payload.
    let (mut depth, mut around) = (0_usize, 0);
    loop {
        match reader.next_event().ok()?? {
            Event::Start(start) => {
                let name = (start.local_name(), start.namespace());
                let is_around = match depth {
                    0 => is_named(name, "Envelope"),
                    1 => is_named(name, "Body"),
                    _ => false,
                };
                let is_header = depth == 1;
                if depth == around && !is_around && !is_header {
                    return Some(is_named(name, "Fault"));
                }
                depth += 1;
                around += usize::from(is_around);
            }
            // The end of a body without a payload.
            Event::End if around == 2 && depth == 2 => return Some(false),
            Event::End => depth = depth.checked_sub(1)?,
            Event::Text(_) | Event::Comment(_) | Event::ProcessingInstruction { .. } => {}
        }
    }
}

/// Whether the first element of `text`, which has no XML declaration, is called `Envelope`.
pub(crate) fn is_envelope(text: &str) -> bool {
    let tag = text.trim_start().strip_prefix('<').unwrap_or_default();
    let end = tag.bytes().position(|byte| byte == b'>' || byte.is_ascii_whitespace());
    let prefix = tag.get(..end.unwrap_or(tag.len())).and_then(|name| name.strip_suffix("Envelope"));
    prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(':'))
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

/// The source of an envelope up to its payload, and the pieces of the text after a new one.
pub(crate) type Around<'d> = (&'d str, [&'d str; 9]);

/// The text around the result of [`payload`], if that is in an envelope in `namespace`. `None` if a new payload without
/// a namespace would get one there.
pub(crate) fn around_payload<'d>(payload: Node<'d>, namespace: &str) -> Option<Around<'d>> {
    let body = payload.parent().filter(|body| body.is_element())?;
    let envelope = body.parent().filter(|_| body.namespace() == namespace)?;
    let has_default = body.lookup_namespace("").is_some_and(|uri| !uri.is_empty());
    let (inner, outer) = (body.prefix(), envelope.prefix());
    let is_prefixed = !inner.is_empty() && !outer.is_empty();
    let before = envelope.source_before(payload).filter(|_| is_prefixed && !has_default)?;
    let names = (body.local_name(), envelope.local_name());
    Some((before, ["</", inner, ":", names.0, "></", outer, ":", names.1, ">"]))
}

/// An envelope in `namespace` with the header of `old`, which is an envelope or a header, and a body that `payload`
/// writes; it gets the prefix of SOAP's names.
///
/// # Errors
/// As `payload`; the budget.
pub(crate) fn envelope(
    namespace: &str,
    old: Option<&xml::Document>,
    budget: &Budget,
    payload: impl FnOnce(&mut xml::Writer, &str) -> Result<(), Failure>,
) -> Result<Vec<u8>, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = xml::Writer::new(options)?;
    let old_root = old.and_then(xml::Document::element).filter(|root| is_soap(*root, "Envelope"));
    let old_prefix = old_root.map(Node::prefix).filter(|prefix| !prefix.is_empty());
    let prefix = old_prefix.unwrap_or("soapenv");
    writer.start_element(xml::QNameRef::new(prefix, namespace, "Envelope"))?;
    if let Some(root) = old_root {
        // A payload without a namespace would get a default one.
        let is_free = |(declared, uri): &(&str, &str)| {
            !declared.is_empty() && (*declared != prefix || *uri == namespace)
        };
        declare(root.declarations().filter(is_free), namespace, &mut writer)?;
    }
    if let Some(old) = old.and_then(header) {
        markup::charge_copy(old, budget)?;
        write_header(old, (prefix, namespace), &mut writer)?;
    }
    writer.start_element(xml::QNameRef::new(prefix, namespace, "Body"))?;
    payload(&mut writer, prefix)?;
    Ok(writer.finish()?)
}

/// Declares namespaces, but for that of another version of SOAP.
fn declare<'d>(
    declarations: impl Iterator<Item = (&'d str, &'d str)>,
    namespace: &str,
    out: &mut xml::Writer,
) -> Result<(), Failure> {
    let is_other = |uri: &str| uri != namespace && matches!(uri, SOAP11 | SOAP12);
    for (prefix, uri) in declarations.filter(|(_, uri)| !is_other(uri)) {
        out.namespace(prefix, uri)?;
    }
    Ok(())
}

/// The header of an envelope, or a document that is one.
pub(crate) fn header(document: &xml::Document) -> Option<Node<'_>> {
    let own = || document.element().filter(|root| is_soap(*root, "Header"));
    part(document, "Header").or_else(own)
}

/// Writes a header, perhaps of the other version: its blocks keep `actor` or `role` and `mustUnderstand`, and lose
/// other attributes of the old version. Source: Synapse's `SOAPUtils`.
fn write_header(
    header: Node<'_>,
    (prefix, namespace): (&str, &str),
    out: &mut xml::Writer,
) -> Result<(), Failure> {
    if header.namespace() == namespace {
        return Ok(out.tree(header)?);
    }
    out.start_element(xml::QNameRef::new(prefix, namespace, "Header"))?;
    declare(header.declarations(), namespace, out)?;
    for block in header.elements() {
        out.start_element(block.qname_ref())?;
        declare(block.declarations(), namespace, out)?;
        for attribute in block.attributes() {
            let text = attribute.text();
            if attribute.namespace() != header.namespace() {
                out.attribute(attribute.qname_ref(), text)?;
                continue;
            }
            let is_true = matches!(text.trim(), "1" | "true");
            let new = match (attribute.local_name(), namespace) {
                ("actor", SOAP12) => Some(("role", text)),
                ("role", SOAP11) => Some(("actor", text)),
                ("mustUnderstand", SOAP11) => {
                    Some(("mustUnderstand", if is_true { "1" } else { "0" }))
                }
                ("mustUnderstand", _) => {
                    Some(("mustUnderstand", if is_true { "true" } else { "false" }))
                }
                _ => None,
            };
            if let Some((local, text)) = new {
                out.attribute(xml::QNameRef::new("soapenv", namespace, local), text)?;
            }
        }
        for child in block.children() {
            out.tree(child)?;
        }
        out.end_element()?;
    }
    Ok(out.end_element()?)
}

/// A header without blocks.
pub(crate) fn empty_header() -> Result<xml::Document, Failure> {
    let mut out = xml::Builder::new();
    out.start_element(xml::QNameRef::new("soapenv", SOAP11, "Header"))?;
    out.end_element()?;
    Ok(out.finish())
}

/// Whether a payload is a fault.
pub(crate) fn is_fault(payload: Node<'_>) -> bool {
    is_soap(payload, "Fault")
}

/// The text after an XML declaration and the white space that follows it.
pub(crate) fn without_declaration(text: &str) -> &str {
    if !text.starts_with("<?xml") || text.starts_with("<?xml-") {
        return text;
    }
    // No value in it may have a `>`.
    let end = memchr::memchr(b'>', text.as_bytes()).and_then(|at| text.split_at_checked(at));
    let rest = end.and_then(|(declaration, end)| declaration.ends_with('?').then_some(end));
    rest.and_then(|rest| rest.strip_prefix('>')).map_or(text, str::trim_start)
}
