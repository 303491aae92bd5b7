//! `log`: a line in the log.

use std::fmt::Write as _;

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::message::LogLevel;
use crate::run::Scene;
use crate::{Failure, Mediator, Message, Next};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Simple,
    Headers,
    Full,
    Custom,
}

#[derive(Debug)]
struct Log {
    level: Level,
    category: LogLevel,
    separator: Box<str>,
    /// Name and value, in order.
    properties: Vec<(Box<str>, Expression)>,
    /// `<message>` of Micro Integrator 4.4: text with `${...}`, in pieces.
    message: Option<super::text::Text>,
}

impl Mediator for Log {
    fn body_use(&self) -> BodyUse {
        let own = if self.level == Level::Full { BodyUse::Read } else { BodyUse::Untouched };
        let properties = self.properties.iter().map(|(_, value)| value.body_use());
        let message = self.message.as_ref().map(super::text::Text::body_use);
        properties.chain(message).fold(own, Ord::max)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut line = String::new();
        let mut add = |name: &str, value: &str| {
            if !line.is_empty() {
                line.push_str(&self.separator);
            }
            // Writing to a string does not fail.
            let _ = if name.is_empty() {
                write!(line, "{value}")
            } else {
                write!(line, "{name} = {value}")
            };
        };
        if let Some(text) = &self.message {
            add("", &text.render(scene, message)?);
        }
        match self.level {
            Level::Simple | Level::Full => {
                for name in ["To", "MessageID"] {
                    if let Some(value) = message.properties.get(crate::PropertyScope::Synapse, name)
                    {
                        add(name, &value.text());
                    }
                }
                let direction = match message.direction {
                    crate::Direction::Request => "request",
                    crate::Direction::Response => "response",
                };
                add("Direction", direction);
            }
            Level::Headers => message.head.fields(&mut |name, value| add(name, value)),
            Level::Custom => {}
        }
        for (name, value) in &self.properties {
            add(name, &scene.text(value, message)?);
        }
        if self.level == Level::Full {
            add("Payload", &message.body.text()?);
        }
        scene.environment.log(self.category, &line);
        Ok(Next::Continue)
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let levels = [
        ("simple", Level::Simple),
        ("headers", Level::Headers),
        ("full", Level::Full),
        ("custom", Level::Custom),
    ];
    let categories = [
        ("INFO", LogLevel::Info),
        ("TRACE", LogLevel::Trace),
        ("DEBUG", LogLevel::Debug),
        ("WARN", LogLevel::Warn),
        ("ERROR", LogLevel::Error),
        ("FATAL", LogLevel::Error),
    ];
    let is_new = element.child("message").is_some();
    let level = element.choice(compiler, "level", &levels)?;
    let level = if is_new && element.optional("level").is_none() { Level::Custom } else { level };
    let level = if element.flag(compiler, "logFullPayload", false)? { Level::Full } else { level };
    let category = element.choice(compiler, "category", &categories)?;
    let separator = element.optional("separator").unwrap_or(", ").into();
    let (mut properties, mut message) = (Vec::new(), None);
    for child in element.children() {
        match child.name() {
            "property" => {
                let name = child.required(compiler, "name")?;
                properties.push((name.into(), child.value_or_expression(compiler)?));
            }
            "message" => {
                let source = child.node().string_value();
                message = Some(super::text::Text::compile(compiler, &child, &source)?);
            }
            other => compiler.error(&child, format!("`log` has no child `{other}`"), None),
        }
        child.finish(compiler);
    }
    Some(Box::new(Log { level, category, separator, properties, message }))
}
