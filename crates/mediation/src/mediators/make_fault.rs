//! `makefault`: turns the message into a fault.

use expression::{BodyUse, Expression};
use xml::{QNameRef, Sink as _, Writer};

use crate::compile::{Compiler, Element};
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
    detail: Option<Expression>,
    node: Box<str>,
    role: Box<str>,
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
            Some(detail) => scene.text(detail, message)?,
            None => String::new(),
        };
        let (format, bytes) = match self.version {
            Version::Soap11 => (Format::Soap11, self.soap11(code, &reason, &detail)?),
            Version::Soap12 => (Format::Soap12, self.soap12(code, &reason, &detail)?),
            Version::Pox => (Format::Xml, pox(&reason, &detail)?),
        };
        message.body.replace(format, bytes, scene.budget)?;
        message.set_field("Content-Type", format.content_type())?;
        if self.response {
            message.direction = Direction::Response;
        }
        Ok(Next::Continue)
    }
}

impl MakeFault {
    /// Source: SOAP 1.1 section 4.4.
    fn soap11(&self, code: &str, reason: &str, detail: &str) -> Result<Vec<u8>, Failure> {
        let mut writer = start(soap::SOAP11)?;
        let prefixed = format!("soapenv:{code}");
        let parts = [
            ("faultcode", &*prefixed),
            ("faultstring", reason),
            ("faultactor", &self.role),
            ("detail", detail),
        ];
        for (name, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
            element(&mut writer, QNameRef::local(name), text)?;
        }
        Ok(writer.finish()?)
    }

    /// Source: SOAP 1.2 part 1 section 5.4.
    fn soap12(&self, code: &str, reason: &str, detail: &str) -> Result<Vec<u8>, Failure> {
        let mut writer = start(soap::SOAP12)?;
        let name = |local| QNameRef::new("soapenv", soap::SOAP12, local);
        writer.start_element(name("Code"))?;
        element(&mut writer, name("Value"), &format!("soapenv:{code}"))?;
        writer.end_element()?;
        writer.start_element(name("Reason"))?;
        writer.start_element(name("Text"))?;
        writer.attribute(QNameRef::new("xml", xml::XML_NAMESPACE, "lang"), "en")?;
        writer.text(reason)?;
        writer.end_element()?;
        writer.end_element()?;
        let parts = [("Node", &*self.node), ("Role", &*self.role), ("Detail", detail)];
        for (local, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
            element(&mut writer, name(local), text)?;
        }
        Ok(writer.finish()?)
    }
}

/// An envelope up to the start tag of its fault.
fn start(namespace: &str) -> Result<Writer, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    for local in ["Envelope", "Body", "Fault"] {
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

fn pox(reason: &str, detail: &str) -> Result<Vec<u8>, Failure> {
    let options = xml::WriterOptions { declaration: false, ..Default::default() };
    let mut writer = Writer::new(options)?;
    let text = if detail.is_empty() { reason } else { detail };
    element(&mut writer, QNameRef::local("Exception"), text)?;
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
                detail = child.expression(compiler, "expression");
            }
            "detail" => detail = Some(Expression::literal(text.trim())),
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
