//! `schemaValidation`: requests and responses against the description of their operation, which the reader of the
//! description hands over as the parameter [`CONTRACT`].

mod contract;

use std::sync::Arc;

use expression::{BodyUse, Budget, json};
use model::PolicyFlow;
use serde_json::Value;

use super::check::occurs_twice;
use super::{CONTRACT, PolicyReading, SCHEMA_VALIDATION};
use crate::error::{Code, Failure};
use crate::limits;
use crate::mediators::Schema;
use crate::message::{CONTENT_TYPE, Format, Message, PropertyScope};
use crate::program::{Mediator, Next, Scene, uri_template};

use contract::Contract;

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
struct Content(Vec<(String, Option<Arc<Schema>>)>);

impl Content {
    fn body_use(&self) -> BodyUse {
        let is_checked = self.0.iter().any(|(_, schema)| schema.is_some());
        if is_checked { BodyUse::Read } else { BodyUse::Untouched }
    }

    /// Problem of the body.
    fn violation(&self, message: &Message, budget: &Budget) -> Result<Option<String>, Failure> {
        if self.0.is_empty() {
            return Ok(None);
        }
        if occurs_twice(message, CONTENT_TYPE) {
            return Ok(Some(format!("`{CONTENT_TYPE}` occurs more than once")));
        }
        let field = message.head.field(CONTENT_TYPE).unwrap_or_default();
        let media = field.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let class = format!("{}/*", media.split('/').next().unwrap_or_default());
        let known = |name: &str| self.0.iter().find(|(known, _)| known == name);
        let Some((_, schema)) = known(&media).or_else(|| known(&class)).or_else(|| known("*/*"))
        else {
            let names: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
            return Ok(Some(format!("the content type is not one of {}", names.join(", "))));
        };
        let Some(schema) = schema.as_ref().filter(|_| Format::of(&media) == Format::Json) else {
            return Ok(None);
        };
        let bytes = message.body.bytes(budget)?.unwrap_or_default();
        // Two members of one name mean different things to different readers.
        let limits = json::Limits { duplicates: json::Duplicates::Reject, ..Default::default() };
        let before = budget.bytes_used();
        let read = json::Document::parse_within_limits(&bytes, &limits, budget).map(drop);
        budget.release_memory(usize::try_from(budget.bytes_used() - before).unwrap_or(usize::MAX));
        match read {
            Ok(()) => {}
            Err(expression::Error::Budget(exceeded)) => return Err(exceeded.into()),
            Err(error) => return Ok(Some(format!("the body is not JSON: {error}"))),
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => judged(schema.error(text, budget)),
            Err(_) => Ok(Some("the body is not UTF-8".to_owned())),
        }
    }
}

/// A value that the validator cannot read, such as an endless number, does not match.
fn judged(error: Result<Option<String>, Failure>) -> Result<Option<String>, Failure> {
    error.or_else(|failure| match failure.code {
        Code::MALFORMED_BODY => Ok(Some(failure.into_message())),
        _ => Err(failure),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Header,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    place: Place,
    required: bool,
    /// Whether a text may be a number, `true` or `false`; otherwise it is one only if the text does not match.
    is_plain: bool,
    /// Separator of a list; `None`: one value. A query may repeat the parameter instead.
    separator: Option<char>,
    is_repeated: bool,
    /// `None`: it must only be there.
    schema: Option<Arc<Schema>>,
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
                // A `+` in a path is not a space.
                let decoded = |text: &str| uri_template::decode(&text.replace('+', "%2B"));
                value.map(|value| decoded(&value.text())).into_iter().collect()
            }
            Place::Header => {
                let mut all = Vec::new();
                message.head.fields(&mut |name, value| {
                    if name.eq_ignore_ascii_case(&self.name) {
                        all.push(value.to_owned());
                    }
                });
                // Source: RFC 9110 section 5.3.
                let is_list = self.separator == Some(',') && !all.is_empty();
                if is_list { vec![all.join(",")] } else { all }
            }
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
        if texts.len() > 1 && !self.is_repeated {
            return Ok(Some(describe("occurs more than once")));
        }
        let check = |is_plain: bool| {
            let value = self.value(first, &texts, is_plain);
            judged(schema.error(&value.to_string(), budget))
        };
        let Some(error) = check(self.is_plain)? else { return Ok(None) };
        let other = check(!self.is_plain)?;
        Ok(other.map(|_| describe(&format!("is invalid: {error}"))))
    }

    fn value(&self, first: &str, texts: &[String], is_plain: bool) -> Value {
        let one = |text: &str| match text {
            "true" if is_plain => Value::Bool(true),
            "false" if is_plain => Value::Bool(false),
            _ => {
                let number = is_plain.then(|| serde_json::from_str(text).ok()).flatten();
                number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
            }
        };
        if self.is_repeated {
            Value::Array(texts.iter().map(|text| one(text)).collect())
        } else if let Some(separator) = self.separator {
            Value::Array(first.split(separator).map(|text| one(text.trim())).collect())
        } else {
            one(first)
        }
    }
}

/// Names and values, decoded.
fn query(message: &Message) -> Vec<(String, String)> {
    let target = message.head.property(PropertyScope::Axis2, "TransportInURL").unwrap_or_default();
    let (_, query) = target.split_once('?').unwrap_or_default();
    uri_template::query(query).collect()
}

pub(super) fn compile(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let Some(text) = reading.optional(CONTRACT) else { return Some(Box::new(Undescribed)) };
    let compiled = Contract::read(text, reading.flow).and_then(|contract| {
        contract.schemas.replace(std::mem::take(&mut reading.compilation.schemas));
        let compiled = contract.compile();
        reading.compilation.schemas = contract.schemas.into_inner();
        compiled
    });
    match compiled {
        Ok(mediator) => Some(mediator),
        Err(error) => reading.reject(CONTRACT, format!("`{SCHEMA_VALIDATION}`: {error}"), ""),
    }
}
