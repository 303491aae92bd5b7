//! Elements of ASN.1 in BER, of which DER is a part. Source: X.690 section 8.1.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OID: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The reason why an element cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Incomplete,
    Malformed,
}

/// The first element of `bytes`, as tag and contents, and the bytes after it.
pub(super) fn next(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Broken> {
    let [tag, first, rest @ ..] = bytes else { return Err(Broken::Incomplete) };
    // Tag numbers from 31 on take more bytes; none is expected here.
    if tag & 0x1f == 0x1f {
        return Err(Broken::Malformed);
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let digits = rest.split_at_checked(usize::from(first & 0x7f));
            let (digits, rest) = digits.ok_or(Broken::Incomplete)?;
            let number = |high: usize, digit: &u8| (high << 8) | usize::from(*digit);
            (digits.iter().fold(0, number), rest)
        }
        // The indefinite form, and lengths of 4 GiB and more.
        0x80 | 0x85..=0xff => return Err(Broken::Malformed),
    };
    let (contents, rest) = rest.split_at_checked(length).ok_or(Broken::Incomplete)?;
    Ok((*tag, contents, rest))
}

/// The contents of the first element, which must have this tag, and the bytes after it.
pub(super) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, contents, rest) = next(bytes).ok()?;
    (found == tag).then_some((contents, rest))
}
