//! The conversion of a request's head and trailers from HTTP/2 to HTTP/1.1. Source: RFC 9113 section 8.
//!
//! A request that is malformed by section 8.1.1 resets the stream; a request that HTTP/1.1 would reject gets the same
//! status here.

use base::limits::{HEAD_BYTES_MAX, TRAILER_BYTES_MAX};

use crate::http1::{Known, KnownSet, Rejection, is_value, write};

/// Why a message is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// Malformed: the stream is reset.
    Malformed,
    /// The request gets a response with this status.
    Rejected(Rejection),
}

/// Writes a request as an HTTP/1.1 head, field by field. It is validated by `RequestHead::parse` afterwards.
///
/// `:authority` becomes Host, cookies are joined, and a body of unknown length becomes `Transfer-Encoding: chunked`
/// (although its DATA frames have no chunk framing). `te: trailers` is kept; as a hop-by-hop field it is not forwarded
/// as such. An extended CONNECT for `websocket` becomes the opening handshake of HTTP/1.1, without its key.
#[derive(Debug, Default)]
pub(super) struct HeadWriter {
    /// The head so far: all of the first line once `is_begun`.
    pub(super) head: Vec<u8>,
    /// The pseudo-fields, one after another, until the first line is written.
    pseudo: Vec<u8>,
    method: Option<Part>,
    path: Option<Part>,
    authority: Option<Part>,
    protocol: Option<Part>,
    has_scheme: bool,
    /// The first line is written.
    is_begun: bool,
    cookies: Vec<u8>,
    /// Size of all fields so far, including dropped ones, as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    list_bytes: usize,
    pub(super) length: Option<u64>,
    pub(super) is_head_method: bool,
    invalid: Option<Invalid>,
    /// The settings allow extended CONNECT.
    pub(super) allows_connect: bool,
}

/// A pseudo-field's bytes in `HeadWriter::pseudo`.
type Part = (usize, usize);

/// Memory that is kept for the next head, in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024;

const TOO_LARGE: Rejection = Rejection::new(431, "head is too large");

impl HeadWriter {
    /// `allows_connect`: extended CONNECT is one of the settings.
    pub(super) fn new(allows_connect: bool) -> Self {
        Self { allows_connect, ..Self::default() }
    }

    /// Starts a new head; keeps the memory.
    pub(super) fn clear(&mut self) {
        for bytes in [&mut self.head, &mut self.pseudo, &mut self.cookies] {
            if bytes.capacity() > KEPT_BYTES_MAX {
                *bytes = Vec::new();
            }
            bytes.clear();
        }
        (self.method, self.path, self.authority, self.protocol) = (None, None, None, None);
        (self.has_scheme, self.is_begun, self.is_head_method) = (false, false, false);
        (self.length, self.invalid, self.list_bytes) = (None, None, 0);
    }

    /// The next field. A field after one that is invalid is ignored.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.invalid.is_none() {
            self.invalid = self.write(name, value).err();
        }
    }

    fn write(&mut self, name: &[u8], value: &[u8]) -> Result<(), Invalid> {
        charge(&mut self.list_bytes, name, value)?;
        if !is_value(value) {
            return Err(Invalid::Malformed);
        }
        if let [b':', ..] = name {
            return self.pseudo(name, value);
        }
        if !self.is_begun {
            self.begin()?;
        }
        let known = regular(name, value)?;
        let held = self.head.len().saturating_add(self.cookies.len());
        if held.saturating_add(name.len()).saturating_add(value.len()) > HEAD_BYTES_MAX as usize {
            return Err(Invalid::Rejected(TOO_LARGE));
        }
        if known == Known::Cookie {
            let before: &[u8] = if self.cookies.is_empty() { b"cookie: " } else { b"; " };
            self.cookies.extend_from_slice(before);
            self.cookies.extend_from_slice(value);
        } else if known == Known::Host && self.authority.is_some() {
            if !self.part(self.authority).eq_ignore_ascii_case(value) {
                let reason = ":authority and Host differ";
                return Err(Invalid::Rejected(Rejection::new(400, reason)));
            }
        } else if self.is_tunnel() && known == Known::ContentLength {
            // Source: RFC 9110 section 9.3.6.
            return Err(Invalid::Malformed);
        } else if !self.is_tunnel() || name != b"sec-websocket-key" {
            if known == Known::ContentLength {
                self.length = Some(length(value)?);
            }
            write::field(&mut self.head, name, value);
        }
        Ok(())
    }

    /// Adds a pseudo-field. Source: RFC 9113 section 8.3.
    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Invalid> {
        if self.is_begun {
            return Err(Invalid::Malformed);
        }
        if self.pseudo.len().saturating_add(value.len()) > HEAD_BYTES_MAX as usize {
            return Err(Invalid::Rejected(TOO_LARGE));
        }
        let start = self.pseudo.len();
        let part = Some((start, start.saturating_add(value.len())));
        let slot = match name {
            b":method" => &mut self.method,
            b":path" => &mut self.path,
            b":authority" => &mut self.authority,
            b":protocol" if self.allows_connect => &mut self.protocol,
            b":scheme" if !self.has_scheme && !value.is_empty() => {
                self.has_scheme = true;
                return Ok(());
            }
            _ => return Err(Invalid::Malformed),
        };
        if slot.is_some() {
            return Err(Invalid::Malformed);
        }
        *slot = part;
        self.pseudo.extend_from_slice(value);
        Ok(())
    }

    /// Whether the request is an extended CONNECT.
    pub(super) fn is_tunnel(&self) -> bool {
        self.protocol.is_some()
    }

    fn part(&self, part: Option<Part>) -> &[u8] {
        part.and_then(|(start, end)| self.pseudo.get(start..end)).unwrap_or_default()
    }

    /// Writes the first line and Host, when all pseudo-fields are there.
    fn begin(&mut self) -> Result<(), Invalid> {
        self.is_begun = true;
        let mut head = std::mem::take(&mut self.head);
        let written = self.first_lines(&mut head);
        self.head = head;
        self.is_head_method = self.part(self.method) == b"HEAD";
        written
    }

    fn first_lines(&self, head: &mut Vec<u8>) -> Result<(), Invalid> {
        let (method, path) = (self.part(self.method), self.part(self.path));
        let is_tunnel = self.is_tunnel();
        if method == b"CONNECT" && self.path.is_none() && !self.has_scheme && !is_tunnel {
            return Err(Invalid::Rejected(Rejection::new(501, "CONNECT is not supported")));
        }
        if method.is_empty() || !self.has_scheme || is_tunnel && method != b"CONNECT" {
            return Err(Invalid::Malformed);
        }
        // Another form of target would be valid over HTTP/1.1, and white space would end it.
        let is_path = path.first() == Some(&b'/') || path == b"*";
        if !is_path || path.iter().chain(method).any(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(Invalid::Malformed);
        }
        if is_tunnel && !self.part(self.protocol).eq_ignore_ascii_case(b"websocket") {
            let reason = "only `websocket` is supported as :protocol";
            return Err(Invalid::Rejected(Rejection::new(501, reason)));
        }
        let method = if is_tunnel { &b"GET"[..] } else { method };
        write::request_line(head, method, b"", path, None);
        if is_tunnel {
            // Source: RFC 8441 section 5.
            head.extend_from_slice(b"connection: upgrade\r\nupgrade: websocket\r\n");
        }
        if self.authority.is_some() {
            let authority = self.part(self.authority);
            if authority.contains(&b'@') {
                let reason = "user information in :authority";
                return Err(Invalid::Rejected(Rejection::new(400, reason)));
            }
            write::field(head, b"host", authority);
        }
        Ok(())
    }

    /// Ends the head. `end` is true if no body follows.
    pub(super) fn end(&mut self, end: bool) -> Result<(), Invalid> {
        if self.invalid.is_none() && !self.is_begun {
            self.invalid = self.begin().err();
        }
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        if end && self.length.unwrap_or_default() > 0 {
            return Err(Invalid::Malformed);
        }
        if !self.cookies.is_empty() {
            self.head.extend_from_slice(&self.cookies);
            write::end(&mut self.head);
        }
        if !end && self.length.is_none() && !self.is_tunnel() {
            write::transfer_encoding_chunked(&mut self.head);
        }
        write::end(&mut self.head);
        Ok(())
    }
}

/// Writes the trailers of a request as field lines, for `http1::write::last_chunk`. As with chunked bodies, framing,
/// routing and identity fields (everything in [`Known`]) are dropped.
#[derive(Debug, Default)]
pub(super) struct TrailerWriter {
    lines: Vec<u8>,
    /// Size of all fields so far, as in [`HeadWriter`].
    list_bytes: usize,
    invalid: Option<Invalid>,
}

impl TrailerWriter {
    /// The next field. A field after one that is invalid is ignored.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        if self.invalid.is_none() {
            self.invalid = self.write(name, value).err();
        }
    }

    fn write(&mut self, name: &[u8], value: &[u8]) -> Result<(), Invalid> {
        charge(&mut self.list_bytes, name, value)?;
        if !is_value(value) {
            return Err(Invalid::Malformed);
        }
        if regular(name, value)? == Known::Other {
            let len = self.lines.len().saturating_add(name.len()).saturating_add(value.len());
            if len > TRAILER_BYTES_MAX as usize {
                let reason = "trailers are too large";
                return Err(Invalid::Rejected(Rejection::new(431, reason)));
            }
            write::field(&mut self.lines, name, value);
        }
        Ok(())
    }

    /// The lines.
    pub(super) fn end(self) -> Result<Vec<u8>, Invalid> {
        match self.invalid {
            None => Ok(self.lines),
            Some(invalid) => Err(invalid),
        }
    }
}

/// Charges a field before it is examined, since one byte of a block may stand for a field of 4 KiB. Source: RFC 9113
/// section 6.5.2.
#[inline]
fn charge(list_bytes: &mut usize, name: &[u8], value: &[u8]) -> Result<(), Invalid> {
    *list_bytes =
        list_bytes.saturating_add(name.len()).saturating_add(value.len()).saturating_add(32);
    if *list_bytes > HEAD_BYTES_MAX as usize {
        return Err(Invalid::Rejected(TOO_LARGE));
    }
    Ok(())
}

/// Classifies a field other than a pseudo-field. Source: RFC 9113 sections 8.2.1 and 8.2.2.
#[inline]
fn regular(name: &[u8], value: &[u8]) -> Result<Known, Invalid> {
    if !is_lower_token(name) {
        return Err(Invalid::Malformed);
    }
    let known = Known::of(name);
    let is_other_te = known == Known::Te && !value.eq_ignore_ascii_case(b"trailers");
    if CONNECTION_SPECIFIC.contains(known) || is_other_te {
        return Err(Invalid::Malformed);
    }
    Ok(known)
}

const CONNECTION_SPECIFIC: KnownSet = KnownSet::of(&[
    Known::Connection,
    Known::TransferEncoding,
    Known::Upgrade,
    Known::KeepAlive,
    Known::ProxyConnection,
]);

/// Whether `name` is a token without capitals. Has no early exit, so that the compiler can vectorise it.
#[inline]
fn is_lower_token(name: &[u8]) -> bool {
    let class = |byte: u8| LOWER.get(usize::from(byte)).copied().unwrap_or_default();
    !name.is_empty() && name.iter().fold(true, |all, &byte| all & class(byte))
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time"
)]
static LOWER: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let lower = crate::http1::is_tchar(byte as u8) && !(byte as u8).is_ascii_uppercase();
        table[byte] = lower;
        byte += 1;
    }
    table
};

fn length(value: &[u8]) -> Result<u64, Invalid> {
    let digits = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(Invalid::Malformed)
}
