//! `multipart/related`: an envelope and its attachments. A body in a package is its root part; the others stay as they
//! are. Source: RFC 2387; SOAP Messages with Attachments; XOP 1.0, section 4.

use std::cell::OnceCell;
use std::ops::Range;

use bytes::Bytes;
use expression::Budget;
use memchr::memmem;
use xpath::encoding;

use super::charset::Charset;
use super::multipart::Section;
use super::{OF_THE_BYTES, format, multipart};
use crate::error::{Code, Failure};

/// How the content of a part is written.
const TRANSFER_ENCODING: &str = "Content-Transfer-Encoding";

/// The package that a body is in.
#[derive(Clone, Debug)]
pub(super) struct Package {
    boundary: Option<Box<str>>,
    /// The `Content-ID` of the root part; `None`: it is the first.
    start: Option<Box<str>>,
    root: OnceCell<Root>,
    /// As it arrived, when its root part was replaced.
    whole: Bytes,
    /// With the new root part.
    written: OnceCell<Bytes>,
}

/// The root part.
#[derive(Clone, Debug)]
struct Root {
    head: Range<usize>,
    /// Where its content ends.
    end: usize,
    /// The content without a transfer encoding.
    bytes: Bytes,
    charset: Charset,
}

impl Package {
    pub(super) fn of(content_type: &str) -> Self {
        let parameter = |name| format::parameter(content_type, name).map(Into::into);
        Self {
            boundary: parameter("boundary"),
            start: parameter("start"),
            root: OnceCell::new(),
            whole: Bytes::new(),
            written: OnceCell::new(),
        }
    }

    /// Whether this content type is its own.
    pub(super) fn is_of(&self, content_type: &str) -> bool {
        format::is_package(content_type)
            && format::parameter(content_type, "boundary") == self.boundary.as_deref()
    }

    /// The root part of `whole`, and the charset in its head.
    ///
    /// # Errors
    /// `whole` is not multipart, or has no such part; its transfer encoding is not known; the budget.
    pub(super) fn root(
        &self,
        whole: &Bytes,
        budget: &Budget,
    ) -> Result<(&Bytes, &Charset), Failure> {
        let root = match self.root.get() {
            Some(root) => root,
            None => {
                let root = self.find(whole, budget)?;
                self.root.get_or_init(|| root)
            }
        };
        Ok((&root.bytes, &root.charset))
    }

    fn find(&self, whole: &Bytes, budget: &Budget) -> Result<Root, Failure> {
        let boundary = self.boundary.as_deref();
        let boundary =
            boundary.ok_or_else(|| multipart::malformed("its content type has no boundary"))?;
        budget.charge_scanning(whole.len())?;
        let parts = multipart::sections(whole, boundary)?;
        let id = |text: &str| text.trim_matches(['<', '>']).to_owned();
        let part = match &self.start {
            Some(start) => {
                let start = id(start);
                let is_it =
                    |part: &&Section<'_>| part.field("Content-ID").map(id).as_ref() == Some(&start);
                let part = parts.iter().find(is_it);
                part.ok_or_else(|| multipart::malformed(&format!("no part is `{start}`")))?
            }
            None => parts.first().ok_or_else(|| multipart::malformed("it has no parts"))?,
        };
        let content_type = part.field("Content-Type").unwrap_or_default();
        let charset = format::parameter(content_type, "charset").map(Charset::named);
        let head = part.at..part.at.saturating_add(part.head.len());
        let end = part.content_at().saturating_add(part.content.len());
        let bytes = decoded(whole, part, budget)?;
        Ok(Root { head, end, bytes, charset: charset.unwrap_or_default() })
    }

    /// Prepares for a new root part. `whole` is as [`Package::root`] read it.
    pub(super) fn keep(&mut self, whole: Bytes) {
        self.whole = whole;
    }

    /// Bytes kept of a body whose root part was replaced.
    pub(super) fn kept(&self) -> usize {
        self.whole.len()
    }

    /// The root part changes again.
    pub(super) fn forget(&mut self) {
        self.written = OnceCell::new();
    }

    /// The whole with the new root part, if it was written; it counts as the arrived bytes from now on.
    pub(super) fn settle(&mut self) -> Option<Bytes> {
        let written = self.written.take()?;
        (self.whole, self.root) = Default::default();
        Some(written)
    }

    /// The whole with `root` as its root part, which is XML in UTF-8.
    ///
    /// # Errors
    /// `root` contains the boundary; the budget.
    pub(super) fn write(&self, root: &[u8], budget: &Budget) -> Result<&Bytes, Failure> {
        match self.written.get() {
            Some(written) => Ok(written),
            None => {
                let written = self.with_root(root, budget)?.into();
                Ok(self.written.get_or_init(|| written))
            }
        }
    }

    fn with_root(&self, root: &[u8], budget: &Budget) -> Result<Vec<u8>, Failure> {
        budget.charge_scanning(root.len())?;
        budget.charge_memory(self.whole.len().saturating_add(root.len()))?;
        let delimiter = format!("\r\n--{}", self.boundary.as_deref().unwrap_or_default());
        let opening = delimiter.as_bytes().get(2..).unwrap_or_default();
        if root.starts_with(opening) || memmem::find(root, delimiter.as_bytes()).is_some() {
            let message = "the new root part contains the boundary of its package";
            return Err(Failure::new(Code::MEDIATION, message));
        }
        let (head, end) =
            self.root.get().map(|old| (old.head.clone(), old.end)).unwrap_or_default();
        let part = |range: Range<usize>| self.whole.get(range).unwrap_or_default();
        let mut out = part(0..head.start).to_vec();
        out.reserve_exact(self.whole.len().saturating_add(root.len()).saturating_sub(out.len()));
        for field in multipart::fields(std::str::from_utf8(part(head)).unwrap_or_default()) {
            write_field(field, &mut out);
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(root);
        out.extend_from_slice(part(end..self.whole.len()));
        Ok(out)
    }
}

/// A field of the head of a root part that is now XML in UTF-8: nothing that is only true of the old bytes.
fn write_field(field: &str, out: &mut Vec<u8>) {
    let (name, value) = field.split_once(':').unwrap_or((field, ""));
    let (name, is) = (name.trim(), |known: &str| name.trim().eq_ignore_ascii_case(known));
    let line = if is(TRANSFER_ENCODING) {
        format!("{name}: binary")
    } else if is("Content-Length") || OF_THE_BYTES.iter().any(|known| is(known)) {
        return;
    } else if is("Content-Type") && format::parameter(value, "charset").is_some() {
        format!("{name}: {}", format::with_charset(value, "UTF-8"))
    } else {
        field.to_owned()
    };
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The content of a part of `whole` without its transfer encoding. Source: RFC 2045, section 6.
fn decoded(whole: &Bytes, part: &Section<'_>, budget: &Budget) -> Result<Bytes, Failure> {
    let encoding = part.field(TRANSFER_ENCODING).unwrap_or_default();
    let is = |known: &[&str]| known.iter().any(|known| encoding.eq_ignore_ascii_case(known));
    if is(&["", "7bit", "8bit", "binary"]) {
        return Ok(whole.slice_ref(part.content));
    }
    let malformed = |error: String| multipart::malformed_at(&error, part.content_at());
    let decode = if is(&["base64"]) {
        base64
    } else if is(&["quoted-printable"]) {
        quoted_printable
    } else {
        let encoding = encoding.escape_debug();
        return Err(malformed(format!(
            "the transfer encoding `{encoding}` of its root part is not known"
        )));
    };
    budget.charge_memory(part.content.len().saturating_mul(2))?;
    let text = decode(part.content);
    Ok(text.ok_or_else(|| malformed(format!("its root part is not {encoding}")))?.into())
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    std::str::from_utf8(&text).ok().and_then(encoding::base64_decode)
}

/// Source: RFC 2045, section 6.7.
fn quoted_printable(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    // Behind a line that ends with `=`, and before the first, no line end is written.
    let mut is_joined = true;
    for line in text.split(|byte| *byte == b'\n') {
        if !std::mem::take(&mut is_joined) {
            out.extend_from_slice(b"\r\n");
        }
        let mut rest = line.trim_ascii_end();
        while let Some(at) = memchr::memchr(b'=', rest) {
            out.extend_from_slice(rest.get(..at)?);
            rest = rest.get(at + 1..)?;
            if rest.is_empty() {
                is_joined = true;
                break;
            }
            let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
            out.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
            rest = rest.get(2..)?;
        }
        out.extend_from_slice(rest);
    }
    Some(out)
}
