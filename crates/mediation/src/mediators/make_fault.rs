//! `makefault`: turns the message into a fault.

use expression::{BodyUse, Expression};
use xml::{QNameRef, Sink as _, Writer};

use crate::compile::{Compiler, Element, serialise};
use crate::message::{Direction, Format, soap};
use crate::run::Scene;
use crate::{Failure, Mediator, Message, Next};

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

/// What a fault says; `detail` is XML.
struct Parts<'p> {
    code: &'p str,
    reason: &'p str,
    detail: String,
    node: &'p str,
    role: &'p str,
    /// The header of the envelope that the fault replaces.
    header: Option<String>,
}

impl Mediator for MakeFault {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let code = scene.text(&self.code, message)?;
        let code = code.rsplit(':').next().unwrap_or_default();
        let reason = scene.text(&self.reason, message)?;
        let detail = match &self.detail {
            Some(Detail::Computed(detail)) => computed(scene, message, detail)?,
            Some(Detail::Xml(xml)) => xml.to_string(),
            None => String::new(),
        };
        scene.budget.charge_memory(detail.len().saturating_add(reason.len()))?;
        let header = header(message, self.version, scene)?;
        let (node, role) = (&*self.node, &*self.role);
        let parts = Parts { code, reason: &reason, detail, node, role, header };
        let (format, bytes) = match self.version {
            Version::Soap11 => (Format::Soap11, soap11(&parts)?),
            Version::Soap12 => (Format::Soap12, soap12(&parts)?),
            Version::Pox => (Format::Xml, pox(&parts)?),
        };
        message.body.replace(format, bytes, scene.budget)?;
        message.set_field("Content-Type", format.content_type())?;
        if self.response {
            message.direction = Direction::Response;
        }
        Ok(Next::Continue)
    }
}

/// Source: SOAP 1.1 section 4.4.
fn soap11(parts: &Parts<'_>) -> Result<Vec<u8>, Failure> {
    let mut writer = start(soap::SOAP11, parts)?;
    element(&mut writer, QNameRef::local("faultcode"), &format!("soapenv:{}", parts.code))?;
    let texts = [("faultstring", parts.reason), ("faultactor", parts.role)];
    for (name, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        element(&mut writer, QNameRef::local(name), text)?;
    }
    markup(&mut writer, QNameRef::local("detail"), &parts.detail)?;
    Ok(writer.finish()?)
}

/// Source: SOAP 1.2 part 1 section 5.4.
fn soap12(parts: &Parts<'_>) -> Result<Vec<u8>, Failure> {
    let mut writer = start(soap::SOAP12, parts)?;
    let name = |local| QNameRef::new("soapenv", soap::SOAP12, local);
    writer.start_element(name("Code"))?;
    element(&mut writer, name("Value"), &format!("soapenv:{}", parts.code))?;
    writer.end_element()?;
    writer.start_element(name("Reason"))?;
    writer.start_element(name("Text"))?;
    writer.attribute(QNameRef::new("xml", xml::XML_NAMESPACE, "lang"), "en")?;
    writer.text(parts.reason)?;
    writer.end_element()?;
    writer.end_element()?;
    let texts = [("Node", parts.node), ("Role", parts.role)];
    for (local, text) in texts.iter().filter(|(_, text)| !text.is_empty()) {
        element(&mut writer, name(local), text)?;
    }
    markup(&mut writer, name("Detail"), &parts.detail)?;
    Ok(writer.finish()?)
}

/// A report of the host, as a SOAP fault: `report` is an object of texts in JSON, whose `message` is the reason. `None`
/// if `format` is none of SOAP.
#[must_use]
pub fn soap_fault(format: Format, is_clients: bool, report: &[u8]) -> Option<Vec<u8>> {
    const NAMESPACE: &str = "http://wso2.org/apimanager";
    soap::namespace(format)?;
    let document = expression::json::Document::parse(report).ok()?;
    let root = document.root();
    let reason = root.get("message")?.string()?;
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut detail = Writer::new(options).ok()?;
    detail.start_element(QNameRef::new("am", NAMESPACE, "fault")).ok()?;
    for (name, value) in root.members() {
        element(&mut detail, QNameRef::new("am", NAMESPACE, &name), &value.string()?).ok()?;
    }
    let detail = String::from_utf8(detail.finish().ok()?).ok()?;
    let parts = |code| Parts { code, reason: &reason, detail, node: "", role: "", header: None };
    let is_soap12 = format == Format::Soap12;
    let code = match (is_soap12, is_clients) {
        (false, true) => "Client",
        (false, false) => "Server",
        (true, true) => "Sender",
        (true, false) => "Receiver",
    };
    let written = if is_soap12 { soap12(&parts(code)) } else { soap11(&parts(code)) };
    written.ok()
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
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    element(&mut writer, QNameRef::local("t"), text)?;
    let xml = String::from_utf8_lossy(&writer.finish()?).into_owned();
    let inner = xml.strip_prefix("<t>").and_then(|xml| xml.strip_suffix("</t>"));
    Ok(inner.unwrap_or_default().to_owned())
}

/// The header of an envelope, if the fault has the same version. Source: Synapse's `FaultMediator`.
fn header(
    message: &Message,
    version: Version,
    scene: &Scene<'_>,
) -> Result<Option<String>, Failure> {
    let format = match version {
        Version::Soap11 => Format::Soap11,
        Version::Soap12 => Format::Soap12,
        Version::Pox => return Ok(None),
    };
    if message.body.format() != format {
        return Ok(None);
    }
    // The fault replaces a malformed body too.
    let Ok(Some(document)) = message.body.xml(scene.budget) else { return Ok(None) };
    let header = soap::part(document, "Header").map(serialise);
    Ok(header.map(|xml| String::from_utf8_lossy(&xml).into_owned()))
}

/// An envelope up to the start tag of its fault.
fn start(namespace: &str, parts: &Parts<'_>) -> Result<Writer, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    writer.start_element(QNameRef::new("soapenv", namespace, "Envelope"))?;
    if let Some(header) = &parts.header {
        writer.raw(header)?;
    }
    for local in ["Body", "Fault"] {
        writer.start_element(QNameRef::new("soapenv", namespace, local))?;
    }
    Ok(writer)
}

fn element(writer: &mut Writer, name: QNameRef<'_>, text: &str) -> Result<(), Failure> {
    writer.start_element(name)?;
    writer.text(text)?;
    writer.end_element()?;
    Ok(())
}

/// An element with XML in it, if there is any.
fn markup(writer: &mut Writer, name: QNameRef<'_>, xml: &str) -> Result<(), Failure> {
    if !xml.is_empty() {
        writer.start_element(name)?;
        writer.raw(xml)?;
        writer.end_element()?;
    }
    Ok(())
}

fn pox(parts: &Parts<'_>) -> Result<Vec<u8>, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    if parts.detail.is_empty() {
        element(&mut writer, QNameRef::local("Exception"), parts.reason)?;
    } else {
        markup(&mut writer, QNameRef::local("Exception"), &parts.detail)?;
    }
    Ok(writer.finish()?)
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
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
            other => compiler.error(&child, format!("`makefault` has no child `{other}`"), None),
        }
        child.finish(compiler);
    }
    let reason = match reason {
        Some(reason) => reason,
        None if version == Version::Pox => Expression::literal(""),
        None => {
            compiler.error(element, "`makefault` needs a `reason`".to_owned(), None);
            return None;
        }
    };
    let code = code.unwrap_or_else(|| Expression::literal("Server"));
    Some(Box::new(MakeFault { version, response, code, reason, detail, node, role }))
}
