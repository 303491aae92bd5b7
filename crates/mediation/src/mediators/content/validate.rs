//! `validate`: checks JSON against JSON Schemas, and runs `on-fail` if it does not conform.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use expression::{BodyUse, Budget, Expression, Value};
use jsonschema::{Draft, PatternOptions, Retrieve, Uri, Validator};

use super::keyed::Keyed;
use crate::error::{Code, Failure};
use crate::limits;
use crate::mediators::values::pattern::subject;
use crate::message::{Message, PropertyScope, PropertyValue};
use crate::program::{Entry, Mediator, Next, Scene, SequenceId, uri_template};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct Validate {
    /// All have to hold.
    schemas: Vec<Keyed<Schema>>,
    /// `None`: the body.
    source: Option<Expression>,
    on_fail: SequenceId,
}

/// A compiled JSON Schema.
pub(crate) struct Schema {
    validator: Validator,
    value: serde_json::Value,
    /// Bytes of the schema, and of those that it refers to: see [`charge`].
    size: usize,
    /// Whether a search for the first violation takes no longer than the check.
    is_flat: bool,
    /// Whether it is read as of a later draft than the one that it is of.
    is_later: bool,
}

/// Keywords whose subschemas are applied to the same value, or again inside themselves. Below them, the validator
/// visits values once more to describe a violation, on each level, which is exponential.
const BRANCHING: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef", "anyOf", "oneOf", "not", "if"];

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("size", &self.size).finish_non_exhaustive()
    }
}

impl Mediator for Validate {
    fn body_use(&self) -> BodyUse {
        let source = self.source.as_ref().map_or(BodyUse::Read, Expression::body_use);
        self.schemas.iter().map(Keyed::body_use).fold(source, Ord::max)
    }

    fn ns_per_byte(&self) -> u64 {
        limits::VALIDATE_NS_PER_BYTE.saturating_mul(self.schemas.len() as u64)
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
    /// The violation in the message, with its place.
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
        for schema in &self.schemas {
            let error = schema.get(scene, message)?.error(text, scene.budget)?;
            if error.is_some() {
                return Ok(error);
            }
        }
        Ok(None)
    }
}

/// The schemas that one refers to, by their URIs.
#[derive(Clone, Default)]
struct Others(Arc<Mutex<Found>>);

#[derive(Default)]
struct Found {
    known: HashMap<String, serde_json::Value>,
    /// The first that was not known.
    missing: Option<String>,
    /// Number among the known ones.
    bytes: usize,
}

impl Others {
    fn found<T>(&self, of: impl FnOnce(&mut Found) -> T) -> T {
        of(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Retrieve for Others {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<serde_json::Value, Box<dyn std::error::Error + Send + Sync>> {
        self.found(|found| match found.known.get(uri.as_str()) {
            Some(known) => Ok(known.clone()),
            None => {
                found.missing.get_or_insert_with(|| uri.to_string());
                Err("it is neither a local entry nor a registry resource with a JSON Schema".into())
            }
        })
    }
}

/// The scheme of the URIs of local entries.
const LOCAL: &str = "entry:/";

/// The URI of the schema that a key names, for its references.
fn uri_of(key: &str) -> String {
    let path = model::resource_path(key);
    let mut uri = if path.is_some() { String::new() } else { LOCAL.to_owned() };
    uri_template::encode(&mut uri, path.as_deref().unwrap_or(key), path.is_some());
    uri
}

/// The key of the schema of this URI.
fn key_of(uri: &str) -> String {
    uri_template::decode(uri.strip_prefix(LOCAL).unwrap_or(uri))
}

impl Schema {
    /// Without the text that it was made of.
    pub(crate) fn compiled_only(self) -> Self {
        Self { value: serde_json::Value::Null, ..self }
    }

    pub(crate) fn value(&self) -> &serde_json::Value {
        &self.value
    }

    /// The violation in a JSON text, with its place if the schema has no branches.
    ///
    /// # Errors
    /// It is not JSON; the budget.
    pub(crate) fn error(&self, text: &str, budget: &Budget) -> Result<Option<String>, Failure> {
        charge(text, self.size, budget)?;
        let instance = match serde_json::from_str(text) {
            Ok(instance) => instance,
            Err(error) => {
                let message = format!("the value is not JSON: {error}");
                return Err(Failure::new(Code::MALFORMED_BODY, message));
            }
        };
        if self.validator.is_valid(&instance) {
            return Ok(None);
        }
        let described = if self.is_flat { self.described(&instance) } else { None };
        Ok(Some(described.unwrap_or_else(|| "the body does not match the schema".to_owned())))
    }

    /// The first violation, with its place.
    fn described(&self, instance: &serde_json::Value) -> Option<String> {
        let error = self.validator.validate(instance).err()?;
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "the message" } else { &place };
        let text = format!("{place}: {error}");
        let end = text.floor_char_boundary(limits::VALIDATION_ERROR_BYTES_MAX);
        text.get(..end).map(str::to_owned)
    }

    /// The schema that a key names. Schemas that it refers to are local entries or registry resources, if its key is
    /// fixed.
    pub(crate) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        key: &str,
    ) -> Option<Keyed<Self>> {
        let computed = Keyed::computed(compiler, element, key, |entry| match entry {
            Entry::Text(text) => Self::of(text, (LOCAL, &Others::default())),
            Entry::Xml(_) => Err("an XML Schema, which is not supported".to_owned()),
        });
        if let Some(computed) = computed? {
            return Some(computed);
        }
        let text = match compiler.entry(element, key)? {
            Entry::Text(text) => text,
            Entry::Xml(_) => {
                let message = format!("`{key}` is an XML Schema, which is not supported");
                let help = "write a JSON Schema; XML bodies are checked in their JSON form";
                return compiler.reject(element, message, Some(help));
            }
        };
        match Self::with_others(compiler, &text, key) {
            Ok(schema) => {
                if schema.is_later {
                    let help = "set `$schema` to `http://json-schema.org/draft-07/schema#`, or write `true` there";
                    let message = format!(
                        "the schema `{key}` is of draft 4, which has no numbers as `exclusiveMaximum` and \
                         `exclusiveMinimum`: it is read as of draft 7"
                    );
                    compiler.warning(element, message, Some(help));
                }
                Some(Keyed::Fixed(Arc::new(schema)))
            }
            Err(error) => compiler.reject(element, format!("the schema `{key}`: {error}"), None),
        }
    }

    /// With the schemas that it refers to, which are found one after the other.
    fn with_others(compiler: &mut Compiler, text: &str, key: &str) -> Result<Self, String> {
        let (base, others) = (uri_of(key), Others::default());
        for _ in 0..=limits::SCHEMA_REFERENCES_MAX {
            let made = Self::of(text, (&base, &others));
            let Some(uri) = others.found(|found| found.missing.take()) else { return made };
            let key = key_of(&uri);
            let Some(Entry::Text(text)) = compiler.entry_or_none(&key) else { return made };
            let value = serde_json::from_str(&text).map_err(|error| format!("`{key}`: {error}"))?;
            others.found(|found| {
                found.bytes = found.bytes.saturating_add(text.len());
                found.known.insert(uri, value)
            });
        }
        Err(format!("refers to more than {} others", limits::SCHEMA_REFERENCES_MAX))
    }

    /// As in Synapse, one that names no draft is of draft 4, and its limits may be as in later drafts. `base`: its URI.
    fn of(text: &str, (base, others): (&str, &Others)) -> Result<Self, String> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let named = value.get("$schema").and_then(serde_json::Value::as_str);
        let is_of_draft_4 = named.is_none_or(|uri| uri.contains("/draft-04/"));
        let is_later = is_of_draft_4 && has_later_limits(&value);
        let draft = match (is_later, named) {
            (true, _) => Some(Draft::Draft7),
            (false, None) => Some(Draft::Draft4),
            (false, Some(_)) => None,
        };
        let schema = Self::made(value, draft, (base, others.clone()))?;
        let size = schema.size.saturating_add(others.found(|found| found.bytes));
        Ok(Self { size, is_later, ..schema })
    }

    /// `draft`: instead of the one that the schema names. It may not refer to others.
    pub(crate) fn of_value(value: serde_json::Value, draft: Option<Draft>) -> Result<Self, String> {
        Self::made(value, draft, (LOCAL, Others::default()))
    }

    fn made(
        value: serde_json::Value,
        draft: Option<Draft>,
        (base, others): (&str, Others),
    ) -> Result<Self, String> {
        let patterns = PatternOptions::regex()
            .size_limit(limits::PATTERN_BYTES_MAX)
            .dfa_size_limit(limits::PATTERN_BYTES_MAX);
        let options = jsonschema::options().with_pattern_options(patterns);
        let mut options = options.with_base_uri(base).with_retriever(others);
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        let validator = options.build(&value).map_err(|error| error.to_string())?;
        let is_flat = !branches(&value);
        let size = value.to_string().len();
        Ok(Self { validator, value, size, is_flat, is_later: false })
    }
}

/// Whether a schema has limits as draft 4 does not know them: Micro Integrator reads both forms.
fn has_later_limits(schema: &serde_json::Value) -> bool {
    use serde_json::Value;
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            matches!(name.as_str(), "exclusiveMaximum" | "exclusiveMinimum") && value.is_number()
                || has_later_limits(value)
        }),
        Value::Array(items) => items.iter().any(has_later_limits),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether a schema has one of [`BRANCHING`], a property of that name included. Recurses as deep as the parser does.
fn branches(schema: &serde_json::Value) -> bool {
    use serde_json::Value;
    match schema {
        Value::Object(members) => {
            let mut members = members.iter();
            members.any(|(name, value)| BRANCHING.contains(&name.as_str()) || branches(value))
        }
        Value::Array(items) => items.iter().any(branches),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The smallest memory of an object with members: a node of a B-tree, with room for eleven.
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<serde_json::Value>()) + 16;

/// As if each value of the message was compared with each part of the schema once. A schema that refers to itself in
/// several branches takes longer.
fn charge(text: &str, schema: usize, budget: &Budget) -> Result<(), Failure> {
    let values = text.bytes().filter(|byte| b"[{,:".contains(byte)).count() + 1;
    let parts = schema / limits::SCHEMA_BYTES_PER_STEP + 1;
    budget.charge_steps(values.saturating_mul(parts) as u64)?;
    budget.charge_scanning(text.len())?;
    // A tree of values, which is freed after the check. The members of an object are in nodes of a tree of their own.
    let objects = text.bytes().filter(|byte| *byte == b'{').count();
    let tree = values.saturating_mul(size_of::<serde_json::Value>() + size_of::<Value<'_>>());
    let tree = tree.saturating_add(objects.saturating_mul(OBJECT_BYTES));
    budget.charge_memory(tree)?;
    budget.release_memory(tree);
    Ok(())
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let source = match element.optional("source") {
        Some(source) => Some(element.compiled(compiler, source)?),
        None => None,
    };
    // Compiled schemas are always kept.
    element.flag(compiler, "cache-schema", true)?;
    let (mut schemas, mut on_fail) = (Vec::new(), None);
    for child in element.children() {
        match child.name() {
            "schema" => {
                let key = child.required(compiler, "key")?;
                schemas.push(Schema::compile(compiler, &child, key)?);
            }
            "on-fail" => on_fail = Some(compiler.nested(&child)),
            "feature" => {
                child.ignore(&["name", "value"]);
                compiler.warning(&child, "`feature` has no effect on a JSON Schema", None);
            }
            // Namespace of an XML Schema.
            "resource" => {
                compiler.error(&child, "`resource` of `validate` is not supported", None);
            }
            _ => {
                element.ignores(compiler, &child, &["schema", "on-fail", "feature"]);
                continue;
            }
        }
        child.finish(compiler);
    }
    let Some(on_fail) = on_fail.filter(|_| !schemas.is_empty()) else {
        return compiler.reject(element, "`validate` needs a `schema` and an `on-fail`", None);
    };
    Some(Box::new(Validate { schemas, source, on_fail }))
}
