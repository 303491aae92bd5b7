//! base64, URL encoding and UTF-16 places.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648 section 4, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| group.get(place).copied().map_or(0, u32::from);
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            if place > group.len() {
                text.push('=');
                continue;
            }
            let six = (bits >> (18 - 6 * place)) & 63;
            text.push(ALPHABET.get(six as usize).copied().map_or('=', char::from));
        }
    }
    text
}

/// RFC 4648 section 4; `None` for anything else. Padding may be missing, as Java's decoder allows.
pub(crate) fn base64_decode(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if text.len() - body.len() > 2 || body.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(body.len() / 4 * 3 + 2);
    for group in body.as_bytes().chunks(4) {
        let mut bits = 0_u32;
        for letter in group {
            let six = ALPHABET.iter().position(|known| known == letter)?;
            bits = bits << 6 | u32::try_from(six).ok()?;
        }
        bits <<= 6 * (4 - group.len());
        let [_, all @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(all.get(..group.len() - 1)?);
    }
    Some(bytes)
}

/// Percent-encoded UTF-8; unreserved characters stay (RFC 3986 section 2.3).
pub(crate) fn url(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            made.push(char::from(byte));
        } else {
            made.push_str(&format!("%{byte:02X}"));
        }
    }
    made
}

/// Undoes [`url`] and `+`; `None` for a broken escape.
pub(crate) fn url_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after;
            }
            other => bytes.push(other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The byte offset of the `units`-th UTF-16 unit; the text's length when there are fewer.
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
    fn base64_is_that_of_rfc_4648_section_10() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(base64_decode(coded).unwrap(), plain.as_bytes());
        }
        for broken in ["Z", "Zg===", "Zm9v!", "Zm9v\n", "Z==="] {
            assert_eq!(base64_decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn url_encoding_comes_back_and_a_broken_escape_does_not() {
        for text in ["", "a b", "ü/?&=+%", "~_-.", "日本"] {
            assert_eq!(url_decode(&url(text)).unwrap(), text);
        }
        for broken in ["%", "%2", "%zz", "%+1"] {
            assert_eq!(url_decode(broken), None, "{broken}");
        }
    }
}
