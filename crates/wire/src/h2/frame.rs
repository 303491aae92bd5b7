//! Frames: their header, types, flags, and error codes. Source: RFC 9113 sections 4, 6 and 7.

/// Size of a frame's header.
pub(super) const HEADER_BYTES: usize = 9;
/// Largest payload of a frame in either direction: the default, which is also the smallest limit that a side may set.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;
/// Largest flow-control window.
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;
/// The initial flow-control window of a connection and of its streams.
pub(super) const WINDOW_DEFAULT: i64 = 65_535;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY_FLAG: u8 = 0x20;

/// A frame's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    ResetStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

impl Kind {
    pub(super) const fn of(code: u8) -> Self {
        match code {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::ResetStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Unknown,
        }
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Bytes of payload, padding included.
    pub(super) len: usize,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// The stream's number; 0 stands for the connection.
    pub(super) stream: u32,
}

impl Header {
    /// The header at the start of `bytes`; `None` if it is incomplete.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [high, middle, low, kind, flags, id @ ..] = *bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            len: u32::from_be_bytes([0, high, middle, low]) as usize,
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes(id) & 0x7fff_ffff,
        })
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Codes of the types that the gateway sends.
pub(super) mod code {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RESET_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Appends a header; `len` is at most [`PAYLOAD_BYTES_MAX`].
#[inline]
pub(super) fn header(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    debug_assert!(len <= PAYLOAD_BYTES_MAX, "peers need not accept larger frames");
    let [_, high, middle, low] = u32::try_from(len).unwrap_or_default().to_be_bytes();
    let [a, b, c, d] = stream.to_be_bytes();
    out.extend_from_slice(&[high, middle, low, kind, flags, a, b, c, d]);
}

/// Appends a frame with a short payload.
pub(super) fn short(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

/// Why a stream or a connection ends. Source: RFC 9113 section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Reason {
    NoError = 0,
    ProtocolError = 1,
    InternalError = 2,
    FlowControlError = 3,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    Cancel = 8,
    CompressionError = 9,
    EnhanceYourCalm = 11,
}
