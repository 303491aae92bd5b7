//! HTTP/2 by single frames, for input that no client library sends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

/// Types and flags of frames, and error codes. Source: RFC 9113 sections 6 and 7.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const FLOW_CONTROL_ERROR: u32 = 3;
pub const REFUSED_STREAM: u32 = 7;
pub const ENHANCE_YOUR_CALM: u32 = 11;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header block for `GET` or `POST` of a short path, without Huffman coding.
#[must_use]
pub fn header_block(method: &str, path: &str) -> Vec<u8> {
    let text = |text: &str| {
        let len = u8::try_from(text.len()).unwrap();
        assert!(len < 127, "one byte of length");
        [&[len], text.as_bytes()].concat()
    };
    // Indexed: the method and `:scheme: http`. Literals: `:path` and `:authority`.
    let method = if method == "GET" { 0x82 } else { 0x83 };
    [&[method, 0x86, 0x44][..], &text(path), &[0x41], &text("gateway")].concat()
}

/// A connection that sends frames as they are.
#[derive(Debug)]
pub struct FrameClient(TcpStream);

impl FrameClient {
    /// Sends the preface and empty settings.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::with_settings(address, &[])
    }

    /// Sends the preface and settings: identifiers and values.
    #[must_use]
    pub fn with_settings(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_write_timeout(Some(PATIENCE)).unwrap();
        let settings = settings.iter().flat_map(|(identifier, value)| {
            [&identifier.to_be_bytes()[..], &value.to_be_bytes()].concat()
        });
        let settings: Vec<u8> = settings.collect();
        let mut client = Self(tcp);
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat());
        client
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the gateway reads");
    }

    /// Sends `bytes` as far as the gateway reads them. Returns whether it read all.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    /// The next frame: its type and payload. `None`: the connection has ended.
    pub fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).ok()?;
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut payload = vec![0; len];
        self.0.read_exact(&mut payload).ok()?;
        Some((header[3], payload))
    }

    /// The next frame of a type for which `is_wanted` returns true.
    #[track_caller]
    pub fn read_until(&mut self, is_wanted: impl Fn(u8) -> bool) -> (u8, Vec<u8>) {
        let mut frames = std::iter::from_fn(|| self.read());
        frames.find(|(kind, _)| is_wanted(*kind)).expect("the connection stays open")
    }

    /// Whether a frame has begun to arrive, or the connection has ended.
    pub fn has_bytes(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let found = self.0.peek(&mut [0]).is_ok();
        self.0.set_nonblocking(false).unwrap();
        found
    }

    /// Reads until the connection ends. Returns the error code of its GOAWAY.
    pub fn last_code(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some((kind, payload)) = self.read() {
            if kind == GOAWAY {
                code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        code
    }
}
