//! The request target: its four forms, the authority, and the normalisation of the path, which is both routed
//! and forwarded.
//!
//! Architecture invariant: a path that is already normalised is not copied, and normalisation is idempotent. Source:
//! RFC 9112 section 3.2, RFC 3986 sections 5.2.4 and 6.2.2.

use std::net::Ipv6Addr;

use base::Method;

use super::{Rejection, Span};

/// The location of the normalised path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Path {
    /// The path as sent, in the head's buffer.
    Sent(Span),
    /// Rewritten, in the head's scratch buffer.
    Changed,
    /// `/`, for an absolute-form without a path.
    #[default]
    Root,
    /// `*`, as in OPTIONS.
    Asterisk,
}

/// A parsed request target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Target {
    /// The authority of the absolute-form, with its default port.
    pub(super) authority: Option<(Span, DefaultPort)>,
    pub(super) path: Path,
    /// See `RequestHead::has_ambiguous_path`.
    pub(super) ambiguous: bool,
    pub(super) query: Option<Span>,
}

/// The default port of an authority's scheme, with the colon.
pub(super) type DefaultPort = &'static [u8];

/// Parses the target at `whole`, whose bytes are visible ASCII without `#`. A rewritten path is stored in
/// `scratch`.
///
/// # Errors
/// 400: a form that the method does not allow, an invalid authority, or an invalid path. 501: CONNECT.
pub(super) fn read(
    buf: &[u8],
    whole: Span,
    method: Method,
    scratch: &mut Vec<u8>,
) -> Result<Target, Rejection> {
    let bytes = whole.of(buf);
    if method == Method::Connect {
        let valid = host_and_port(bytes).is_some_and(|(_, port)| port.is_some());
        return Err(if valid {
            Rejection::new(501, "CONNECT is not supported")
        } else {
            Rejection::bad("target of CONNECT is not host and port")
        });
    }
    match bytes {
        [b'/', ..] => origin_form(buf, whole, scratch),
        b"*" if method == Method::Options => {
            Ok(Target { path: Path::Asterisk, ..Target::default() })
        }
        _ => absolute_form(buf, whole, method, scratch),
    }
}

fn origin_form(buf: &[u8], whole: Span, scratch: &mut Vec<u8>) -> Result<Target, Rejection> {
    let (path, query) = split_query(buf, whole);
    let (path, ambiguous) = normalise(buf, path, scratch)?;
    Ok(Target { authority: None, path, ambiguous, query })
}

fn absolute_form(
    buf: &[u8],
    whole: Span,
    method: Method,
    scratch: &mut Vec<u8>,
) -> Result<Target, Rejection> {
    let bytes = whole.of(buf);
    let (scheme_len, port): (u32, DefaultPort) = if starts_with(bytes, b"http://") {
        (7, b":80")
    } else if starts_with(bytes, b"https://") {
        (8, b":443")
    } else {
        return Err(Rejection::bad("target form is not allowed for the method"));
    };
    let start = whole.start.saturating_add(scheme_len);
    let rest = Span { start, end: whole.end };
    let authority_len = rest.of(buf).iter().take_while(|&&byte| !matches!(byte, b'/' | b'?'));
    let cut = start.saturating_add(u32::try_from(authority_len.count()).unwrap_or(u32::MAX));
    let authority = Span { start, end: cut };
    if !is_authority(authority.of(buf)) {
        return Err(Rejection::bad("authority of the target is invalid"));
    }
    let (path, query) = split_query(buf, Span { start: cut, end: whole.end });
    let (path, ambiguous) = match (path.is_empty(), query) {
        (false, _) => normalise(buf, path, scratch)?,
        // RFC 9112 section 3.2.4: the last proxy sends `*`.
        (true, None) if method == Method::Options => (Path::Asterisk, false),
        (true, _) => (Path::Root, false),
    };
    Ok(Target { authority: Some((authority, port)), path, ambiguous, query })
}

/// Whether `url` has this scheme, an equivalent authority, and a path that is normalised to `path`.
pub(super) fn is_same(url: &[u8], scheme: &[u8], host: &[u8], path: &[u8]) -> bool {
    let end = url.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(url.len());
    let url = url.get(..end).unwrap_or_default();
    let is_scheme = starts_with(url, scheme)
        && url.get(scheme.len()..).is_some_and(|rest| rest.starts_with(b"://"));
    let Ok(end) = u32::try_from(url.len()) else { return false };
    if !is_scheme || !url.iter().all(u8::is_ascii_graphic) {
        return false;
    }
    let (mut scratch, whole) = (Vec::new(), Span { start: 0, end });
    let Ok(target) = absolute_form(url, whole, Method::Get, &mut scratch) else { return false };
    let found = match target.path {
        Path::Sent(span) => span.of(url),
        Path::Changed => &scratch,
        Path::Root => b"/",
        Path::Asterisk => b"*",
    };
    found == path && target.authority.is_some_and(|(at, port)| agree(at.of(url), port, host))
}

fn split_query(buf: &[u8], whole: Span) -> (Span, Option<Span>) {
    let mark = memchr::memchr(b'?', whole.of(buf)).and_then(|at| u32::try_from(at).ok());
    match mark.map(|at| whole.start.saturating_add(at)) {
        None => (whole, None),
        Some(mark) => (
            Span { start: whole.start, end: mark },
            Some(Span { start: mark.saturating_add(1), end: whole.end }),
        ),
    }
}

fn starts_with(bytes: &[u8], start: &[u8]) -> bool {
    bytes.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

// --- the authority ------------------------------------------------------------------------------

/// Whether `bytes` are `host [":" port]`, without user information.
pub(super) fn is_authority(bytes: &[u8]) -> bool {
    host_and_port(bytes).is_some()
}

/// Whether the target's authority and the Host field are equivalent: case is ignored, and the scheme's default
/// port is optional.
pub(super) fn agree(authority: &[u8], default_port: DefaultPort, host: &[u8]) -> bool {
    let bare = |bytes| {
        let (host, port) = host_and_port(bytes)?;
        let port = port.filter(|port| !port.is_empty() && Some(*port) != default_port.get(1..));
        Some((host, port))
    };
    match (bare(authority), bare(host)) {
        (Some((left, left_port)), Some((right, right_port))) => {
            left.eq_ignore_ascii_case(right) && left_port == right_port
        }
        (None, _) | (_, None) => false,
    }
}

/// The host of an authority, with brackets, and the digits of its port. `None` if it is invalid: empty, with
/// characters that no host name has, or a port above 65,535. Percent-escapes and commas, which RFC 3986
/// allows but DNS does not, are rejected, because implementations disagree about them.
fn host_and_port(bytes: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let host_len = match bytes {
        [b'[', ..] => {
            let end = memchr::memchr(b']', bytes)?;
            let literal = std::str::from_utf8(bytes.get(1..end)?).ok()?;
            literal.parse::<Ipv6Addr>().ok()?;
            end.checked_add(1)?
        }
        _ => bytes.iter().take_while(|&&byte| is_host_byte(byte)).count(),
    };
    let (host, rest) = bytes.split_at_checked(host_len)?;
    match rest {
        _ if host.is_empty() => None,
        [] => Some((host, None)),
        [b':', port @ ..] => is_port(port).then_some((host, Some(port))),
        _ => None,
    }
}

fn is_port(digits: &[u8]) -> bool {
    let value = digits.iter().try_fold(0_u32, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte & 0x0f))?;
        Some(value * 10 + digit).filter(|&value| value <= 65_535)
    });
    value.is_some()
}

/// Whether `bytes` are a host name. Source: RFC 3986 section 3.2.2 `reg-name`, without escapes and comma.
#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time"
)]
const HOST_BYTES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let value = byte as u8;
        table[byte] = is_unreserved(value)
            || matches!(
                value,
                b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'='
            );
        byte += 1;
    }
    table
};

fn is_host_byte(byte: u8) -> bool {
    HOST_BYTES.get(usize::from(byte)).copied().unwrap_or_default()
}

// --- the path -----------------------------------------------------------------------------------

/// Resolves dot segments, also escaped ones, and decodes escapes of unreserved characters. Everything else
/// is unchanged. The path at `span` starts with a slash. Also returns whether upstreams may interpret the path
/// differently: see `RequestHead::has_ambiguous_path`.
///
/// # Errors
/// 400: an invalid escape, `%00`, a raw backslash, `..` above the root, or a dot segment with
/// parameters (`..;x`, `..%3bx`), an escaped query or fragment (`..%3fx`, `..%23x`), or next to an
/// escaped separator (`..%2f`), which some servers resolve only after cutting them off or decoding
/// them.
fn normalise(buf: &[u8], span: Span, scratch: &mut Vec<u8>) -> Result<(Path, bool), Rejection> {
    let path = span.of(buf);
    if is_plain(path) {
        return Ok((Path::Sent(span), false));
    }
    if !needs_change(path)? {
        return Ok((Path::Sent(span), is_ambiguous(path)));
    }
    rewrite(path, scratch)?;
    Ok((Path::Changed, true))
}

/// Whether the path has no escape, backslash or semicolon, and no segment that is empty or starts with a dot. Has no
/// early exit, so that the compiler vectorises it.
fn is_plain(path: &[u8]) -> bool {
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    // `.` is 0x2e, `/` is 0x2f.
    let segments = pairs.fold(false, |found, (a, b)| found | (*a == b'/') & ((*b | 1) == b'/'));
    let others =
        path.iter().fold(false, |found, &b| found | (b == b'%') | (b == b'\\') | (b == b';'));
    !(segments | others)
}

/// Whether a normalised path has an empty segment, a parameter or an escaped separator.
fn is_ambiguous(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"//")
        || path.contains(&b';')
        || escaped_separator(path).is_some()
}

/// The position of the first `%2F` or `%5C`.
fn escaped_separator(path: &[u8]) -> Option<usize> {
    path.windows(3).position(|three| matches!(three, b"%2f" | b"%2F" | b"%5c" | b"%5C"))
}

/// Whether normalisation changes anything. Also rejects invalid paths for which [`rewrite`] would not be called.
fn needs_change(path: &[u8]) -> Result<bool, Rejection> {
    let mut rest = path;
    while let Some(at) = memchr::memchr2(b'%', b'\\', rest) {
        let found = rest.get(at..).unwrap_or_default();
        let (byte, len) = unescape(found)?;
        if is_unreserved(byte) {
            return Ok(true);
        }
        rest = found.get(len..).unwrap_or_default();
    }
    let mut changes = false;
    for segment in path.split(|&byte| byte == b'/') {
        changes |= Segment::of(segment)? != Segment::Plain;
    }
    Ok(changes)
}

/// Writes the normalised path to `scratch`.
fn rewrite(path: &[u8], scratch: &mut Vec<u8>) -> Result<(), Rejection> {
    scratch.clear();
    let mut segments = path.get(1..).unwrap_or_default().split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let start = scratch.len();
        scratch.push(b'/');
        decode(segment, scratch)?;
        let decoded = scratch.get(start..).and_then(|bytes| bytes.get(1..)).unwrap_or_default();
        match Segment::of(decoded)? {
            Segment::Plain => continue,
            Segment::Here => scratch.truncate(start),
            Segment::Up => {
                scratch.truncate(start);
                let above = scratch.iter().rposition(|&byte| byte == b'/');
                scratch.truncate(above.ok_or(Rejection::bad("path goes above the root"))?);
            }
        }
        if segments.peek().is_none() {
            scratch.push(b'/');
        }
    }
    Ok(())
}

/// The effect of a decoded segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Segment {
    Plain,
    Here,
    Up,
}

impl Segment {
    #[inline]
    fn of(segment: &[u8]) -> Result<Self, Rejection> {
        match segment {
            b"." => Ok(Self::Here),
            b".." => Ok(Self::Up),
            _ => reject_hidden_dots(segment).map(|()| Self::Plain),
        }
    }
}

/// Rejects segments that other servers may interpret as dot segments: dots followed by parameters, or delimited by an
/// escaped separator.
fn reject_hidden_dots(segment: &[u8]) -> Result<(), Rejection> {
    let mut rest = segment;
    loop {
        let end = escaped_separator(rest);
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        match part {
            [b'.', dots @ ..] if is_cut_off(dots.strip_prefix(b".").unwrap_or(dots)) => {
                return Err(Rejection::bad("dot segment with parameters"));
            }
            b"." | b".." => {
                return Err(Rejection::bad("dot segment next to an escaped separator"));
            }
            _ => {}
        }
        match after.get(b"%2F".len()..) {
            Some(after) => rest = after,
            None => return Ok(()),
        }
    }
}

/// Whether some servers cut off the rest, which begins here: a parameter, also after an escaped semicolon, or, if they
/// decode the path before they split it, a query or a fragment.
fn is_cut_off(rest: &[u8]) -> bool {
    matches!(
        rest,
        [b';', ..] | [b'%', b'3', b'b' | b'B' | b'f' | b'F', ..] | [b'%', b'2', b'3', ..]
    )
}

/// Appends `segment` with its unreserved characters decoded.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Rejection> {
    let mut rest = segment;
    while let Some(at) = memchr::memchr2(b'%', b'\\', rest) {
        let (before, found) = rest.split_at(at);
        out.extend_from_slice(before);
        let (byte, len) = unescape(found)?;
        let (escape, after) = found.split_at_checked(len).unwrap_or((found, &[]));
        if is_unreserved(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(escape);
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Decodes the escape at the start of `bytes`. Returns the byte and the length of the escape.
fn unescape(bytes: &[u8]) -> Result<(u8, usize), Rejection> {
    let [b'%', high, low, ..] = bytes else {
        return Err(Rejection::bad("path has a backslash or an unfinished escape"));
    };
    match (hex(*high), hex(*low)) {
        (Some(0), Some(0)) => Err(Rejection::bad("path has an escaped NUL")),
        (Some(high), Some(low)) => Ok((high << 4 | low, 3)),
        (None, _) | (_, None) => Err(Rejection::bad("path has an invalid escape")),
    }
}

/// The value of a hexadecimal digit.
pub(super) const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Whether a byte is unreserved. Source: RFC 3986 section 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
