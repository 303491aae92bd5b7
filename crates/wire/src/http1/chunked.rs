//! Decoding of chunked bodies: finds the payload between the framing, and stores only the trailers.
//!
//! Source: RFC 9112 section 7.1.

use base::limits;

use super::extension::Extension;
use super::fields::Fields;
use super::{Field, Known, Rejection, Side, Span, scan, target, write};

/// The next piece of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The whole input, `used` bytes, was framing. Call again with the following bytes.
    NeedMore { used: usize },
    /// `skip` bytes of framing, then `take` (at least one) bytes of payload. Call again with the rest.
    Data { skip: usize, take: usize },
    /// The body ends after `used` bytes; the next message follows.
    End { used: usize },
}

/// Decodes one chunked body from pieces of any size. The payload is not copied.
#[derive(Clone, Debug, Default)]
pub struct ChunkedDecoder {
    side: Side,
    state: State,
    /// Bytes of the current chunk's extensions so far.
    extension_bytes: u32,
    /// Bytes by which extensions exceed the payload of their chunks, in total.
    overhead_bytes: u32,
    /// The trailer section while it is read; then its forwardable fields, serialised again.
    trailers: Vec<u8>,
    trailer_fields: Vec<Field>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size { size: u64, digits: u8 },
    Extension { size: u64, at: Extension },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailers,
    LastLf,
    End,
    Failed(Rejection),
}

impl Default for State {
    fn default() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

impl ChunkedDecoder {
    /// A decoder for a body from `side`, which decides the status of a rejection.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self { side, ..Self::default() }
    }

    /// Decodes `input`, which starts where the last piece ended.
    ///
    /// # Errors
    /// 400: a size that is not pure hexadecimal or above 2^64 - 1, a line without CRLF, malformed extensions or
    /// more than `CHUNK_EXTENSION_BYTES_MAX` or `CHUNK_OVERHEAD_BYTES_MAX`, a malformed trailer. 431: trailers
    /// above `TRAILER_BYTES_MAX` or `HEADER_FIELDS_MAX`. 502 instead of both for a response. An error
    /// is final: later calls repeat it.
    pub fn next(&mut self, input: &[u8]) -> Result<Piece, Rejection> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data { left } => {
                    let there = input.len().saturating_sub(at);
                    if there == 0 {
                        return Ok(Piece::NeedMore { used: at });
                    }
                    let take = usize::try_from(left).map_or(there, |left| left.min(there));
                    self.state = match left.saturating_sub(take as u64) {
                        0 => State::DataCr,
                        left => State::Data { left },
                    };
                    return Ok(Piece::Data { skip: at, take });
                }
                State::End => return Ok(Piece::End { used: at }),
                State::Failed(rejection) => return Err(rejection),
                State::Size { .. }
                | State::Extension { .. }
                | State::SizeLf { .. }
                | State::DataCr
                | State::DataLf
                | State::Trailers
                | State::LastLf => {
                    let Some(&byte) = input.get(at) else {
                        return Ok(Piece::NeedMore { used: at });
                    };
                    at = at.saturating_add(1);
                    self.state = self.step(byte).unwrap_or_else(State::Failed);
                }
            }
        }
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// The trailer fields that may be forwarded, after [`Piece::End`], as `name: value CRLF` lines, to be passed to
    /// [`write::last_chunk`]. Framing, routing and identity fields (everything in [`Known`]) were dropped.
    #[must_use]
    pub fn trailers(&self) -> &[u8] {
        if self.is_done() { &self.trailers } else { &[] }
    }

    /// The trailer fields as offsets into [`Self::trailers`].
    #[must_use]
    pub fn trailer_fields(&self) -> &[Field] {
        &self.trailer_fields
    }

    /// Processes one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, Rejection> {
        match self.state {
            State::Size { .. } | State::SizeLf { .. } => self.size_line(byte),
            State::Extension { size, at } => self.extension(size, at, byte),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::default()),
            State::DataCr | State::DataLf => {
                Err(self.side.reject(400, "chunk does not end with CRLF"))
            }
            State::Trailers if self.trailers.is_empty() && byte == b'\r' => Ok(State::LastLf),
            State::Trailers => self.trailer_byte(byte),
            State::LastLf if byte == b'\n' => Ok(State::End),
            State::LastLf => Err(self.side.reject(400, "body does not end with CRLF")),
            State::Data { .. } | State::End | State::Failed(_) => Ok(self.state),
        }
    }

    fn size_line(&mut self, byte: u8) -> Result<State, Rejection> {
        match (self.state, byte) {
            (State::Size { size, digits }, b'\r') if digits > 0 => Ok(State::SizeLf { size }),
            (State::Size { size, digits }, b';') if digits > 0 => {
                self.extension_bytes = 1;
                Ok(State::Extension { size, at: Extension::Semicolon })
            }
            (State::Size { size, digits }, _) => {
                let Some(digit) = target::hex(byte) else {
                    return Err(self.side.reject(400, "chunk size is not hexadecimal"));
                };
                if digits >= HEX_DIGITS_MAX {
                    return Err(self.side.reject(400, "chunk size is too large"));
                }
                Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
            }
            (State::SizeLf { size }, b'\n') => Ok(match size {
                0 => State::Trailers,
                left => State::Data { left },
            }),
            _ => Err(self.side.reject(400, "chunk-size line has a forbidden byte")),
        }
    }

    /// A byte of the extensions, after the size and up to the CR.
    fn extension(&mut self, size: u64, at: Extension, byte: u8) -> Result<State, Rejection> {
        if byte == b'\r' && at.is_complete() {
            let payload_bytes = u32::try_from(size).unwrap_or(u32::MAX);
            let above = self.extension_bytes.saturating_sub(payload_bytes);
            self.overhead_bytes = self.overhead_bytes.saturating_add(above);
            if self.overhead_bytes > limits::CHUNK_OVERHEAD_BYTES_MAX {
                return Err(self.side.reject(400, "chunk extensions exceed the payload"));
            }
            return Ok(State::SizeLf { size });
        }
        let next = at.next(byte).ok_or(self.side.reject(400, "chunk extension is malformed"))?;
        self.extension_bytes = self.extension_bytes.saturating_add(1);
        if self.extension_bytes > limits::CHUNK_EXTENSION_BYTES_MAX {
            return Err(self.side.reject(400, "chunk extensions are too long"));
        }
        Ok(State::Extension { size, at: next })
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<State, Rejection> {
        if (self.trailers.last() == Some(&b'\r')) != (byte == b'\n') {
            return Err(self.side.reject(400, "bare CR or LF in trailers"));
        }
        if self.trailers.len() >= limits::TRAILER_BYTES_MAX as usize {
            return Err(self.side.reject(431, "trailers are too large"));
        }
        self.trailers.push(byte);
        if self.trailers.ends_with(b"\r\n\r\n") {
            self.finish_trailers()?;
            return Ok(State::End);
        }
        Ok(State::Trailers)
    }

    /// Validates the section, and serialises the fields that may be forwarded.
    fn finish_trailers(&mut self) -> Result<(), Rejection> {
        let section = std::mem::take(&mut self.trailers);
        scan::trailers(&section, self.side)?;
        let malformed = self.side.reject(400, "trailer section is malformed");
        let mut fields = Fields::default();
        fields.read(&section, 0).ok_or(malformed)?;
        for field in fields.list().iter().filter(|field| field.known == Known::Other) {
            let start = self.trailers.len();
            write::field(&mut self.trailers, field.name.of(&section), field.value.of(&section));
            let kept = written_at(start, field);
            self.trailer_fields.push(kept.ok_or(malformed)?);
        }
        Ok(())
    }
}

/// 16 digits are 64 bits. A longer number could only have leading zeros.
const HEX_DIGITS_MAX: u8 = 16;

/// The offsets of a field that was written at `start`.
fn written_at(start: usize, field: &Field) -> Option<Field> {
    let name_end = start.checked_add(field.name.len())?;
    let value_start = name_end.checked_add(b": ".len())?;
    let value_end = value_start.checked_add(field.value.len())?;
    let (name, value) = (Span::new(start, name_end)?, Span::new(value_start, value_end)?);
    Some(Field { name, value, ..*field })
}
