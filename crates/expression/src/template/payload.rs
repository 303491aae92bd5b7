//! The payload factory's formats.
//!
//! How a value is inserted depends on its place, which is known at load:
//!
//! | place | JSON value | text |
//! |---|---|---|
//! | `{"a": $1}` | unchanged | unchanged if it is a JSON number, boolean, `null`, object or array; else a string |
//! | `{"a": "$1"}` | content of a string; else its JSON text, escaped | escaped |
//! | `<a>$1</a>` | elements, or the text of a scalar | escaped |
//! | `<a b="$1"/>` | its text, escaped | escaped |
//! | `<![CDATA[$1]]>`, `<!--$1-->`, `<?a $1?>` | its text, kept from ending the construct | the same |
//! | text | its text | unchanged |

mod form;
mod output;
mod place;

use std::ops::Range;

use xpath::Budget;

use crate::context::{BodyUse, EvalContext};
use crate::cursor::Cursor;
use crate::error::{Error, SyntaxError};
use crate::expression::Expression;
use crate::synapse::SynapseExpression;
use crate::value::Value;
use crate::{limits, mapping, xpath_bridge};

use output::Output;
use place::{Place, Scan};

/// The format of a template's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MediaType {
    /// `media-type="xml"`
    Xml,
    /// `media-type="json"`
    Json,
    /// `media-type="text"`
    Text,
}

/// The argument of `$n`.
#[derive(Clone, Debug)]
pub struct Argument {
    /// The value; [`Expression::literal`] for `value="..."`.
    pub expression: Expression,
    /// `literal="true"`: always text, even if it looks like JSON or XML.
    pub literal: bool,
    /// The expression is an XPath whose nodes are inserted into XML as markup; into other places their texts.
    pub markup: bool,
    /// Text that is a well-formed XML document is inserted into XML as markup, without its declaration, and into JSON
    /// as JSON, unless it is the result of a JSONPath. Synapse does this unless `deepCheck` is `false`. Has no effect
    /// on `literal` arguments.
    pub deep: bool,
}

impl Argument {
    /// An argument without special handling.
    #[must_use]
    pub fn new(expression: Expression) -> Self {
        Self { expression, literal: false, markup: false, deep: false }
    }
}

/// How a template is compiled and rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The output format.
    pub media: MediaType,
    /// `escapeXmlChars="true"`: `&`, `<` and `>` in values for JSON become XML references.
    pub escape_xml: bool,
}

impl Settings {
    /// Without `escapeXmlChars`.
    #[must_use]
    pub fn new(media: MediaType) -> Self {
        Self { media, escape_xml: false }
    }

    /// Sets `escape_xml`.
    #[must_use]
    pub fn with_escape_xml(self, escape_xml: bool) -> Self {
        Self { escape_xml, ..self }
    }
}

/// A compiled format with its arguments.
#[derive(Clone, Debug)]
pub struct PayloadTemplate {
    segments: Vec<Segment>,
    arguments: Vec<Argument>,
    settings: Settings,
    is_well_formed: bool,
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
    /// [`Error::Syntax`] with the position: a `$n` without argument, a malformed `${...}`, a format that is too long,
    /// or one whose output is never JSON or XML.
    pub fn compile(
        format: &str,
        arguments: Vec<Argument>,
        settings: Settings,
    ) -> Result<Self, Error> {
        let most = limits::PAYLOAD_TEMPLATE_BYTES_MAX;
        if format.len() > most {
            let message = format!("template longer than {most} bytes");
            return Err(SyntaxError::new(format, most, message).into());
        }
        let mut scan = Scan::new(format, settings.media);
        // A text, such as a line of the log, may be about dollars.
        let is_numbered = settings.media != MediaType::Text || !arguments.is_empty();
        let (mut segments, mut values) = (Vec::new(), Vec::new());
        let (mut plain, mut at) = (0, 0);
        while let Some(found) =
            format.get(at..).and_then(|rest| rest.find('$')).map(|found| at + found)
        {
            scan.advance(found);
            let rest = format.get(found + 1..).unwrap_or_default();
            let (segment, length) = if rest.starts_with('{') {
                inline(format, found, scan.place())?
            } else if is_numbered && rest.starts_with(|next: char| next.is_ascii_digit()) {
                numbered(format, found, scan.place(), arguments.len())?
            } else {
                at = found + 1;
                continue;
            };
            segments.push(Segment::Text(format.get(plain..found).unwrap_or_default().into()));
            segments.push(segment);
            at = found + length;
            values.push((found..at, scan.place()));
            plain = at;
            scan.skip(at);
        }
        segments.push(Segment::Text(format.get(plain..).unwrap_or_default().into()));
        let is_well_formed = form::is_always_well_formed(format, settings.media, &values)?;
        Ok(Self { segments, arguments, settings, is_well_formed })
    }

    /// A text in which each range stands for its argument, and `$` has no meaning. The ranges are in its order.
    #[must_use]
    pub fn with_arguments(
        text: &str,
        places: Vec<(Range<usize>, Argument)>,
        settings: Settings,
    ) -> Self {
        let mut scan = Scan::new(text, settings.media);
        let (mut segments, mut arguments, mut plain) = (Vec::new(), Vec::new(), 0);
        for (range, argument) in places {
            scan.advance(range.start);
            segments.push(Segment::Text(text.get(plain..range.start).unwrap_or_default().into()));
            segments.push(Segment::Argument(arguments.len(), scan.place()));
            arguments.push(argument);
            plain = range.end;
            scan.skip(plain);
        }
        segments.push(Segment::Text(text.get(plain..).unwrap_or_default().into()));
        Self { segments, arguments, settings, is_well_formed: false }
    }

    /// Whether its output is known to be JSON or XML, or text, for all values.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.is_well_formed
    }

    /// The text with which its output begins, up to the first value.
    #[must_use]
    pub fn beginning(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Text(text)) => text,
            Some(Segment::Argument(..) | Segment::Inline(..)) | None => "",
        }
    }

    /// Body use of rendering.
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

    /// Appends the rendered body to `into`, within [`Budget::default`]. A path that selects nothing is `null` as a JSON
    /// value, else empty.
    ///
    /// # Errors
    /// An expression's failure, or [`Error::Budget`].
    pub fn render(&self, context: &dyn EvalContext, into: &mut Vec<u8>) -> Result<(), Error> {
        self.render_within(context, &Budget::default(), into)
    }

    /// Renders within the host's budget.
    ///
    /// # Errors
    /// As [`PayloadTemplate::render`].
    pub fn render_within(
        &self,
        context: &dyn EvalContext,
        budget: &Budget,
        into: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut output = Output::new(into, self.settings, budget);
        for (at, segment) in self.segments.iter().enumerate() {
            let rest = match self.segments.get(at + 1) {
                Some(Segment::Text(text)) => text,
                Some(Segment::Argument(..) | Segment::Inline(..)) | None => "",
            };
            match segment {
                Segment::Text(text) => output.text(text.as_bytes())?,
                Segment::Argument(index, place) => {
                    let Some(argument) = self.arguments.get(*index) else { continue };
                    let is_content = !argument.literal && *place == Place::XmlText;
                    if argument.markup && is_content {
                        let nodes = argument.expression.nodes(context, budget)?;
                        if is_markup(&nodes, budget)? {
                            output.nodes(&nodes, rest)?;
                            continue;
                        }
                    }
                    let value = or_null(argument.expression.evaluate_within(context, budget))?;
                    match argument.document(&value, *place, budget)? {
                        Some(document) if is_content => output.nodes(&[document.root()], rest)?,
                        Some(document) => {
                            let json = as_json(&document, context.mapping(), budget)?;
                            output.value(&json, *place, Some(argument), rest)?;
                        }
                        None => output.value(&value, *place, Some(argument), rest)?,
                    }
                }
                Segment::Inline(expression, place) => {
                    let mut value = or_null(expression.evaluate_within(context, budget))?;
                    if expression.is_xpath()
                        && is_in_json(*place)
                        && let Some(document) = document(&value, *place, budget)?
                    {
                        value = as_json(&document, context.mapping(), budget)?;
                    }
                    output.value(&value, *place, None, rest)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a value is inserted into markup itself, where not every text can be escaped.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn inserts_markup(&self) -> bool {
        self.segments.iter().any(|segment| match segment {
            Segment::Text(_) => false,
            Segment::Argument(_, place) | Segment::Inline(_, place) => *place == Place::XmlMarkup,
        })
    }
}

fn or_null(found: Result<Value<'_>, Error>) -> Result<Value<'_>, Error> {
    match found {
        Err(Error::Missing(_)) => Ok(Value::Null),
        found => found,
    }
}

/// Whether nodes are inserted as markup: elements, unless it is a single one with text of its own.
fn is_markup(nodes: &[xml::Node<'_>], budget: &Budget) -> Result<bool, Error> {
    if let [node] = nodes {
        let is_text = !node.is_element() && node.kind() != xml::Kind::Root;
        return Ok(!is_text && xpath_bridge::own_text(*node, budget)?.trim().is_empty());
    }
    Ok(nodes.iter().all(|node| node.is_element()))
}

/// Synapse's wrapper of XML that becomes JSON: its children are the members of an object.
const JSON_OBJECT: &str = "jsonObject";

impl Argument {
    /// The document that a value's text is, if it is one and `place` takes documents.
    fn document(
        &self,
        value: &Value<'_>,
        place: Place,
        budget: &Budget,
    ) -> Result<Option<xml::Document>, Error> {
        let takes = place == Place::XmlText || is_in_json(place) && !self.expression.is_json_path();
        if self.literal || !self.deep || !takes {
            return Ok(None);
        }
        document(value, place, budget)
    }
}

fn is_in_json(place: Place) -> bool {
    matches!(place, Place::JsonValue | Place::JsonString)
}

/// The document that a value's text is, if it is one. In JSON, elements one after another are one as well.
fn document(
    value: &Value<'_>,
    place: Place,
    budget: &Budget,
) -> Result<Option<xml::Document>, Error> {
    let Value::Text(text) = value else { return Ok(None) };
    let text = text.trim();
    if !text.starts_with('<') || !text.ends_with('>') {
        return Ok(None);
    }
    budget.charge_scanning(text.len())?;
    budget.charge_memory(text.len().saturating_mul(4))?;
    if is_in_json(place) && !text.starts_with("<?") {
        let wrapped = format!("<{JSON_OBJECT}>{text}</{JSON_OBJECT}>");
        return Ok(xml::Document::parse(wrapped.as_bytes()).ok());
    }
    Ok(xml::Document::parse(text.as_bytes()).ok())
}

fn as_json(
    document: &xml::Document,
    rules: &mapping::Rules,
    budget: &Budget,
) -> Result<Value<'static>, Error> {
    Ok(match document.element() {
        Some(root) => Value::Made(Box::new(mapping::to_json(root, rules, budget)?)),
        None => Value::Null,
    })
}

fn inline(format: &str, at: usize, place: Place) -> Result<(Segment, usize), SyntaxError> {
    let rest = format.get(at..).unwrap_or_default();
    let read = || {
        let most = rest.floor_char_boundary(limits::EXPRESSION_BYTES_MAX);
        let mut cursor = Cursor::new(rest.get(..most).unwrap_or_default())?;
        cursor.eat("${");
        let expression = SynapseExpression::at(&mut cursor, &[])?;
        cursor.expect("}")?;
        Ok((Segment::Inline(Box::new(expression), place), cursor.at))
    };
    read().map_err(|error: SyntaxError| error.within(format, at))
}

fn numbered(
    format: &str,
    at: usize,
    place: Place,
    count: usize,
) -> Result<(Segment, usize), SyntaxError> {
    let rest = format.get(at + 1..).unwrap_or_default();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number: usize =
        rest.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(usize::MAX);
    if number == 0 || number > count {
        let what = format!("`${number}` has no argument; there are {count}");
        return Err(SyntaxError::new(format, at, what));
    }
    Ok((Segment::Argument(number - 1, place), digits + 1))
}
