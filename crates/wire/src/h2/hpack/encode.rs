//! Encoding of header blocks: indexed or literal fields without a dynamic table. Source: RFC 7541 section 6.

use super::table::STATIC;

/// Sets the size of the dynamic table to zero. It has to begin the first block, as the peer may have allowed a smaller
/// table than the default. Source: RFC 7541 section 4.2.
pub(crate) const NO_TABLE: u8 = 0x20;

/// Appends a reference to an entry of one of the tables.
pub(in crate::h2) fn indexed(out: &mut Vec<u8>, index: usize) {
    prefixed(out, 0x80, 7, index);
}

/// How a literal field is represented: its first bits, and the bits left for the index of its name.
type Literal = (u8, u32);
/// A literal that becomes an entry of the dynamic table.
pub(in crate::h2) const ADDED: Literal = (0x40, 6);
pub(in crate::h2) const NOT_ADDED: Literal = (0, 4);

/// Appends a literal field. `known` is the index of an entry with this name.
pub(in crate::h2) fn literal(
    out: &mut Vec<u8>,
    (bits, prefix): Literal,
    known: Option<usize>,
    name: &[u8],
    value: &[u8],
) {
    prefixed(out, bits, prefix, known.unwrap_or(0));
    if known.is_none() {
        integer(out, 7, name.len());
        out.extend_from_slice(name);
    }
    integer(out, 7, value.len());
    out.extend_from_slice(value);
}

/// Appends an `authorization` field with a bearer token, which is never added to a table. Source: RFC 7541 section
/// 7.1.3.
pub(in crate::h2) fn bearer(out: &mut Vec<u8>, token: &[u8]) {
    const AUTHORIZATION: usize = 23;
    const SCHEME: &[u8] = b"Bearer ";
    prefixed(out, 0x10, 4, AUTHORIZATION);
    integer(out, 7, SCHEME.len() + token.len());
    out.extend_from_slice(SCHEME);
    out.extend_from_slice(token);
}

/// Appends the size of the dynamic table.
pub(in crate::h2) fn table_size(out: &mut Vec<u8>, bytes: usize) {
    prefixed(out, NO_TABLE, 5, bytes);
}

/// Appends `value` after the bits before its prefix.
fn prefixed(out: &mut Vec<u8>, bits: u8, prefix: u32, value: usize) {
    let at = out.len();
    integer(out, prefix, value);
    if let Some(first) = out.get_mut(at) {
        *first |= bits;
    }
}

/// Appends the `:status` field.
pub(crate) fn status(out: &mut Vec<u8>, status: u16) {
    const FIRST: u8 = 8;
    let known = [200, 204, 206, 304, 400, 404, 500].iter().position(|known| *known == status);
    if let Some(place) = known.and_then(|place| u8::try_from(place).ok()) {
        out.push(0x80 | (FIRST + place));
        return;
    }
    out.extend_from_slice(&[FIRST, 3]);
    for power in [100, 10, 1] {
        out.push(b'0' + (status / power % 10) as u8);
    }
}

/// Appends a field, with its name in lower case.
#[inline]
pub(crate) fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match static_name(name) {
        Some(index) => integer(out, 4, index),
        None => {
            out.push(0);
            integer(out, 7, name.len());
            let start = out.len();
            out.extend_from_slice(name);
            out.iter_mut().skip(start).for_each(|byte| byte.make_ascii_lowercase());
        }
    }
    integer(out, 7, value.len());
    out.extend_from_slice(value);
}

/// Appends a `content-length` field.
pub(crate) fn length(out: &mut Vec<u8>, length: u64) {
    const CONTENT_LENGTH: usize = 28;
    integer(out, 4, CONTENT_LENGTH);
    // At most 20 digits, so that one byte holds their number.
    let place = out.len();
    out.push(0);
    crate::http1::write::decimal(out, length);
    let digits = out.len() - place - 1;
    if let Some(count) = out.get_mut(place) {
        *count = low(digits);
    }
}

/// Appends `value`; the bits before its prefix are zero. Source: RFC 7541 section 5.1.
#[inline]
fn integer(out: &mut Vec<u8>, prefix: u32, value: usize) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        out.push(low(value));
        return;
    }
    out.push(low(most));
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(low(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low(rest));
}

/// The lowest eight bits.
const fn low(value: usize) -> u8 {
    value.to_le_bytes()[0]
}

/// The index of an entry of the static table with this name, in any case.
fn static_name(name: &[u8]) -> Option<usize> {
    let (from, to) =
        BY_LENGTH.bounds.get(name.len()..)?.first_chunk::<2>().map(|[from, to]| (*from, *to))?;
    let candidates = BY_LENGTH.indices.get(usize::from(from)..usize::from(to))?;
    candidates.iter().map(|index| usize::from(*index)).find(|index| {
        STATIC.get(index - 1).is_some_and(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()))
    })
}

const LONGEST_NAME: usize = 27;

/// The names of ordinary fields in the static table, by length.
struct ByLength {
    indices: [u8; STATIC.len()],
    /// The names of length `n` are at `bounds[n]..bounds[n + 1]` of `indices`.
    bounds: [u8; LONGEST_NAME + 2],
}

static BY_LENGTH: ByLength = by_length();

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated at compile time"
)]
const fn by_length() -> ByLength {
    let mut table = ByLength { indices: [0; STATIC.len()], bounds: [0; LONGEST_NAME + 2] };
    let (mut used, mut length) = (0, 0);
    while length <= LONGEST_NAME {
        table.bounds[length] = used as u8;
        let mut place = 0;
        while place < STATIC.len() {
            let name = STATIC[place].0.as_bytes();
            if name.len() == length && name[0] != b':' {
                table.indices[used] = place as u8 + 1;
                used += 1;
            }
            place += 1;
        }
        length += 1;
    }
    table.bounds[LONGEST_NAME + 1] = used as u8;
    table
}
