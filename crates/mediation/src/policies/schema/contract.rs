//! The description of an operation, and its checked parts.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::PolicyFlow;
use serde_json::Value;

use super::{Content, Parameter, Place, Requests, Responses, Statuses};
use crate::mediators::{Draft, Schema};
use crate::message::Format;
use crate::policies::Members;
use crate::program::{Mediator, uri_template};

/// The description of an operation, as [`CONTRACT`] has it.
pub(super) struct Contract {
    flow: PolicyFlow,
    draft: Draft,
    item: Value,
    operation: Value,
    /// What `$ref`s lead to, where they expect it.
    root: Value,
    /// Schemas of the API so far.
    pub(super) schemas: RefCell<HashMap<String, Arc<Schema>>>,
}

impl Contract {
    /// # Errors
    /// It was not written by the reader of descriptions.
    pub(super) fn read(text: &str, flow: PolicyFlow) -> Result<Self, String> {
        let mut all: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_30 = all.get("version").and_then(Value::as_str) == Some("3.0");
        convert(&mut all, Members::Keywords, is_30, flow);
        let mut take = |name: &str| all.get_mut(name).map(Value::take).unwrap_or_default();
        let (item, operation, refs) = (take("item"), take("operation"), take("refs"));
        let mut root = Value::Object(serde_json::Map::new());
        for entry in refs.as_array().into_iter().flatten() {
            let parts = entry.get(0).and_then(Value::as_array).into_iter().flatten();
            let parts: Vec<&str> = parts.filter_map(Value::as_str).collect();
            insert(&mut root, &parts, entry.get(1).cloned().unwrap_or_default());
        }
        let draft = if is_30 { Draft::Draft4 } else { Draft::Draft202012 };
        Ok(Self { flow, draft, item, operation, root, schemas: RefCell::default() })
    }

    /// `value`, or the target of its reference.
    fn resolve<'v>(&'v self, mut value: &'v Value) -> &'v Value {
        for _ in 0..base::limits::REF_DEPTH_MAX {
            let target = value.get("$ref").and_then(Value::as_str);
            let Some(target) = target.and_then(|target| {
                self.root.pointer(&uri_template::decode(target.strip_prefix('#')?))
            }) else {
                break;
            };
            value = target;
        }
        value
    }

    /// Operations of an API share those that are the same.
    fn schema(&self, schema: &Value) -> Result<Arc<Schema>, String> {
        let whole = self.whole(schema);
        let mut schemas = self.schemas.borrow_mut();
        let key = format!("{:?} {whole}", self.draft);
        if let Some(known) = schemas.get(&key) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Schema::of_value(whole, Some(self.draft))?.compiled_only());
        schemas.insert(key, Arc::clone(&made));
        Ok(made)
    }

    /// A schema with the targets of its `$ref`s, where they expect them.
    fn whole(&self, schema: &Value) -> Value {
        // Containers come before their parts.
        let mut targets = BTreeMap::new();
        let mut rest = vec![schema];
        while let Some(node) = rest.pop() {
            if let Some(reference) = node.get("$ref").and_then(Value::as_str) {
                let pointer = uri_template::decode(reference.strip_prefix('#').unwrap_or_default());
                if let Some(target) = self.root.pointer(&pointer) {
                    let unescaped = |part: &str| part.replace("~1", "/").replace("~0", "~");
                    let parts: Vec<_> = pointer.split('/').skip(1).map(unescaped).collect();
                    if targets.insert(parts, target).is_none() {
                        rest.push(target);
                    }
                }
            }
            match node {
                Value::Array(items) => rest.extend(items),
                Value::Object(map) => rest.extend(map.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let mut whole = Value::Object(serde_json::Map::new());
        for (parts, target) in targets {
            let parts: Vec<_> = parts.iter().map(String::as_str).collect();
            insert(&mut whole, &parts, target.clone());
        }
        if let Some(whole) = whole.as_object_mut() {
            whole.insert("allOf".to_owned(), Value::Array(vec![schema.clone()]));
        }
        whole
    }

    /// # Errors
    /// The problem, with its media type.
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
        let types = self.types(schema);
        let has = |name: &str| types.contains(&name);
        let is_object = has("object") || style == "deepObject";
        let is_list = has("array");
        let is_scalar = types.iter().any(|name| !matches!(*name, "array" | "object" | "null"));
        let separator = match style {
            "form" | "simple" => Some(','),
            "spaceDelimited" => Some(' '),
            "pipeDelimited" => Some('|'),
            _ => None,
        };
        // Objects, lists that may be no list, and lists in a style that is rare, are not taken apart.
        let is_checked = schema.is_object()
            && !is_object
            && !(is_list && is_scalar)
            && separator.is_some_and(|_| is_list || matches!(style, "form" | "simple"));
        // The members of an object are parameters of their own names.
        let has_name = !is_object || place != Place::Query || style == "form" && !explodes;
        let items = self.resolve(schema).get("items").unwrap_or(&Value::Null);
        let names = if is_list { self.types(items) } else { types };
        let is_plain = names.iter().any(|name| matches!(*name, "integer" | "number" | "boolean"));
        Ok(Parameter {
            name: name.to_owned(),
            place,
            required: has_name && of.get("required").and_then(Value::as_bool) == Some(true),
            is_plain,
            separator: separator.filter(|_| is_list),
            is_repeated: is_list && explodes && place == Place::Query,
            schema: if is_checked { Some(self.schema(schema)?) } else { None },
        })
    }

    /// The types that a value may have, those of its alternatives included.
    fn types<'v>(&'v self, schema: &'v Value) -> Vec<&'v str> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let mut rest = vec![schema];
        while let Some(schema) = rest.pop() {
            let schema = self.resolve(schema);
            if seen.insert(std::ptr::from_ref(schema)) {
                found.extend(type_names(schema));
                let lists = ["allOf", "anyOf", "oneOf"].map(|key| schema.get(key)?.as_array());
                rest.extend(lists.into_iter().flatten().flatten());
            }
        }
        found
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

    pub(super) fn compile(&self) -> Result<Box<dyn Mediator>, String> {
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

/// Makes JSON Schema of OpenAPI's: `nullable` of 3.0 (its other keywords are those of draft 4), and properties absent
/// from requests or from responses. Recurses as deep as the parser does.
fn convert(value: &mut Value, members: Members, is_30: bool, flow: PolicyFlow) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| convert(item, members, is_30, flow));
        }
        Value::Object(map) => {
            if members == Members::Keywords {
                convert_keywords(map, is_30, flow);
            }
            for (key, value) in map {
                if let Some(members) = members.below(key) {
                    convert(value, members, is_30, flow);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn convert_keywords(map: &mut serde_json::Map<String, Value>, is_30: bool, flow: PolicyFlow) {
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
}
