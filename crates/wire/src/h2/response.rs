//! Conversion of a response's head and trailers from HTTP/1.1 to HTTP/2. Source: RFC 9113 section 8.

use ::h2::Error;
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};

use crate::http1::{ChunkedDecoder, Field, Rejection, ResponseHead};

/// Converts the head in `buf` to HTTP/2: names in lower case, without hop-by-hop fields and reason phrase.
///
/// # Errors
/// 502 for a field or status that HTTP/2 does not allow, such as 101 (section 8.6).
pub fn response_parts(head: &ResponseHead, buf: &[u8]) -> Result<Response<()>, Rejection> {
    let mut response = Response::new(());
    *response.version_mut() = Version::HTTP_2;
    *response.status_mut() = match StatusCode::from_u16(head.status()) {
        Ok(status) if status != StatusCode::SWITCHING_PROTOCOLS => status,
        Ok(_) | Err(_) => return Err(Rejection::new(502, "status is not allowed in HTTP/2")),
    };
    *response.headers_mut() = map(head.fields(), buf)?;
    Ok(response)
}

/// Sends `100 Continue` to a client that waits to send its body.
///
/// # Errors
/// The client reset the stream or is gone, or the response was already sent.
pub fn send_continue(respond: &mut SendResponse<Bytes>) -> Result<(), Error> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    respond.send_informational(response)
}

/// The trailers of a chunked response, after its end; `None` if there are none to forward.
///
/// # Errors
/// 502 for a field that HTTP/2 does not allow.
pub fn trailer_map(decoder: &ChunkedDecoder) -> Result<Option<HeaderMap>, Rejection> {
    let fields = decoder.trailer_fields();
    if fields.is_empty() {
        return Ok(None);
    }
    map(fields, decoder.trailers()).map(Some)
}

/// The end-to-end fields among `fields`, which are offsets into `buf`.
fn map(fields: &[Field], buf: &[u8]) -> Result<HeaderMap, Rejection> {
    let rejection = || Rejection::new(502, "field is not allowed in HTTP/2");
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields.iter().filter(|field| !field.hop) {
        let name = HeaderName::from_bytes(field.name.of(buf)).map_err(|_| rejection())?;
        let value = HeaderValue::from_bytes(field.value.of(buf)).map_err(|_| rejection())?;
        map.append(name, value);
    }
    Ok(map)
}
