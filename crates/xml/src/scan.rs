//! Finds the next significant byte, eight at a time: most texts and values are too short for memchr.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// The top bit of each byte that equals `byte`; above the lowest hit there may be false ones.
#[inline]
fn hits(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES.wrapping_mul(u64::from(byte)));
    zero.wrapping_sub(ONES) & !zero & TOPS
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
    hits(word, b'<') | hits(word, b'&') | hits(word, b']')
}

/// As [`text`] from the beginning on, for texts that are mostly short.
#[inline]
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
    // A comment ends like this, too.
    if local.ends_with('-') {
        return None;
    }
    let before = source.strip_suffix('>')?.trim_end_matches(SPACE).strip_suffix(local)?;
    let tag = before.as_bytes().iter().rposition(|byte| *byte == b'<')?;
    before.get(tag..)?.starts_with("</").then_some(source.len())
}

/// The end of the element whose start tag is at `at`, in a document that was read. `None` in anything else.
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
        at = find(bytes, at, |word| hits(word, b'<'), |byte| byte == b'<');
    }
}

/// The end of the start tag at `at`.
fn tag_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find(
            bytes,
            at,
            |word| hits(word, b'>') | hits(word, b'"') | hits(word, b'\''),
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
    let found = find(bytes, at, |word| hits(word, wanted), |byte| byte == wanted);
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
        |word| {
            hits(word, quote)
                | hits(word, b'<')
                | hits(word, b'&')
                | hits(word, b'\n')
                | hits(word, b'\t')
        },
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

/// Bytes that a [`Closed`] compares.
pub(crate) const WINDOW: usize = 16;

/// A name with the `>` after it as one number, so that one comparison finds it in a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closed {
    word: u128,
    /// The significant bytes; none if it matches nothing.
    mask: u128,
}

/// Of at most 15 bytes.
fn bits(bytes: usize) -> u32 {
    crate::names::number(bytes).wrapping_mul(8)
}

impl Closed {
    /// Matches nothing.
    pub(crate) const NEVER: Self = Self { word: 1, mask: 0 };

    /// A name longer than 15 bytes matches nothing.
    pub(crate) fn new(name: &str) -> Self {
        let bytes = name.as_bytes();
        let Some(left) = WINDOW.checked_sub(bytes.len().saturating_add(1)) else {
            return Self::NEVER;
        };
        // Both words may have some of the bytes.
        let word = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) => {
                let last = u128::from(u64::from_le_bytes(*last));
                u128::from(u64::from_le_bytes(*first)) | last << bits(bytes.len().wrapping_sub(8))
            }
            _ => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte)),
        };
        let close = u128::from(b'>') << bits(bytes.len());
        Self { word: word | close, mask: u128::MAX.wrapping_shr(bits(left)) }
    }

    /// Whether `window` begins with the name and `>`.
    #[inline]
    pub(crate) fn fits(&self, window: &[u8; WINDOW]) -> bool {
        u128::from_le_bytes(*window) & self.mask == self.word
    }
}

/// A search in a text that grows at its end, which visits each byte once.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// There is no match before.
    pub(crate) from: usize,
}

impl Search {
    /// The first `needle`; the next search continues from there.
    pub(crate) fn find(&mut self, bytes: &[u8], needle: &[u8]) -> Option<usize> {
        let fresh = bytes.get(self.from..)?;
        let found = memchr::memmem::find(fresh, needle);
        self.from = match found {
            Some(offset) => self.from.saturating_add(offset),
            // The end may have its beginning.
            None => {
                let behind = bytes.len().saturating_sub(needle.len().saturating_sub(1));
                self.from.max(behind)
            }
        };
        found.map(|_| self.from)
    }
}
