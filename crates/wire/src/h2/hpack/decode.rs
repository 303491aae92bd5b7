//! Decoding of header blocks. Source: RFC 7541 sections 5 and 6.

use base::limits::H2_TABLE_BYTES_MAX;

use super::table::{DynamicTable, STATIC};
use super::{CompressionError, huffman};

/// The state of one direction of a connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: DynamicTable,
    /// The name of the current field, if it is neither in a table nor literally in the block; the value likewise.
    name: Vec<u8>,
    value: Vec<u8>,
    token: Token,
    /// The last short value of each name in the static table, by its index; empty unless values are remembered.
    remembered: Vec<Token>,
}

/// A value, encoded and decoded. Clients send the same token with each request, and keep it out of the dynamic table;
/// some servers send the same fields with each response.
#[derive(Debug, Default)]
struct Token {
    code: Vec<u8>,
    value: Vec<u8>,
}

impl Token {
    /// The shortest code that counts as long, in bytes.
    const CODE_BYTES_MIN: usize = 128;

    /// Decodes `code`, unless it is the same as before.
    fn decode(&mut self, code: &[u8]) -> Result<&[u8], CompressionError> {
        if self.code != code {
            self.code.clear();
            self.value.clear();
            huffman::decode(&mut self.value, code)?;
            self.code.extend_from_slice(code);
        }
        Ok(&self.value)
    }
}

/// Memory that is kept for the next field, in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024;

const SHORT: CompressionError = CompressionError("the block ends within a field");
const INDEX: CompressionError = CompressionError("no entry has this index");
const INTEGER: CompressionError = CompressionError("the integer is too large");
const RESIZED: CompressionError = CompressionError("invalid size of the dynamic table");

/// How a literal field is represented.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indexing {
    Added,
    None,
}

/// A string in a block.
enum Text<'a> {
    /// A text that is not encoded.
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The string, decoded into `scratch` if necessary.
    #[inline]
    fn resolve(self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], CompressionError> {
        match self {
            Self::Plain(text) => Ok(text),
            Self::Huffman(code) => {
                scratch.clear();
                huffman::decode(scratch, code)?;
                Ok(scratch)
            }
        }
    }
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self {
            table: DynamicTable::new(H2_TABLE_BYTES_MAX),
            name: Vec::new(),
            value: Vec::new(),
            token: Token::default(),
            remembered: Vec::new(),
        }
    }

    /// Remembers the last short value of each name in the static table, so that a repeated value is decoded once, for
    /// peers that send few different fields. The values take at most some 26 KiB.
    pub(crate) fn remembering(mut self) -> Self {
        self.remembered.resize_with(STATIC.len(), Token::default);
        self
    }

    /// Passes each field of a complete block to `each`: name and value.
    ///
    /// # Errors
    /// The block is not valid; no further block of this connection can be decoded.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), CompressionError> {
        let mut rest = block;
        let mut begun = false;
        while let Some(&first) = rest.first() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                let (name, value) = lookup(&self.table, index)?;
                each(name, value);
            } else if first & 0x40 != 0 {
                self.literal(&mut rest, 6, Indexing::Added, &mut each)?;
            } else if first & 0x20 != 0 {
                let size = integer(&mut rest, 5)?;
                // Source: RFC 7541 section 4.2.
                if begun || size > H2_TABLE_BYTES_MAX {
                    return Err(RESIZED);
                }
                self.table.resize(size);
                continue;
            } else {
                self.literal(&mut rest, 4, Indexing::None, &mut each)?;
            }
            begun = true;
        }
        for scratch in [&mut self.name, &mut self.value, &mut self.token.value] {
            if scratch.capacity() > KEPT_BYTES_MAX {
                *scratch = Vec::new();
                self.token.code = Vec::new();
            }
        }
        Ok(())
    }

    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        indexing: Indexing,
        each: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), CompressionError> {
        let index = integer(rest, prefix)?;
        let place = index.checked_sub(1);
        let name = if index == 0 {
            text(rest)?.resolve(&mut self.name)?
        } else if let Some((name, _)) = place.and_then(|place| STATIC.get(place)) {
            name.as_bytes()
        } else {
            let (name, _) = lookup(&self.table, index)?;
            // Adding the field may evict the entry.
            self.name.clear();
            self.name.extend_from_slice(name);
            &self.name
        };
        let remembered = place.and_then(|place| self.remembered.get_mut(place));
        let value = value(rest, &mut self.value, &mut self.token, remembered)?;
        each(name, value);
        if indexing == Indexing::Added {
            self.table.insert(name, value);
        }
        Ok(())
    }

    /// The size of the dynamic table, and its bytes in memory.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn table_bytes(&self) -> (usize, usize) {
        (self.table.size(), self.table.held())
    }
}

fn lookup(table: &DynamicTable, index: usize) -> Result<(&[u8], &[u8]), CompressionError> {
    let place = index.checked_sub(1).ok_or(INDEX)?;
    if let Some((name, value)) = STATIC.get(place) {
        return Ok((name.as_bytes(), value.as_bytes()));
    }
    table.get(place - STATIC.len()).ok_or(INDEX)
}

/// Reads an integer of which the first byte holds `prefix` bits. Source: RFC 7541 section 5.1.
#[inline]
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, CompressionError> {
    let (&first, after) = rest.split_first().ok_or(SHORT)?;
    *rest = after;
    let most = (1_u32 << prefix) - 1;
    let mut value = u32::from(first) & most;
    if value < most {
        return Ok(value as usize);
    }
    // Four more bytes hold 28 bits, far more than a block has.
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(SHORT)?;
        *rest = after;
        value += u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value as usize);
        }
    }
    Err(INTEGER)
}

/// The value of a literal field. `remembered` is the last short value of this name, if values are remembered.
#[inline]
fn value<'a, 'b: 'a>(
    rest: &mut &'b [u8],
    scratch: &'a mut Vec<u8>,
    token: &'a mut Token,
    remembered: Option<&'a mut Token>,
) -> Result<&'a [u8], CompressionError> {
    match (text(rest)?, remembered) {
        (Text::Huffman(code), _) if code.len() >= Token::CODE_BYTES_MIN => token.decode(code),
        (Text::Huffman(code), Some(remembered)) => remembered.decode(code),
        (text @ (Text::Plain(_) | Text::Huffman(_)), _) => text.resolve(scratch),
    }
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<Text<'a>, CompressionError> {
    let is_huffman = rest.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer(rest, 7)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(SHORT)?;
    *rest = after;
    Ok(if is_huffman { Text::Huffman(bytes) } else { Text::Plain(bytes) })
}
