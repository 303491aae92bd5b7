//! Strict base64url: one text for each byte string. Source: RFC 4648 sections 3.3, 3.5 and 5.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Whether `=` may pad a segment. RFC 7515 section 2 forbids it; WSO2's token generator writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    #[default]
    Rejected,
    /// No padding, or exactly as much as the length requires.
    Allowed,
}

const UNPADDED: GeneralPurpose = engine(DecodePaddingMode::RequireNone);
const PADDED: GeneralPurpose = engine(DecodePaddingMode::RequireCanonical);

/// The engine rejects characters outside the alphabet, and non-zero trailing bits.
const fn engine(mode: DecodePaddingMode) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_allow_trailing_bits(false)
        .with_decode_padding_mode(mode);
    GeneralPurpose::new(&URL_SAFE, config)
}

/// Decodes `text`; `None` if it isn't canonical base64url.
pub(crate) fn decode(text: &[u8], padding: Padding) -> Option<Vec<u8>> {
    let engine = match padding {
        Padding::Allowed if text.ends_with(b"=") => PADDED,
        Padding::Allowed | Padding::Rejected => UNPADDED,
    };
    engine.decode(text).ok()
}

/// A SHA-256 hash; `None` if `text` is not the base64url of 32 bytes.
pub(crate) fn hash(text: &str) -> Option<[u8; 32]> {
    decode(text.as_bytes(), Padding::Rejected)?.try_into().ok()
}

/// `bytes` as base64url without padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    UNPADDED.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_accepted() {
        check("", Some(b""), Some(b""));
        check("Zg", Some(b"f"), Some(b"f"));
        check("Zm8", Some(b"fo"), Some(b"fo"));
        check("Zm9v", Some(b"foo"), Some(b"foo"));
        check("-_-_", Some(b"\xfb\xff\xbf"), Some(b"\xfb\xff\xbf"));
    }

    #[test]
    fn padding_is_accepted_only_if_allowed_and_of_the_right_length() {
        check("Zg==", None, Some(b"f"));
        check("Zm8=", None, Some(b"fo"));
        for wrong in ["Zg=", "Zg===", "Zm8==", "Zm9v=", "Zm9v====", "=", "====", "Z=g=", "Zg==Zg=="]
        {
            check(wrong, None, None);
        }
    }

    #[test]
    fn stray_bits_characters_and_lengths_are_rejected() {
        for wrong in [
            "Zh",
            "Zm9",
            "Z",
            "Zm9vZ",
            "+/+/",
            "Zm 9v",
            "Zm9v\n",
            "\0",
            "Zm9v?",
            "Zg\u{3d}\u{20}",
            "é",
        ] {
            check(wrong, None, None);
        }
    }

    #[track_caller]
    fn check(text: &str, rejected: Option<&[u8]>, allowed: Option<&[u8]>) {
        assert_eq!(decode(text.as_bytes(), Padding::Rejected).as_deref(), rejected, "{text:?}");
        assert_eq!(
            decode(text.as_bytes(), Padding::Allowed).as_deref(),
            allowed,
            "{text:?}, padded"
        );
    }
}
