//! `jsontransform`: makes the payload JSON whose values have the types of a JSON Schema, or of a property.

use expression::{BodyUse, json};
use serde_json::Value;

use super::keyed::Keyed;
use super::validate::Schema;
use crate::error::{Code, Failure};
use crate::limits;
use crate::message::Message;
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

/// The property by which texts may become numbers and the like.
const AUTO_PRIMITIVE: &str = "synapse.commons.json.output.autoPrimitive";

#[derive(Debug)]
struct JsonTransform {
    /// Numbers and booleans become strings.
    strings: bool,
    schema: Option<Keyed<Schema>>,
}

impl Mediator for JsonTransform {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn ns_per_byte(&self) -> u64 {
        limits::VALIDATE_NS_PER_BYTE
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let Some(document) = message.body.json(scene.budget)? else {
            let message = "the body is empty, or neither JSON nor XML";
            return Err(Failure::new(Code::MEDIATION, message));
        };
        // Each scalar may get two quotes.
        expression::Value::Json(document.root()).charge_copy(scene.budget)?;
        scene.budget.charge_memory(document.node_count().saturating_mul(2))?;
        let mut out = json::Builder::new();
        let schema = self.schema.as_ref().map(|schema| schema.get(scene, message)).transpose()?;
        self.convert(document.root(), schema.as_deref().map(Schema::value), &mut out);
        let made = out.finish();
        if let Some(schema) = &schema
            && let Some(error) = schema.error(made.text(), scene.budget)?
        {
            return Err(Failure::new(Code::MEDIATION, error));
        }
        message.body.replace_json(made, scene.budget)?;
        Ok(Next::Continue)
    }
}

impl JsonTransform {
    /// Recurses as deep as the body is nested, which has a limit.
    fn convert(&self, value: json::Ref<'_>, schema: Option<&Value>, out: &mut json::Builder) {
        let kind = schema.and_then(|schema| schema.get("type")).and_then(Value::as_str);
        match (value.kind(), kind) {
            (json::Kind::Array, _) => {
                out.begin_array();
                for (at, item) in value.elements().enumerate() {
                    self.convert(item, items(schema, at), out);
                }
                out.end();
            }
            (_, Some("array")) => {
                // A single element of XML is not an array yet.
                out.begin_array();
                self.convert(value, items(schema, 0), out);
                out.end();
            }
            (json::Kind::Object, _) => {
                out.begin_object();
                for (name, member) in value.members() {
                    out.key(&name);
                    self.convert(member, member_schema(schema, &name), out);
                }
                out.end();
            }
            (json::Kind::String, Some(kind)) => {
                let text = value.string().unwrap_or_default();
                let parsed = json::Document::parse(text.trim().as_bytes()).ok();
                let parsed = parsed.as_ref().map(json::Document::root);
                match parsed.filter(|parsed| is_of(*parsed, kind)) {
                    Some(parsed) => out.embed(parsed),
                    None => out.embed(value),
                };
            }
            (json::Kind::Number | json::Kind::Boolean, Some("string")) => {
                out.string(value.raw());
            }
            (json::Kind::Number | json::Kind::Boolean, None) if self.strings => {
                out.string(value.raw());
            }
            (
                json::Kind::String | json::Kind::Number | json::Kind::Boolean | json::Kind::Null,
                _,
            ) => {
                out.embed(value);
            }
        }
    }
}

/// Whether a value that a string spells is of the type that a schema names.
fn is_of(value: json::Ref<'_>, kind: &str) -> bool {
    match value.kind() {
        json::Kind::Number => matches!(kind, "number" | "integer"),
        json::Kind::Boolean => kind == "boolean",
        json::Kind::Null => kind == "null",
        json::Kind::String | json::Kind::Array | json::Kind::Object => false,
    }
}

fn items(schema: Option<&Value>, at: usize) -> Option<&Value> {
    let items = schema?.get("items")?;
    items.as_array().map_or(Some(items), |items| items.get(at))
}

fn member_schema<'s>(schema: Option<&'s Value>, name: &str) -> Option<&'s Value> {
    let schema = schema?;
    let named = schema.get("properties").and_then(|properties| properties.get(name));
    named.or_else(|| schema.get("additionalProperties"))
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let schema = match element.optional("schema") {
        Some(key) => Some(Schema::compile(compiler, element, key)?),
        None => None,
    };
    let mut strings = false;
    for child in element.children() {
        if child.name() != "property" {
            element.ignores(compiler, &child, &["property"]);
            continue;
        }
        let name = child.required(compiler, "name")?;
        if name != AUTO_PRIMITIVE {
            let help = format!("the only property is `{AUTO_PRIMITIVE}`");
            return compiler.reject(
                &child,
                format!("the property `{name}` is not supported"),
                Some(&help),
            );
        }
        strings = child.optional("value") == Some("false");
        child.finish(compiler);
    }
    Some(Box::new(JsonTransform { strings, schema }))
}
