//! `schemaValidation`: requests and responses against the description of their operation, which the reader of the
//! description hands over as the parameter [`CONTRACT`].

use std::collections::BTreeMap;

use expression::{BodyUse, Budget, json};
use model::PolicyFlow;
use serde_json::Value;

use super::PolicyReading;
use crate::mediators::{Draft, Schema};
use crate::message::{CONTENT_TYPE, Format};
use crate::run::Scene;
use crate::{Code, Failure, Mediator, Message, Next, PropertyScope, limits, template};

use super::{CONTRACT, SCHEMA_VALIDATION};

/// A request that does not match is the client's fault; a response that does not, the upstream's.
fn mismatch(flow: PolicyFlow, reason: String) -> Failure {
    match flow {
        PolicyFlow::Request => Failure::new(Code::REQUEST_MISMATCH, reason),
        PolicyFlow::Response | PolicyFlow::Fault => Failure::new(Code::RESPONSE_MISMATCH, reason),
    }
}

/// As files list it. The reader then adds the description; without one nothing passes.
#[derive(Debug)]
struct Undescribed;

impl Mediator for Undescribed {
    fn mediate(&self, _: &Scene<'_>, _: &mut Message) -> Result<Next, Failure> {
        Err(Failure::new(Code::MEDIATION, "the description of the operation was not read"))
    }
}

#[derive(Debug)]
struct Requests {
    parameters: Vec<Parameter>,
    body_required: bool,
    content: Option<Content>,
}

impl Mediator for Requests {
    fn body_use(&self) -> BodyUse {
        self.content.as_ref().map_or(BodyUse::Untouched, Content::body_use)
    }

    fn ns_per_byte(&self) -> u64 {
        limits::VALIDATE_NS_PER_BYTE
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let query = query(message);
        for parameter in &self.parameters {
            if let Some(reason) = parameter.violation(message, &query, scene.budget)? {
                return Err(mismatch(PolicyFlow::Request, reason));
            }
        }
        let violation = match &self.content {
            _ if message.body.is_empty() => {
                self.body_required.then(|| "a request body is required".to_owned())
            }
            Some(content) => content.violation(message, scene.budget)?,
            None => None,
        };
        violation.map_or(Ok(Next::Continue), |it| Err(mismatch(PolicyFlow::Request, it)))
    }
}

#[derive(Debug)]
struct Responses(Vec<(Statuses, Content)>);

/// In the order in which they are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Statuses {
    One(u16),
    /// `2XX`, by its first digit.
    Class(u16),
    Default,
}

impl Statuses {
    fn read(key: &str) -> Option<Self> {
        if key == "default" {
            return Some(Self::Default);
        }
        match key.strip_suffix("XX") {
            Some(class) => class.parse().ok().map(Self::Class),
            None => key.parse().ok().map(Self::One),
        }
    }

    fn include(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => class == status / 100,
            Self::Default => true,
        }
    }
}

impl Mediator for Responses {
    fn body_use(&self) -> BodyUse {
        let reads = |(_, content): &(_, Content)| content.body_use() != BodyUse::Untouched;
        if self.0.iter().any(reads) { BodyUse::Read } else { BodyUse::Untouched }
    }

    fn ns_per_byte(&self) -> u64 {
        limits::VALIDATE_NS_PER_BYTE
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let status = message.status();
        let found = self.0.iter().find(|(statuses, _)| statuses.include(status));
        let Some((_, content)) = found.filter(|_| !message.body.is_empty()) else {
            return Ok(Next::Continue);
        };
        let violation = content.violation(message, scene.budget)?;
        violation.map_or(Ok(Next::Continue), |it| Err(mismatch(PolicyFlow::Response, it)))
    }
}

/// The media types of a body, in lower case.
#[derive(Debug)]
struct Content(Vec<(String, Option<Schema>)>);

impl Content {
    fn body_use(&self) -> BodyUse {
        let is_checked = self.0.iter().any(|(_, schema)| schema.is_some());
        if is_checked { BodyUse::Read } else { BodyUse::Untouched }
    }

    /// What is wrong with the body.
    fn violation(&self, message: &Message, budget: &Budget) -> Result<Option<String>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let field = message.head.field(CONTENT_TYPE).unwrap_or_default();
        let media = field.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let class = format!("{}/*", media.split('/').next().unwrap_or_default());
        let known = |name: &str| self.0.iter().find(|(known, _)| known == name);
        let Some((_, schema)) = known(&media).or_else(|| known(&class)).or_else(|| known("*/*"))
        else {
            let names: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
            return Ok(Some(format!("the content type is none of {}", names.join(", "))));
        };
        let Some(schema) = schema.as_ref().filter(|_| Format::of(&media) == Format::Json) else {
            return Ok(None);
        };
        let bytes = message.body.bytes(budget)?.unwrap_or_default();
        // Two members of one name mean different things to different readers.
        let limits = json::Limits { duplicates: json::Duplicates::Reject, ..Default::default() };
        budget.charge_reading(bytes.len())?;
        if let Err(error) = json::Document::parse_with(&bytes, &limits) {
            return Ok(Some(format!("the body is not JSON: {error}")));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => schema.error(text, budget),
            Err(_) => Ok(Some("the body is not UTF-8".to_owned())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Header,
}

/// How the text of a parameter becomes a value.
#[derive(Clone, Copy, Debug, Default)]
struct Types {
    number: bool,
    boolean: bool,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    place: Place,
    required: bool,
    types: Types,
    /// Of a list; `None`: one value. A query may repeat the parameter instead.
    separator: Option<char>,
    is_repeated: bool,
    /// `None`: it must only be there.
    schema: Option<Schema>,
}

impl Parameter {
    fn violation(
        &self,
        message: &Message,
        query: &[(String, String)],
        budget: &Budget,
    ) -> Result<Option<String>, Failure> {
        let texts: Vec<String> = match self.place {
            Place::Path => {
                let name = format!("uri.var.{}", self.name);
                let value = message.properties.get(PropertyScope::Synapse, &name);
                // A `+` in a path is no space.
                let decoded = |text: &str| template::decode(&text.replace('+', "%2B"));
                value.map(|value| decoded(&value.text())).into_iter().collect()
            }
            Place::Header => message.head.field(&self.name).map(Into::into).into_iter().collect(),
            Place::Query => {
                let its = query.iter().filter(|(name, _)| *name == self.name);
                its.map(|(_, value)| value.clone()).collect()
            }
        };
        let place = match self.place {
            Place::Path => "path",
            Place::Query => "query",
            Place::Header => "header",
        };
        let describe = |what: &str| format!("the {place} parameter `{}` {what}", self.name);
        let Some(first) = texts.first() else {
            return Ok(self.required.then(|| describe("is missing")));
        };
        let Some(schema) = &self.schema else { return Ok(None) };
        let value = if self.is_repeated {
            Value::Array(texts.iter().map(|text| self.value(text)).collect())
        } else if texts.len() > 1 {
            return Ok(Some(describe("occurs more than once")));
        } else if let Some(separator) = self.separator {
            Value::Array(first.split(separator).map(|text| self.value(text.trim())).collect())
        } else {
            self.value(first)
        };
        let error = schema.error(&value.to_string(), budget)?;
        Ok(error.map(|error| describe(&format!("is invalid: {error}"))))
    }

    fn value(&self, text: &str) -> Value {
        match text {
            "true" if self.types.boolean => Value::Bool(true),
            "false" if self.types.boolean => Value::Bool(false),
            _ => {
                let number = self.types.number.then(|| serde_json::from_str(text).ok()).flatten();
                number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
            }
        }
    }
}

/// Names and values, decoded.
fn query(message: &Message) -> Vec<(String, String)> {
    let target = message.head.property(PropertyScope::Axis2, "TransportInURL").unwrap_or_default();
    let (_, query) = target.split_once('?').unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (template::decode(name), template::decode(value))
        })
        .collect()
}

/// The description of an operation, as [`CONTRACT`] has it.
struct Contract {
    flow: PolicyFlow,
    draft: Draft,
    item: Value,
    operation: Value,
    /// What `$ref`s lead to, where they expect it.
    root: Value,
}

impl Contract {
    /// # Errors
    /// It is not what the reader of descriptions writes.
    fn read(text: &str, flow: PolicyFlow) -> Result<Self, String> {
        let mut all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_30 = all.get("version").and_then(Value::as_str) == Some("3.0");
        convert(&mut all, is_30, flow);
        let mut take = |name: &str| all.get_mut(name).map(Value::take).unwrap_or_default();
        let (item, operation, refs) = (take("item"), take("operation"), take("refs"));
        let mut root = Value::Object(serde_json::Map::new());
        for entry in refs.as_array().into_iter().flatten() {
            let parts = entry.get(0).and_then(Value::as_array).into_iter().flatten();
            let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
            insert(&mut root, &parts, entry.get(1).cloned().unwrap_or_default());
        }
        let draft = if is_30 { Draft::Draft4 } else { Draft::Draft202012 };
        Ok(Self { flow, draft, item, operation, root })
    }

    /// `value`, or what it refers to.
    fn resolve<'v>(&'v self, mut value: &'v Value) -> &'v Value {
        for _ in 0..base::limits::REF_DEPTH_MAX {
            let target = value.get("$ref").and_then(Value::as_str);
            let Some(target) = target
                .and_then(|target| self.root.pointer(&template::decode(target.strip_prefix('#')?)))
            else {
                break;
            };
            value = target;
        }
        value
    }

    fn schema(&self, schema: &Value) -> Result<Schema, String> {
        let mut whole = self.root.clone();
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("allOf".to_owned(), Value::Array(vec![schema.clone()]));
        }
        Schema::of_value(whole, Some(self.draft))
    }

    /// # Errors
    /// What is wrong, with its media type.
    fn content(&self, of: &Value) -> Result<Option<Content>, String> {
        let Some(content) = of.get("content").and_then(Value::as_object) else { return Ok(None) };
        let mut all = Vec::new();
        for (media, value) in content {
            let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let may_be_json = media.ends_with("/*") || Format::of(&media) == Format::Json;
            let schema = value.get("schema").filter(|_| may_be_json);
            let schema = schema.map(|schema| self.schema(schema)).transpose();
            let schema = schema.map_err(|error| format!("the schema of `{media}`: {error}"))?;
            all.push((media, schema));
        }
        Ok(Some(Content(all)))
    }

    fn parameters(&self) -> Result<Vec<Parameter>, String> {
        let mut all: BTreeMap<(String, String), &Value> = BTreeMap::new();
        let lists = [&self.item, &self.operation].map(|of| of.get("parameters"));
        for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
            let parameter = self.resolve(parameter);
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).map(str::to_owned);
            if let Some(key) = text("in").zip(text("name")) {
                all.insert(key, parameter);
            }
        }
        let mut found = Vec::new();
        for ((place, name), parameter) in all {
            // Source: OpenAPI, "Parameter Object": these header fields are described elsewhere.
            let elsewhere = ["Accept", "Content-Type", "Authorization"];
            let is_elsewhere = elsewhere.iter().any(|field| field.eq_ignore_ascii_case(&name));
            let place = match place.as_str() {
                "path" => Place::Path,
                "query" => Place::Query,
                "header" if !is_elsewhere => Place::Header,
                _ => continue,
            };
            let error = |error| format!("the parameter `{name}`: {error}");
            found.push(self.parameter(&name, place, parameter).map_err(error)?);
        }
        Ok(found)
    }

    fn parameter(&self, name: &str, place: Place, of: &Value) -> Result<Parameter, String> {
        let text = |key: &str| of.get(key).and_then(Value::as_str);
        let style = text("style").unwrap_or(match place {
            Place::Query => "form",
            Place::Path | Place::Header => "simple",
        });
        let explodes = of.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let schema = of.get("schema").unwrap_or(&Value::Null);
        let resolved = self.resolve(schema);
        let types = type_names(resolved);
        let is_list = types.contains(&"array");
        let separator = match style {
            "form" | "simple" => Some(','),
            "spaceDelimited" => Some(' '),
            "pipeDelimited" => Some('|'),
            _ => None,
        };
        // Objects, and lists in a style that is rare, are not taken apart.
        let is_checked = schema.is_object()
            && !types.contains(&"object")
            && separator.is_some_and(|_| is_list || matches!(style, "form" | "simple"));
        let items = resolved.get("items").map_or(&Value::Null, |items| self.resolve(items));
        let names = if is_list { type_names(items) } else { types };
        let number = names.iter().any(|name| matches!(*name, "integer" | "number"));
        Ok(Parameter {
            name: name.to_owned(),
            place,
            required: of.get("required").and_then(Value::as_bool) == Some(true),
            types: Types { number, boolean: names.contains(&"boolean") },
            separator: separator.filter(|_| is_list),
            is_repeated: is_list && explodes && place == Place::Query,
            schema: if is_checked { Some(self.schema(schema)?) } else { None },
        })
    }

    fn requests(&self) -> Result<Requests, String> {
        let body = self.resolve(self.operation.get("requestBody").unwrap_or(&Value::Null));
        Ok(Requests {
            parameters: self.parameters()?,
            body_required: body.get("required").and_then(Value::as_bool) == Some(true),
            content: self.content(body)?,
        })
    }

    fn responses(&self) -> Result<Responses, String> {
        let mut found = Vec::new();
        let all = self.operation.get("responses").and_then(Value::as_object);
        for (key, response) in all.into_iter().flatten() {
            let content = self.content(self.resolve(response));
            let content = content.map_err(|error| format!("the response `{key}`: {error}"))?;
            if let Some((statuses, content)) = Statuses::read(key).zip(content) {
                found.push((statuses, content));
            }
        }
        found.sort_by_key(|(statuses, _)| *statuses);
        Ok(Responses(found))
    }

    fn compile(&self) -> Result<Box<dyn Mediator>, String> {
        Ok(match self.flow {
            PolicyFlow::Request => Box::new(self.requests()?),
            PolicyFlow::Response | PolicyFlow::Fault => Box::new(self.responses()?),
        })
    }
}

fn type_names(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(name)) => vec![name],
        _ => Vec::new(),
    }
}

/// Puts `value` where `parts` lead, unless something larger is there.
fn insert(root: &mut Value, parts: &[&str], value: Value) {
    let mut at = root;
    for part in parts {
        let Some(map) = at.as_object_mut() else { return };
        at = map.entry(*part).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    if at.as_object().is_some_and(serde_json::Map::is_empty) {
        *at = value;
    }
}

/// Makes JSON Schema of OpenAPI's: `nullable` of 3.0 (its other keywords are those of draft 4), and what a request has
/// not or a response has not. Recurses as deep as the parser does.
fn convert(value: &mut Value, is_30: bool, flow: PolicyFlow) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| convert(item, is_30, flow)),
        Value::Object(map) => {
            if is_30
                && map.get("nullable") == Some(&Value::Bool(true))
                && let Some(kind @ Value::String(_)) = map.get("type").cloned()
            {
                map.insert("type".to_owned(), Value::Array(vec![kind, "null".into()]));
            }
            let hidden = if flow == PolicyFlow::Request { "readOnly" } else { "writeOnly" };
            if let (Some(properties), Some(required)) =
                (map.get("properties").cloned(), map.get_mut("required"))
                && let Some(required) = required.as_array_mut()
            {
                let is_hidden = |name: &Value| {
                    let property = properties.get(name.as_str().unwrap_or_default());
                    property.and_then(|it| it.get(hidden)) == Some(&Value::Bool(true))
                };
                required.retain(|name| !is_hidden(name));
                // Draft 4 wants at least one.
                if required.is_empty() {
                    map.remove("required");
                }
            }
            const VALUES: [&str; 5] = ["example", "examples", "enum", "default", "const"];
            let schemas = map.iter_mut().filter(|(key, _)| !VALUES.contains(&key.as_str()));
            schemas.for_each(|(_, value)| convert(value, is_30, flow));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn compile(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let Some(text) = reading.optional(CONTRACT) else { return Some(Box::new(Undescribed)) };
    let compiled = Contract::read(text, reading.flow).and_then(|contract| contract.compile());
    match compiled {
        Ok(mediator) => Some(mediator),
        Err(error) => {
            reading.wrong(CONTRACT, format!("`{SCHEMA_VALIDATION}`: {error}"), "");
            None
        }
    }
}
