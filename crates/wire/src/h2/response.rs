//! A response's head and trailers, from HTTP/1.1 to HTTP/2. Source: RFC 9113 section 8.

use ::h2::Error;
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};

use crate::http1::{ChunkedDecoder, Field, Rejection, ResponseHead};

/// The head in `buf`, a backend's or our own, as HTTP/2 sends it: names in lower case, hop-by-hop
/// fields dropped, the reason phrase gone.
///
/// # Errors
/// 502 for a field that HTTP/2 cannot carry, and for 101, which it does not have (section 8.6).
pub fn response_parts(head: &ResponseHead, buf: &[u8]) -> Result<Response<()>, Rejection> {
    let mut response = Response::new(());
    *response.version_mut() = Version::HTTP_2;
    *response.status_mut() = match StatusCode::from_u16(head.status()) {
        Ok(status) if status != StatusCode::SWITCHING_PROTOCOLS => status,
        Ok(_) | Err(_) => return Err(Rejection::new(502, "a status that HTTP/2 does not have")),
    };
    *response.headers_mut() = map(head.fields(), buf)?;
    Ok(response)
}

/// Tells a client that waits for it to send its body (`100 Continue`).
///
/// # Errors
/// The client reset the stream or went away, or was answered already.
pub fn send_continue(respond: &mut SendResponse<Bytes>) -> Result<(), Error> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    respond.send_informational(response)
}

/// The trailers of a chunked response, once its decoder has come to the end; none if it had none
/// that may be forwarded.
///
/// # Errors
/// 502 for a field that HTTP/2 cannot carry.
pub fn trailer_map(decoder: &ChunkedDecoder) -> Result<Option<HeaderMap>, Rejection> {
    let fields = decoder.trailer_fields();
    if fields.is_empty() {
        return Ok(None);
    }
    map(fields, decoder.trailers()).map(Some)
}

/// The end-to-end fields of `fields`, which point into `buf`.
fn map(fields: &[Field], buf: &[u8]) -> Result<HeaderMap, Rejection> {
    let rejection = || Rejection::new(502, "a field that HTTP/2 cannot carry");
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields.iter().filter(|field| !field.hop) {
        let name = HeaderName::from_bytes(field.name.of(buf)).map_err(|_| rejection())?;
        let value = HeaderValue::from_bytes(field.value.of(buf)).map_err(|_| rejection())?;
        map.append(name, value);
    }
    Ok(map)
}
