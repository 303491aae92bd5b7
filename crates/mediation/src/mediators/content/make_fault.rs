//! `makefault`: turns the message into a fault.

use std::borrow::Cow;

use expression::{BodyUse, Budget, Expression};
use xml::{QNameRef, Sink as _, Writer};

use crate::error::Failure;
use crate::message::fault::Fault;
use crate::message::{Direction, Format, Message, fault, soap};
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element, serialise};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Soap11,
    Soap12,
    /// Plain XML without an envelope.
    Pox,
}

#[derive(Debug)]
struct MakeFault {
    version: Version,
    response: bool,
    /// A name such as `soap11Env:Server`; only its local part counts.
    code: Expression,
    reason: Expression,
    detail: Option<Detail>,
    node: Box<str>,
    role: Box<str>,
}

#[derive(Debug)]
enum Detail {
    Computed(Expression),
    /// Elements, serialised.
    Xml(Box<str>),
}

impl Mediator for MakeFault {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        match self.version {
            Version::Soap11 => self.envelope(Format::Soap11, soap::SOAP11, scene, message)?,
            Version::Soap12 => self.envelope(Format::Soap12, soap::SOAP12, scene, message)?,
            Version::Pox => {
                self.pox(scene, message)?;
                // No receiver sees that in its body.
                message.become_fault();
            }
        }
        if self.response {
            message.direction = Direction::Response;
        }
        Ok(Next::Continue)
    }
}

impl MakeFault {
    /// A fault with the header of the message.
    fn envelope(
        &self,
        format: Format,
        namespace: &str,
        scene: &Scene<'_>,
        message: &mut Message,
    ) -> Result<(), Failure> {
        let code = scene.text(&self.code, message)?;
        let fault = Fault {
            code: code.rsplit(':').next().unwrap_or_default().into(),
            reason: scene.text(&self.reason, message)?.into(),
            detail: match &self.detail {
                Some(Detail::Computed(detail)) => computed(scene, message, detail)?.into(),
                Some(Detail::Xml(xml)) => (&**xml).into(),
                None => Cow::default(),
            },
            node: (&*self.node).into(),
            role: (&*self.role).into(),
        };
        scene.budget.charge_memory(fault.detail.len().saturating_add(fault.reason.len()))?;
        // It replaces a malformed body too.
        let old = message.body.envelope(scene.budget).unwrap_or_default();
        let bytes = soap::envelope(namespace, old, scene.budget, |writer, prefix| {
            fault.write(writer, (prefix, namespace))
        })?;
        message.body.replace(format, bytes, scene.budget)?;
        message.set_field("Content-Type", format.content_type())
    }

    /// The element `Exception` as the payload, in the format that the message has. Source: Synapse's `FaultMediator`.
    fn pox(&self, scene: &Scene<'_>, message: &mut Message) -> Result<(), Failure> {
        let text = match &self.detail {
            Some(Detail::Computed(detail)) => detail,
            Some(Detail::Xml(_)) | None => &self.reason,
        };
        let text = scene.text(text, message)?;
        scene.budget.charge_memory(text.len())?;
        let bytes = written("Exception", &text)?.into_bytes();
        if message.body.payload(scene.budget).is_err() {
            return message.body.replace(Format::Xml, bytes, scene.budget);
        }
        message.body.replace_payload(bytes, scene.budget)
    }
}

/// A report of the host, as a SOAP fault: `report` is an object of texts in JSON, whose `message` is the reason. `None`
/// if `format` is none of SOAP.
#[must_use]
pub fn soap_fault(format: Format, is_clients: bool, report: &[u8]) -> Option<Vec<u8>> {
    const NAMESPACE: &str = "http://wso2.org/apimanager";
    let namespace = soap::namespace(format)?;
    let document = expression::json::Document::parse(report).ok()?;
    let root = document.root();
    let reason = root.get("message")?.string()?;
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut detail = Writer::new(options).ok()?;
    detail.start_element(QNameRef::new("am", NAMESPACE, "fault")).ok()?;
    for (name, value) in root.members() {
        fault::element(&mut detail, QNameRef::new("am", NAMESPACE, &name), &value.string()?)
            .ok()?;
    }
    let detail = String::from_utf8(detail.finish().ok()?).ok()?;
    let code = match (format == Format::Soap12, is_clients) {
        (false, true) => "Client",
        (false, false) => "Server",
        (true, true) => "Sender",
        (true, false) => "Receiver",
    };
    let (code, detail) = (code.into(), detail.into());
    let fault = Fault { code, reason, detail, ..Fault::default() };
    let write = |writer: &mut Writer, prefix: &str| fault.write(writer, (prefix, namespace));
    soap::envelope(namespace, None, &Budget::default(), write).ok()
}

/// The value of a detail as XML: elements as such, all else as text.
fn computed(scene: &Scene<'_>, message: &Message, detail: &Expression) -> Result<String, Failure> {
    if detail.selects_nodes() {
        let view = scene.view(message);
        let nodes = detail.nodes(&view, scene.budget).unwrap_or_default();
        let elements = nodes.iter().filter(|node| node.is_element());
        let xml: Vec<u8> = elements.flat_map(|node| serialise(*node)).collect();
        if !xml.is_empty() {
            return Ok(String::from_utf8_lossy(&xml).into_owned());
        }
    }
    escaped(&scene.text(detail, message)?)
}

fn escaped(text: &str) -> Result<String, Failure> {
    let xml = written("t", text)?;
    let inner = xml.strip_prefix("<t>").and_then(|xml| xml.strip_suffix("</t>"));
    Ok(inner.unwrap_or_default().to_owned())
}

fn written(local: &str, text: &str) -> Result<String, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    fault::element(&mut writer, QNameRef::local(local), text)?;
    Ok(String::from_utf8_lossy(&writer.finish()?).into_owned())
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let versions =
        [("soap11", Version::Soap11), ("soap12", Version::Soap12), ("pox", Version::Pox)];
    let version = element.choice(compiler, "version", &versions)?;
    let response = element.flag(compiler, "response", true)?;
    let (mut code, mut reason, mut detail) = (None, None, None);
    let (mut node, mut role): (Box<str>, Box<str>) = Default::default();
    for child in element.children() {
        let text = child.node().string_value();
        match child.name() {
            "code" => code = child.value_or_expression(compiler),
            "reason" => reason = child.value_or_expression(compiler),
            "detail" if child.optional("expression").is_some() => {
                detail = child.expression(compiler, "expression").map(Detail::Computed);
            }
            "detail" if child.children().next().is_some() => {
                let xml = child.children().flat_map(|inner| serialise(inner.node()));
                let xml: Vec<u8> = xml.collect();
                detail = Some(Detail::Xml(String::from_utf8_lossy(&xml).into()));
            }
            "detail" => {
                let text = Expression::literal(text.trim());
                detail = (!child.node().string_value().trim().is_empty())
                    .then_some(Detail::Computed(text));
            }
            "node" => node = text.trim().into(),
            "role" => role = text.trim().into(),
            _ => {
                element.ignores(compiler, &child, &["code", "reason", "detail", "node", "role"]);
                continue;
            }
        }
        child.finish(compiler);
    }
    let reason = match reason {
        Some(reason) => reason,
        None if version == Version::Pox => Expression::literal(""),
        None => return compiler.reject(element, "`makefault` needs a `reason`", None),
    };
    let code = code.unwrap_or_else(|| Expression::literal("Server"));
    Some(Box::new(MakeFault { version, response, code, reason, detail, node, role }))
}
