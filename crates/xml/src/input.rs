//! A document's bytes made ready for reading: UTF-8, line ends as `\n`, the declaration and the document
//! type looked at. What is wrong is kept until reading gets there, so that the first error is told first.

use std::borrow::Cow;

use crate::chars;
use crate::declaration;
use crate::decode;
use crate::dtd::{self, Dtd};
use crate::error::{Fault, XmlError, XmlErrorKind};
use crate::machine::View;
use crate::options::{Limits, Options};
use base::limits::XML_BYTES_CEILING;

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
        let most = options.limits.bytes.min(XML_BYTES_CEILING);
        let large = |len: usize| {
            let kind = XmlErrorKind::Limit { what: "bytes of a document", limit: most };
            (len > most as usize).then(|| Fault::new(0, kind).locate(""))
        };
        if let Some(error) = large(bytes.len()) {
            return Err(error);
        }
        let (text, mut broken) = decode::decode(bytes)?;
        let mut text = normalised(text);
        if let Some(error) = large(text.len()) {
            return Err(error);
        }
        if let Some(at) = chars::first_illegal(&text) {
            let c = text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, u32::from);
            broken = Some(Fault::new(at, XmlErrorKind::IllegalCharacter(c)));
            text = truncated(text, at);
        }
        if let Some(broken) = &mut broken {
            broken.at = broken.at.min(text.len());
        }
        let declared = declaration::read(&text);
        let start = match (declared, &broken) {
            (Ok(declared), _) => declared.map_or(0, |declared| declared.end),
            (Err(fault), Some(broken)) if fault.at >= text.len() => {
                return Err(broken.clone().locate(&text));
            }
            (Err(fault), _) => return Err(fault.locate(&text)),
        };
        let dtd = dtd::find(&text, start, options, broken.as_ref());
        Ok(Self { text, start, dtd, broken, limits: options.limits })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { source: &self.text, dtd: &self.dtd, broken: self.broken.as_ref() }
    }
}

/// Section 2.11: `\r\n` and `\r` become `\n`.
fn normalised(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\r', text.as_bytes()) else { return text };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    let mut next = Some(first);
    while let Some((before, after)) = next.and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        out.push('\n');
        rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\r')).unwrap_or(after);
        next = memchr::memchr(b'\r', rest.as_bytes());
    }
    out.push_str(rest);
    Cow::Owned(out)
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
