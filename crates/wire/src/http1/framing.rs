//! The framing of bodies by Content-Length and Transfer-Encoding. Rejects framing that two implementations could
//! interpret differently, because request smuggling exploits such differences.
//!
//! Source: RFC 9112 section 6.

use base::limits;

use super::fields::Fields;
use super::{Known, Rejection, Side, Version, find, scan};

/// Where a request's body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyFraming {
    #[default]
    None,
    /// The body ends after this many bytes.
    Length(u64),
    /// The body ends with the last chunk and its trailers.
    Chunked,
}

/// Where a response's body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseFraming {
    #[default]
    None,
    /// The body ends after this many bytes.
    Length(u64),
    /// The body ends with the last chunk and its trailers.
    Chunked,
    /// The body ends when the connection closes.
    UntilClose,
}

/// The framing declared by the two fields, before method and status are considered.
///
/// # Errors
/// 400 (502): Content-Length with Transfer-Encoding, either of them repeated, a length that is not
/// pure digits or above `CONTENT_LENGTH_BYTES_MAX`, Transfer-Encoding on HTTP/1.0, malformed or with `chunked` twice.
/// 501 (502): a transfer coding other than `chunked`.
pub(super) fn declared(
    buf: &[u8],
    fields: &Fields,
    version: Version,
    side: Side,
) -> Result<BodyFraming, Rejection> {
    let length = fields.find(Known::ContentLength);
    let coding = fields.find(Known::TransferEncoding);
    match (length, coding) {
        (None, None) => Ok(BodyFraming::None),
        (Some(_), Some(_)) => Err(side.reject(400, "both content-length and transfer-encoding")),
        (Some(length), None) => {
            if fields.has_several(Known::ContentLength) {
                return Err(side.reject(400, "content-length is repeated"));
            }
            let length = decimal(length.value.of(buf))
                .ok_or(side.reject(400, "content-length is not a number"))?;
            if length > limits::CONTENT_LENGTH_BYTES_MAX {
                return Err(side.reject(400, "content-length is too large"));
            }
            Ok(BodyFraming::Length(length))
        }
        (None, Some(coding)) => {
            if fields.has_several(Known::TransferEncoding) {
                return Err(side.reject(400, "transfer-encoding is repeated"));
            }
            if version == Version::Http10 {
                return Err(side.reject(400, "transfer-encoding on HTTP/1.0"));
            }
            chunked(coding.value.of(buf), side)
        }
    }
}

fn chunked(value: &[u8], side: Side) -> Result<BodyFraming, Rejection> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(BodyFraming::Chunked);
    }
    let codings = || value.split(|&byte| byte == b',').map(scan::trim);
    let is_unknown = codings().any(|coding| !coding.eq_ignore_ascii_case(b"chunked"));
    if is_unknown && codings().all(find::is_token) {
        return Err(side.reject(501, "transfer coding is not supported"));
    }
    Err(side.reject(400, "transfer-encoding is not exactly `chunked`"))
}

/// Pure digits, at least one, up to 2^64 - 1.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte & 0x0f))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}
