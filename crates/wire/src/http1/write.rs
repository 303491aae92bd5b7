//! Serialisation of heads and chunk framing. Everything is appended. Parsed data is not validated again, but no
//! value can end its line.

use super::{Field, KnownSet, find};

const CRLF: &[u8] = b"\r\n";

/// `METHOD SP prefix path [? query] SP HTTP/1.1 CRLF`.
pub fn request_line(
    out: &mut Vec<u8>,
    method: &[u8],
    prefix: &[u8],
    path: &[u8],
    query: Option<&[u8]>,
) {
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(prefix);
    out.extend_from_slice(path);
    if let Some(query) = query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Makes a request line that was just written one of HTTP/1.0.
pub fn as_http10(out: &mut Vec<u8>) {
    debug_assert!(out.ends_with(b" HTTP/1.1\r\n"));
    out.truncate(out.len().saturating_sub(3));
    out.extend_from_slice(b"0\r\n");
}

/// `HTTP/1.1 SP status SP reason CRLF`. An empty `reason` stays empty: see [`reason`].
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    clean(out, reason);
    out.extend_from_slice(CRLF);
}

/// Every field of `fields` (offsets into `buf`) that is neither hop-by-hop nor in `drop`, in order.
pub fn fields(out: &mut Vec<u8>, buf: &[u8], fields: &[Field], drop: KnownSet) {
    fields_where(out, buf, fields, |field| !field.hop && !drop.contains(field.known));
}

/// Every field of `fields` that `keep` accepts, in order. Adjacent fields that are already
/// `name: value CRLF` are copied together.
pub fn fields_where(
    out: &mut Vec<u8>,
    buf: &[u8],
    fields: &[Field],
    mut keep: impl FnMut(&Field) -> bool,
) {
    let mut run = 0..0;
    for field in fields {
        if !keep(field) {
            continue;
        }
        let Some(line) = canonical_line(buf, field) else {
            out.extend_from_slice(buf.get(run).unwrap_or_default());
            run = 0..0;
            self::field(out, field.name.of(buf), field.value.of(buf));
            continue;
        };
        if run.end == line.start {
            run.end = line.end;
        } else {
            out.extend_from_slice(buf.get(run).unwrap_or_default());
            run = line;
        }
    }
    out.extend_from_slice(buf.get(run).unwrap_or_default());
}

/// The range of the field's line, if [`field`] would write exactly this line.
fn canonical_line(buf: &[u8], field: &Field) -> Option<std::ops::Range<usize>> {
    let (start, end) = (field.name.start as usize, field.value.end as usize);
    let between = buf.get(field.name.end as usize..field.value.start as usize)?;
    let after = buf.get(end..end.checked_add(2)?)?;
    (between == b": " && after == CRLF).then(|| start..end.saturating_add(2))
}

/// `name: value CRLF`. A CR, LF or NUL in `value` becomes a space (RFC 9110 section 5.5), so that a
/// value from a policy or a token cannot start another line. `name` must be a token.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    clean(out, value);
    out.extend_from_slice(CRLF);
}

/// `name: number CRLF`.
pub fn field_number(out: &mut Vec<u8>, name: &[u8], number: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    decimal(out, number);
    out.extend_from_slice(CRLF);
}

/// `content-length: len CRLF`.
pub fn content_length(out: &mut Vec<u8>, len: u64) {
    field_number(out, b"content-length", len);
}

/// `transfer-encoding: chunked CRLF`.
pub fn transfer_encoding_chunked(out: &mut Vec<u8>) {
    out.extend_from_slice(b"transfer-encoding: chunked\r\n");
}

/// The empty line that ends a head.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(CRLF);
}

/// The line before a chunk of `len` bytes, which must not be zero: that would end the body.
pub fn chunk_header(out: &mut Vec<u8>, len: u64) {
    debug_assert!(len > 0, "an empty chunk is the last one");
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 16];
    let mut rest = len;
    let mut used = 0;
    for place in text.iter_mut().rev() {
        *place = DIGITS.get((rest & 0x0f) as usize).copied().unwrap_or_default();
        used += 1;
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(text.get(text.len() - used..).unwrap_or_default());
    out.extend_from_slice(CRLF);
}

/// The CRLF after a chunk's payload.
pub fn chunk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(CRLF);
}

/// The last chunk, `trailers` as returned by [`super::ChunkedDecoder::trailers`], and the final CRLF.
pub fn last_chunk(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(CRLF);
}

/// `number` in decimal digits.
pub fn decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends `value` with every CR, LF and NUL as a space.
fn clean(out: &mut Vec<u8>, value: &[u8]) {
    let start = out.len();
    out.extend_from_slice(value);
    if find::has_control(value) {
        let written = out.iter_mut().skip(start);
        written.filter(|byte| matches!(**byte, b'\r' | b'\n' | 0)).for_each(|byte| *byte = b' ');
    }
}

/// The reason phrase of a status; empty if it has none. Source: RFC 9110 section 15, RFC 6585.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
