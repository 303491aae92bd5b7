//! Policies that change a head: fields, query, path, method, address.

use expression::BodyUse;

use super::PolicyReading;
use crate::error::{Code, Failure};
use crate::mediators::values::text::Text;
use crate::message::{Message, PropertyScope, PropertyValue, is_token};
use crate::program::{LogLevel, Mediator, Next, Scene, uri_template};

const POSTFIX: &str = "REST_URL_POSTFIX";
/// Fields of framing and of the connection, which the gateway writes itself.
const WRITTEN_BY_GATEWAY: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn is_written_by_gateway(name: &str) -> bool {
    WRITTEN_BY_GATEWAY.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

#[derive(Debug)]
struct SetField {
    name: Box<str>,
    value: Text,
}

impl Mediator for SetField {
    fn body_use(&self) -> BodyUse {
        self.value.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let value = self.value.render(scene, message)?;
        message.set_field(&self.name, &value)?;
        Ok(Next::Continue)
    }
}

pub(super) fn add_header(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let name = field_name(reading);
    let value = reading.template("headerValue")?;
    Some(Box::new(SetField { name: name?, value }))
}

fn field_name(reading: &mut PolicyReading<'_>) -> Option<Box<str>> {
    let parameter = "headerName";
    let name = reading.required(parameter)?;
    if !is_token(name) {
        return reading.reject(
            parameter,
            format!("`{name}` is not the name of a header field"),
            "",
        );
    }
    if is_written_by_gateway(name) {
        let message = format!("the gateway writes `{name}` itself");
        return reading.reject(parameter, message, "remove the policy");
    }
    Some(name.into())
}

#[derive(Debug)]
struct RemoveField(Box<str>);

impl Mediator for RemoveField {
    fn mediate(&self, _: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        message.remove_field(&self.0);
        Ok(Next::Continue)
    }
}

pub(super) fn remove_header(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(RemoveField(field_name(reading)?)))
}

#[derive(Debug)]
struct Log(Text);

impl Mediator for Log {
    fn body_use(&self) -> BodyUse {
        self.0.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        scene.environment.log(LogLevel::Info, &self.0.render(scene, message)?);
        Ok(Next::Continue)
    }
}

pub(super) fn log(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    Some(Box::new(Log(reading.template("logMessage")?)))
}

/// Path and query below the endpoint's path.
fn postfix(message: &Message) -> String {
    message.property_text(PropertyScope::Axis2, POSTFIX).unwrap_or_default().into_owned()
}

fn set_postfix(scene: &Scene<'_>, message: &mut Message, postfix: String) -> Result<(), Failure> {
    message.set(PropertyScope::Axis2, POSTFIX, PropertyValue::new(postfix), scene.budget)
}

#[derive(Debug)]
struct AddQueryParam {
    /// Escaped.
    name: Box<str>,
    value: Text,
}

impl Mediator for AddQueryParam {
    fn body_use(&self) -> BodyUse {
        self.value.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let value = self.value.render(scene, message)?;
        let mut target = postfix(message);
        target.push(if target.contains('?') { '&' } else { '?' });
        target.push_str(&self.name);
        target.push('=');
        uri_template::encode(&mut target, &value, false);
        set_postfix(scene, message, target)?;
        Ok(Next::Continue)
    }
}

pub(super) fn add_query_param(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let mut name = String::new();
    uri_template::encode(&mut name, reading.required("paramKey").unwrap_or_default(), false);
    let value = reading.template("paramValue")?;
    Some(Box::new(AddQueryParam { name: name.into(), value }))
}

#[derive(Debug)]
struct Path {
    template: Box<str>,
    keeps_query: bool,
}

impl Mediator for Path {
    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut target = uri_template::expand(&self.template, |name| {
            let property =
                |name: &str| Some(message.property_text(PropertyScope::Synapse, name)?.into());
            property(&format!("uri.var.{name}")).or_else(|| property(name))
        });
        let path = target.split('?').next().unwrap_or_default();
        if may_climb(path) {
            let text = "`newResourcePath` became a path with a dot segment or a backslash";
            return Err(Failure::new(Code::MEDIATION, text));
        }
        if self.keeps_query
            && let Some((_, query)) = postfix(message).split_once('?')
        {
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(query);
        }
        set_postfix(scene, message, target)?;
        Ok(Next::Continue)
    }
}

/// How often an upstream and proxies before it may decode a path.
const DECODINGS_MAX: usize = 3;

/// Whether a path has a dot segment or a backslash, as it is or decoded. One that still has escapes after
/// [`DECODINGS_MAX`] is counted among them.
fn may_climb(path: &str) -> bool {
    let mut path = path.to_owned();
    for _ in 0..DECODINGS_MAX {
        if climbs(&path) {
            return true;
        }
        let decoded = uri_template::decode(&path);
        if decoded == path {
            return false;
        }
        path = decoded;
    }
    climbs(&path) || uri_template::decode(&path) != path
}

/// Some servers first drop a `;` and the rest of its segment.
fn climbs(path: &str) -> bool {
    let mut names = path.split('/').filter_map(|segment| segment.split(';').next());
    path.contains('\\') || names.any(|name| matches!(name, "." | ".."))
}

pub(super) fn path(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let keeps_query = reading.flag("includeQueryParams", true)?;
    let template = reading.required("newResourcePath")?;
    let is_balanced = template.matches('{').count() == template.matches('}').count();
    let is_plain = template.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if !template.starts_with('/') || !is_balanced || !is_plain {
        let message = format!("`{template}` is not a path");
        return reading.reject(
            "newResourcePath",
            message,
            "write `/pets/{id}`, without spaces and `#`",
        );
    }
    Some(Box::new(Path { template: template.into(), keeps_query }))
}

#[derive(Debug)]
struct Method {
    from: Option<Box<str>>,
    to: Box<str>,
}

impl Mediator for Method {
    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        const NAME: &str = "HTTP_METHOD";
        let now = message.property_text(PropertyScope::Axis2, NAME).unwrap_or_default();
        if self.from.as_deref().is_none_or(|from| from == now) {
            let to = PropertyValue::new(self.to.clone());
            message.set(PropertyScope::Axis2, NAME, to, scene.budget)?;
        }
        Ok(Next::Continue)
    }
}

pub(super) fn method(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let to = reading.required("updatedMethod")?;
    let from = reading.optional("currentMethod");
    let mut known = |name: &str, text: &str| {
        let found = METHODS.into_iter().find(|method| method.eq_ignore_ascii_case(text));
        let message = || format!("`{text}` is not a method");
        found.or_else(|| reading.reject(name, message(), "write one such as `POST`"))
    };
    let to = known("updatedMethod", to)?.into();
    let from = match from {
        Some(from) => Some(known("currentMethod", from)?.into()),
        None => None,
    };
    Some(Box::new(Method { from, to }))
}

#[derive(Debug)]
struct SetTo(Text);

impl Mediator for SetTo {
    fn body_use(&self) -> BodyUse {
        self.0.body_use()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let to = PropertyValue::new(self.0.render(scene, message)?);
        message.set(PropertyScope::Synapse, "To", to, scene.budget)?;
        Ok(Next::Continue)
    }
}

pub(super) fn endpoint(reading: &mut PolicyReading<'_>) -> Option<Box<dyn Mediator>> {
    let is_fixed = reading.optional("to").is_some_and(|to| !to.contains("${"));
    if is_fixed {
        reading.url("to")?;
    }
    Some(Box::new(SetTo(reading.template("to")?)))
}
