//! Conversion of a request's head and trailers from HTTP/2 to HTTP/1.1. Source: RFC 9113 section 8.

use base::limits;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;

use crate::http1::{Known, Rejection, write};

/// Connection-specific fields, which HTTP/2 forbids.
/// Source: RFC 9113 section 8.2.2.
const CONNECTION_SPECIFIC: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Appends the request to `out` as an HTTP/1.1 head, to be validated by `RequestHead::parse`: `:authority`
/// becomes Host, cookies are joined, and a body of unknown length becomes `Transfer-Encoding: chunked`
/// (although its DATA frames have no chunk framing). `end_of_stream`: no body follows.
///
/// `te: trailers` is kept; as a hop-by-hop field it is not forwarded as such. The http crate removes a
/// fragment from `:path`, so that it is neither routed nor forwarded.
///
/// # Errors
/// 400 for a malformed request, 501 for CONNECT. The contents of `out` are then unspecified.
pub fn head_bytes(out: &mut Vec<u8>, parts: &Parts, end_of_stream: bool) -> Result<(), Rejection> {
    let target = target(parts)?;
    let host = host(parts)?;
    check_fields(&parts.headers, end_of_stream)?;
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = host {
        write::field(out, b"host", host);
    }
    for (name, value) in &parts.headers {
        if name != header::HOST && name != header::COOKIE {
            write::field(out, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    cookies(out, &parts.headers);
    if !end_of_stream && !parts.headers.contains_key(header::CONTENT_LENGTH) {
        write::transfer_encoding_chunked(out);
    }
    write::end(out);
    Ok(())
}

/// Appends the field lines of a request's trailers to `out`, for `http1::write::last_chunk`. As
/// with chunked bodies, framing, routing and identity fields (everything in [`Known`]) are dropped.
///
/// # Errors
/// 431 above [`limits::TRAILER_BYTES_MAX`].
pub fn trailer_lines(out: &mut Vec<u8>, trailers: &HeaderMap) -> Result<(), Rejection> {
    let start = out.len();
    for (name, value) in trailers {
        let name = name.as_str().as_bytes();
        if Known::of(name) == Known::Other {
            write::field(out, name, value.as_bytes());
        }
    }
    if out.len() - start > limits::TRAILER_BYTES_MAX as usize {
        return Err(Rejection::new(431, "trailers too large"));
    }
    Ok(())
}

/// `:path`, which must not contain another form of target that the HTTP/1.1 parser would accept.
fn target(parts: &Parts) -> Result<&str, Rejection> {
    if parts.method == http::Method::CONNECT {
        return Err(Rejection::new(501, "CONNECT"));
    }
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    let asterisk = target == "*" && parts.method == http::Method::OPTIONS;
    if !target.starts_with('/') && !asterisk {
        return Err(Rejection::new(400, ":path is not a path"));
    }
    if target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Rejection::new(400, "white space or control character in :path"));
    }
    Ok(target)
}

/// `:authority`, or Host if the client sent none. Source: RFC 9113 section 8.3.1.
fn host(parts: &Parts) -> Result<Option<&[u8]>, Rejection> {
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = hosts.next().map(HeaderValue::as_bytes);
    if hosts.next().is_some() {
        return Err(Rejection::new(400, "more than one Host"));
    }
    let Some(authority) = parts.uri.authority() else {
        return Ok(host);
    };
    if authority.as_str().contains('@') {
        return Err(Rejection::new(400, "user information in :authority"));
    }
    let authority = authority.as_str().as_bytes();
    match host {
        Some(host) if !host.eq_ignore_ascii_case(authority) => {
            Err(Rejection::new(400, ":authority and Host differ"))
        }
        Some(_) | None => Ok(Some(authority)),
    }
}

fn check_fields(headers: &HeaderMap, end_of_stream: bool) -> Result<(), Rejection> {
    if CONNECTION_SPECIFIC.iter().any(|name| headers.contains_key(name)) {
        return Err(Rejection::new(400, "connection-specific field in HTTP/2"));
    }
    if headers.get_all(header::TE).iter().any(|te| !te.as_bytes().eq_ignore_ascii_case(b"trailers"))
    {
        return Err(Rejection::new(400, "TE other than trailers in HTTP/2"));
    }
    let empty = |length: &HeaderValue| length.as_bytes().iter().all(|&digit| digit == b'0');
    if end_of_stream && !headers.get_all(header::CONTENT_LENGTH).iter().all(empty) {
        return Err(Rejection::new(400, "Content-Length without a body"));
    }
    Ok(())
}

/// Joins cookies, which clients may split for better compression, into one field.
/// Source: RFC 9113 section 8.2.3.
fn cookies(out: &mut Vec<u8>, headers: &HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    let Some(first) = cookies.next() else { return };
    out.extend_from_slice(b"cookie: ");
    out.extend_from_slice(first.as_bytes());
    for cookie in cookies {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(cookie.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}
