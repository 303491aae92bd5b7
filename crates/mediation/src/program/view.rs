//! A message as expressions read it.

use std::borrow::Cow;

use expression::mapping::Rules;
use expression::{Budget, Error, EvalContext, ParameterKind, Value, json, markup};
use xpath::synapse::PropertyScope;

use crate::error::Failure;
use crate::message::{Format, Message, PropertyValue};
use crate::program::{Memory, Program, Step};

/// Values that expressions read outside of the message. The host supplies them.
pub trait Environment {
    /// Milliseconds since the Unix epoch.
    fn unix_ms(&self) -> i64;

    /// The identity of a message of the run. 0: of the request, which `get-property('MessageID')` returns unless the
    /// message has its own; other numbers: of sent messages.
    fn message_id(&self, _number: u32) -> Option<Cow<'_, str>> {
        None
    }

    /// A configured value (`configs.x`).
    fn config(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// A registry resource, or a property of one.
    fn registry(&self, _path: &str, _property: Option<&str>) -> Option<Cow<'_, str>> {
        None
    }

    /// A system property (`$sys:x`) or an environment variable.
    fn variable(&self, _scope: PropertyScope, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// Called after each mediator, for a trace.
    fn mediated(&self, _step: &Step, _message: &Message) {}

    /// State that mediators keep between messages. Without it `cache` finds nothing, and `throttle` accepts everything.
    fn memory(&self) -> Option<&Memory> {
        None
    }

    /// A line of the log mediator.
    fn log(&self, level: LogLevel, line: &str);

    /// Whether lines at the level `debug` go anywhere.
    fn logs_debug(&self) -> bool {
        true
    }
}

/// The category of a log mediator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace,
    Debug,
    #[default]
    Info,
    Warn,
    Error,
}

impl LogLevel {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "TRACE",
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }
}

/// A message with its environment, for one evaluation.
#[derive(Clone, Copy)]
pub struct View<'m> {
    message: &'m Message,
    /// Parameters of the sequence template that runs.
    parameters: &'m [(String, PropertyValue)],
    program: &'m Program,
    environment: &'m dyn Environment,
    budget: &'m Budget,
}

impl<'m> View<'m> {
    #[must_use]
    pub fn new(
        message: &'m Message,
        parameters: &'m [(String, PropertyValue)],
        (program, environment): (&'m Program, &'m dyn Environment),
        budget: &'m Budget,
    ) -> Self {
        Self { message, parameters, program, environment, budget }
    }

    /// A property as text, or one that the transport defines.
    pub(crate) fn text_property(&self, scope: PropertyScope, name: &str) -> Option<String> {
        self.property(scope, name).map(|value| value.text().into_owned())
    }

    /// A parameter of the sequence template.
    fn function(&self, name: &str) -> Option<&'m PropertyValue> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of a parameter; one that is evaluated late reads the message as it is now.
    fn function_value(&self, name: &str) -> Option<Value<'_>> {
        let value = self.function(name)?;
        match value.as_late() {
            Some(late) => late.evaluate_within(self, self.budget).ok(),
            None => Some(self.value(value)),
        }
    }

    /// The local entry that a property without a value stands for. Source: Synapse's `GetPropertyFunction`.
    fn entry(&self, scope: PropertyScope, name: &str) -> Option<&'m PropertyValue> {
        self.program.entry_values.get(name).filter(|_| scope == PropertyScope::Synapse)
    }

    /// A property that any message has.
    fn described(&self, scope: PropertyScope, name: &str) -> Option<Cow<'_, str>> {
        if scope == PropertyScope::Axis2 {
            return self.message.transported(name);
        }
        if scope != PropertyScope::Synapse {
            return None;
        }
        let own = self.message.described(name, self.budget);
        let own = own.or_else(|| (name == "MessageID").then(|| self.environment.message_id(0))?);
        own.or_else(|| self.program.of_arrival(self.message, name))
    }

    /// Markup is charged before it is written; without budget the next step fails.
    fn value(&self, value: &'m PropertyValue) -> Value<'m> {
        let Some(document) = value.xml() else { return value.value() };
        let written = markup::write(document.root(), self.budget).unwrap_or_default();
        Value::Text(String::from_utf8(written).unwrap_or_default().into())
    }
}

/// A failure of the budget stays one: it ends the evaluation under its own name.
fn body(failure: Failure, budget: &Budget) -> Error {
    match budget.charge_steps(1).and(budget.charge_memory(1)) {
        Ok(()) => Error::Body(failure.into_message()),
        Err(exceeded) => exceeded.into(),
    }
}

impl EvalContext for View<'_> {
    fn json(&self) -> Result<Option<json::Ref<'_>>, Error> {
        let json = self.message.body.json(self.budget);
        let json = json.map_err(|failure| body(failure, self.budget))?;
        Ok(json.map(json::Document::root))
    }

    fn text(&self) -> Result<Cow<'_, str>, Error> {
        let text = self.message.body.text(self.budget);
        text.map_err(|failure| body(failure, self.budget))
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.message.head.field(name)
    }

    fn property(&self, scope: PropertyScope, name: &str) -> Option<Value<'_>> {
        match scope {
            PropertyScope::Function => return self.function_value(name),
            PropertyScope::System | PropertyScope::Environment => {
                return self.environment.variable(scope, name).map(Value::Text);
            }
            // Source: Synapse's `GetPropertyFunction`.
            PropertyScope::Registry => {
                let property = name.split_once('@');
                let (path, property) = property.map_or((name, None), |(path, it)| (path, Some(it)));
                return self.registry(path, property).map(Value::Text);
            }
            PropertyScope::Synapse
            | PropertyScope::Transport
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Url
            | PropertyScope::File
            | PropertyScope::Variable => {}
        }
        match self.message.properties.get(scope, name) {
            Some(value) => Some(self.value(value)),
            None => {
                let is_to = name == "To" && scope == PropertyScope::Synapse;
                let of_envelope = is_to.then(|| self.message.addressed_to(self.budget)).flatten();
                let of_head =
                    of_envelope.map(Cow::Owned).or_else(|| self.message.head.property(scope, name));
                let found = of_head.or_else(|| self.described(scope, name)).map(Value::Text);
                found.or_else(|| self.entry(scope, name).map(|value| self.value(value)))
            }
        }
    }

    fn property_nodes(&self, scope: PropertyScope, name: &str) -> Option<Vec<xml::Node<'_>>> {
        let value = match scope {
            PropertyScope::Function => {
                let value = self.function(name)?;
                if let Some(late) = value.as_late() {
                    return late.nodes(self, self.budget).ok();
                }
                Some(value)
            }
            PropertyScope::Synapse
            | PropertyScope::Transport
            | PropertyScope::Axis2
            | PropertyScope::Axis2Client
            | PropertyScope::Operation
            | PropertyScope::Url
            | PropertyScope::System
            | PropertyScope::Environment
            | PropertyScope::File
            | PropertyScope::Variable
            | PropertyScope::Registry => {
                self.message.properties.get(scope, name).or_else(|| self.entry(scope, name))
            }
        };
        Some(vec![value?.xml()?.element()?])
    }

    fn variable(&self, name: &str) -> Option<Value<'_>> {
        let value = self.message.properties.get(PropertyScope::Variable, name);
        value.map(|value| self.value(value))
    }

    fn variable_xml(&self, name: &str) -> Option<&xml::Document> {
        self.message.properties.get(PropertyScope::Variable, name)?.xml()
    }

    fn parameter(&self, kind: ParameterKind, name: &str) -> Option<Cow<'_, str>> {
        match kind {
            ParameterKind::Function => {
                let text = |value: Value<'_>| Cow::Owned(value.text().into_owned());
                let value = self.function(name)?;
                match value.as_late() {
                    Some(_) => self.function_value(name).map(text),
                    None => Some(value.text()),
                }
            }
            ParameterKind::Path => {
                let name = format!("uri.var.{name}");
                let value = self.message.properties.get(PropertyScope::Synapse, &name)?;
                Some(value.text())
            }
            ParameterKind::Query | _ => self.message.head.parameter(kind, name),
        }
    }

    fn xml_payload(&self) -> Result<Option<xml::Node<'_>>, Error> {
        match self.message.body.format() {
            Format::Json | Format::Text | Format::Binary => Ok(None),
            // Micro Integrator reads forms as XML, too.
            Format::Xml | Format::Soap11 | Format::Soap12 | Format::Form | Format::Multipart => {
                let payload = self.message.body.payload(self.budget);
                payload.map_err(|failure| body(failure, self.budget))
            }
        }
    }

    fn mapping(&self) -> &Rules {
        self.message.body.mapping()
    }

    fn config(&self, name: &str) -> Option<Cow<'_, str>> {
        self.environment.config(name)
    }

    fn registry(&self, path: &str, property: Option<&str>) -> Option<Cow<'_, str>> {
        self.environment.registry(path, property)
    }

    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        let xml = self.message.body.xml(self.budget);
        xml.map_err(|failure| body(failure, self.budget))
    }

    fn xml_header(&self) -> Result<Option<&xml::Document>, Error> {
        let xml = self.message.body.xml_header(self.budget);
        xml.map_err(|failure| body(failure, self.budget))
    }

    fn xml_beginning(&self) -> Result<Option<&xml::Document>, Error> {
        let xml = self.message.body.xml_beginning(self.budget);
        xml.map_err(|failure| body(failure, self.budget))
    }

    fn unix_ms(&self) -> i64 {
        self.environment.unix_ms()
    }
}
