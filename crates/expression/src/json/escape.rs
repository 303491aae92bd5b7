//! Escaping and unescaping of JSON strings.

/// Appends `text` as the content of a JSON string, without quotes. Only quotes, backslashes and control characters
/// are escaped (RFC 8259 section 7).
pub fn push_string_body(into: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        into.extend_from_slice(bytes.get(plain..at).unwrap_or_default());
        push_escape(into, byte);
        plain = at + 1;
    }
    into.extend_from_slice(bytes.get(plain..).unwrap_or_default());
}

/// Appends `text` as a JSON string, quotes included.
pub fn push_quoted(into: &mut Vec<u8>, text: &str) {
    into.push(b'"');
    push_string_body(into, text);
    into.push(b'"');
}

/// The number of bytes that [`push_quoted`] appends.
pub(crate) fn quoted_len(text: &str) -> usize {
    let longer = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + 2 + text.bytes().map(longer).sum::<usize>()
}

fn push_escape(into: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let digit = |of: u8| HEX.get(usize::from(of & 15)).copied().unwrap_or(b'0');
            into.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte)]);
            return;
        }
    };
    into.extend_from_slice(&[b'\\', short]);
}

/// Unescapes the content of a string that the reader accepted.
pub(super) fn unescape(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (letter, after) = escape.split_at_checked(1).unwrap_or_default();
        rest = after;
        match letter {
            "n" => text.push('\n'),
            "r" => text.push('\r'),
            "t" => text.push('\t'),
            "b" => text.push('\u{8}'),
            "f" => text.push('\u{c}'),
            "u" => {
                let (read, used) = unicode(after);
                text.push(read);
                rest = after.get(used..).unwrap_or_default();
            }
            other => text.push_str(other),
        }
    }
    text.push_str(rest);
    text
}

/// The character after `\u` and the length of its escape: 4 bytes, or 10 for a surrogate pair.
fn unicode(digits: &str) -> (char, usize) {
    let unit = |at: usize| digits.get(at..at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let first = unit(0).unwrap_or(0xfffd);
    if (0xd800..0xdc00).contains(&first) {
        let second = unit(6).unwrap_or(0xdc00);
        let both = 0x1_0000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff);
        return (char::from_u32(both).unwrap_or('\u{fffd}'), 10);
    }
    (char::from_u32(first).unwrap_or('\u{fffd}'), 4)
}
