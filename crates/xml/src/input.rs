//! Prepares a document for parsing: decodes to UTF-8, normalises line ends to `\n`, reads the XML
//! declaration and the document type. Their errors are kept until parsing gets to them, so that the first
//! error of the document is reported.

use std::borrow::Cow;

use crate::chars;
use crate::declaration::{self, Form};
use crate::decode::{self, Decoder, InputEncoding, Sniffed};
use crate::dtd::{self, Dtd};
use crate::entities::EntityResolver;
use crate::error::{Error, ErrorKind, OffsetError};
use crate::limits::XML_BYTES_CEILING;
use crate::machine::View;
use crate::options::{Limits, Options};
use crate::scan::Search;

/// The limit that is reported at the beginning of the document.
pub(crate) const BYTES_OF_A_DOCUMENT: &str = "bytes per document";

/// A decoded document. [`crate::reader::Reader`] borrows from it.
#[derive(Debug)]
pub struct Input<'b> {
    text: Cow<'b, str>,
    start: usize,
    dtd: Dtd,
    broken: Option<OffsetError>,
    pub(crate) limits: Limits,
}

impl<'b> Input<'b> {
    /// Detects the encoding, decodes, reads the XML declaration and the document type.
    ///
    /// # Errors
    /// Too many bytes, an encoding that is unsupported or doesn't match the bytes, a malformed
    /// declaration.
    pub fn new(bytes: &'b [u8], options: &Options) -> Result<Self, Error> {
        Self::read(bytes, None, options, None)
    }

    /// As [`Input::new`] for bytes that are valid UTF-8, although the document may declare another encoding.
    pub(crate) fn of_text(text: &'b str, options: &Options) -> Result<Self, Error> {
        Self::read(text.as_bytes(), Some(text), options, None)
    }

    /// As [`Input::new`]; `resolver` supplies the external entities of the document type, if
    /// [`Options::doctype`] permits one.
    ///
    /// # Errors
    /// As [`Input::new`].
    pub fn with_entities(
        bytes: &'b [u8],
        options: &Options,
        resolver: &dyn EntityResolver,
    ) -> Result<Self, Error> {
        Self::read(bytes, None, options, Some(resolver))
    }

    fn read(
        bytes: &'b [u8],
        text: Option<&'b str>,
        options: &Options,
        resolver: Option<&dyn EntityResolver>,
    ) -> Result<Self, Error> {
        let most = options.limits.bytes.min(XML_BYTES_CEILING);
        let large = |len: usize| (len > most as usize).then(|| too_large(most).locate(""));
        if let Some(error) = large(bytes.len()) {
            return Err(error);
        }
        let Decoded { encoding, mut text, mut broken, illegal } = decoded(bytes, text)?;
        if let Some(error) = large(text.len()) {
            return Err(error);
        }
        if let Some(error) = illegal {
            text = truncated(text, error.at);
            broken = Some(error);
        }
        let search = &mut Search::default();
        let start =
            declaration::pass(&text, Form::Document, encoding, broken.as_ref(), true, search)?;
        let start = start.unwrap_or_default();
        let dtd = dtd::find(&text, start, options, resolver, broken.as_ref());
        Ok(Self { text, start, dtd, broken, limits: options.limits })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The text where it is, unless it was decoded.
    pub(crate) fn borrowed(&self) -> Option<&'b str> {
        match &self.text {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            source: &self.text,
            dtd: &self.dtd,
            broken: self.broken.as_ref(),
            whole: usize::MAX,
            behind: self.text.len(),
        }
    }
}

pub(crate) fn too_large(most: u32) -> OffsetError {
    OffsetError::new(0, ErrorKind::Limit { what: BYTES_OF_A_DOCUMENT, limit: most })
}

/// The text of an external entity, and where it begins after its text declaration (section 4.3.1).
pub(crate) fn entity(bytes: &[u8]) -> Result<(String, usize), Error> {
    let Decoded { encoding, text, broken, illegal } = decoded(bytes, None)?;
    if let Some(error) = illegal.or(broken) {
        return Err(error.locate(&text));
    }
    let search = &mut Search::default();
    let start = declaration::pass(&text, Form::Entity, encoding, None, true, search)?;
    Ok((text.into_owned(), start.unwrap_or_default()))
}

/// A document as text.
struct Decoded<'b> {
    encoding: InputEncoding,
    text: Cow<'b, str>,
    /// The error that ended the text early.
    broken: Option<OffsetError>,
    /// The first character of the text that XML doesn't allow.
    illegal: Option<OffsetError>,
}

/// Decodes `bytes`. `text` is the same as text, if the bytes are known to be UTF-8.
fn decoded<'b>(bytes: &'b [u8], text: Option<&'b str>) -> Result<Decoded<'b>, Error> {
    let sniffed = decode::sniff(bytes, true, &mut Search::default())?;
    let Sniffed { encoding, mark } =
        sniffed.unwrap_or(Sniffed { encoding: InputEncoding::Utf8, mark: 0 });
    let bytes = bytes.get(mark..).unwrap_or(&[]);
    if encoding == InputEncoding::Utf8
        && let Some(text) = match text {
            Some(text) => text.get(mark..),
            None => std::str::from_utf8(bytes).ok(),
        }
    {
        let is_plain = chars::is_plain(bytes);
        if is_plain || memchr::memchr(b'\r', bytes).is_none() {
            let illegal = if is_plain { None } else { illegal(text, 0) };
            return Ok(Decoded { encoding, text: Cow::Borrowed(text), broken: None, illegal });
        }
    }
    let mut text = String::with_capacity(bytes.len());
    let mut decoder = Decoder::new(encoding);
    let pushed = decoder.push(bytes, &mut text);
    let error = (pushed.is_err() || !decoder.is_between())
        .then(|| OffsetError::new(text.len(), decoder.malformed()));
    let illegal = illegal(&text, 0);
    Ok(Decoded { encoding, text: Cow::Owned(text), broken: error, illegal })
}

/// The first character from `from` on that XML doesn't allow.
pub(crate) fn illegal(text: &str, from: usize) -> Option<OffsetError> {
    let fresh = text.get(from..)?;
    let offset = chars::first_illegal(fresh)?;
    let c = fresh.get(offset..).and_then(|rest| rest.chars().next()).map_or(0, u32::from);
    Some(OffsetError::new(from.saturating_add(offset), ErrorKind::IllegalCharacter(c)))
}

fn truncated(text: Cow<'_, str>, at: usize) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..at).unwrap_or("")),
        Cow::Owned(mut text) => {
            text.truncate(at);
            Cow::Owned(text)
        }
    }
}
