//! `penstock expression`: evaluates an expression on a message read from files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use base::SystemClock;
use clap::Args;
use expression::json::{self, Kind, Ref};
use expression::limits;
use expression::{Budget, Error, EvalContext, Expression, Value};
use xml::Position;

use super::print;
use super::source::{Source, report_at, report_expression, stdin_once};
use super::xml::{binding, bound_once};
use crate::failure::Failure;

/// Evaluate an expression as mediation would
///
/// The syntax selects the language: `${...}` is a Synapse expression, `json-eval(...)` JSONPath, `$trp:X` a header,
/// `$var:x` a variable, and anything else XPath. Prints the result as text: strings without quotes, arrays and objects
/// as JSON, XML nodes as their text, and missing values as an empty line. If a header is repeated, the last one counts.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock expression '${payload.price * 2}' --payload order.json
  penstock expression 'json-eval($.items[0].sku)' --payload order.json
  penstock expression '//symbol' --payload order.xml
  penstock expression '//s:order/@id' --payload order.xml --ns s=http://services.samples
  penstock expression '${headers[\"X-Tenant\"] + vars.suffix}' --headers headers.txt --vars vars.json

headers.txt: one `X-Tenant: acme` per line, or a JSON object; vars.json: {\"suffix\": \"-eu\"}")]
pub(crate) struct Arguments {
    /// The expression
    #[arg(value_name = "EXPR")]
    expression: String,
    /// File with the message body, JSON or XML; `-` is stdin
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// File with the headers: `name: value` lines, or a JSON object
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// File with the variables: a JSON object
    #[arg(long, value_name = "FILE")]
    vars: Option<PathBuf>,
    /// Bind an XPath prefix to a namespace; repeatable
    #[arg(long, value_name = "P=URI", value_parser = binding)]
    ns: Vec<(String, String)>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = [&arguments.payload, &arguments.headers, &arguments.vars];
    stdin_once(files.into_iter().flatten().map(PathBuf::as_path))?;
    let text = &arguments.expression;
    bound_once(&arguments.ns)?;
    let compiled = Expression::compile_with(text, &arguments.ns);
    let expression = compiled
        .map_err(|error| report_expression(text, super::json::position(&error), error.message()))?;
    let message = Message::read(arguments)?;
    let value = expression.evaluate_within(&message, &Budget::large()).map_err(|error| {
        let help = match (&error, &message.payload) {
            (Error::Body(_), Payload::None) => "; use --payload FILE",
            _ => "",
        };
        let message = format!("{}{help}", error.message());
        report_expression(text, super::json::position(&error), message)
    })?;
    print(|out| writeln!(out, "{}", value.text()))
}

enum Payload {
    None,
    Json(json::Document<'static>),
    Xml { document: Box<xml::Document>, text: String },
}

struct Message {
    payload: Payload,
    headers: Vec<(String, String)>,
    variables: Option<json::Document<'static>>,
    unix_ms: i64,
}

impl Message {
    fn read(arguments: &Arguments) -> Result<Self, Failure> {
        let source = |file: &Option<PathBuf>| {
            file.as_deref()
                .map(|file: &Path| Source::read(file, limits::JSON_BYTES_MAX))
                .transpose()
        };
        let payload = source(&arguments.payload)?.as_ref().map(payload).transpose()?;
        let headers = source(&arguments.headers)?.as_ref().map(headers).transpose()?;
        let variables = source(&arguments.vars)?.as_ref().map(object).transpose()?;
        let unix_ms = SystemClock::new().origin_unix_us() / 1_000;
        Ok(Self {
            payload: payload.unwrap_or(Payload::None),
            headers: headers.unwrap_or_default(),
            variables,
            unix_ms: i64::try_from(unix_ms).unwrap_or(i64::MAX),
        })
    }
}

/// A payload that begins with `<` is XML, any other JSON.
fn payload(source: &Source) -> Result<Payload, Failure> {
    let text = source.xml_text();
    if !text.trim_start().starts_with('<') {
        return json(source).map(Payload::Json);
    }
    let document = xml::Document::parse(&source.bytes).map_err(|error| source.xml_error(&error))?;
    Ok(Payload::Xml { document: Box::new(document), text: text.into_owned() })
}

fn json(source: &Source) -> Result<json::Document<'static>, Failure> {
    let read = json::Document::parse(&source.bytes).map_err(|error| source.json_error(&error))?;
    Ok(read.into_owned())
}

fn object(source: &Source) -> Result<json::Document<'static>, Failure> {
    let document = json(source)?;
    if document.root().kind() == Kind::Object {
        return Ok(document);
    }
    let place = Position::of(document.text(), document.root().offset());
    Err(report_at(&source.name, document.text(), place, "JSON object expected: {\"name\": value}"))
}

pub(crate) fn headers(source: &Source) -> Result<Vec<(String, String)>, Failure> {
    if source.bytes.trim_ascii_start().starts_with(b"{") {
        return members(source);
    }
    let text = String::from_utf8_lossy(&source.bytes);
    let mut headers = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        headers.push(header(line).map_err(|expected| {
            let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            report_at(&source.name, &text, Position { line, column: 1 }, expected)
        })?);
    }
    Ok(headers)
}

/// A line `name: value`.
pub(crate) fn header(line: &str) -> Result<(String, String), &'static str> {
    let parts = line.split_once(':').filter(|(name, _)| is_field_name(name));
    let (name, value) = parts.ok_or("`name: value` expected")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The members of an object of scalars, as text.
fn members(source: &Source) -> Result<Vec<(String, String)>, Failure> {
    let document = object(source)?;
    let mut members = Vec::new();
    for (name, value) in document.root().members() {
        if matches!(value.kind(), Kind::Array | Kind::Object) {
            let place = Position::of(document.text(), value.offset());
            let message = "the value of a header must be a string";
            return Err(report_at(&source.name, document.text(), place, message));
        }
        members.push((name.into_owned(), Value::Json(value).text().into_owned()));
    }
    Ok(members)
}

impl EvalContext for Message {
    fn json(&self) -> Result<Option<Ref<'_>>, Error> {
        Ok(match &self.payload {
            Payload::Json(document) => Some(document.root()),
            Payload::None | Payload::Xml { .. } => None,
        })
    }

    fn text(&self) -> Result<Cow<'_, str>, Error> {
        Ok(Cow::Borrowed(match &self.payload {
            Payload::None => "",
            Payload::Json(document) => document.text(),
            Payload::Xml { text, .. } => text,
        }))
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.headers.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| Cow::Borrowed(value.as_str()))
    }

    fn variable(&self, name: &str) -> Option<Value<'_>> {
        self.variables.as_ref()?.root().get(name).map(Value::Json)
    }

    fn xml(&self) -> Result<Option<&xml::Document>, Error> {
        Ok(match &self.payload {
            Payload::Xml { document, .. } => Some(document),
            Payload::None | Payload::Json(_) => None,
        })
    }

    fn unix_ms(&self) -> i64 {
        self.unix_ms
    }
}
