//! The payload factory's formats.
//!
//! What a value becomes depends on where it lands, which is known when the template is compiled:
//!
//! | place | a JSON value | a text |
//! |---|---|---|
//! | `{"a": $1}` | as it is | as it is when it is a JSON number, boolean, `null`, object or array; else a string |
//! | `{"a": "$1"}` | a string's content; else its JSON text, escaped | escaped |
//! | `<a>$1</a>` | elements, or a scalar's text | escaped |
//! | `<a b="$1"/>` | its text, escaped | escaped |
//! | text | its text | as it is |

use base::limits;

use super::xml_text;
use crate::cursor::Cursor;
use crate::json::{self, Document, Kind};
use crate::synapse::{Mode, SynapseExpression};
use crate::{BodyUse, CompileError, EvalError, Expression, Scope, Value};

/// What a template makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `media-type="xml"`
    Xml,
    /// `media-type="json"`
    Json,
    /// `media-type="text"`
    Text,
}

/// What `$n` stands for.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Its value; [`Expression::literal`] for `value="..."`.
    pub expression: Expression,
    /// `literal="true"`: whatever it looks like, it is a text.
    pub literal: bool,
    /// The expression is an XPath that selects nodes, and they go into XML as markup. Elsewhere: their texts.
    pub markup: bool,
    /// A text that is a well-formed XML document by itself goes into XML as markup, its declaration left out; what
    /// Synapse does with every argument where `deepCheck` isn't `false`. Not for `literal` ones.
    pub deep: bool,
}

impl Argument {
    /// An argument without special handling.
    #[must_use]
    pub fn new(expression: Expression) -> Self {
        Self { expression, literal: false, markup: false, deep: false }
    }
}

/// How a template is read and filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What it makes.
    pub media: MediaType,
    /// `escapeXmlChars="true"`: `&`, `<` and `>` in values for JSON become XML's references.
    pub escape_xml: bool,
    /// How `${...}` are read.
    pub mode: Mode,
}

impl Settings {
    /// Compatible, without `escapeXmlChars`.
    #[must_use]
    pub fn new(media: MediaType) -> Self {
        Self { media, escape_xml: false, mode: Mode::Compatible }
    }
}

/// A compiled format with its arguments.
#[derive(Clone, Debug)]
pub struct PayloadTemplate {
    segments: Vec<Segment>,
    arguments: Vec<Argument>,
    settings: Settings,
}

#[derive(Clone, Debug)]
enum Segment {
    Text(Box<str>),
    Argument(usize, Place),
    Inline(Box<SynapseExpression>, Place),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    JsonValue,
    JsonString,
    XmlText,
    XmlAttribute,
    Plain,
}

impl PayloadTemplate {
    /// Compiles `format`.
    ///
    /// # Errors
    /// A `$n` without its argument, a malformed `${...}`, a format that is too long: with its place.
    pub fn compile(
        format: &str,
        arguments: Vec<Argument>,
        settings: Settings,
    ) -> Result<Self, CompileError> {
        let most = limits::PAYLOAD_TEMPLATE_BYTES_MAX;
        if format.len() > most {
            return Err(CompileError::new(format, most, format!("longer than {most} bytes")));
        }
        let mut scan = Scan { media: settings.media, state: State::Outside, escaped: false };
        let mut segments = Vec::new();
        let (mut plain, mut at) = (0, 0);
        while let Some(found) =
            format.get(at..).and_then(|rest| rest.find('$')).map(|found| at + found)
        {
            scan.pass(format.get(at..found).unwrap_or_default());
            let rest = format.get(found + 1..).unwrap_or_default();
            let (segment, length) = if rest.starts_with('{') {
                inline(format, found, scan.place(), settings.mode)?
            } else if rest.starts_with(|next: char| next.is_ascii_digit()) {
                numbered(format, found, scan.place(), arguments.len())?
            } else {
                scan.pass("$");
                at = found + 1;
                continue;
            };
            segments.push(Segment::Text(format.get(plain..found).unwrap_or_default().into()));
            segments.push(segment);
            at = found + length;
            plain = at;
        }
        segments.push(Segment::Text(format.get(plain..).unwrap_or_default().into()));
        Ok(Self { segments, arguments, settings })
    }

    /// What filling it reads of the body.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        let of = |segment: &Segment| match segment {
            Segment::Text(_) => BodyUse::Untouched,
            Segment::Argument(index, _) => self
                .arguments
                .get(*index)
                .map_or(BodyUse::Untouched, |argument| argument.expression.body_use()),
            Segment::Inline(expression, _) => expression.body_use(),
        };
        self.segments.iter().map(of).max().unwrap_or_default()
    }

    /// Appends the body that the template makes of `scope`. A path that leads nowhere is nothing: `null` as a
    /// JSON value, else no text.
    ///
    /// # Errors
    /// An expression's failure; [`EvalError::Limit`] past `MADE_BYTES_MAX`.
    pub fn render(&self, scope: &dyn Scope, into: &mut Vec<u8>) -> Result<(), EvalError> {
        let start = into.len();
        for segment in &self.segments {
            match segment {
                Segment::Text(text) => into.extend_from_slice(text.as_bytes()),
                Segment::Argument(index, place) => {
                    let Some(argument) = self.arguments.get(*index) else { continue };
                    let is_content = !argument.literal && *place == Place::XmlText;
                    if argument.markup && is_content {
                        push_nodes(into, &argument.expression.nodes(scope)?)?;
                        continue;
                    }
                    let value = present(argument.expression.evaluate(scope))?;
                    let markup = if argument.deep && is_content { markup_of(&value) } else { None };
                    match markup {
                        Some(document) => push_nodes(into, &[document.root()])?,
                        None => self.push(into, &value, *place, Some(argument)),
                    }
                }
                Segment::Inline(expression, place) => {
                    let value = present(expression.evaluate(scope))?;
                    self.push(into, &value, *place, None);
                }
            }
            if into.len() - start > limits::MADE_BYTES_MAX {
                return Err(EvalError::Limit("40 MiB of text"));
            }
        }
        Ok(())
    }

    fn push(
        &self,
        into: &mut Vec<u8>,
        value: &Value<'_>,
        place: Place,
        argument: Option<&Argument>,
    ) {
        let literal = argument.is_some_and(|argument| argument.literal);
        match place {
            Place::JsonValue if self.settings.escape_xml => {
                let mut made = Vec::new();
                push_json_value(&mut made, value, literal);
                xml_text::push_escaped_markup(into, &made);
            }
            Place::JsonValue => push_json_value(into, value, literal),
            Place::JsonString if self.settings.escape_xml => {
                let mut made = Vec::new();
                push_json_string(&mut made, value);
                xml_text::push_escaped_markup(into, &made);
            }
            Place::JsonString => push_json_string(into, value),
            Place::XmlText => match value.json().filter(|_| !literal) {
                Some(json) => xml_text::push_json(into, json),
                None => xml_text::push_escaped(into, &value.text(), false),
            },
            Place::XmlAttribute => xml_text::push_escaped(into, &value.text(), true),
            Place::Plain => into.extend_from_slice(value.text().as_bytes()),
        }
    }
}

fn present(found: Result<Value<'_>, EvalError>) -> Result<Value<'_>, EvalError> {
    match found {
        Err(EvalError::Missing(_)) => Ok(Value::Null),
        found => found,
    }
}

/// What a text is when it is XML by itself.
fn markup_of(value: &Value<'_>) -> Option<xml::Document> {
    let text = value.text();
    let text = text.trim();
    let could = text.starts_with('<') && text.ends_with('>');
    could.then(|| xml::Document::parse(text.as_bytes()).ok()).flatten()
}

/// The nodes as XML, with the namespace declarations that they need; attributes as their text.
fn push_nodes(into: &mut Vec<u8>, nodes: &[xml::Node<'_>]) -> Result<(), EvalError> {
    for node in nodes {
        if node.kind() == xml::Kind::Attribute {
            xml_text::push_escaped(into, &node.string_value(), false);
            continue;
        }
        let options = xml::WriterOptions { declaration: false, ..xml::WriterOptions::default() };
        let mut writer =
            xml::Writer::new(options).map_err(|error| EvalError::Body(error.to_string()))?;
        writer.tree(*node).map_err(|error| EvalError::Body(error.to_string()))?;
        into.extend_from_slice(&writer.take());
        if into.len() > limits::MADE_BYTES_MAX {
            return Err(EvalError::Limit("40 MiB of text"));
        }
    }
    Ok(())
}

fn push_json_value(into: &mut Vec<u8>, value: &Value<'_>, literal: bool) {
    if literal {
        return json::push_quoted(into, &value.text());
    }
    match value {
        Value::Text(text) if is_json(text) => into.extend_from_slice(text.trim().as_bytes()),
        Value::Text(_) | Value::Json(_) | Value::Made(_) | Value::Integer(_) => {
            value.push_json(into)
        }
        Value::Double(_) | Value::Boolean(_) | Value::Null => value.push_json(into),
    }
}

/// Anything but a JSON string: that would lose its quotes' meaning.
fn is_json(text: &str) -> bool {
    let could = text
        .trim_start()
        .starts_with(|first: char| "{[-tfn".contains(first) || first.is_ascii_digit());
    could && Document::parse(text.as_bytes()).is_ok()
}

fn push_json_string(into: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        // A string's body is escaped already.
        Value::Json(json) if json.kind() == Kind::String => {
            let raw = json.raw();
            into.extend_from_slice(
                raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default().as_bytes(),
            );
        }
        Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Integer(_) => {
            json::push_string_body(into, &value.text());
        }
        Value::Double(_) | Value::Boolean(_) | Value::Null => {
            json::push_string_body(into, &value.text());
        }
    }
}

fn inline(
    format: &str,
    at: usize,
    place: Place,
    mode: Mode,
) -> Result<(Segment, usize), CompileError> {
    let rest = format.get(at..).unwrap_or_default();
    let read = || {
        let most = rest.floor_char_boundary(limits::EXPRESSION_BYTES_MAX);
        let mut cursor = Cursor::new(rest.get(..most).unwrap_or_default())?;
        cursor.eat("${");
        let expression = SynapseExpression::at(&mut cursor, mode)?;
        cursor.expect("}")?;
        Ok((Segment::Inline(Box::new(expression), place), cursor.at))
    };
    read().map_err(|error: CompileError| error.within(format, at))
}

fn numbered(
    format: &str,
    at: usize,
    place: Place,
    count: usize,
) -> Result<(Segment, usize), CompileError> {
    let rest = format.get(at + 1..).unwrap_or_default();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number: usize =
        rest.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(usize::MAX);
    if number == 0 || number > count {
        let what = format!("`${number}` has no argument; there are {count}, counted from 1");
        return Err(CompileError::new(format, at, what));
    }
    Ok((Segment::Argument(number - 1, place), digits + 1))
}

/// Knows where in the format the cursor stands.
struct Scan {
    media: MediaType,
    state: State,
    escaped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    /// In a JSON string, or between `<` and `>` in XML.
    Inside,
    /// In an attribute's value, with its quote.
    Attribute(u8),
}

impl Scan {
    fn pass(&mut self, text: &str) {
        for byte in text.bytes() {
            match self.media {
                MediaType::Json => self.json(byte),
                MediaType::Xml => self.xml(byte),
                MediaType::Text => {}
            }
        }
    }

    fn json(&mut self, byte: u8) {
        if self.escaped {
            self.escaped = false;
            return;
        }
        match (self.state, byte) {
            (State::Inside, b'\\') => self.escaped = true,
            (State::Inside, b'"') => self.state = State::Outside,
            (_, b'"') => self.state = State::Inside,
            _ => {}
        }
    }

    fn xml(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Outside, b'<') => State::Inside,
            (State::Inside, b'>') => State::Outside,
            (State::Inside, b'"' | b'\'') => State::Attribute(byte),
            (State::Attribute(quote), byte) if quote == byte => State::Inside,
            (state, _) => state,
        };
    }

    fn place(&self) -> Place {
        match (self.media, self.state) {
            (MediaType::Json, State::Outside) => Place::JsonValue,
            (MediaType::Json, State::Inside | State::Attribute(_)) => Place::JsonString,
            (MediaType::Xml, State::Outside) => Place::XmlText,
            (MediaType::Xml, State::Inside | State::Attribute(_)) => Place::XmlAttribute,
            (MediaType::Text, _) => Place::Plain,
        }
    }
}
