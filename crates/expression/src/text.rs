//! base64, URL encoding and UTF-16 offsets as Java has them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// RFC 4648 section 4. Like Java's decoder it accepts missing padding and non-zero trailing bits.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What `java.net.URLEncoder` leaves as it is, without `*`; a blank becomes `%20`.
const URL_ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// What FreeMarker's `?url` leaves as it is.
const FREEMARKER_URL_ENCODED: &AsciiSet =
    &URL_ENCODED.remove(b'!').remove(b'~').remove(b'\'').remove(b'(').remove(b')').remove(b'*');

pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(crate) fn base64_decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Length of [`base64_encode`]'s result.
pub(crate) fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

pub(crate) fn url_encode(text: &str) -> String {
    utf8_percent_encode(text, URL_ENCODED).to_string()
}

pub(crate) fn freemarker_url_encode(text: &str) -> String {
    utf8_percent_encode(text, FREEMARKER_URL_ENCODED).to_string()
}

/// Like `java.net.URLDecoder`: `+` is a blank; `None` for a malformed escape.
pub(crate) fn url_decode(text: &str) -> Option<String> {
    let is_escape = |after: &str| {
        after.as_bytes().first_chunk::<2>().is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let spaced = text.replace('+', " ");
    Some(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

/// The byte offset of the `units`-th UTF-16 unit; the text's length if it has fewer.
pub(crate) fn utf16_offset(text: &str, units: usize) -> usize {
    let mut seen = 0;
    for (at, character) in text.char_indices() {
        if seen >= units {
            return at;
        }
        seen += character.len_utf16();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_decodes_what_java_decodes() {
        for (coded, plain) in [("Zg==", "f"), ("Zg", "f"), ("Zm9vYmE=", "fooba"), ("Zh==", "f")] {
            assert_eq!(base64_decode(coded).unwrap(), plain.as_bytes(), "{coded}");
        }
        for malformed in ["Z", "Zg===", "Zm9v!", "Zm9v\n", "Z==="] {
            assert_eq!(base64_decode(malformed), None, "{malformed}");
        }
        assert_eq!(base64_encode(b"foob").len(), base64_len(4));
    }

    #[test]
    fn url_encoding_round_trips_and_a_malformed_escape_is_rejected() {
        for text in ["", "a b", "ü/?&=+%", "~_-.", "日本"] {
            assert_eq!(url_decode(&url_encode(text)).unwrap(), text);
        }
        for malformed in ["%", "%2", "%zz", "%+1", "a%2"] {
            assert_eq!(url_decode(malformed), None, "{malformed}");
        }
    }
}
