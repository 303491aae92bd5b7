//! Decodes bytes that arrive in pieces: detects the encoding as soon as possible and joins characters and
//! line ends that were cut.

use crate::declaration::{self, Form};
use crate::decode::{self, Decoder};
use crate::error::{Error, ErrorKind, OffsetError, Position};
use crate::input::{BYTES_OF_A_DOCUMENT, illegal, too_large};
use crate::names::number;
use crate::scan::Search;

#[derive(Debug)]
pub(crate) struct InputBuffer {
    /// Largest document, in bytes as read and in bytes of UTF-8.
    most: u32,
    taken: usize,
    /// Bytes that arrived before the encoding was known.
    head: Vec<u8>,
    decoder: Option<Decoder>,
    /// Searches for the end of the declaration, in `head` and in `text`.
    searches: [Search; 2],
    /// The decoded text, from `passed` on.
    pub(crate) text: String,
    /// The place in the document where `text` begins.
    passed: Place,
    /// Why the text ends early; no more bytes are accepted.
    pub(crate) broken: Option<OffsetError>,
    is_settled: bool,
}

/// A place in the document.
#[derive(Debug, Clone, Copy)]
struct Place {
    position: Position,
    offset: usize,
}

impl Place {
    const BEGINNING: Self = Self { position: Position { line: 1, column: 1 }, offset: 0 };

    /// The place after `text`, whose line ends are `\n`.
    fn after(self, text: &str) -> Self {
        let bytes = text.as_bytes();
        let Position { line, column } = self.position;
        let (column, last_line) = match memchr::memrchr(b'\n', bytes) {
            Some(at) => (1, bytes.get(at.saturating_add(1)..).unwrap_or(&[])),
            None => (column, bytes),
        };
        let lines = memchr::memchr_iter(b'\n', bytes).count();
        // Counts every byte that doesn't continue a character.
        let characters = last_line.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        let (line, column) =
            (line.saturating_add(number(lines)), column.saturating_add(number(characters)));
        Self {
            position: Position { line, column },
            offset: self.offset.saturating_add(bytes.len()),
        }
    }
}

impl InputBuffer {
    pub(crate) fn new(bytes_max: u32) -> Self {
        Self {
            most: bytes_max,
            taken: 0,
            head: Vec::new(),
            decoder: None,
            searches: [Search::default(), Search::default()],
            text: String::new(),
            passed: Place::BEGINNING,
            broken: None,
            is_settled: false,
        }
    }

    /// Whether the beginning of the document has been found.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Adds the next bytes; `is_end` marks the last ones. Returns the beginning of the document, once it has been
    /// found.
    ///
    /// # Errors
    /// An encoding that is unsupported or doesn't match the bytes, a malformed declaration. Errors in the text
    /// are kept in `broken`.
    pub(crate) fn push(&mut self, bytes: &[u8], is_end: bool) -> Result<Option<usize>, Error> {
        if self.broken.is_some() {
            return Ok(None);
        }
        let room = (self.most as usize).saturating_sub(self.taken);
        let within = bytes.get(..room).unwrap_or(bytes);
        self.taken = self.taken.saturating_add(within.len());
        let is_cut = within.len() < bytes.len();
        self.decode(within, is_end, is_cut)?;
        if self.broken.is_none() && is_cut {
            self.broken = Some(too_large(self.most));
        }
        self.settle(is_end)
    }

    fn decode(&mut self, bytes: &[u8], is_end: bool, is_cut: bool) -> Result<(), Error> {
        if self.decoder.is_some() {
            self.append(bytes, is_end);
            return Ok(());
        }
        self.head.extend_from_slice(bytes);
        let [search, _] = &mut self.searches;
        if let Some(sniffed) = decode::sniff(&self.head, is_end || is_cut, search)? {
            self.decoder = Some(Decoder::new(sniffed.encoding));
            let head = std::mem::take(&mut self.head);
            self.append(head.get(sniffed.mark..).unwrap_or(&[]), is_end);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8], is_end: bool) {
        let Some(decoder) = &mut self.decoder else { return };
        let from = self.text.len();
        let pushed = decoder.push(bytes, &mut self.text);
        if pushed.is_err() || (is_end && !decoder.is_between()) {
            self.broken = Some(OffsetError::new(self.text.len(), decoder.malformed()));
        }
        if let Some(error) = illegal(&self.text, from) {
            self.text.truncate(error.at);
            self.broken = Some(error);
        }
        let room = (self.most as usize).saturating_sub(self.passed.offset);
        if self.text.len() > room {
            self.text.truncate(self.text.floor_char_boundary(room));
            self.broken = Some(too_large(self.most));
        }
    }

    fn settle(&mut self, is_end: bool) -> Result<Option<usize>, Error> {
        let Some(decoder) = self.decoder.as_ref().filter(|_| !self.is_settled) else {
            return Ok(None);
        };
        let whole = is_end || self.broken.is_some();
        let [_, search] = &mut self.searches;
        let broken = self.broken.as_ref();
        let start = declaration::pass(
            &self.text,
            Form::Document,
            decoder.encoding(),
            broken,
            whole,
            search,
        )?;
        self.is_settled = start.is_some();
        Ok(start)
    }

    /// Drops the first `len` bytes of the text.
    pub(crate) fn drop_front(&mut self, len: usize) {
        self.passed = self.passed.after(self.text.get(..len).unwrap_or(""));
        self.text.drain(..len);
        if let Some(broken) = &mut self.broken {
            broken.at = broken.at.saturating_sub(len);
        }
    }

    /// Adds the place in the document to an error in the text.
    pub(crate) fn locate(&self, error: OffsetError) -> Error {
        let of_the_whole =
            matches!(*error.kind, ErrorKind::Limit { what: BYTES_OF_A_DOCUMENT, .. });
        let before = self.text.get(..error.at).unwrap_or(&self.text);
        let place = if of_the_whole { Place::BEGINNING } else { self.passed.after(before) };
        Error::at(place.position, place.offset, *error.kind)
    }
}
