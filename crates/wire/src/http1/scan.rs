//! The reference parser: reads a head byte by byte. Used when the fast parser did not find a complete head, it
//! returns whether more bytes could make it valid, or why it is rejected.
//!
//! Architecture invariant: the rejection of a prefix does not depend on the bytes that follow, and it accepts exactly
//! the same heads as the fast parser (`properties`).

use base::limits;

use super::{Rejection, Side};

/// Why a scan stopped before the end of a head.
enum Stop {
    /// The bytes ended.
    Short,
    Reject(Rejection),
}

type Scan<T> = Result<T, Stop>;

/// The length of the request head at the start of `buf`; `None` if it is incomplete.
///
/// # Errors
/// 400, 414, 431, 501 (a method that is too long) or 505: see `request_line` and `field_lines`.
pub(super) fn request(buf: &[u8]) -> Result<Option<usize>, Rejection> {
    const MAX: usize = limits::HEAD_BYTES_MAX as usize;
    let mut cursor = Cursor::new(buf, MAX, Side::Request);
    let scanned = cursor.request_line().and_then(|()| cursor.field_lines());
    cursor.conclude(scanned, buf.len() >= MAX)
}

/// The length of the response head at the start of `buf`; `None` if it is incomplete.
///
/// # Errors
/// 502.
pub(super) fn response(buf: &[u8]) -> Result<Option<usize>, Rejection> {
    const MAX: usize = limits::RESPONSE_HEAD_BYTES_MAX as usize;
    let mut cursor = Cursor::new(buf, MAX, Side::Response);
    let scanned = cursor.status_line().and_then(|()| cursor.field_lines());
    cursor.conclude(scanned, buf.len() >= MAX)
}

/// Validates a complete trailer section, with its final empty line.
pub(super) fn trailers(section: &[u8], side: Side) -> Result<(), Rejection> {
    let mut cursor = Cursor::new(section, section.len(), side);
    let scanned = cursor.field_lines();
    match cursor.conclude(scanned, true)? {
        Some(len) if len == section.len() => Ok(()),
        Some(_) | None => Err(side.reject(400, "trailer section is malformed")),
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    side: Side,
}

impl<'a> Cursor<'a> {
    fn new(buf: &'a [u8], max: usize, side: Side) -> Self {
        Self { bytes: buf.get(..max).unwrap_or(buf), at: 0, side }
    }

    fn conclude(&self, scanned: Scan<()>, is_full: bool) -> Result<Option<usize>, Rejection> {
        match scanned {
            Ok(()) => Ok(Some(self.at)),
            Err(Stop::Reject(rejection)) => Err(rejection),
            Err(Stop::Short) if is_full => Err(self.side.reject(431, "head is too large")),
            Err(Stop::Short) => Ok(None),
        }
    }

    fn reject<T>(&self, reason: &'static str) -> Scan<T> {
        Err(Stop::Reject(self.side.reject(400, reason)))
    }

    fn reject_with<T>(&self, status: u16, reason: &'static str) -> Scan<T> {
        Err(Stop::Reject(self.side.reject(status, reason)))
    }

    fn peek(&self) -> Scan<u8> {
        self.bytes.get(self.at).copied().ok_or(Stop::Short)
    }

    fn expect(&mut self, byte: u8, reason: &'static str) -> Scan<()> {
        if self.peek()? != byte {
            return self.reject(reason);
        }
        self.at += 1;
        Ok(())
    }

    /// Skips bytes while `accepted`, and returns their number. More than `max` are rejected.
    fn run(
        &mut self,
        accepted: impl Fn(u8) -> bool,
        max: usize,
        over: (u16, &'static str),
    ) -> Scan<usize> {
        let start = self.at;
        while accepted(self.peek()?) {
            if self.at - start >= max {
                return self.reject_with(over.0, over.1);
            }
            self.at += 1;
        }
        Ok(self.at - start)
    }

    /// `method SP target SP HTTP-version CRLF`. Source: RFC 9112 section 3.
    fn request_line(&mut self) -> Scan<()> {
        let unknown = (501, "method is too long");
        if self.run(is_tchar, limits::METHOD_BYTES_MAX, unknown)? == 0 {
            return self.reject("request line does not start with a method");
        }
        self.expect(b' ', "method is not followed by one space")?;
        let too_long = (414, "target is too long");
        if self.run(is_target_byte, limits::TARGET_BYTES_MAX as usize, too_long)? == 0 {
            return self.reject("target is missing or starts with a forbidden byte");
        }
        self.expect(b' ', "target has a forbidden byte")?;
        self.version(505)?;
        self.line_end()
    }

    /// `HTTP-version SP 3DIGIT [SP reason] CRLF`. Source: RFC 9112 section 4; the space before an
    /// empty reason may be absent.
    fn status_line(&mut self) -> Scan<()> {
        self.version(502)?;
        self.expect(b' ', "version is not followed by one space")?;
        if !matches!(self.peek()?, b'1'..=b'5') {
            return self.reject("status is not between 100 and 599");
        }
        self.at += 1;
        for _ in 0..2 {
            if !self.peek()?.is_ascii_digit() {
                return self.reject("status is not three digits");
            }
            self.at += 1;
        }
        if self.peek()? == b' ' {
            self.at += 1;
            self.run(is_value_byte, usize::MAX, (502, ""))?;
        }
        self.line_end()
    }

    fn version(&mut self, unknown: u16) -> Scan<()> {
        for &byte in b"HTTP/" {
            self.expect(byte, "version is malformed")?;
        }
        let major = self.digit()?;
        self.expect(b'.', "version is malformed")?;
        let minor = self.digit()?;
        match (major, minor) {
            (b'1', b'0' | b'1') => Ok(()),
            _ => self.reject_with(unknown, "version is not supported"),
        }
    }

    fn digit(&mut self) -> Scan<u8> {
        let byte = self.peek()?;
        if !byte.is_ascii_digit() {
            return self.reject("version is malformed");
        }
        self.at += 1;
        Ok(byte)
    }

    fn line_end(&mut self) -> Scan<()> {
        self.expect(b'\r', "line has a forbidden byte or ends without CRLF")?;
        self.expect(b'\n', "CR is not followed by LF")
    }

    /// Field lines up to and including the empty line. Source: RFC 9112 section 5.
    fn field_lines(&mut self) -> Scan<()> {
        let mut count = 0;
        while self.peek()? != b'\r' {
            if count == limits::HEADER_FIELDS_MAX {
                return self.reject_with(431, "too many fields");
            }
            count += 1;
            self.field_line()?;
        }
        self.line_end()
    }

    fn field_line(&mut self) -> Scan<()> {
        if matches!(self.peek()?, b' ' | b'\t') {
            return self.reject("field line is folded");
        }
        if self.run(is_tchar, usize::MAX, (400, ""))? == 0 {
            return self.reject("field name is empty or not a token");
        }
        self.expect(b':', "field name is not directly followed by a colon")?;
        self.run(is_value_byte, usize::MAX, (400, ""))?;
        self.line_end()
    }
}

/// Whether a byte may occur in a token. Source: RFC 9110 section 5.6.2.
pub(crate) const fn is_tchar(byte: u8) -> bool {
    matches!(byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`'
        | b'|' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z')
}

/// A field value: visible characters, space, tab and obs-text. Source: RFC 9110 section 5.5.
pub(super) const fn is_value_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// A byte that is allowed in a request target: visible ASCII except `#`, which starts a fragment.
pub(super) const fn is_target_byte(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~') && byte != b'#'
}

/// Removes surrounding spaces and tabs.
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    trim_end(trim_start(bytes))
}

#[inline]
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    bytes
}

#[inline]
pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}
