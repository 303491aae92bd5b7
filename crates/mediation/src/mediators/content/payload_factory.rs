//! `payloadFactory`: replaces the body by a template's output.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use expression::BodyUse;
use expression::template::{Argument, FreeMarker, MediaType, PayloadTemplate, Settings};

use super::keyed::Keyed;
use crate::error::Failure;
use crate::message::{Format, Message};
use crate::program::{Entry, Mediator, Next, Scene};
use crate::syntax::{Compiler, Element, serialise};

/// The most that a body has before it grows.
const EXPECTED_BYTES_MAX: usize = 16 << 10;

#[derive(Debug)]
struct PayloadFactory {
    template: Keyed<Template>,
    media: MediaType,
    /// The initial capacity of a body, in bytes: the size of the last one.
    expected: AtomicUsize,
}

#[derive(Debug)]
enum Template {
    /// With the format of the envelope that it makes, if its text shows that before the first value.
    Default(PayloadTemplate, Option<Format>),
    FreeMarker(FreeMarker),
}

impl PayloadFactory {
    fn new(template: Keyed<Template>, media: MediaType) -> Self {
        Self { template, media, expected: AtomicUsize::new(0) }
    }
}

impl Mediator for PayloadFactory {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn can_repeat(&self) -> bool {
        true
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        // Successive bodies usually have similar lengths.
        let expected = self.expected.load(Ordering::Relaxed);
        let mut body = Vec::with_capacity(expected);
        let view = scene.view(message);
        let (envelope, is_checked) = match &*self.template.get(scene, message)? {
            Template::Default(template, envelope) => {
                template.render_within(&view, scene.budget, &mut body)?;
                (*envelope, template.is_well_formed())
            }
            // It escapes nothing.
            Template::FreeMarker(template) => {
                template.render_within(&view, scene.budget, &mut body)?;
                (None, self.media == MediaType::Text)
            }
        };
        let needed = body.len().saturating_add(body.len() / 16).min(EXPECTED_BYTES_MAX);
        // Written rarely, since the workers share it.
        if needed.abs_diff(expected) > needed / 16 {
            self.expected.store(needed, Ordering::Relaxed);
        }
        let format = match self.media {
            MediaType::Json => Format::Json,
            MediaType::Text => Format::Text,
            MediaType::Xml | _ => Format::Xml,
        };
        match envelope {
            Some(envelope) if is_checked => {
                message.body.replace_root(envelope, body, scene.budget)?;
            }
            _ if !is_checked => message.body.replace_parsed(format, body, scene.budget)?,
            // SOAP stays SOAP.
            _ if format == Format::Xml => message.body.replace_payload(body, scene.budget)?,
            _ => message.body.replace(format, body, scene.budget)?,
        }
        message.set_message_type(format, scene.budget)?;
        Ok(Next::Continue)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let medias = [("xml", MediaType::Xml), ("json", MediaType::Json), ("text", MediaType::Text)];
    let media = element.choice(compiler, "media-type", &medias)?;
    let types = [("default", false), ("freemarker", true)];
    let is_free_marker = element.choice(compiler, "template-type", &types)?;
    let escapes = element.flag(compiler, "escapeXmlChars", false)?;
    let Some(format) = element.child("format") else {
        return compiler.reject(element, "`payloadFactory` needs a `format`", None);
    };
    let arguments = match element.child("args") {
        Some(args) => args
            .children()
            .map(|arg| argument(compiler, &arg, media))
            .collect::<Option<Vec<_>>>()?,
        None => Vec::new(),
    };
    let make = move |text: &str| {
        if is_free_marker {
            let arguments = arguments.iter().map(|argument| argument.expression.clone()).collect();
            return FreeMarker::compile(text, arguments).map(Template::FreeMarker);
        }
        let settings = Settings::new(media).with_escape_xml(escapes);
        let template = PayloadTemplate::compile(text, arguments.clone(), settings)?;
        let envelope =
            Format::of_envelope(template.beginning()).filter(|_| media == MediaType::Xml);
        Ok(Template::Default(template, envelope))
    };
    if let Some(key) = format.optional("key") {
        format.finish(compiler);
        let made = make.clone();
        let made = move |entry: &Entry| made(&entry.text()).map_err(|error| error.to_string());
        if let Some(template) = Keyed::computed(compiler, &format, key, made)? {
            return Some(Box::new(PayloadFactory::new(template, media)));
        }
    }
    let text = template_text(compiler, &format, media)?;
    match make(&text) {
        Ok(template) => {
            let template = Keyed::Fixed(Arc::new(template));
            Some(Box::new(PayloadFactory::new(template, media)))
        }
        Err(error) => compiler.reject(&format, format!("in the format: {error}"), None),
    }
}

/// The format's text: inline, or of a local entry.
fn template_text(
    compiler: &mut Compiler,
    format: &Element<'_>,
    media: MediaType,
) -> Option<String> {
    if let Some(key) = format.optional("key") {
        return Some(compiler.entry(format, key)?.text().into_owned());
    }
    let first = if media == MediaType::Xml { format.children().next() } else { None };
    let Some(first) = first else {
        // It may be in a CDATA section.
        return Some(format.node().string_value().trim().to_owned());
    };
    if let Some(second) = format.children().nth(1) {
        let message = "only the first element of the format is written, as in Micro Integrator";
        compiler.warning(&second, message, None);
    }
    Some(String::from_utf8_lossy(&serialise(first.node())).into_owned())
}

fn argument(compiler: &mut Compiler, arg: &Element<'_>, media: MediaType) -> Option<Argument> {
    let evaluators = [("xml", false), ("json", true)];
    let is_json = arg.choice(compiler, "evaluator", &evaluators)?;
    let expression = match arg.optional("expression") {
        Some(source)
            if is_json && source.trim_start().starts_with('$') && !source.contains("${") =>
        {
            arg.compiled(compiler, &format!("json-eval({source})"))?
        }
        _ => arg.value_or_expression(compiler)?,
    };
    let literal = arg.flag(compiler, "literal", false)?;
    let deep = arg.flag(compiler, "deepCheck", true)?;
    arg.finish(compiler);
    let markup = media == MediaType::Xml && expression.selects_nodes();
    Some(Argument { expression, literal, markup, deep })
}
