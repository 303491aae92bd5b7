//! Frames of WebSocket messages, for the backend and for clients that measure it. Source: RFC 6455 section 5.2.

/// Opcodes of a text, a binary message, and the control frames.
pub const TEXT: u8 = 1;
pub const BINARY: u8 = 2;
pub const CLOSE: u8 = 8;
pub const PING: u8 = 9;
pub const PONG: u8 = 10;
pub const FIN: u8 = 0x80;
pub const MASKED: u8 = 0x80;
/// Longest payload of a control frame.
pub const CONTROL_BYTES_MAX: usize = 125;

/// Appends the header of a frame, but for its mask. `masked`: [`MASKED`] or 0.
pub fn header(out: &mut Vec<u8>, first: u8, masked: u8, length: usize) {
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ ..126), _) => out.extend_from_slice(&[first, masked | short]),
        (_, Ok(medium)) => {
            out.extend_from_slice(&[first, masked | 126]);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.extend_from_slice(&[first, masked | 127]);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

/// Appends a payload with its mask applied, or removed: both are the same.
pub fn masked(out: &mut Vec<u8>, payload: &[u8], mask: [u8; 4]) {
    let start = out.len();
    out.extend_from_slice(payload);
    for part in out.get_mut(start..).unwrap_or_default().chunks_mut(mask.len()) {
        part.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}
