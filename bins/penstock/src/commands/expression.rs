//! `penstock expression`: an expression as a mediation writes it, on a message out of files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use base::SystemClock;
use clap::Args;
use expression::json::{self, Kind, Ref};
use expression::limits;
use expression::synapse::Mode;
use expression::{EvalError, Expression, Scope, Value};
use xml::Position;

use super::source::{Source, print, report_at, report_expression, stdin_once};
use super::xml::{binding, bound_once};
use crate::failure::Failure;

/// Evaluate an expression as a mediation would
///
/// The language shows in the expression: `${...}` is a Synapse expression, `json-eval(...)` JSONPath,
/// `$trp:X` a header, `$var:x` a variable, anything else XPath. Prints its text: strings
/// without quotes, arrays and objects as JSON, of XML nodes their text; what isn't there is an empty line.
/// Of two headers of one name the last counts.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock expression '${payload.price * 2}' --payload order.json
  penstock expression 'json-eval($.items[0].sku)' --payload order.json
  penstock expression '//symbol' --payload order.xml
  penstock expression '//s:order/@id' --payload order.xml --ns s=http://services.samples
  penstock expression '${headers[\"X-Tenant\"] + vars.suffix}' --headers headers.txt --vars vars.json

headers.txt: `X-Tenant: acme`, a line for each, or a JSON object; vars.json: {\"suffix\": \"-eu\"}")]
pub(crate) struct Arguments {
    /// The expression
    #[arg(value_name = "EXPR")]
    expression: String,
    /// The message's body, JSON or XML; `-` is stdin
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Its headers: `name: value` lines, or a JSON object
    #[arg(long, value_name = "FILE")]
    headers: Option<PathBuf>,
    /// Variables: a JSON object
    #[arg(long, value_name = "FILE")]
    vars: Option<PathBuf>,
    /// Bind a prefix of XPath to a namespace; again for more
    #[arg(long, value_name = "P=URI", value_parser = binding)]
    ns: Vec<(String, String)>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = [&arguments.payload, &arguments.headers, &arguments.vars];
    stdin_once(files.into_iter().flatten().map(PathBuf::as_path))?;
    let text = &arguments.expression;
    bound_once(&arguments.ns)?;
    let compiled = Expression::compile_with(text, Mode::Compatible, &arguments.ns);
    let expression = compiled.map_err(|error| {
        let place = Position { line: error.line, column: error.column };
        report_expression(text, place, error.message)
    })?;
    let message = Message::read(arguments)?;
    let value = expression.evaluate(&message).map_err(|error| {
        let way_out = match (&error, &message.payload) {
            (EvalError::Body(_), Payload::None) => "; give one with --payload FILE",
            _ => "",
        };
        let place = Position { line: 1, column: 1 };
        report_expression(text, place, format!("{error}{way_out}"))
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

/// What begins with `<` is XML.
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
    Err(report_at(&source.name, document.text(), place, "an object is expected: {\"name\": value}"))
}

fn headers(source: &Source) -> Result<Vec<(String, String)>, Failure> {
    if source.bytes.trim_ascii_start().starts_with(b"{") {
        return members(source);
    }
    let text = String::from_utf8_lossy(&source.bytes);
    let mut headers = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parts = line.split_once(':');
        let Some((name, value)) = parts.filter(|(name, _)| is_field_name(name)) else {
            let line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let place = Position { line, column: 1 };
            return Err(report_at(&source.name, &text, place, "`name: value` is expected"));
        };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(headers)
}

fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The members of an object whose values are scalars, as text.
fn members(source: &Source) -> Result<Vec<(String, String)>, Failure> {
    let document = object(source)?;
    let mut members = Vec::new();
    for (name, value) in document.root().members() {
        if matches!(value.kind(), Kind::Array | Kind::Object) {
            let place = Position::of(document.text(), value.offset());
            let what = "a header's value is a text; write it in quotes";
            return Err(report_at(&source.name, document.text(), place, what));
        }
        members.push((name.into_owned(), Value::Json(value).text().into_owned()));
    }
    Ok(members)
}

impl Scope for Message {
    fn json(&self) -> Result<Option<Ref<'_>>, EvalError> {
        Ok(match &self.payload {
            Payload::Json(document) => Some(document.root()),
            Payload::None | Payload::Xml { .. } => None,
        })
    }

    fn text(&self) -> Result<Cow<'_, str>, EvalError> {
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

    fn xml(&self) -> Result<Option<&xml::Document>, EvalError> {
        Ok(match &self.payload {
            Payload::Xml { document, .. } => Some(document),
            Payload::None | Payload::Json(_) => None,
        })
    }

    fn unix_ms(&self) -> i64 {
        self.unix_ms
    }
}
