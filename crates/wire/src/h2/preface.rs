//! Detection of HTTP/2 by the first bytes of a cleartext connection. Source: RFC 9113 sections 3.3 and 3.4.

/// The first bytes from a client with prior knowledge.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefaceMatch {
    /// Not HTTP/2: read it as HTTP/1.1.
    No,
    /// Undecided: read more.
    Partial,
    /// HTTP/2. More bytes may follow the preface.
    Yes,
}

/// Compares the first bytes of a connection with [`PREFACE`].
pub fn match_preface(bytes: &[u8]) -> PrefaceMatch {
    if bytes.starts_with(PREFACE) {
        PrefaceMatch::Yes
    } else if PREFACE.starts_with(bytes) {
        PrefaceMatch::Partial
    } else {
        PrefaceMatch::No
    }
}
