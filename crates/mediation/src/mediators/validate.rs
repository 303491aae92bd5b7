//! `validate`: checks JSON against a JSON Schema, and runs `on-fail` if it does not conform.

use std::fmt;

use expression::{BodyUse, Budget, Expression, Value};
use jsonschema::{PatternOptions, Validator};

use super::pattern::subject;
use crate::compile::{Compiler, Element, Entry};
use crate::limits;
use crate::program::SequenceId;
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next, PropertyScope, PropertyValue};

struct Validate {
    validator: Validator,
    /// Bytes of the schema: what each value of a message is compared with at most.
    size: usize,
    /// `None`: the body.
    source: Option<Expression>,
    on_fail: SequenceId,
}

impl fmt::Debug for Validate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validate").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Mediator for Validate {
    fn body_use(&self) -> BodyUse {
        self.source.as_ref().map_or(BodyUse::Read, Expression::body_use)
    }

    fn ns_per_byte(&self) -> u64 {
        limits::VALIDATE_NS_PER_BYTE
    }

    fn enters(&self) -> Vec<SequenceId> {
        vec![self.on_fail]
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let Some(error) = self.error(scene, message)? else { return Ok(Next::Continue) };
        let texts = [
            ("ERROR_MESSAGE", error.clone()),
            ("ERROR_DETAIL", format!("Error while validating Json message {error}")),
        ];
        for (name, text) in texts {
            let value = PropertyValue::new(text);
            message.set(PropertyScope::Synapse, name, value, scene.budget)?;
        }
        Ok(Next::Enter(self.on_fail))
    }
}

impl Validate {
    /// What the message violates, with its place.
    fn error(&self, scene: &Scene<'_>, message: &Message) -> Result<Option<String>, Failure> {
        let text = match &self.source {
            Some(source) => subject(source, scene, message)?.unwrap_or_default(),
            None => {
                let body = message.body.json(scene.budget)?;
                body.map(|body| body.text().to_owned()).unwrap_or_default()
            }
        };
        // Nothing is an empty object, as in Synapse.
        let text = if text.trim().is_empty() { "{}" } else { &text };
        charge(text, self.size, scene.budget)?;
        let instance = match serde_json::from_str(text) {
            Ok(instance) => instance,
            Err(error) => {
                let message = format!("the value is not JSON: {error}");
                return Err(Failure::new(Code::MALFORMED_BODY, message));
            }
        };
        let error = self.validator.iter_errors(&instance).next();
        Ok(error.map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the message" } else { &place };
            let text = format!("{place}: {error}");
            let end = text.floor_char_boundary(limits::VALIDATION_ERROR_BYTES_MAX);
            text.get(..end).unwrap_or_default().to_owned()
        }))
    }
}

/// Each value of the message may be compared with each part of the schema.
fn charge(text: &str, schema: usize, budget: &Budget) -> Result<(), Failure> {
    let values = text.bytes().filter(|byte| b"[{,:".contains(byte)).count() + 1;
    let parts = schema / limits::SCHEMA_BYTES_PER_STEP + 1;
    budget.charge_steps(values.saturating_mul(parts) as u64)?;
    budget.charge_scanning(text.len())?;
    // A tree of values, which is freed after the check.
    let tree = values.saturating_mul(size_of::<serde_json::Value>() + size_of::<Value<'_>>());
    budget.charge_memory(tree)?;
    budget.release_memory(tree);
    Ok(())
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let source = match element.optional("source") {
        Some(source) => Some(element.compiled(compiler, source)?),
        None => None,
    };
    // Compiled schemas are always kept.
    element.flag(compiler, "cache-schema", true)?;
    let (mut schema, mut on_fail) = (None, None);
    for child in element.children() {
        match child.name() {
            "schema" if schema.is_none() => schema = Some(read(compiler, &child)?),
            "schema" => {
                compiler.error(&child, "one `schema` is served".to_owned(), None);
                return None;
            }
            "on-fail" => on_fail = Some(compiler.nested(&child)),
            "feature" => {
                child.ignore(&["name", "value"]);
                let message = "`feature` has no effect on a JSON Schema".to_owned();
                compiler.warning(&child, message, None);
            }
            other => {
                compiler.error(&child, format!("`{other}` of `validate` is not served"), None);
            }
        }
        child.finish(compiler);
    }
    let (Some((validator, size)), Some(on_fail)) = (schema, on_fail) else {
        let message = "`validate` needs a `schema` and an `on-fail`".to_owned();
        compiler.error(element, message, None);
        return None;
    };
    Some(Box::new(Validate { validator, size, source, on_fail }))
}

/// The schema in a local entry. Nothing outside of it is read.
fn read(compiler: &mut Compiler, element: &Element<'_>) -> Option<(Validator, usize)> {
    let key = element.required(compiler, "key")?;
    let text = match compiler.entry(element, key)? {
        Entry::Text(text) => text,
        Entry::Xml(_) => {
            let message = format!("`{key}` is an XML Schema, which is not served");
            let help = "write a JSON Schema; XML bodies are checked in their JSON form".to_owned();
            compiler.error(element, message, Some(help));
            return None;
        }
    };
    let built = serde_json::from_str(&text).map_err(|error| error.to_string()).and_then(|schema| {
        let patterns = PatternOptions::regex()
            .size_limit(limits::PATTERN_BYTES_MAX)
            .dfa_size_limit(limits::PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(patterns);
        options.build(&schema).map_err(|error| error.to_string())
    });
    match built {
        Ok(validator) => Some((validator, text.len())),
        Err(error) => {
            compiler.error(element, format!("the schema `{key}`: {error}"), None);
            None
        }
    }
}
