//! Finds the syntactic place of each value in a format.

use super::MediaType;

/// The syntactic place of a value, which decides how it is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    JsonValue,
    JsonString,
    XmlText,
    XmlAttribute,
    /// In a tag or a declaration outside of quotes, or in the target of a processing instruction.
    XmlMarkup,
    XmlCdata,
    XmlComment,
    XmlInstruction,
    Plain,
}

/// Scans a format from its start. Source for XML: XML 1.0 sections 2.4 to 2.8.
pub(super) struct Scan<'f> {
    media: MediaType,
    format: &'f str,
    at: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outside,
    /// In a JSON string.
    String,
    /// Between `<` and `>`, or `<?xml` and `?>`.
    Tag,
    /// In an attribute value, with its quote.
    Attribute(u8),
    Cdata,
    Comment,
    /// In a processing instruction, before its first white space.
    Target,
    Instruction,
}

/// (state, text, next state): the first row that matches applies.
const XML: &[(State, &str, State)] = &[
    (State::Outside, "<!--", State::Comment),
    (State::Outside, "<![CDATA[", State::Cdata),
    (State::Outside, "<?xml ", State::Tag),
    (State::Outside, "<?xml\t", State::Tag),
    (State::Outside, "<?xml\n", State::Tag),
    (State::Outside, "<?xml\r", State::Tag),
    (State::Outside, "<?", State::Target),
    (State::Outside, "<", State::Tag),
    (State::Comment, "-->", State::Outside),
    (State::Cdata, "]]>", State::Outside),
    (State::Target, "?>", State::Outside),
    (State::Target, " ", State::Instruction),
    (State::Target, "\t", State::Instruction),
    (State::Target, "\n", State::Instruction),
    (State::Target, "\r", State::Instruction),
    (State::Instruction, "?>", State::Outside),
    (State::Tag, ">", State::Outside),
    (State::Tag, "\"", State::Attribute(b'"')),
    (State::Tag, "'", State::Attribute(b'\'')),
    (State::Attribute(b'"'), "\"", State::Tag),
    (State::Attribute(b'\''), "'", State::Tag),
];

const JSON: &[(State, &str, State)] = &[
    (State::Outside, "\"", State::String),
    (State::String, "\\\"", State::String),
    (State::String, "\\\\", State::String),
    (State::String, "\"", State::Outside),
];

impl<'f> Scan<'f> {
    pub(super) fn new(format: &'f str, media: MediaType) -> Self {
        Self { media, format, at: 0, state: State::Outside }
    }

    /// Scans up to the byte at `to`, where a value begins.
    pub(super) fn advance(&mut self, to: usize) {
        let table = match self.media {
            MediaType::Json => JSON,
            MediaType::Xml => XML,
            MediaType::Text => return,
        };
        while self.at < to {
            let rest = self.format.as_bytes().get(self.at..to).unwrap_or_default();
            let found = table
                .iter()
                .find(|(from, text, _)| *from == self.state && rest.starts_with(text.as_bytes()));
            match found {
                Some((_, text, next)) => (self.at, self.state) = (self.at + text.len(), *next),
                None => self.at += 1,
            }
        }
    }

    /// Skips a reference to a value, up to the byte at `to`.
    pub(super) fn skip(&mut self, to: usize) {
        self.at = to;
    }

    pub(super) fn place(&self) -> Place {
        match (self.media, self.state) {
            (MediaType::Text, _) => Place::Plain,
            (MediaType::Json, State::String) => Place::JsonString,
            (MediaType::Json, _) => Place::JsonValue,
            (MediaType::Xml, State::Outside | State::String) => Place::XmlText,
            (MediaType::Xml, State::Tag | State::Target) => Place::XmlMarkup,
            (MediaType::Xml, State::Attribute(_)) => Place::XmlAttribute,
            (MediaType::Xml, State::Cdata) => Place::XmlCdata,
            (MediaType::Xml, State::Comment) => Place::XmlComment,
            (MediaType::Xml, State::Instruction) => Place::XmlInstruction,
        }
    }
}
