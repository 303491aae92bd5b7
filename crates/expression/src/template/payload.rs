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
//! | `<![CDATA[$1]]>`, `<!--$1-->`, `<?a $1?>` | its text, so that it can't end what it stands in | likewise |
//! | text | its text | as it is |

mod fill;
mod place;

use crate::limits;

use crate::cursor::Cursor;
use crate::synapse::{Mode, SynapseExpression};
use fill::Fill;
use place::{Place, Scan};

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
        let mut scan = Scan::new(format, settings.media);
        let mut segments = Vec::new();
        let (mut plain, mut at) = (0, 0);
        while let Some(found) =
            format.get(at..).and_then(|rest| rest.find('$')).map(|found| at + found)
        {
            scan.go(found);
            let rest = format.get(found + 1..).unwrap_or_default();
            let (segment, length) = if rest.starts_with('{') {
                inline(format, found, scan.place(), settings.mode)?
            } else if rest.starts_with(|next: char| next.is_ascii_digit()) {
                numbered(format, found, scan.place(), arguments.len())?
            } else {
                at = found + 1;
                continue;
            };
            segments.push(Segment::Text(format.get(plain..found).unwrap_or_default().into()));
            segments.push(segment);
            at = found + length;
            plain = at;
            scan.skip(at);
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
        let mut fill = Fill::new(into, self.settings);
        for (at, segment) in self.segments.iter().enumerate() {
            let rest = match self.segments.get(at + 1) {
                Some(Segment::Text(text)) => text,
                Some(Segment::Argument(..) | Segment::Inline(..)) | None => "",
            };
            match segment {
                Segment::Text(text) => fill.text(text.as_bytes())?,
                Segment::Argument(index, place) => {
                    let Some(argument) = self.arguments.get(*index) else { continue };
                    let is_content = !argument.literal && *place == Place::XmlText;
                    if argument.markup && is_content {
                        fill.nodes(&argument.expression.nodes(scope)?)?;
                        continue;
                    }
                    let value = present(argument.expression.evaluate(scope))?;
                    let markup = if argument.deep && is_content { markup_of(&value) } else { None };
                    match markup {
                        Some(document) => fill.nodes(&[document.root()])?,
                        None => fill.value(&value, *place, Some(argument), rest)?,
                    }
                }
                Segment::Inline(expression, place) => {
                    let value = present(expression.evaluate(scope))?;
                    fill.value(&value, *place, None, rest)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a value lands in markup itself, where no escape makes every text fit.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn makes_markup(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Text(_) => false,
            Segment::Argument(_, place) | Segment::Inline(_, place) => *place == Place::XmlMarkup,
        })
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
