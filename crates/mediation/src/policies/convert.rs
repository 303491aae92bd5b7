//! Policies that replace the body.

use expression::BodyUse;
use expression::template::{MediaType, PayloadTemplate, Settings};

use super::PolicyReading;
use crate::error::Failure;
use crate::message::{Format, Message};
use crate::program::{Mediator, Next, Scene};

#[derive(Debug)]
enum Convert {
    JsonToXml,
    XmlToJson,
}

impl Mediator for Convert {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let format = message.body.format();
        let to = match self {
            Self::JsonToXml if format == Format::Json => Format::Xml,
            Self::XmlToJson if format.is_xml() => Format::Json,
            Self::JsonToXml | Self::XmlToJson => return Ok(Next::Continue),
        };
        if message.body.is_empty() {
            return Ok(Next::Continue);
        }
        message.body.convert(to, scene.budget)?;
        message.set_message_type(to, scene.budget)?;
        Ok(Next::Continue)
    }
}

pub(super) fn json_to_xml(_: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Convert::JsonToXml))
}

pub(super) fn xml_to_json(_: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Convert::XmlToJson))
}

#[derive(Debug)]
struct Payload {
    template: PayloadTemplate,
    format: Format,
}

impl Mediator for Payload {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut body = Vec::new();
        self.template.render_within(&scene.view(message), scene.budget, &mut body)?;
        message.body.replace(self.format, body, scene.budget)?;
        message.set_message_type(self.format, scene.budget)?;
        Ok(Next::Continue)
    }
}

pub(super) fn payload(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let (media, format) = match reading.optional("mediaType").unwrap_or("json") {
        "json" => (MediaType::Json, Format::Json),
        "xml" => (MediaType::Xml, Format::Xml),
        "text" => (MediaType::Text, Format::Text),
        other => {
            let message = format!("unknown media type `{other}`");
            return reading.reject("mediaType", message, "write `json`, `xml` or `text`");
        }
    };
    let template = template(reading, "payload", media)?;
    Some(Box::new(Payload { template, format }))
}

/// A template whose values are escaped for its media type.
pub(super) fn template(
    reading: &mut PolicyReading<'_>,
    name: &str,
    media: MediaType,
) -> Option<PayloadTemplate> {
    let source = reading.optional(name).unwrap_or_default();
    if source.is_empty() {
        reading.required(name)?;
    }
    let settings = Settings::new(media).with_escape_xml(media == MediaType::Xml);
    match PayloadTemplate::compile(source, Vec::new(), settings) {
        Ok(template) if template.is_well_formed() => Some(template),
        Ok(_) => {
            let help = "put values into strings, elements or attributes";
            let message = format!("`{name}` is well-formed with some values only");
            reading.reject(name, message, help)
        }
        Err(error) => reading.reject(name, format!("`{name}`: {error}"), ""),
    }
}
