//! Finds the ends of tokens, targets and field values several bytes at a time.
//!
//! Architecture invariant: each function returns the same result as a loop over the predicate in `scan`, which the
//! tests below and `properties` verify.

use wide::u8x16;

use super::scan;

/// The length of the token at the start of `bytes`, from 0 to all of them.
#[inline]
pub(super) fn token_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| is_tchar(byte)).count()
}

/// The length of a possible field name: the bytes before the first colon. `None` without a colon, or if a control
/// character or a space comes first.
#[inline]
pub(super) fn name_len(line: &[u8]) -> Option<usize> {
    let found = first(line, |block| {
        up_to(block, b' ') | block.simd_eq(u8x16::splat(b':')) | block.simd_eq(u8x16::splat(DELETE))
    })?;
    (line.get(found) == Some(&b':')).then_some(found)
}

/// Whether `bytes` are one token (RFC 9110 section 5.6.2).
#[must_use]
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && token_len(bytes) == bytes.len()
}

/// Whether `bytes` are a field value: without control characters, and without white space around it. Has no early exit,
/// so that the compiler vectorises it.
#[inline]
pub(crate) fn is_value(bytes: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let forbidden = |bad, &byte: &u8| bad | (is_control(byte) & (byte != b'\t'));
    !is_blank(bytes.first()) && !is_blank(bytes.last()) && !bytes.iter().fold(false, forbidden)
}

/// Whether one of `bytes` is a control character.
#[inline]
pub(super) fn has_control(bytes: &[u8]) -> bool {
    first_control(bytes).is_some()
}

/// The position of the first byte, from `from` on, that is not allowed in a field value.
#[inline]
pub(super) fn value_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let found = first_control(bytes.get(at..)?)?;
        at = at.checked_add(found)?;
        if bytes.get(at) != Some(&b'\t') {
            return Some(at);
        }
        at = at.checked_add(1)?;
    }
}

/// Whether `target` has a byte that is not allowed in a request target. Has no early exit, so that the
/// compiler vectorises it.
pub(super) fn has_forbidden_target_byte(target: &[u8]) -> bool {
    target.iter().fold(false, |bad, &byte| bad | (byte <= b' ') | (byte == b'#') | (byte >= 0x7f))
}

/// The position of the first control character.
#[inline]
fn first_control(bytes: &[u8]) -> Option<usize> {
    let (start, rest) = bytes.split_at(bytes.len().min(SHORT));
    match first(start, controls) {
        None if !rest.is_empty() => Some(SHORT + first_control_of_rest(rest)?),
        found => found,
    }
}

/// As [`first_control`] for the rest of a long value, such as a token, in larger steps.
#[inline(never)]
fn first_control_of_rest(bytes: &[u8]) -> Option<usize> {
    let (steps, _) = bytes.as_chunks::<64>();
    let has_none = |step: &&[u8; 64]| {
        let blocks = step.as_chunks().0.iter();
        let found =
            blocks.fold(u8x16::splat(0), |found, block| found | controls(u8x16::new(*block)));
        found.to_bitmask() == 0
    };
    let clean = steps.iter().take_while(has_none).count() * 64;
    Some(clean + first(bytes.get(clean..)?, controls)?)
}

/// Marks the control characters.
#[inline]
fn controls(block: u8x16) -> u8x16 {
    up_to(block, 0x1f) | block.simd_eq(u8x16::splat(DELETE))
}

/// Most values have fewer bytes.
const SHORT: usize = 48;

/// Marks the bytes that are at most `highest`.
#[inline]
fn up_to(block: u8x16, highest: u8) -> u8x16 {
    block.min(u8x16::splat(highest)).simd_eq(block)
}

const DELETE: u8 = 0x7f;

#[inline]
const fn is_control(byte: u8) -> bool {
    byte < b' ' || byte == DELETE
}

/// The position of the first match. `in_block` marks the matching bytes of a block, never a letter.
#[inline]
fn first(bytes: &[u8], in_block: impl Fn(u8x16) -> u8x16) -> Option<usize> {
    let matching = |block| in_block(u8x16::new(block)).to_bitmask();
    let (blocks, rest) = bytes.as_chunks();
    for (index, block) in blocks.iter().enumerate() {
        let found = matching(*block);
        if found != 0 {
            return Some(index * block.len() + found.trailing_zeros() as usize);
        }
    }
    let mut last = [b'x'; 16];
    last.get_mut(..rest.len())?.copy_from_slice(rest);
    let found = matching(last);
    (found != 0).then(|| bytes.len() - rest.len() + found.trailing_zeros() as usize)
}

#[inline]
fn is_tchar(byte: u8) -> bool {
    TCHARS.get(usize::from(byte)).copied().unwrap_or_default()
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time"
)]
const TCHARS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = scan::is_tchar(byte as u8);
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte, at every position in texts of about the size of a word or block.
    #[test]
    fn the_end_of_a_value_is_found_at_any_position() {
        for len in [1, 7, 8, 9, 31, 32, 33, 64, 95, 96, 97, 130, 161] {
            for place in 0..len {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'x'; len];
                    *text.get_mut(place).expect("the position is in range") = byte;
                    let expect = text.iter().position(|&byte| !scan::is_value_byte(byte));
                    assert_eq!(value_end(&text, 0), expect, "{byte:#x} at {place} of {len}");
                    assert_eq!(
                        has_control(&text),
                        is_control(byte),
                        "{byte:#x} at {place} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn neighbours_do_not_affect_each_other() {
        for pair in 0..=u16::MAX {
            for place in 0..7 {
                let mut text = *b"abcdefgh!";
                if let Some(two) = text.get_mut(place..place + 2) {
                    two.copy_from_slice(&pair.to_le_bytes());
                }
                let expect = text.iter().position(|&byte| !scan::is_value_byte(byte));
                assert_eq!(value_end(&text, 0), expect, "{text:x?}");
                let stops = |&byte: &u8| byte <= b' ' || matches!(byte, b':' | 0x7f);
                let name = text.iter().position(stops).filter(|&at| text.get(at) == Some(&b':'));
                assert_eq!(name_len(&text), name, "{text:x?}");
            }
        }
    }

    #[test]
    fn each_byte_is_classified_as_by_scan() {
        for byte in 0..=u8::MAX {
            assert_eq!(is_token(&[byte]), scan::is_tchar(byte), "{byte:#x}");
            assert_eq!(
                has_forbidden_target_byte(&[byte]),
                !scan::is_target_byte(byte),
                "{byte:#x}"
            );
        }
        assert!(!is_token(b""));
        assert_eq!(token_len(b"content-type: x"), 12);
    }
}
