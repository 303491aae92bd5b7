//! A document's bytes made ready for reading: UTF-8, line ends as `\n`, the declaration and the document
//! type looked at. What is wrong is kept until reading gets there, so that the first error is told first.

use std::borrow::Cow;

use crate::chars;
use crate::declaration::{self, Form};
use crate::decode::{self, Decoder, Encoding, Sniffed};
use crate::dtd::{self, Dtd};
use crate::entities::EntityResolver;
use crate::error::{Fault, XmlError, XmlErrorKind};
use crate::limits::XML_BYTES_CEILING;
use crate::machine::View;
use crate::options::{Limits, Options};
use crate::scan::Search;

/// The limit that is told of no place.
pub(crate) const BYTES_OF_A_DOCUMENT: &str = "bytes of a document";

/// A decoded document. [`crate::reader::Reader`] borrows from it.
#[derive(Debug)]
pub struct Input<'b> {
    text: Cow<'b, str>,
    start: usize,
    dtd: Dtd,
    broken: Option<Fault>,
    pub(crate) limits: Limits,
}

impl<'b> Input<'b> {
    /// Finds out the encoding, decodes, reads the XML declaration and the document type.
    ///
    /// # Errors
    /// Too many bytes, an encoding that isn't known or not what the bytes are, a malformed declaration.
    pub fn new(bytes: &'b [u8], options: &Options) -> Result<Self, XmlError> {
        Self::read(bytes, options, None)
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
    ) -> Result<Self, XmlError> {
        Self::read(bytes, options, Some(resolver))
    }

    fn read(
        bytes: &'b [u8],
        options: &Options,
        resolver: Option<&dyn EntityResolver>,
    ) -> Result<Self, XmlError> {
        let most = options.limits.bytes.min(XML_BYTES_CEILING);
        let large = |len: usize| (len > most as usize).then(|| too_large(most).locate(""));
        if let Some(error) = large(bytes.len()) {
            return Err(error);
        }
        let (encoding, text, mut broken) = decoded(bytes)?;
        let mut text = text;
        if let Some(error) = large(text.len()) {
            return Err(error);
        }
        if let Some(fault) = illegal(&text, 0) {
            text = truncated(text, fault.at);
            broken = Some(fault);
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

/// It is told of the document as a whole, at its beginning.
pub(crate) fn too_large(most: u32) -> Fault {
    Fault::new(0, XmlErrorKind::Limit { what: BYTES_OF_A_DOCUMENT, limit: most })
}

/// The text of an external entity, and where it begins after its text declaration (section 4.3.1).
pub(crate) fn entity(bytes: &[u8]) -> Result<(String, usize), XmlError> {
    let (encoding, text, broken) = decoded(bytes)?;
    if let Some(error) = illegal(&text, 0).or(broken) {
        return Err(error.locate(&text));
    }
    let search = &mut Search::default();
    let start = declaration::pass(&text, Form::Entity, encoding, None, true, search)?;
    Ok((text.into_owned(), start.unwrap_or_default()))
}

/// The text, and what cut it short.
fn decoded(bytes: &[u8]) -> Result<(Encoding, Cow<'_, str>, Option<Fault>), XmlError> {
    let sniffed = decode::sniff(bytes, true, &mut Search::default())?;
    let Sniffed { encoding, mark } =
        sniffed.unwrap_or(Sniffed { encoding: Encoding::Utf8, mark: 0 });
    let bytes = bytes.get(mark..).unwrap_or(&[]);
    if encoding == Encoding::Utf8
        && let Ok(text) = std::str::from_utf8(bytes)
        && memchr::memchr(b'\r', bytes).is_none()
    {
        return Ok((encoding, Cow::Borrowed(text), None));
    }
    let mut text = String::with_capacity(bytes.len());
    let mut decoder = Decoder::new(encoding);
    let pushed = decoder.push(bytes, &mut text);
    let fault = (pushed.is_err() || !decoder.is_between())
        .then(|| Fault::new(text.len(), decoder.malformed()));
    Ok((encoding, Cow::Owned(text), fault))
}

/// The first character from `from` on that XML doesn't have.
pub(crate) fn illegal(text: &str, from: usize) -> Option<Fault> {
    let fresh = text.get(from..)?;
    let offset = chars::first_illegal(fresh)?;
    let c = fresh.get(offset..).and_then(|rest| rest.chars().next()).map_or(0, u32::from);
    Some(Fault::new(from.saturating_add(offset), XmlErrorKind::IllegalCharacter(c)))
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
