//! The Huffman code of HPACK. It is canonical: the lengths of the codes define it. Source: RFC 7541 section 5.2 and
//! appendix B.

use super::{CompressionError, HUFFMAN};

/// The symbol that ends a string. It never occurs: its first bits are the padding.
const END: usize = 256;
const SYMBOLS: usize = 257;
/// The length in bits of the longest code.
const LONGEST: usize = 30;
/// Codes up to this length are found with one lookup: all letters, digits and most other visible characters.
const SHORT: u32 = 8;

/// The length of each symbol's code, in bits.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Look-up tables for decoding.
struct Tables {
    /// Indexed by the next eight bits: the length of the code in the low byte, and its symbol; 0 if the code is longer.
    short: [u16; 256],
    /// Indexed by length: the bits after the last code of that length, left-aligned in a word.
    ends: [u64; LONGEST + 1],
    /// Indexed by length: the first code, left-aligned, and the place of its symbol in `sorted`.
    firsts: [(u64, u16); LONGEST + 1],
    /// All symbols in the order of their codes.
    sorted: [u16; SYMBOLS],
}

static TABLES: Tables = tables();

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time"
)]
const fn tables() -> Tables {
    let mut tables = Tables {
        short: [0; 256],
        ends: [0; LONGEST + 1],
        firsts: [(0, 0); LONGEST + 1],
        sorted: [0; SYMBOLS],
    };
    let (mut code, mut place, mut length) = (0_u64, 0, 1);
    while length <= LONGEST {
        tables.firsts[length] = (code << (64 - length), place as u16);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as usize == length {
                tables.sorted[place] = symbol as u16;
                place += 1;
                if length <= SHORT as usize {
                    let spare = SHORT as usize - length;
                    let mut rest = 0;
                    while rest < 1 << spare {
                        let index = (code << spare) as usize | rest;
                        tables.short[index] = (symbol as u16) << 8 | length as u16;
                        rest += 1;
                    }
                }
                code += 1;
            }
            symbol += 1;
        }
        // The code of all ones is the last one, and has no bits after it.
        tables.ends[length] = if length == LONGEST { u64::MAX } else { code << (64 - length) };
        code <<= 1;
        length += 1;
    }
    tables
}

/// Appends the decoded string to `out`.
///
/// # Errors
/// The string contains the symbol for its end, or its padding is longer than 7 bits or not all ones.
pub(super) fn decode(out: &mut Vec<u8>, encoded: &[u8]) -> Result<(), CompressionError> {
    let start = out.len();
    // The shortest code has five bits.
    out.resize(start + encoded.len().saturating_mul(8) / 5 + 1, 0);
    let places = out.get_mut(start..).unwrap_or_default();
    let decoded = decode_into(places, encoded);
    out.truncate(start + decoded.unwrap_or_default());
    decoded.map(|_| ())
}

/// Decodes to the front of `places`, and returns the length.
fn decode_into(places: &mut [u8], encoded: &[u8]) -> Result<usize, CompressionError> {
    let len = places.len();
    let mut places = places.iter_mut();
    let mut reader = Bits { rest: encoded, bits: 0, count: 0 };
    loop {
        reader.refill();
        if reader.count >= 4 * SHORT {
            // 32 bits hold four short codes.
            for _ in 0..4 {
                let entry = reader.look_up();
                if entry == 0 {
                    break;
                }
                *places.next().ok_or(HUFFMAN)? = entry.to_be_bytes()[0];
                reader.skip(entry);
            }
            if reader.look_up() != 0 {
                continue;
            }
            reader.refill();
        }
        if reader.is_padding() {
            return Ok(len - places.len());
        }
        *places.next().ok_or(HUFFMAN)? = reader.any()?;
    }
}

/// The bits of a string, from the front.
struct Bits<'a> {
    rest: &'a [u8],
    /// The next bits, left-aligned, and zeros.
    bits: u64,
    count: u32,
}

impl Bits<'_> {
    /// The entry of `Tables::short` for the next code.
    #[inline]
    fn look_up(&self) -> u16 {
        let next = usize::from(self.bits.to_be_bytes()[0]);
        TABLES.short.get(next).copied().unwrap_or_default()
    }

    /// Removes the code of `entry`, whose low byte is its length.
    #[inline]
    fn skip(&mut self, entry: u16) {
        self.bits = self.bits.wrapping_shl(u32::from(entry));
        self.count -= u32::from(entry.to_be_bytes()[1]);
    }

    /// Fills `bits` with at least 32 bits, or with all that are left.
    #[inline]
    fn refill(&mut self) {
        if self.count > 32 {
            return;
        }
        if let Some((word, rest)) = self.rest.split_first_chunk::<4>() {
            self.bits |= u64::from(u32::from_be_bytes(*word)) << (32 - self.count);
            (self.count, self.rest) = (self.count + 32, rest);
            return;
        }
        while let ([byte, rest @ ..], true) = (self.rest, self.count <= 56) {
            self.bits |= u64::from(*byte) << (56 - self.count);
            (self.count, self.rest) = (self.count + 8, rest);
        }
    }

    /// Whether only padding is left: fewer than eight bits, all ones.
    fn is_padding(&self) -> bool {
        self.rest.is_empty() && self.count < 8 && self.bits == !(u64::MAX >> self.count)
    }

    /// The symbol of a code of any length.
    fn any(&mut self) -> Result<u8, CompressionError> {
        for (length, (end, (first, place))) in (0_u32..).zip(TABLES.ends.iter().zip(&TABLES.firsts))
        {
            if length == 0 || self.bits >= *end {
                continue;
            }
            if length > self.count {
                return Err(HUFFMAN);
            }
            let nth = (self.bits - first) >> (64 - length);
            let index = usize::from(*place).saturating_add(usize::try_from(nth).unwrap_or(END));
            let symbol = TABLES.sorted.get(index).copied().ok_or(HUFFMAN)?;
            self.bits <<= length;
            self.count -= length;
            return u8::try_from(symbol).map_err(|_| HUFFMAN);
        }
        Err(HUFFMAN)
    }
}

/// Appends the code of `text` to `out`.
#[cfg(test)]
pub(super) fn encode(out: &mut Vec<u8>, text: &[u8]) {
    let codes = codes();
    let (mut bits, mut count) = (0_u64, 0);
    for &byte in text {
        let (code, length) = codes[usize::from(byte)];
        bits = bits << length | code;
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count).to_le_bytes()[0]);
        }
    }
    if count > 0 {
        out.push((bits << (8 - count)).to_le_bytes()[0] | (0xff >> count));
    }
}

/// The code of each symbol, and its length.
#[cfg(test)]
pub(super) fn codes() -> Vec<(u64, u32)> {
    let mut codes = vec![(0, 0); SYMBOLS];
    for (length, (first, place)) in (0_u32..).zip(&TABLES.firsts).skip(1) {
        let symbols = TABLES.sorted[usize::from(*place)..].iter();
        let symbols =
            symbols.take_while(|symbol| u32::from(LENGTHS[usize::from(**symbol)]) == length);
        for (nth, symbol) in (0..).zip(symbols) {
            codes[usize::from(*symbol)] = ((first >> (64 - length)) + nth, length);
        }
    }
    codes
}
