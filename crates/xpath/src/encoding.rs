//! Base64 and URL encoding, as the functions of Synapse need them.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};

/// Padding may be missing, as Java's decoder allows.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The characters that `java.net.URLEncoder` keeps, and the space, which becomes `+`.
const FORM: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*').remove(b' ');

/// Base64 with padding: RFC 4648 section 4.
#[must_use]
pub fn base64_encode(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes base64, with or without padding; none for anything else: RFC 4648 section 4.
#[must_use]
pub fn base64_decode(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Encodes as `java.net.URLEncoder` does: a space becomes `+`; letters, digits and `-._*` are kept.
#[must_use]
pub fn form_encode(bytes: &[u8]) -> String {
    percent_encode(bytes, FORM).to_string().replace(' ', "+")
}

/// Undoes percent-encoding and [`form_encode`]; none if a `%` isn't followed by two hexadecimal digits.
/// Bytes that aren't UTF-8 become U+FFFD.
#[must_use]
pub fn url_decode(text: &str) -> Option<String> {
    let is_escape = |part: &str| {
        part.as_bytes().get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let spaced = text.replace('+', " ");
    Some(Cow::into_owned(percent_decode(spaced.as_bytes()).decode_utf8_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 section 10.
    #[test]
    fn base64_has_the_vectors_of_rfc_4648() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64_encode(plain.as_bytes()), encoded);
            assert_eq!(base64_decode(encoded).unwrap(), plain.as_bytes());
            assert_eq!(base64_decode(encoded.trim_end_matches('=')).unwrap(), plain.as_bytes());
        }
        for invalid in ["Z", "Zg===", "Zm9v!", "Zm9v\n", "Z==="] {
            assert_eq!(base64_decode(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn url_encoding_is_undone_by_decoding() {
        for text in ["", "a b", "ü/?&=+%", "~_-.*", "日本"] {
            assert_eq!(url_decode(&form_encode(text.as_bytes())).unwrap(), text);
        }
        assert_eq!(form_encode("a b*~é".as_bytes()), "a+b*%7E%C3%A9");
        for invalid in ["%", "%2", "%zz", "%+1"] {
            assert_eq!(url_decode(invalid), None, "{invalid}");
        }
    }
}
