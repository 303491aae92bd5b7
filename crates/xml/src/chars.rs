//! The character classes of XML 1.0, fifth edition, section 2.2 and 2.3.

pub(crate) const NAME: u8 = 1;
pub(crate) const NAME_START: u8 = 2;
pub(crate) const SPACE: u8 = 4;
pub(crate) const COLON: u8 = 8;
/// A byte of a character above ASCII.
const LONG: u8 = 16;

/// Classes of the ASCII characters. A byte of a longer character has both name bits, and
/// [`is_name_char`] checks the character. The colon has a class of its own: it separates the prefix.
const CLASSES: [u8; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "a byte is below 256, and the compiler runs this")]
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0u8;
    loop {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME | NAME_START,
            0x80..=0xFF => NAME | NAME_START | LONG,
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
fn classes_of(byte: u8) -> u8 {
    CLASSES.get(usize::from(byte)).copied().unwrap_or(0)
}

#[inline]
pub(crate) fn has(byte: u8, class: u8) -> bool {
    classes_of(byte) & class != 0
}

/// A name as written.
pub(crate) struct Written {
    /// Offset in the text of the end of the name.
    pub(crate) end: usize,
    /// The offset of its first colon.
    pub(crate) colon: Option<usize>,
    /// Whether it is a qualified name (Namespaces in XML 1.0, production 7).
    pub(crate) is_qname: bool,
}

/// The name at `at`, which may be empty.
#[inline]
pub(crate) fn written(text: &str, at: usize) -> Written {
    let bytes = text.as_bytes();
    let (mut end, mut colon, mut colons, mut seen) = (at, None, 0_usize, 0);
    // `begins`: the next byte has to be the first of a name.
    let (mut begins, mut is_qname) = (true, true);
    while let Some(&byte) = bytes.get(end) {
        let classes = classes_of(byte);
        if classes & NAME == 0 {
            if classes & COLON == 0 {
                break;
            }
            colon = colon.or(Some(end.wrapping_sub(at)));
            colons = colons.wrapping_add(1);
            is_qname &= !begins;
            begins = true;
        } else if begins {
            is_qname &= classes & NAME_START != 0;
            begins = false;
        }
        seen |= classes;
        end = end.wrapping_add(1);
    }
    is_qname &= !begins && colons <= 1;
    if seen & LONG != 0 {
        let name = text.get(at..end).unwrap_or("");
        is_qname = match name.split_once(':') {
            Some((prefix, local)) => is_ncname(prefix) && is_ncname(local),
            None => is_ncname(name),
        };
    }
    Written { end, colon, is_qname }
}

/// Whether XML 1.0 allows `c` in a document (production 2).
pub(crate) fn is_char(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => true,
        '\u{FFFE}' | '\u{FFFF}' => false,
        _ => c >= ' ',
    }
}

/// Whether `c` may begin a name without colon (production 4).
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

/// Whether `c` may occur in a name without colon (production 4a).
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
    const BLOCK: usize = 64;
    let (blocks, rest) = text.as_bytes().as_chunks::<BLOCK>();
    let illegal = |from: usize, block: &[u8]| {
        let is_illegal = |at: &usize| {
            text.get(*at..).and_then(|rest| rest.chars().next()).is_some_and(|c| !is_char(c))
        };
        let may_be = block.iter().any(|&byte| is_control(byte) || byte == FIRST_OF_NONCHARACTERS);
        let mut all = from..from.saturating_add(block.len());
        if may_be { all.find(is_illegal) } else { None }
    };
    let mut from = 0_usize;
    for block in blocks {
        if is_suspect(block)
            && let Some(found) = illegal(from, block)
        {
            return Some(found);
        }
        from = from.saturating_add(BLOCK);
    }
    // The rest is within the last block, which overlaps another.
    if text.as_bytes().last_chunk::<BLOCK>().is_some_and(|last| !is_suspect(last)) {
        return None;
    }
    // A text shorter than a block is checked in parts of 16 bytes.
    if blocks.is_empty()
        && !is_suspect(rest)
        && rest.last_chunk::<PART>().is_some_and(|last| !is_suspect(last))
    {
        return None;
    }
    illegal(from, rest)
}

/// Whether all bytes are ASCII characters other than controls, except tab and line feed. XML allows all of these, and
/// no line ends need to be normalised.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    // Bytes above ASCII are negative as `i8`. There are no branches, so that many bytes are checked at once.
    let is_other = |byte: u8| {
        u8::from(byte.cast_signed() < 32) & u8::from(byte != b'\n') & u8::from(byte != b'\t')
    };
    let (blocks, rest) = bytes.as_chunks::<64>();
    blocks
        .iter()
        .chain(bytes.last_chunk())
        .all(|block| block.iter().fold(0, |others, &byte| others | is_other(byte)) == 0)
        && (bytes.len() >= 64 || rest.iter().all(|&byte| is_other(byte) == 0))
}

/// The first byte of U+FFFE and U+FFFF.
pub(crate) const FIRST_OF_NONCHARACTERS: u8 = 0xEF;

/// Whether it is a control character other than tab, line feed and carriage return.
fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Bytes that are checked at once.
const PART: usize = 16;

/// Whether the 16-byte parts of `block` contain a control character other than line feed, or the first byte of a
/// character that XML may not allow. There are no branches, so that many bytes are checked at once.
#[inline]
fn is_suspect(block: &[u8]) -> bool {
    // The result of a vector comparison: all bits set, or none.
    let mask = |holds: bool| if holds { u8::MAX } else { 0 };
    let (parts, _) = block.as_chunks::<PART>();
    let mut suspects = [0_u8; PART];
    for part in parts {
        for (suspect, &byte) in suspects.iter_mut().zip(part) {
            let control = mask(byte < b' ') & !mask(byte == b'\n');
            *suspect |= control | mask(byte == FIRST_OF_NONCHARACTERS);
        }
    }
    suspects != [0; PART]
}

#[cfg(test)]
mod tests {
    use super::{first_illegal, is_char, is_plain};

    #[test]
    fn an_illegal_character_is_found_wherever_it_is() {
        for len in 0..200 {
            for (at, c) in
                (0..=len).flat_map(|at| ['\u{1}', '\u{FFFE}', 'é', '\r'].map(|c| (at, c)))
            {
                let mut text = "x\n".repeat(len / 2 + 1);
                text.truncate(len);
                assert!(is_plain(text.as_bytes()), "{text:?}");
                text.insert(at, c);
                assert!(!is_plain(text.as_bytes()), "{c:?} in {text:?}");
                assert_eq!(first_illegal(&text), (!is_char(c)).then_some(at), "{c:?} in {text:?}");
            }
        }
    }
}
