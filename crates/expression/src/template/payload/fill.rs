//! Putting values in, each as its place wants it, and none that is longer than a body may be.

use super::place::Place;
use super::{Argument, Settings};
use crate::budget::fits;
use crate::json::{self, Document, Kind};
use crate::template::xml_text;
use crate::{EvalError, Value};

/// The body under construction.
pub(super) struct Fill<'o> {
    into: &'o mut Vec<u8>,
    /// Where the body begins in it.
    start: usize,
    escape_xml: bool,
}

type Answer = Result<(), EvalError>;

/// Text is escaped in pieces of so many bytes, and its length looked at between them.
const PIECE_BYTES: usize = 64 * 1024;

impl<'o> Fill<'o> {
    pub(super) fn new(into: &'o mut Vec<u8>, settings: Settings) -> Self {
        Self { start: into.len(), into, escape_xml: settings.escape_xml }
    }

    /// `text` as it is.
    pub(super) fn text(&mut self, text: &[u8]) -> Answer {
        fits(self.into.len() - self.start, text.len())?;
        self.into.extend_from_slice(text);
        Ok(())
    }

    /// `value`, before `rest` of the format.
    pub(super) fn value(
        &mut self,
        value: &Value<'_>,
        place: Place,
        argument: Option<&Argument>,
        rest: &str,
    ) -> Answer {
        let literal = argument.is_some_and(|argument| argument.literal);
        match place {
            Place::JsonValue | Place::JsonString if self.escape_xml => {
                let mut made = Vec::new();
                let mut plain = Fill { into: &mut made, start: 0, escape_xml: false };
                plain.value(value, place, argument, rest)?;
                fits(self.into.len() - self.start, made.len())?;
                xml_text::push_escaped_markup(self.into, &made);
                self.text(b"")
            }
            Place::JsonValue => self.json_value(value, literal),
            Place::JsonString => self.json_string(value),
            Place::XmlText => match value.json().filter(|_| !literal) {
                Some(json) => xml_text::push_json(self.into, self.start, json),
                None => self.escaped(&value.text(), false),
            },
            Place::XmlAttribute | Place::XmlMarkup => self.escaped(&value.text(), true),
            Place::XmlCdata => self.apart(&value.text(), "]]>", "]]><![CDATA[", rest),
            Place::XmlComment => self.apart(&value.text(), "--", " ", rest),
            Place::XmlInstruction => self.apart(&value.text(), "?>", " ", rest),
            Place::Plain => self.text(value.text().as_bytes()),
        }
    }

    /// The nodes as XML, with the namespace declarations that they need; attributes as their text.
    pub(super) fn nodes(&mut self, nodes: &[xml::Node<'_>]) -> Answer {
        for node in nodes {
            if node.kind() == xml::Kind::Attribute {
                self.escaped(&node.string_value(), false)?;
                continue;
            }
            let options =
                xml::WriterOptions { declaration: false, ..xml::WriterOptions::default() };
            let mut writer =
                xml::Writer::new(options).map_err(|error| EvalError::Body(error.to_string()))?;
            writer.tree(*node).map_err(|error| EvalError::Body(error.to_string()))?;
            self.text(&writer.take())?;
        }
        Ok(())
    }

    fn in_pieces(&mut self, text: &str, push: impl Fn(&mut Vec<u8>, &str)) -> Answer {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            fits(self.into.len() - self.start, piece.len())?;
            push(self.into, piece);
            rest = after;
        }
        self.text(b"")
    }

    fn escaped(&mut self, text: &str, attribute: bool) -> Answer {
        self.in_pieces(text, |into, piece| xml_text::push_escaped(into, piece, attribute))
    }

    /// `text` with `between` put in wherever `end` would arise: in it, and where it meets what stands before it and
    /// `rest` after it.
    fn apart(&mut self, text: &str, end: &str, between: &str, rest: &str) -> Answer {
        let (but_last, last) = end.split_at(end.len() - 1);
        self.in_pieces(text, |into, piece| {
            for character in piece.chars() {
                if last.starts_with(character) && into.ends_with(but_last.as_bytes()) {
                    into.extend_from_slice(between.as_bytes());
                }
                xml_text::push_allowed(into, character);
            }
        })?;
        let arises = (1..end.len()).any(|at| {
            let (before, after) = end.split_at(at);
            self.into.ends_with(before.as_bytes()) && rest.starts_with(after)
        });
        if arises { self.text(between.as_bytes()) } else { Ok(()) }
    }

    fn json_value(&mut self, value: &Value<'_>, literal: bool) -> Answer {
        if literal {
            return self.quoted(&value.text());
        }
        match value {
            Value::Json(json) => self.text(json.raw().as_bytes()),
            Value::Made(document) => self.text(document.text().as_bytes()),
            Value::Text(text) if is_json(text) => self.text(text.trim().as_bytes()),
            Value::Text(text) => self.quoted(text),
            Value::Integer(_) | Value::Double(_) | Value::Boolean(_) | Value::Null => {
                value.push_json(self.into);
                self.text(b"")
            }
        }
    }

    fn quoted(&mut self, text: &str) -> Answer {
        self.text(b"\"")?;
        self.in_pieces(text, json::push_string_body)?;
        self.text(b"\"")
    }

    fn json_string(&mut self, value: &Value<'_>) -> Answer {
        match value {
            // A string's body is escaped already.
            Value::Json(json) if json.kind() == Kind::String => {
                let raw = json.raw();
                self.text(raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default().as_bytes())
            }
            Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Integer(_) => {
                self.in_pieces(&value.text(), json::push_string_body)
            }
            Value::Double(_) | Value::Boolean(_) | Value::Null => {
                self.in_pieces(&value.text(), json::push_string_body)
            }
        }
    }
}

/// Anything but a JSON string: that would lose its quotes' meaning.
fn is_json(text: &str) -> bool {
    let could = text
        .trim_start()
        .starts_with(|first: char| "{[-tfn".contains(first) || first.is_ascii_digit());
    could && Document::parse(text.as_bytes()).is_ok()
}
