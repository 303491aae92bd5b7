//! Lines with checksums, for files that a gateway appends to, so that damage on the disk is detected.
//!
//! A line ends with ` #` and 16 hexadecimal digits. Lines of earlier versions have none.

const MARK: &[u8] = b" #";
const SUM_BYTES: usize = 16;

/// The beginning of a hash in hexadecimal digits, which suffices against accidental damage.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    jose::sha256(bytes).iter().take(SUM_BYTES / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Adds `line` with its checksum to `text`.
pub(crate) fn push(text: &mut Vec<u8>, line: &[u8]) {
    text.extend_from_slice(line);
    text.extend_from_slice(MARK);
    text.extend_from_slice(short_hash(line).as_bytes());
    text.push(b'\n');
}

/// The content of a line before its checksum, and whether it has one. `None` if the line is incomplete or damaged.
pub(crate) fn content(line: &[u8]) -> Option<(&[u8], bool)> {
    let line = line.strip_suffix(b"\n")?;
    let split = line.len().checked_sub(MARK.len() + SUM_BYTES);
    let parts = split.and_then(|at| line.split_at_checked(at));
    let sum = parts.and_then(|(content, end)| Some((content, end.strip_prefix(MARK)?)));
    match sum {
        Some((content, sum)) => (short_hash(content).as_bytes() == sum).then_some((content, true)),
        None => Some((line, false)),
    }
}
