//! Whether a format makes well-formed documents, found out with stand-ins for its values.

use std::ops::Range;

use super::{MediaType, Place};
use crate::error::{Error, SyntaxError};
use crate::json::Document;

/// Stand-ins for values: for one of JSON, for content of an element, for others.
struct StandIns {
    json: &'static str,
    content: &'static str,
    other: &'static str,
}

const SOME: StandIns = StandIns { json: "0", content: "<x/>", other: "x" };
/// In JSON, also for the name of a member.
const OTHERS: StandIns = StandIns { json: "\"\"", content: "", other: "" };

/// Whether the output is well-formed for all values; `false`: with some of them. White space is as good as a document.
///
/// # Errors
/// It never is.
pub(super) fn is_always_well_formed(
    format: &str,
    media: MediaType,
    values: &[(Range<usize>, Place)],
) -> Result<bool, SyntaxError> {
    if media == MediaType::Text || format.trim().is_empty() {
        return Ok(true);
    }
    match [SOME, OTHERS].map(|stand_ins| check(format, media, values, &stand_ins)) {
        [Ok(()), Ok(())] => Ok(true),
        [Err(error), Err(_)] => Err(error),
        [_, _] => Ok(false),
    }
}

fn check(
    format: &str,
    media: MediaType,
    values: &[(Range<usize>, Place)],
    stand_ins: &StandIns,
) -> Result<(), SyntaxError> {
    let mut filled = String::with_capacity(format.len());
    let mut plain = 0;
    // Where each value ends: filled in, and in the format.
    let mut ends = Vec::with_capacity(values.len());
    for (range, place) in values {
        filled += format.get(plain..range.start).unwrap_or_default();
        filled += match place {
            Place::JsonValue => stand_ins.json,
            Place::XmlText => stand_ins.content,
            Place::XmlMarkup | Place::XmlAttribute => stand_ins.other,
            Place::JsonString
            | Place::XmlCdata
            | Place::XmlComment
            | Place::XmlInstruction
            | Place::Plain => "",
        };
        ends.push((filled.len(), range.end));
        plain = range.end;
    }
    filled += format.get(plain..).unwrap_or_default();
    let (offset, message) = match media {
        MediaType::Json => match Document::parse(filled.as_bytes()) {
            Err(Error::Json { offset, kind, .. }) => (offset, format!("not JSON: {kind}")),
            Ok(_) | Err(_) => return Ok(()),
        },
        MediaType::Xml => match xml::Document::parse(filled.as_bytes()) {
            Err(error) => {
                (error.offset().unwrap_or_default(), format!("not XML: {}", error.kind()))
            }
            Ok(_) => return Ok(()),
        },
        MediaType::Text => return Ok(()),
    };
    let before = ends.iter().rev().find(|(end, _)| *end <= offset);
    let (end, in_format) = before.copied().unwrap_or_default();
    Err(SyntaxError::new(format, in_format + (offset - end), message))
}
