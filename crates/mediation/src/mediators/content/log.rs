//! `log`: a line in the log.

use std::borrow::Cow;

use expression::{BodyUse, Budget, Expression};

use crate::error::Failure;
use crate::mediators::values::pattern::subject;
use crate::message::{Format, Message, PropertyScope};
use crate::program::{LogLevel, Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

const MESSAGE_ID: &str = "MessageID";

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
    message: Option<crate::mediators::values::text::Text>,
    /// `logMessageID`
    has_id: bool,
}

impl Mediator for Log {
    fn body_use(&self) -> BodyUse {
        let own = if self.level == Level::Full { BodyUse::Read } else { BodyUse::Untouched };
        let properties = self.properties.iter().map(|(_, value)| value.body_use());
        let message = self.message.as_ref().map(crate::mediators::values::text::Text::body_use);
        properties.chain(message).fold(own, Ord::max)
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut line =
            Line { text: String::new(), separator: &self.separator, budget: scene.budget };
        if let Some(text) = &self.message {
            line.add("", "", &text.render(scene, message)?)?;
        }
        // Source: `getSimpleLogMessage` of Synapse's `LogMediator`.
        let is_simple = matches!(self.level, Level::Simple | Level::Full);
        let property = |name: &str| scene.view(message).text_property(PropertyScope::Synapse, name);
        if is_simple {
            line.add("To", ": ", &property("To").unwrap_or_default())?;
            let action = message.properties.get(PropertyScope::Synapse, "Action");
            let action = action.map(|action| action.text().into_owned());
            let own = message.own_action().map(Cow::into_owned);
            for (name, value) in [("WSAction", action), ("SOAPAction", own)] {
                if let Some(value) = value {
                    line.add(name, ": ", &value)?;
                }
            }
        }
        if is_simple || self.has_id {
            match property(MESSAGE_ID) {
                Some(id) => line.add(MESSAGE_ID, ": ", &id)?,
                None if self.has_id => line.add(MESSAGE_ID, ": ", "")?,
                None => {}
            }
        }
        if is_simple {
            let direction = match message.direction {
                crate::message::Direction::Request => "request",
                crate::message::Direction::Response => "response",
            };
            line.add("Direction", ": ", direction)?;
        }
        if self.level == Level::Headers {
            let mut added = Ok(());
            message.head.fields(&mut |name, value| {
                if added.is_ok() && !is_credential(name) {
                    added = line.add(name, " = ", value);
                }
            });
            added?;
        }
        for (name, value) in &self.properties {
            let text = subject(value, scene, message)?;
            line.add(name, " = ", text.as_deref().unwrap_or("null"))?;
        }
        if self.level == Level::Full {
            let bytes = message.body.plain_bytes(scene.budget)?.unwrap_or_default();
            let name = if message.body.format() == Format::Json { "Payload" } else { "Envelope" };
            match std::str::from_utf8(&bytes) {
                Ok(text) => line.add(name, ": ", text)?,
                Err(_) => {
                    line.add(name, ": ", &format!("({} bytes that are not text)", bytes.len()))?;
                }
            }
        }
        scene.environment.log(self.category, &line.text);
        Ok(Next::Continue)
    }
}

/// A line under construction.
struct Line<'l> {
    text: String,
    separator: &'l str,
    budget: &'l Budget,
}

impl Line<'_> {
    fn add(&mut self, name: &str, mark: &str, value: &str) -> Result<(), Failure> {
        self.budget.charge_memory(self.separator.len() + name.len() + mark.len() + value.len())?;
        if !self.text.is_empty() {
            self.text.push_str(self.separator);
        }
        self.text.extend([name, mark, value]);
        Ok(())
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
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
    let has_id = element.flag(compiler, "logMessageID", false)?;
    let separator = element.optional("separator").unwrap_or(", ");
    let separator = separator.replace("\\n", "\n").replace("\\t", "\t").into();
    let (mut properties, mut message) = (Vec::new(), None);
    for child in element.children() {
        match child.name() {
            "property" => {
                // Attributes that a property of the same form has.
                child.ignore(&["scope", "type", "action"]);
                let name = child.required(compiler, "name")?;
                properties.push((name.into(), child.value_or_expression(compiler)?));
            }
            "message" => {
                let source = child.node().string_value();
                message =
                    Some(crate::mediators::values::text::Text::compile(compiler, &child, &source)?);
            }
            _ => {
                element.ignores(compiler, &child, &["property", "message"]);
                continue;
            }
        }
        child.finish(compiler);
    }
    Some(Box::new(Log { level, category, separator, properties, message, has_id }))
}

/// Fields that no log should hold.
fn is_credential(name: &str) -> bool {
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "apikey", "x-jwt-assertion"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}
