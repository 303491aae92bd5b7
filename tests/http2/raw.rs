//! An HTTP/2 client that sends any frames, right or wrong.

use std::io::{Read, Write};
use std::net::TcpStream;

use harness::{Gateway, PATIENCE};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A connection after the preface and empty settings.
pub(crate) fn connect(gateway: &Gateway) -> TcpStream {
    let mut tcp = TcpStream::connect(gateway.http()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(&[PREFACE, &frame(4, 0, 0, &[])].concat()).unwrap();
    tcp
}

/// The next frame: its type and payload.
pub(crate) fn read(tcp: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 9];
    tcp.read_exact(&mut header).ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
    tcp.read_exact(&mut payload).ok()?;
    Some((header[3], payload))
}

/// The error code of the GOAWAY that ends the connection.
pub(crate) fn last_code(tcp: &mut TcpStream) -> Option<u32> {
    let mut code = None;
    while let Some((kind, payload)) = read(tcp) {
        if kind == GOAWAY {
            code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    code
}
