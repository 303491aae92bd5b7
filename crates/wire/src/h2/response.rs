//! Conversion of a response's head and trailers from HTTP/1.1 to HTTP/2. Source: RFC 9113 section 8.

use ::h2::Error;
use ::h2::server::SendResponse;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};

use crate::http1::Rejection;

/// A response head with `fields`, names in any case, and `length` as its Content-Length.
///
/// # Errors
/// 502 for a field or status that HTTP/2 does not allow, such as 101 (section 8.6).
pub fn response_head<'a>(
    status: u16,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    length: Option<u64>,
) -> Result<Response<()>, Rejection> {
    let mut response = Response::new(());
    *response.version_mut() = Version::HTTP_2;
    *response.status_mut() = match StatusCode::from_u16(status) {
        Ok(status) if status != StatusCode::SWITCHING_PROTOCOLS => status,
        Ok(_) | Err(_) => return Err(Rejection::new(502, "status is not allowed in HTTP/2")),
    };
    let headers = response.headers_mut();
    headers.reserve(FIELDS);
    fill(headers, fields)?;
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(response)
}

/// Fields for which a response head has space without growing.
const FIELDS: usize = 16;

/// Sends `100 Continue` to a client that waits to send its body.
///
/// # Errors
/// The client reset the stream or is gone, or the response was already sent.
pub fn send_continue(respond: &mut SendResponse<Bytes>) -> Result<(), Error> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::CONTINUE;
    respond.send_informational(response)
}

/// The trailers of a response, after its end; `None` if there are none. `lines`: as
/// [`crate::http1::ChunkedDecoder::trailers`] returns them.
///
/// # Errors
/// 502 for a field that HTTP/2 does not allow.
pub fn trailer_map(lines: &[u8]) -> Result<Option<HeaderMap>, Rejection> {
    if lines.is_empty() {
        return Ok(None);
    }
    let mut map = HeaderMap::new();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let fields = lines.map(|line| {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        (name, value.get(1..).unwrap_or_default().trim_ascii())
    });
    fill(&mut map, fields)?;
    Ok(Some(map))
}

fn fill<'a>(
    map: &mut HeaderMap,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), Rejection> {
    let rejection = || Rejection::new(502, "field is not allowed in HTTP/2");
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name).map_err(|_| rejection())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| rejection())?;
        map.append(name, value);
    }
    Ok(())
}
