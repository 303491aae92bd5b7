//! The encodings that can be written.

use crate::error::{Error, ErrorKind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    #[default]
    Utf8,
    /// Little-endian, with a byte order mark.
    Utf16,
    UsAscii,
    Iso8859_1,
}

impl Encoding {
    /// The encoding with that name, in any case; none if it isn't supported.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "UTF-8" | "UTF8" => Some(Self::Utf8),
            "UTF-16" => Some(Self::Utf16),
            "US-ASCII" | "ASCII" => Some(Self::UsAscii),
            "ISO-8859-1" | "LATIN1" => Some(Self::Iso8859_1),
            _ => None,
        }
    }

    /// The name for the XML declaration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 => "UTF-16",
            Self::UsAscii => "US-ASCII",
            Self::Iso8859_1 => "ISO-8859-1",
        }
    }

    /// Whether it can encode `c`.
    #[inline]
    #[must_use]
    pub fn has(self, c: char) -> bool {
        match self {
            Self::Utf8 | Self::Utf16 => true,
            Self::UsAscii => c.is_ascii(),
            Self::Iso8859_1 => u32::from(c) < 0x100,
        }
    }

    /// Checks text that is written without character references.
    ///
    /// # Errors
    /// [`ErrorKind::NotInEncoding`].
    #[inline]
    pub fn check(self, text: &str) -> Result<(), Error> {
        if matches!(self, Self::Utf8 | Self::Utf16) {
            return Ok(());
        }
        match text.chars().find(|&c| !self.has(c)) {
            Some(c) if !text.is_ascii() => Err(ErrorKind::NotInEncoding(c, self.name()).into()),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn mark(self, out: &mut String) {
        match self {
            Self::Utf16 => out.push('\u{FEFF}'),
            Self::Utf8 | Self::UsAscii | Self::Iso8859_1 => {}
        }
    }

    /// The encoding can represent all of `text`.
    pub(super) fn encode(self, text: String) -> Vec<u8> {
        match self {
            Self::Utf8 | Self::UsAscii => text.into_bytes(),
            Self::Utf16 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Iso8859_1 => {
                text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
            }
        }
    }
}
