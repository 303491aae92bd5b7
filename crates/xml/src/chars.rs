//! The character classes of XML 1.0, fifth edition, section 2.2 and 2.3.

pub(crate) const NAME: u8 = 1;
pub(crate) const NAME_START: u8 = 2;
pub(crate) const SPACE: u8 = 4;

/// Classes of the ASCII characters. A byte of a longer character has both name bits, and
/// [`is_name_char`] checks the character. The colon has none: it separates the prefix.
const CLASSES: [u8; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "a byte is below 256, and the compiler runs this")]
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0u8;
    loop {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xFF => NAME | NAME_START,
            b'0'..=b'9' | b'-' | b'.' => NAME,
            b' ' | b'\t' | b'\n' | b'\r' => SPACE,
            _ => 0,
        };
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

#[inline]
pub(crate) fn has(byte: u8, class: u8) -> bool {
    CLASSES.get(usize::from(byte)).is_some_and(|classes| classes & class != 0)
}

/// Production 2.
pub(crate) fn is_char(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => true,
        '\u{FFFE}' | '\u{FFFF}' => false,
        _ => c >= ' ',
    }
}

/// Production 4 without the colon.
pub(crate) fn is_name_start(c: char) -> bool {
    match c {
        'a'..='z' | 'A'..='Z' | '_' => true,
        '\u{C0}'..='\u{2FF}' => c != '\u{D7}' && c != '\u{F7}',
        '\u{370}'..='\u{1FFF}' => c != '\u{37E}',
        '\u{200C}'..='\u{200D}'
        | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}'
        | '\u{F900}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}' => true,
        _ => false,
    }
}

/// Production 4a without the colon.
pub(crate) fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Whether `text` is a name without colon (Namespaces in XML 1.0, production 4).
#[must_use]
pub fn is_ncname(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.iter().all(|&byte| byte.is_ascii() && has(byte, NAME)) {
        return bytes.first().is_some_and(|&byte| has(byte, NAME_START));
    }
    let mut chars = text.chars();
    chars.next().is_some_and(is_name_start) && chars.all(is_name_char)
}

/// Whether XML 1.0 allows all characters of `text`.
#[must_use]
pub fn is_text(text: &str) -> bool {
    first_illegal(text).is_none()
}

/// The offset of the first character that XML doesn't allow.
pub(crate) fn first_illegal(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut base = 0usize;
    for block in bytes.chunks(64) {
        let suspect = block.iter().fold(false, |suspect, &byte| {
            suspect | ((byte < 0x20) & (byte != 9) & (byte != 10) & (byte != 13)) | (byte == 0xEF)
        });
        if suspect
            && let Some(found) = (base..base.saturating_add(block.len())).find(|&at| {
                text.get(at..).and_then(|t| t.chars().next()).is_some_and(|c| !is_char(c))
            })
        {
            return Some(found);
        }
        base = base.saturating_add(block.len());
    }
    None
}
