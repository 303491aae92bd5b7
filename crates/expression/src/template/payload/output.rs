//! Inserts values, each escaped for its place, within the budget.

use xpath::Budget;

use super::place::Place;
use super::{Argument, Settings};
use crate::error::Error;
use crate::json::{self, Document, Kind, Limits};
use crate::markup;
use crate::template::xml as xml_text;
use crate::value::Value;

/// The body under construction.
pub(super) struct Output<'o> {
    into: &'o mut Vec<u8>,
    escape_xml: bool,
    budget: &'o Budget,
}

type Outcome = Result<(), Error>;

/// Text is charged and escaped in pieces of this size.
const PIECE_BYTES: usize = 64 * 1024;

impl<'o> Output<'o> {
    pub(super) fn new(into: &'o mut Vec<u8>, settings: Settings, budget: &'o Budget) -> Self {
        Self { into, escape_xml: settings.escape_xml, budget }
    }

    /// Appends `text` unescaped.
    pub(super) fn text(&mut self, text: &[u8]) -> Outcome {
        self.budget.charge_memory(text.len())?;
        self.into.extend_from_slice(text);
        Ok(())
    }

    /// Inserts `value`; `rest` is the literal text that follows it.
    pub(super) fn value(
        &mut self,
        value: &Value<'_>,
        place: Place,
        argument: Option<&Argument>,
        rest: &str,
    ) -> Outcome {
        let literal = argument.is_some_and(|argument| argument.literal);
        match place {
            Place::JsonValue | Place::JsonString if self.escape_xml => {
                let mut json = Vec::new();
                let mut plain = Output { into: &mut json, escape_xml: false, budget: self.budget };
                plain.value(value, place, argument, rest)?;
                self.budget.charge_scanning(json.len())?;
                let escaped = json.iter().filter(|byte| b"&<>".contains(byte)).count();
                self.budget.charge_memory(json.len().saturating_add(4 * escaped))?;
                xml_text::push_escaped_markup(self.into, &json);
                Ok(())
            }
            Place::JsonValue => self.json_value(value, literal),
            Place::JsonString => self.json_string(value),
            Place::XmlText => {
                let start = self.into.len();
                match value.json().filter(|_| !literal) {
                    Some(json) => xml_text::push_json(self.into, json, self.budget)?,
                    None => self.escaped(&value.text(), false)?,
                }
                self.separate_text(start, rest);
                Ok(())
            }
            Place::XmlAttribute | Place::XmlMarkup => self.escaped(&value.text(), true),
            Place::XmlCdata => self.apart(&value.text(), "]]>", "]]><![CDATA[", rest),
            Place::XmlComment => self.apart(&value.text(), "--", " ", rest),
            Place::XmlInstruction => self.apart(&value.text(), "?>", " ", rest),
            Place::Plain => self.text(value.text().as_bytes()),
        }
    }

    /// Inserts nodes as markup, with the namespace declarations that they need; attributes as their text.
    pub(super) fn nodes(&mut self, nodes: &[xml::Node<'_>], rest: &str) -> Outcome {
        for node in nodes {
            let start = self.into.len();
            if node.kind() == xml::Kind::Attribute {
                self.escaped(&node.string_value(), false)?;
            } else {
                let written = markup::write(*node, self.budget)?;
                self.into.extend_from_slice(&written);
            }
            self.separate_text(start, "");
        }
        self.separate_text(self.into.len(), rest);
        Ok(())
    }

    /// Character data must not contain `]]>` (XML 1.0 section 2.4), which can arise where the text inserted at `start`
    /// meets the preceding text, and where it meets `rest`. A `]` before the junction becomes a reference.
    fn separate_text(&mut self, start: usize, rest: &str) {
        let end = self.into.len();
        if ends_section(self.into, end, rest.as_bytes()) {
            self.separate_at(end);
        }
        if ends_section(self.into, start, self.into.get(start..).unwrap_or_default()) {
            self.separate_at(start);
        }
    }

    fn separate_at(&mut self, at: usize) {
        self.into.splice(at - 1..at, *b"&#93;");
    }

    fn in_pieces(&mut self, text: &str, push: impl Fn(&mut Vec<u8>, &str)) -> Outcome {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            self.budget.charge_scanning(piece.len())?;
            self.budget.charge_memory(piece.len())?;
            let start = self.into.len();
            push(self.into, piece);
            let added = (self.into.len() - start).saturating_sub(piece.len());
            self.budget.charge_memory(added)?;
            rest = after;
        }
        Ok(())
    }

    fn escaped(&mut self, text: &str, attribute: bool) -> Outcome {
        self.in_pieces(text, |into, piece| xml_text::push_escaped(into, piece, attribute))
    }

    /// Appends `text` with `separator` wherever `end` would arise: inside it, and where it meets the preceding text and
    /// `rest`.
    fn apart(&mut self, text: &str, end: &str, separator: &str, rest: &str) -> Outcome {
        let (but_last, last) = end.split_at(end.len() - 1);
        self.in_pieces(text, |into, piece| {
            for character in piece.chars() {
                if last.starts_with(character) && into.ends_with(but_last.as_bytes()) {
                    into.extend_from_slice(separator.as_bytes());
                }
                xml_text::push_allowed(into, character);
            }
        })?;
        let arises = (1..end.len()).any(|at| {
            let (before, after) = end.split_at(at);
            self.into.ends_with(before.as_bytes()) && rest.starts_with(after)
        });
        if arises { self.text(separator.as_bytes()) } else { Ok(()) }
    }

    fn json_value(&mut self, value: &Value<'_>, literal: bool) -> Outcome {
        if literal {
            return self.quoted(&value.text());
        }
        match value {
            Value::Json(json) => self.text(json.raw().as_bytes()),
            Value::Made(document) => self.text(document.text().as_bytes()),
            Value::Text(text) => {
                if self.is_json(text)? {
                    return self.text(text.trim().as_bytes());
                }
                self.quoted(text)
            }
            Value::Integer(_) | Value::Double(_) | Value::Boolean(_) | Value::Null => {
                self.budget.charge_memory(value.size().bytes)?;
                value.push_json(self.into);
                Ok(())
            }
        }
    }

    /// Whether `text` is a JSON value other than a string.
    fn is_json(&self, text: &str) -> Result<bool, Error> {
        let could = text
            .trim_start()
            .starts_with(|first: char| "{[-tfn".contains(first) || first.is_ascii_digit());
        if !could {
            return Ok(false);
        }
        self.budget.charge_scanning(text.len())?;
        match Document::parse_charged(text.as_bytes(), &Limits::default(), self.budget) {
            Ok(document) => {
                self.budget.release_memory(document.tree_bytes());
                Ok(true)
            }
            Err(error @ Error::Budget(_)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    fn quoted(&mut self, text: &str) -> Outcome {
        self.text(b"\"")?;
        self.in_pieces(text, json::push_string_body)?;
        self.text(b"\"")
    }

    fn json_string(&mut self, value: &Value<'_>) -> Outcome {
        match value {
            // The content of a string is already escaped.
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

/// Whether `]]>` arises where the text up to `at` meets the following text.
fn ends_section(text: &[u8], at: usize, after: &[u8]) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.ends_with(b"]]") && after.starts_with(b">")
        || before.ends_with(b"]") && after.starts_with(b"]>")
}
