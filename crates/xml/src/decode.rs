//! Encodings (section 4.3.3 and appendix F): detected by byte order mark, else by the first bytes, else by
//! the XML declaration, else UTF-8. Bytes may arrive in pieces, cut anywhere.

use std::borrow::Cow;

use crate::declaration::{self, Form};
use crate::error::{Error, ErrorKind, OffsetError};
use crate::scan::Search;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputEncoding {
    Utf8,
    UsAscii,
    Latin1,
    Windows1252,
    Utf16 { big_endian: bool },
}

/// The encoding detected at the beginning of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sniffed {
    pub(crate) encoding: InputEncoding,
    /// Length of the byte order mark.
    pub(crate) mark: usize,
}

const BIG: InputEncoding = InputEncoding::Utf16 { big_endian: true };
const LITTLE: InputEncoding = InputEncoding::Utf16 { big_endian: false };

/// The encoding of a document that begins with `head`; `None` if more bytes are needed, which is never so if `head` is
/// the `whole`. `search` looks for the end of the declaration.
pub(crate) fn sniff(
    head: &[u8],
    whole: bool,
    search: &mut Search,
) -> Result<Option<Sniffed>, Error> {
    if head.len() < 4 && !whole {
        return Ok(None);
    }
    let (encoding, mark) = match head {
        [0x00, 0x00, 0xFE, 0xFF, ..] | [0xFF, 0xFE, 0x00, 0x00, ..] => {
            let kind = ErrorKind::UnsupportedEncoding("UTF-32".to_owned());
            return Err(OffsetError::new(0, kind).locate(""));
        }
        [0xEF, 0xBB, 0xBF, ..] => (InputEncoding::Utf8, 3),
        [0xFE, 0xFF, ..] => (BIG, 2),
        [0xFF, 0xFE, ..] => (LITTLE, 2),
        [0x00, b'<', 0x00, b'?', ..] => (BIG, 0),
        [b'<', 0x00, b'?', 0x00, ..] => (LITTLE, 0),
        _ => match declaration_of(head, whole, search) {
            Some(declaration) => (declared(declaration)?, 0),
            None => return Ok(None),
        },
    };
    Ok(Some(Sniffed { encoding, mark }))
}

/// The declaration, in an encoding that extends ASCII; empty if there is none.
fn declaration_of<'h>(head: &'h [u8], whole: bool, search: &mut Search) -> Option<&'h [u8]> {
    const START: &[u8] = b"<?xml";
    if !head.starts_with(START) {
        let undecided = !whole && START.starts_with(head);
        return (!undecided).then_some(&[]);
    }
    match declaration::end(head, search) {
        Some(end) => head.get(..end),
        None => whole.then_some(&[]),
    }
}

/// The encoding that the declaration names; a malformed declaration is reported later.
fn declared(declaration: &[u8]) -> Result<InputEncoding, Error> {
    let head = std::str::from_utf8(declaration).unwrap_or("");
    let Ok(Some(declaration::XmlDeclaration { encoding: Some(name), .. })) =
        declaration::read(head, Form::Document).or_else(|_| declaration::read(head, Form::Entity))
    else {
        return Ok(InputEncoding::Utf8);
    };
    match name.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" => Ok(InputEncoding::Utf8),
        "US-ASCII" | "ASCII" | "ANSI_X3.4-1968" | "ISO646-US" => Ok(InputEncoding::UsAscii),
        "ISO-8859-1" | "ISO_8859-1" | "ISO8859-1" | "LATIN1" | "LATIN-1" | "L1" => {
            Ok(InputEncoding::Latin1)
        }
        "WINDOWS-1252" | "CP1252" | "X-CP1252" => Ok(InputEncoding::Windows1252),
        "UTF-16" | "UTF-16BE" | "UTF-16LE" => {
            let found = "in an encoding that extends ASCII";
            let kind = ErrorKind::EncodingMismatch { declared: name.to_owned(), found };
            Err(OffsetError::new(0, kind).locate(""))
        }
        _ => {
            let at = head.find(name).unwrap_or(0);
            let kind = ErrorKind::UnsupportedEncoding(name.to_owned());
            Err(OffsetError::new(at, kind).locate(head))
        }
    }
}

impl InputEncoding {
    /// The encoding detected from the bytes, for an error message, if a declaration of `name` contradicts it.
    pub(crate) fn disagrees(self, name: &str) -> Option<&'static str> {
        let upper = name.to_ascii_uppercase();
        let (agrees, found) = match self {
            Self::Utf8 => {
                (matches!(upper.as_str(), "UTF-8" | "UTF8"), "UTF-8 by their byte order mark")
            }
            Self::Utf16 { big_endian: true } => {
                (matches!(upper.as_str(), "UTF-16" | "UTF-16BE"), "UTF-16, big-endian")
            }
            Self::Utf16 { big_endian: false } => {
                (matches!(upper.as_str(), "UTF-16" | "UTF-16LE"), "UTF-16, little-endian")
            }
            // These are detected by the declaration alone.
            Self::UsAscii | Self::Latin1 | Self::Windows1252 => (true, ""),
        };
        (!agrees).then_some(found)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::UsAscii => "US-ASCII",
            Self::Latin1 => "ISO-8859-1",
            Self::Windows1252 => "windows-1252",
            Self::Utf16 { .. } => "UTF-16",
        }
    }
}

/// Decodes bytes that arrive in pieces; `\r\n` and `\r` become `\n` (section 2.11).
#[derive(Debug)]
pub(crate) struct Decoder {
    encoding: InputEncoding,
    /// The beginning of an incomplete character: at most three bytes.
    held: Vec<u8>,
    /// A high surrogate of UTF-16 whose low surrogate hasn't arrived.
    high: Option<u16>,
    /// The last character was `\r`; a following `\n` belongs to it.
    after_return: bool,
}

/// The bytes can't be decoded from here on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undecodable;

impl Decoder {
    pub(crate) fn new(encoding: InputEncoding) -> Self {
        Self { encoding, held: Vec::new(), high: None, after_return: false }
    }

    pub(crate) fn encoding(&self) -> InputEncoding {
        self.encoding
    }

    /// The error for bytes that can't be decoded.
    pub(crate) fn malformed(&self) -> ErrorKind {
        ErrorKind::Malformed(self.encoding.name())
    }

    /// Whether no character is incomplete.
    pub(crate) fn is_between(&self) -> bool {
        self.held.is_empty() && self.high.is_none()
    }

    /// Appends the text of `bytes` to `out`, up to the first byte that can't be decoded.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut String) -> Result<(), Undecodable> {
        match self.encoding {
            InputEncoding::Utf8 => self.utf8(bytes, out),
            InputEncoding::UsAscii => {
                let end = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(bytes.len());
                self.utf8(bytes.get(..end).unwrap_or(&[]), out)?;
                if end < bytes.len() { Err(Undecodable) } else { Ok(()) }
            }
            InputEncoding::Latin1 => {
                bytes.iter().for_each(|&byte| self.put(char::from(byte), out));
                Ok(())
            }
            InputEncoding::Windows1252 => bytes.iter().try_for_each(|&byte| {
                self.put(windows_1252(byte).ok_or(Undecodable)?, out);
                Ok(())
            }),
            InputEncoding::Utf16 { big_endian } => self.utf16(bytes, big_endian, out),
        }
    }

    fn utf8(&mut self, mut bytes: &[u8], out: &mut String) -> Result<(), Undecodable> {
        while !self.held.is_empty() {
            let Some((&next, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            let mut held = std::mem::take(&mut self.held);
            held.push(next);
            self.utf8_piece(&held, out)?;
        }
        self.utf8_piece(bytes, out)
    }

    fn utf8_piece(&mut self, bytes: &[u8], out: &mut String) -> Result<(), Undecodable> {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                self.append(text, out);
                Ok(())
            }
            Err(error) => {
                let (good, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or_default();
                self.append(std::str::from_utf8(good).unwrap_or(""), out);
                if error.error_len().is_some() {
                    return Err(Undecodable);
                }
                self.held = rest.to_vec();
                Ok(())
            }
        }
    }

    fn append(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        if self.after_return && !text.is_empty() {
            rest = rest.strip_prefix('\n').unwrap_or(rest);
            self.after_return = false;
        }
        while let Some((before, after)) =
            memchr::memchr(b'\r', rest.as_bytes()).and_then(|at| rest.split_at_checked(at))
        {
            out.push_str(before);
            out.push('\n');
            rest = after.get(1..).unwrap_or("");
            self.after_return = rest.is_empty();
            rest = rest.strip_prefix('\n').unwrap_or(rest);
        }
        out.push_str(rest);
    }

    #[inline]
    fn put(&mut self, c: char, out: &mut String) {
        let after_return = std::mem::replace(&mut self.after_return, c == '\r');
        match c {
            '\n' if after_return => {}
            '\r' => out.push('\n'),
            _ => out.push(c),
        }
    }

    fn utf16(&mut self, bytes: &[u8], big: bool, out: &mut String) -> Result<(), Undecodable> {
        let mut bytes = bytes;
        if let (Some(&first), Some((&second, rest))) = (self.held.first(), bytes.split_first()) {
            self.held.clear();
            self.unit([first, second], big, out)?;
            bytes = rest;
        }
        let (pairs, odd) = bytes.as_chunks::<2>();
        self.held.extend_from_slice(odd);
        pairs.iter().try_for_each(|&pair| self.unit(pair, big, out))
    }

    #[inline]
    fn unit(&mut self, pair: [u8; 2], big: bool, out: &mut String) -> Result<(), Undecodable> {
        let unit = if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
        let high = self.high.take();
        if high.is_none() && (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
            return Ok(());
        }
        let mut decoded = char::decode_utf16(high.into_iter().chain([unit]));
        match decoded.next() {
            Some(Ok(c)) => {
                self.put(c, out);
                Ok(())
            }
            Some(Err(_)) | None => Err(Undecodable),
        }
    }
}

/// The text of a document for display, with line ends as `\n` and without byte order mark: the lines and
/// columns of [`Error`] apply to it. Bytes that can't be decoded become U+FFFD; an unsupported encoding is
/// decoded as UTF-8.
#[must_use]
pub fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
    let sniffed = sniff(bytes, true, &mut Search::default()).ok().flatten();
    let Sniffed { encoding, mark } =
        sniffed.unwrap_or(Sniffed { encoding: InputEncoding::Utf8, mark: 0 });
    let bytes = bytes.get(mark..).unwrap_or(&[]);
    if let (InputEncoding::Utf8, Ok(text), None) =
        (encoding, std::str::from_utf8(bytes), memchr::memchr(b'\r', bytes))
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len());
    let mut decoder = Decoder::new(encoding);
    for &byte in bytes {
        if decoder.push(&[byte], &mut out).is_ok() {
            continue;
        }
        out.push(char::REPLACEMENT_CHARACTER);
        decoder = Decoder::new(encoding);
        // In UTF-8 the byte may begin the next character.
        if encoding == InputEncoding::Utf8 {
            drop(decoder.push(&[byte], &mut out));
        }
    }
    if !decoder.is_between() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    Cow::Owned(out)
}

/// 0x80 to 0x9F; 0 is undefined.
const WINDOWS_1252: [u16; 32] = [
    0x20AC, 0, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039,
    0x0152, 0, 0x017D, 0, 0, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC,
    0x2122, 0x0161, 0x203A, 0x0153, 0, 0x017E, 0x0178,
];

fn windows_1252(byte: u8) -> Option<char> {
    match byte.checked_sub(0x80).and_then(|high| WINDOWS_1252.get(usize::from(high))) {
        Some(0) => None,
        Some(&code) => char::from_u32(u32::from(code)),
        None => Some(char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_display_is_decoded_as_far_as_possible() {
        let check = |bytes: &[u8], expect: &str| {
            assert_eq!(lossy_text(bytes), expect, "{}", bytes.escape_ascii());
        };
        let declared = |name: &str| format!("<?xml version='1.0' encoding='{name}'?>");
        let check_declared = |name: &str, bytes: &[u8], expect: &str| {
            let head = declared(name);
            check(&[head.as_bytes(), bytes].concat(), &[&head, expect].concat());
        };
        check(b"", "");
        check("a\nö".as_bytes(), "a\nö");
        check(b"\xEF\xBB\xBFa\r\nb\rc\r", "a\nb\nc\n");
        check(b"a\xC3(\xFF\xE2\x82\xC3\xA9\xE2\x82", "a\u{FFFD}(\u{FFFD}\u{FFFD}é\u{FFFD}");
        check(b"\xFE\xFF\0a\0\r\0\n\xDC\0\0b\xD8\x34\xDD\x1E\0", "a\n\u{FFFD}b𝄞\u{FFFD}");
        check(b"\0<\0?\0x", "<?x");
        check(b"<\0?\0x\0", "<?x");
        check_declared("ISO-8859-1", b"\xE9\x80", "é\u{80}");
        check_declared("windows-1252", b"\x80\x81\xE9", "€\u{FFFD}é");
        check_declared("US-ASCII", b"a\x80b", "a\u{FFFD}b");
        check_declared("EBCDIC", b"\xC3\xA9\xE9", "é\u{FFFD}");
    }
}
