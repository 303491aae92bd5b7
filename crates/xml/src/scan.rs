//! Finds the next significant byte, eight at a time: most texts and values are too short for memchr.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Sets the top bit of each byte of `word` that is in `bytes`, which are ASCII. Bits above the lowest hit may be wrong.
#[inline(always)]
fn hits<const N: usize>(word: u64, bytes: [u8; N]) -> u64 {
    // A wanted byte becomes zero, and the subtraction sets its top bit.
    let below = |byte: u8| (word ^ ONES.wrapping_mul(u64::from(byte))).wrapping_sub(ONES);
    bytes.into_iter().fold(0, |all, byte| all | below(byte)) & !word & TOPS
}

#[inline]
fn find(
    bytes: &[u8],
    mut at: usize,
    wanted: impl Fn(u64) -> u64,
    one: impl Fn(u8) -> bool,
) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let found = wanted(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at.wrapping_add((found.trailing_zeros() >> 3) as usize);
        }
        at = at.wrapping_add(8);
    }
    while let Some(&byte) = bytes.get(at) {
        if one(byte) {
            return at;
        }
        at = at.wrapping_add(1);
    }
    bytes.len()
}

/// The next `<`, `&` or `]`, or the end.
#[inline]
pub(crate) fn text(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, of_text, |byte| matches!(byte, b'<' | b'&' | b']'))
}

#[inline]
fn of_text(word: u64) -> u64 {
    hits(word, [b'<', b'&', b']'])
}

/// As [`text`] from the beginning on, for texts that are mostly short.
#[inline(always)]
pub(crate) fn short_text(bytes: &[u8]) -> usize {
    let Some(chunk) = bytes.first_chunk() else { return text(bytes, 0) };
    match of_text(u64::from_le_bytes(*chunk)) {
        0 => text(bytes, chunk.len()),
        found => (found.trailing_zeros() >> 3) as usize,
    }
}

/// The end of the document element, if its end tag is the last markup of the document.
pub(crate) fn end_of_last(source: &str, local: &str) -> Option<usize> {
    const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
    let source = source.trim_end_matches(SPACE);
    // A comment ends like this too.
    if local.ends_with('-') {
        return None;
    }
    let before = source.strip_suffix('>')?.trim_end_matches(SPACE).strip_suffix(local)?;
    let tag = before.as_bytes().iter().rposition(|byte| *byte == b'<')?;
    before.get(tag..)?.starts_with("</").then_some(source.len())
}

/// The end of the element whose start tag is at `at`, in a well-formed document. `None` in other text.
pub(crate) fn element_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        at = match bytes.get(at.checked_add(1)?)? {
            b'/' => {
                depth = depth.checked_sub(1)?;
                behind(bytes, at, b'>')?
            }
            b'?' => behind_mark(bytes, at, b"?>")?,
            b'!' if bytes.get(at.checked_add(2)?) == Some(&b'-') => {
                behind_mark(bytes, at.checked_add(4)?, b"-->")?
            }
            b'!' => behind_mark(bytes, at, b"]]>")?,
            _ => {
                let end = tag_end(bytes, at)?;
                let is_empty = bytes.get(at..end)?.ends_with(b"/>");
                depth = depth.checked_add(usize::from(!is_empty))?;
                end
            }
        };
        if depth == 0 {
            return Some(at);
        }
        at = find(bytes, at, |word| hits(word, [b'<']), |byte| byte == b'<');
    }
}

/// The end of the start tag at `at`.
fn tag_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find(
            bytes,
            at,
            |word| hits(word, [b'>', b'"', b'\'']),
            |byte| matches!(byte, b'>' | b'"' | b'\''),
        );
        match *bytes.get(at)? {
            b'>' => return at.checked_add(1),
            quote => at = behind(bytes, at.checked_add(1)?, quote)?,
        }
    }
}

/// The place behind the next `wanted`.
fn behind(bytes: &[u8], at: usize, wanted: u8) -> Option<usize> {
    let found = find(bytes, at, |word| hits(word, [wanted]), |byte| byte == wanted);
    if found < bytes.len() { found.checked_add(1) } else { None }
}

/// The place behind the next `mark`.
fn behind_mark(bytes: &[u8], at: usize, mark: &[u8]) -> Option<usize> {
    let found = memchr::memmem::find(bytes.get(at..)?, mark)?;
    at.checked_add(found)?.checked_add(mark.len())
}

/// The next quote, `<`, `&`, tab or line feed in an attribute's value, or the end.
#[inline]
pub(crate) fn value(bytes: &[u8], at: usize, quote: u8) -> usize {
    find(
        bytes,
        at,
        |word| hits(word, [quote, b'<', b'&', b'\n', b'\t']),
        |byte| byte == quote || matches!(byte, b'<' | b'&' | b'\n' | b'\t'),
    )
}

/// As [`value`] in the replacement text of an entity, which may contain carriage returns: those of
/// character references (section 4.5). The source itself has none, its line ends are normalised.
#[inline]
pub(crate) fn value_in_entity(bytes: &[u8], at: usize, quote: u8) -> usize {
    let stop = value(bytes, at, quote);
    let passed = bytes.get(at..stop).unwrap_or(&[]);
    memchr::memchr(b'\r', passed).map_or(stop, |offset| at.wrapping_add(offset))
}

/// The longest name that a [`Closed`] finds, in bytes.
pub(crate) const CLOSED_BYTES_MAX: usize = 2 * WINDOW - 1;
/// Bytes that are compared at once.
const WINDOW: usize = 16;

/// A name with the `>` after it, so that one comparison finds it in a document, and two find a long name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    /// The first bytes.
    first: [u8; WINDOW],
    /// The mask of the significant bytes if the name and its `>` fit into `first`, otherwise the last bytes of the
    /// name.
    other: [u8; WINDOW],
}

/// Whether the bytes that `mask` selects equal the wanted ones. There are no branches, so that all are compared at
/// once.
#[inline(always)]
fn is_it<const N: usize>(bytes: &[u8; N], wanted: &[u8; N], mask: &[u8; N]) -> bool {
    let all = bytes.iter().zip(wanted).zip(mask);
    all.fold(0, |differs, ((&byte, &wanted), &mask)| differs | (byte & mask) ^ wanted) == 0
}

impl Closed {
    /// Finds nothing, with a length of 0 or above [`CLOSED_BYTES_MAX`].
    pub(crate) const NEVER: Self = Self { first: [1; WINDOW], other: [0; WINDOW] };

    pub(crate) fn new(name: &str) -> Self {
        let (mut first, mut other) = ([0; WINDOW], [0; WINDOW]);
        let closed = name.bytes().chain([b'>']);
        for ((place, mask), byte) in first.iter_mut().zip(&mut other).zip(closed) {
            (*place, *mask) = (byte, u8::MAX);
        }
        if let Some(last) = name.as_bytes().last_chunk::<{ WINDOW - 1 }>()
            && name.len() >= WINDOW
        {
            other = [b'>'; WINDOW];
            other.iter_mut().zip(last).for_each(|(place, byte)| *place = *byte);
        }
        if name.len() <= CLOSED_BYTES_MAX { Self { first, other } } else { Self::NEVER }
    }

    /// Whether `text` begins with the name, which has `len` bytes, and `>`.
    #[inline(always)]
    pub(crate) fn fits(&self, len: usize, text: &[u8]) -> bool {
        let Some(first) = text.first_chunk() else { return false };
        if len < WINDOW {
            is_it(first, &self.first, &self.other)
        } else {
            *first == self.first && last(len, text) == Some(&self.other)
        }
    }

    /// Whether `text` begins with the name, which has `len` bytes. Any byte may follow.
    #[inline]
    pub(crate) fn begins(&self, len: usize, text: &[u8]) -> bool {
        let Some(first) = text.first_chunk::<WINDOW>() else { return false };
        let number = |bytes: &[u8; WINDOW]| u128::from_le_bytes(*bytes);
        let (differs, other) = (number(first) ^ number(&self.first), number(&self.other));
        match len {
            0 => false,
            1..WINDOW => differs & (other >> 8) == 0,
            _ => {
                differs == 0 && last(len, text).is_some_and(|last| (number(last) ^ other) << 8 == 0)
            }
        }
    }
}

/// The last bytes of a name of `len` bytes, and the one after it.
#[inline]
fn last(len: usize, text: &[u8]) -> Option<&[u8; WINDOW]> {
    let start = len.checked_sub(WINDOW - 1).filter(|_| len <= CLOSED_BYTES_MAX)?;
    text.get(start..)?.first_chunk()
}

/// A search in a text that grows at its end, which visits each byte once.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// No match begins before this offset.
    pub(crate) from: usize,
}

impl Search {
    /// The first `needle`; the next search continues from there.
    pub(crate) fn find(&mut self, bytes: &[u8], needle: &[u8]) -> Option<usize> {
        let fresh = bytes.get(self.from..)?;
        let found = memchr::memmem::find(fresh, needle);
        self.from = match found {
            Some(offset) => self.from.saturating_add(offset),
            // The text may end with the beginning of the needle.
            None => {
                let behind = bytes.len().saturating_sub(needle.len().saturating_sub(1));
                self.from.max(behind)
            }
        };
        found.map(|_| self.from)
    }
}
