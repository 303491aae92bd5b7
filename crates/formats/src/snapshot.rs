//! A snapshot on disk: the texts that a gateway last served from, in one file with a checksum.
//!
//! The file begins with [`MAGIC`] and the time of writing. Records follow: a byte for the kind, the lengths of name and
//! text as 4 and 8 bytes, the name, the text. A kind of 0 ends them, and 32 bytes of checksum end the file. Numbers are
//! little-endian.
//!
//! The checksum is a chain, so that a file of any length is written and checked with one chunk in memory: starting from
//! zeros, each chunk of 64 KiB is appended to the checksum so far, and SHA-256 of both is the next one.
//!
//! Architecture invariant: [`read`] accepts only the exact bytes that [`Writer`] wrote.

use std::io::{self, Read, Write};

use base::limits;

/// The first bytes of a snapshot; the digit is the version of the format.
pub const MAGIC: &[u8] = b"penstock snapshot 1\n";
const CHUNK_BYTES: usize = 64 * 1024;
const HASH_BYTES: usize = 32;
/// Longest name, in bytes. Longer: not written. Paths have up to 4,096.
const NAME_BYTES_MAX: usize = 64 * 1024;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An API description, an artefact or an application, by its path.
    File,
    /// A file that one of them refers to, by its path.
    Reference,
    /// The keys of an issuer.
    Keys,
    /// A configured file or folder, by its path, with its device and inode.
    Root,
    /// A file of plans, by its path.
    Plans,
}

/// A part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'s> {
    pub kind: Kind,
    pub name: &'s [u8],
    pub text: &'s [u8],
}

/// The content of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved<'s> {
    /// Time of writing, in seconds since the Unix epoch.
    pub written_s: u64,
    pub records: Vec<Record<'s>>,
}

/// The reason why a snapshot is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    Magic,
    CutOff,
    Checksum,
    Records,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Magic => "it does not begin like a snapshot of this version",
            Self::CutOff => "it is cut off",
            Self::Checksum => "its checksum does not match its content",
            Self::Records => "its records are not valid",
        })
    }
}

impl Kind {
    const ALL: [(u8, Self); 5] =
        [(1, Self::File), (2, Self::Reference), (3, Self::Keys), (4, Self::Root), (5, Self::Plans)];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|(number, _)| *number == byte).map(|(_, kind)| kind)
    }

    fn byte(self) -> u8 {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or(0, |(number, _)| number)
    }
}

/// Checks and splits a whole file.
///
/// # Errors
/// [`Damage`].
pub fn read(bytes: &[u8]) -> Result<Saved<'_>, Damage> {
    if !bytes.starts_with(MAGIC) {
        return Err(Damage::Magic);
    }
    let (content, checksum) = bytes.split_last_chunk::<HASH_BYTES>().ok_or(Damage::CutOff)?;
    let mut chain = Chain::default();
    content.chunks(CHUNK_BYTES).for_each(|chunk| chain.add(chunk));
    if chain.hash != *checksum {
        return Err(Damage::Checksum);
    }
    let mut rest = content.get(MAGIC.len()..).ok_or(Damage::CutOff)?;
    let written_s = u64::from_le_bytes(take(&mut rest)?);
    let mut records = Vec::new();
    loop {
        let [kind] = take(&mut rest)?;
        if kind == 0 {
            break;
        }
        let kind = Kind::of(kind).ok_or(Damage::Records)?;
        let name_bytes = u64::from(u32::from_le_bytes(take(&mut rest)?));
        let text_bytes = u64::from_le_bytes(take(&mut rest)?);
        let (name, text) = (slice(&mut rest, name_bytes)?, slice(&mut rest, text_bytes)?);
        records.push(Record { kind, name, text });
    }
    if rest.is_empty() { Ok(Saved { written_s, records }) } else { Err(Damage::Records) }
}

/// Whether the checksum of a file of `bytes` is right.
///
/// # Errors
/// If the file cannot be read.
pub fn is_whole(mut file: impl Read, bytes: u64) -> io::Result<bool> {
    let Some(mut left) = bytes.checked_sub(HASH_BYTES as u64) else { return Ok(false) };
    let (mut chain, mut chunk) = (Chain::default(), vec![0; CHUNK_BYTES]);
    let mut is_first = true;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let Some(part) = chunk.get_mut(..wanted) else { return Ok(false) };
        file.read_exact(part)?;
        if is_first && !part.starts_with(MAGIC) {
            return Ok(false);
        }
        is_first = false;
        chain.add(part);
        left = left.saturating_sub(wanted as u64);
    }
    let mut checksum = [0; HASH_BYTES];
    file.read_exact(&mut checksum)?;
    Ok(!is_first && checksum == chain.hash)
}

/// `content` as a snapshot, with its first bytes and the checksum.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn with_checksum(content: &[u8]) -> Vec<u8> {
    let mut bytes = [MAGIC, content].concat();
    let mut chain = Chain::default();
    bytes.chunks(CHUNK_BYTES).for_each(|chunk| chain.add(chunk));
    bytes.extend_from_slice(&chain.hash);
    bytes
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Damage> {
    let (first, after) = rest.split_first_chunk::<N>().ok_or(Damage::Records)?;
    *rest = after;
    Ok(*first)
}

fn slice<'s>(rest: &mut &'s [u8], bytes: u64) -> Result<&'s [u8], Damage> {
    let bytes = usize::try_from(bytes).map_err(|_| Damage::Records)?;
    let (first, after) = rest.split_at_checked(bytes).ok_or(Damage::Records)?;
    *rest = after;
    Ok(first)
}

/// The checksum of the chunks so far.
#[derive(Debug, Default)]
struct Chain {
    hash: [u8; HASH_BYTES],
    buffer: Vec<u8>,
}

impl Chain {
    fn add(&mut self, chunk: &[u8]) {
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.hash);
        self.buffer.extend_from_slice(chunk);
        self.hash = jose::sha256(&self.buffer);
    }
}

/// Writes a snapshot.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    chain: Chain,
    chunk: Vec<u8>,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// # Errors
    /// Errors of `to`.
    pub fn new(to: W, written_s: u64) -> io::Result<Self> {
        let chunk = Vec::with_capacity(CHUNK_BYTES);
        let mut writer = Self { to, chain: Chain::default(), chunk, bytes: 0 };
        writer.put(MAGIC)?;
        writer.put(&written_s.to_le_bytes())?;
        Ok(writer)
    }

    /// # Errors
    /// Errors of `to`, or a snapshot or name that is too long.
    pub fn add(&mut self, record: &Record<'_>) -> io::Result<()> {
        let name_bytes = u32::try_from(record.name.len()).unwrap_or(u32::MAX);
        let text_bytes = record.text.len() as u64;
        let after = self.bytes.saturating_add(text_bytes).saturating_add(name_bytes.into());
        if record.name.len() > NAME_BYTES_MAX || after > limits::SNAPSHOT_BYTES_MAX {
            let message = format!("the snapshot exceeds {} bytes", limits::SNAPSHOT_BYTES_MAX);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        self.put(&[record.kind.byte()])?;
        self.put(&name_bytes.to_le_bytes())?;
        self.put(&text_bytes.to_le_bytes())?;
        self.put(record.name)?;
        self.put(record.text)
    }

    /// # Errors
    /// Errors of `to`.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(&[0])?;
        if !self.chunk.is_empty() {
            self.flush_chunk()?;
        }
        self.to.write_all(&self.chain.hash)?;
        Ok(self.to)
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let room = CHUNK_BYTES.saturating_sub(self.chunk.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_BYTES {
                self.flush_chunk()?;
            }
        }
        Ok(())
    }

    fn flush_chunk(&mut self) -> io::Result<()> {
        self.chain.add(&self.chunk);
        self.to.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot with a text of `bytes` bytes.
    fn snapshot(bytes: usize) -> Vec<u8> {
        let text = vec![b'x'; bytes];
        let mut writer = Writer::new(Vec::new(), 7).expect("memory accepts all");
        for (kind, name) in [(Kind::File, "apis/a.yaml"), (Kind::Reference, "b"), (Kind::Keys, "")]
        {
            let record = Record { kind, name: name.as_bytes(), text: &text };
            writer.add(&record).expect("memory accepts all");
        }
        writer.finish().expect("memory accepts all")
    }

    #[test]
    fn what_was_written_is_read() {
        // Fewer and more bytes than a chunk, and a chunk that ends where the file does.
        let whole = CHUNK_BYTES - snapshot(0).len() + HASH_BYTES;
        for bytes in [0, 1, whole / 3, whole, 100_000] {
            let written = snapshot(bytes);
            let saved = read(&written).expect("it is whole");
            assert_eq!(saved.written_s, 7);
            let shown: Vec<_> = saved.records.iter().map(|one| (one.kind, one.name)).collect();
            let expect: [(Kind, &[u8]); 3] =
                [(Kind::File, b"apis/a.yaml"), (Kind::Reference, b"b"), (Kind::Keys, b"")];
            assert_eq!(shown, expect);
            assert!(saved.records.iter().all(|one| one.text.len() == bytes));
            assert!(is_whole(written.as_slice(), written.len() as u64).expect("it can be read"));
        }
    }

    #[test]
    fn every_changed_bit_and_every_missing_byte_is_damage() {
        let written = snapshot(40);
        for at in 0..written.len() * 8 {
            let mut damaged = written.clone();
            if let Some(byte) = damaged.get_mut(at / 8) {
                *byte ^= 1 << (at % 8);
            }
            assert!(read(&damaged).is_err(), "bit {at}");
            assert!(!is_whole(damaged.as_slice(), damaged.len() as u64).expect("it is there"));
        }
        for bytes in 0..written.len() {
            let cut = written.get(..bytes).expect("it is shorter");
            assert!(read(cut).is_err(), "{bytes} bytes");
            assert!(!is_whole(cut, bytes as u64).expect("it is there"), "{bytes} bytes");
        }
    }

    #[test]
    fn lengths_beyond_the_end_are_damage_even_with_the_right_checksum() {
        for tail in [&[1, 255, 255, 255, 255][..], &[9], &[], &[0, 0], &[1, 0, 0, 0, 0, 255, 0, 0]]
        {
            let damaged = with_checksum(&[&7_u64.to_le_bytes(), tail].concat());
            assert_eq!(read(&damaged), Err(Damage::Records), "{tail:?}");
        }
    }
}
