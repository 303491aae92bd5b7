//! SOAP faults. Source: SOAP 1.1 section 4.4; SOAP 1.2 part 1 section 5.4.

use std::borrow::Cow;

use expression::{Budget, markup};
use xml::{Node, QNameRef, Sink as _, Writer};

use super::soap;
use crate::error::Failure;

/// A fault; `detail` is markup, and empty members are absent.
#[derive(Debug, Default)]
pub(crate) struct Fault<'f> {
    /// The local part of its name.
    pub(crate) code: Cow<'f, str>,
    pub(crate) reason: Cow<'f, str>,
    pub(crate) detail: Cow<'f, str>,
    /// The node, in SOAP 1.2.
    pub(crate) node: Cow<'f, str>,
    pub(crate) role: Cow<'f, str>,
}

impl Fault<'static> {
    /// `element`, a fault, for an envelope in `namespace`. Source: Synapse's `SOAPUtils`.
    ///
    /// # Errors
    /// The budget.
    pub(crate) fn read(
        element: Node<'_>,
        namespace: &str,
        budget: &Budget,
    ) -> Result<Self, Failure> {
        let text = |names: [&str; 2], inner: &str| {
            let found = child(element, names);
            let found = found.map(|it| child(it, [inner, inner]).unwrap_or(it));
            found.map(|it| it.string_value().trim().to_owned()).unwrap_or_default()
        };
        markup::charge_copy(element, budget)?;
        let code = text(["faultcode", "Code"], "Value");
        let code = code.rsplit(':').next().unwrap_or_default();
        // SOAP 1.1 refines them by dots, as in `Client.Authentication`.
        let code = code.split('.').next().unwrap_or_default();
        let code = match (code, namespace) {
            ("VersionMismatch" | "MustUnderstand", _) => code,
            ("Client", soap::SOAP12) => "Sender",
            (_, soap::SOAP12) => "Receiver",
            ("Sender", _) => "Client",
            _ => "Server",
        };
        let mut detail = Vec::new();
        for part in child(element, ["detail", "Detail"]).into_iter().flat_map(Node::children) {
            detail.append(&mut markup::write(part, budget)?);
        }
        Ok(Self {
            code: code.to_owned().into(),
            reason: text(["faultstring", "Reason"], "Text").into(),
            detail: String::from_utf8_lossy(&detail).into_owned().into(),
            node: text(["Node", "Node"], "").into(),
            role: text(["faultactor", "Role"], "").into(),
        })
    }
}

fn child<'d>(of: Node<'d>, names: [&str; 2]) -> Option<Node<'d>> {
    let mut elements = of.elements();
    elements.find(|child| names.contains(&child.local_name()))
}

impl Fault<'_> {
    /// Writes it into the body of an envelope in `namespace`, whose names have `prefix`.
    ///
    /// # Errors
    /// Text that XML does not allow.
    pub(crate) fn write(
        &self,
        writer: &mut Writer,
        (prefix, namespace): (&str, &str),
    ) -> Result<(), Failure> {
        let name = |local| QNameRef::new(prefix, namespace, local);
        let separator = if prefix.is_empty() { "" } else { ":" };
        let code = format!("{prefix}{separator}{}", self.code);
        writer.start_element(name("Fault"))?;
        if namespace == soap::SOAP11 {
            element(writer, QNameRef::local("faultcode"), &code)?;
            optional(writer, QNameRef::local("faultstring"), &self.reason)?;
            optional(writer, QNameRef::local("faultactor"), &self.role)?;
            markup(writer, QNameRef::local("detail"), &self.detail)?;
        } else {
            writer.start_element(name("Code"))?;
            element(writer, name("Value"), &code)?;
            writer.end_element()?;
            writer.start_element(name("Reason"))?;
            writer.start_element(name("Text"))?;
            writer.attribute(QNameRef::new("xml", xml::XML_NAMESPACE, "lang"), "en")?;
            writer.text(&self.reason)?;
            writer.end_element()?;
            writer.end_element()?;
            optional(writer, name("Node"), &self.node)?;
            optional(writer, name("Role"), &self.role)?;
            markup(writer, name("Detail"), &self.detail)?;
        }
        Ok(writer.end_element()?)
    }
}

fn optional(writer: &mut Writer, name: QNameRef<'_>, text: &str) -> Result<(), Failure> {
    if text.is_empty() { Ok(()) } else { element(writer, name, text) }
}

pub(crate) fn element(writer: &mut Writer, name: QNameRef<'_>, text: &str) -> Result<(), Failure> {
    writer.start_element(name)?;
    writer.text(text)?;
    Ok(writer.end_element()?)
}

/// An element with markup in it, if there is any.
fn markup(writer: &mut Writer, name: QNameRef<'_>, xml: &str) -> Result<(), Failure> {
    if !xml.is_empty() {
        writer.start_element(name)?;
        writer.raw(xml)?;
        writer.end_element()?;
    }
    Ok(())
}
