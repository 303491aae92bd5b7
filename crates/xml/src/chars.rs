//! The character classes of XML 1.0, fifth edition, section 2.2 and 2.3.

pub(crate) const NAME: u8 = 1;
pub(crate) const NAME_START: u8 = 2;
pub(crate) const SPACE: u8 = 4;
pub(crate) const COLON: u8 = 8;

/// Classes of the ASCII characters. A byte of a longer character has both name bits, and
/// [`is_name_char`] checks the character. The colon has a class of its own: it separates the prefix.
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
            b':' => COLON,
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
    let (blocks, rest) = text.as_bytes().as_chunks::<32>();
    let illegal = |from: usize, len: usize| {
        let is_illegal = |at: &usize| {
            text.get(*at..).and_then(|rest| rest.chars().next()).is_some_and(|c| !is_char(c))
        };
        (from..from.saturating_add(len)).find(is_illegal)
    };
    let mut from = 0_usize;
    for block in blocks {
        if may_have_illegal(block)
            && let Some(found) = illegal(from, block.len())
        {
            return Some(found);
        }
        from = from.saturating_add(block.len());
    }
    if may_have_illegal(rest) { illegal(from, rest.len()) } else { None }
}

/// Whether there is a control character other than tab, line feed and carriage return, or the first byte of a character
/// that XML may not allow. Without branches, so that many bytes are checked at once.
#[inline]
fn may_have_illegal(block: &[u8]) -> bool {
    let suspects = block.iter().fold(0_u8, |suspects, &byte| {
        let is_control = (byte < 0x20) & (byte.wrapping_sub(9) > 1) & (byte != 13);
        suspects | u8::from(is_control) | u8::from(byte == 0xEF)
    });
    suspects != 0
}
