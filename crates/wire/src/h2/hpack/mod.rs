//! HPACK: the compression of header fields in HTTP/2. Source: RFC 7541.
//!
//! The decoder passes each field on as two slices, without an allocation per field. The encoder uses the static table
//! and no dynamic one: it keeps no state, and no secret in a response can be guessed from the size of another one
//! (docs/decisions/0013).

mod decode;
pub(super) mod encode;
mod huffman;
pub(super) mod table;
#[cfg(test)]
mod tests;

pub(super) use decode::Decoder;

/// The block is not valid HPACK: the state of the connection is lost. Source: RFC 7541 section 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct CompressionError(pub(super) &'static str);

/// The string is not a valid Huffman code.
const HUFFMAN: CompressionError = CompressionError("invalid Huffman code");
