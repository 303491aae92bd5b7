//! The grammar of chunk extensions, which are validated and dropped.
//!
//! Source: RFC 9112 section 7.1.1, RFC 9110 section 5.6.4 (quoted strings).

use super::scan;

/// The part of an extension that the last byte belonged to. An extension follows a chunk's size and begins with `;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    /// `;`, or white space after it: a name follows.
    Semicolon,
    Name,
    /// White space after a name: `=` or `;` follows.
    AfterName,
    /// `=`, or white space after it: a value follows.
    Equals,
    Token,
    Quoted,
    /// A backslash in a quoted string.
    Backslash,
    /// The quotation mark that ends a value.
    ClosingQuote,
    /// White space after a value: `;` follows.
    AfterValue,
}

impl Extension {
    /// Reads the next byte, which is not the CR at the end of the line. `None` if the byte is not allowed here.
    pub(super) fn next(self, byte: u8) -> Option<Self> {
        let is_token = scan::is_tchar(byte);
        let is_space = matches!(byte, b' ' | b'\t');
        match self {
            Self::Semicolon if is_token => Some(Self::Name),
            Self::Semicolon if is_space => Some(Self::Semicolon),
            Self::Name if is_token => Some(Self::Name),
            Self::Name | Self::AfterName if byte == b'=' => Some(Self::Equals),
            Self::Name | Self::AfterName if is_space => Some(Self::AfterName),
            Self::Equals if is_token => Some(Self::Token),
            Self::Equals if byte == b'"' => Some(Self::Quoted),
            Self::Equals if is_space => Some(Self::Equals),
            Self::Token if is_token => Some(Self::Token),
            Self::Quoted if byte == b'"' => Some(Self::ClosingQuote),
            Self::Quoted if byte == b'\\' => Some(Self::Backslash),
            Self::Quoted | Self::Backslash if scan::is_value_byte(byte) => Some(Self::Quoted),
            Self::Token | Self::ClosingQuote | Self::AfterValue if is_space => {
                Some(Self::AfterValue)
            }
            Self::Name | Self::AfterName | Self::Token | Self::ClosingQuote | Self::AfterValue
                if byte == b';' =>
            {
                Some(Self::Semicolon)
            }
            Self::Semicolon
            | Self::Name
            | Self::AfterName
            | Self::Equals
            | Self::Token
            | Self::Quoted
            | Self::Backslash
            | Self::ClosingQuote
            | Self::AfterValue => None,
        }
    }

    /// Whether the line may end here.
    pub(super) const fn is_complete(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::ClosingQuote)
    }
}
