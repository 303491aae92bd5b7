//! The wire format between controller and agent: length-prefixed frames, each followed by an HMAC.
//!
//! Both sides send 32 random bytes and derive a session key from them and the shared secret. Every frame is
//! authenticated with it, including its direction and sequence number, so a peer without the secret can
//! neither send, change, replay nor reorder frames. Frames are not encrypted: use a tunnel on untrusted
//! networks.
//!
//! Architecture invariant: nothing is parsed as JSON before its HMAC is verified, and every length is
//! limited.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::path::Path;

use aws_lc_rs::hmac;
use base::Entropy;

use crate::{files, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

const NONCE_BYTES: usize = 32;
const SEAL_BYTES: usize = 32;
const PURPOSE: &[u8] = b"penstock lab agent 3";

/// The secret shared by controllers and agents.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or the secret is too short or too long.
    pub fn read(file: &Path) -> Result<Self, String> {
        /// Space around the secret, such as a line break at its end.
        const PADDING_BYTES: usize = 64;
        let describe = |error: &dyn Display| format!("{}: {error}", file.display());
        let bytes_max = limits::AGENT_SECRET_BYTES_MAX + PADDING_BYTES;
        let bytes = files::read(file, bytes_max as u64).map_err(|error| describe(&error))?;
        Self::new(&bytes).map_err(|error| describe(&error))
    }

    /// `text` is trimmed.
    ///
    /// # Errors
    /// The secret is too short or too long.
    pub fn new(text: &[u8]) -> Result<Self, String> {
        let text = text.trim_ascii();
        let (least, most) = (limits::AGENT_SECRET_BYTES_MIN, limits::AGENT_SECRET_BYTES_MAX);
        if !(least..=most).contains(&text.len()) {
            return Err(format!(
                "the secret must be {least} to {most} bytes long, not {}",
                text.len()
            ));
        }
        Ok(Self(text.to_vec()))
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Controller,
    Agent,
}

/// Signs outgoing frames and verifies incoming ones.
pub(super) struct Session {
    key: hmac::Key,
    side: Side,
}

/// Exchanges random bytes and derives the session key. The peer is authenticated by its first frame.
///
/// # Errors
/// The connection failed.
pub(super) fn handshake(
    stream: &mut (impl Read + Write),
    side: Side,
    secret: &Secret,
    entropy: &dyn Entropy,
) -> io::Result<Session> {
    let mut ours = [0; NONCE_BYTES];
    entropy.fill(&mut ours);
    stream.write_all(&ours)?;
    stream.flush()?;
    let mut theirs = [0; NONCE_BYTES];
    stream.read_exact(&mut theirs)?;
    let (controller, agent) = match side {
        Side::Controller => (ours, theirs),
        Side::Agent => (theirs, ours),
    };
    let shared = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    let session = hmac::sign(&shared, &[PURPOSE, &controller, &agent].concat());
    Ok(Session { key: hmac::Key::new(hmac::HMAC_SHA256, session.as_ref()), side })
}

impl Session {
    pub(super) fn writer<W: Write>(&self, out: W) -> FrameWriter<W> {
        FrameWriter { out, key: self.key.clone(), side: self.side, number: 0 }
    }

    pub(super) fn reader<R: Read>(&self, input: R) -> FrameReader<R> {
        let side = match self.side {
            Side::Controller => Side::Agent,
            Side::Agent => Side::Controller,
        };
        FrameReader { input, key: self.key.clone(), side, number: 0 }
    }
}

/// Writes frames.
pub(super) struct FrameWriter<W> {
    out: W,
    key: hmac::Key,
    side: Side,
    number: u64,
}

impl<W: Write> FrameWriter<W> {
    /// # Errors
    /// The connection failed; `InvalidInput` for a message longer than [`limits::AGENT_FRAME_BYTES_MAX`].
    pub(super) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length =
            u32::try_from(body.len()).ok().filter(|_| body.len() <= limits::AGENT_FRAME_BYTES_MAX);
        let length = length.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a message of {} bytes is too long for an agent", body.len()),
            )
        })?;
        let seal = sign(&self.key, self.side, self.number, &body);
        self.number += 1;
        // One write, so that the frame is not split over several packets.
        self.out.write_all(&[&length.to_be_bytes()[..], &body, seal.as_ref()].concat())?;
        self.out.flush()
    }
}

/// Reads frames.
pub(super) struct FrameReader<R> {
    input: R,
    key: hmac::Key,
    side: Side,
    number: u64,
}

impl<R: Read> FrameReader<R> {
    /// # Errors
    /// The connection failed; `PermissionDenied` for a wrong HMAC; `InvalidData` for a frame that is too long
    /// or invalid. The connection cannot be used afterwards.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut length = [0; 4];
        self.input.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        // A peer that is not authenticated yet may only send a small frame.
        let most = match self.number {
            0 => limits::AGENT_FIRST_FRAME_BYTES_MAX,
            _ => limits::AGENT_FRAME_BYTES_MAX,
        };
        if length > most {
            return Err(invalid(format!("frame of {length} bytes exceeds the limit of {most}")));
        }
        let mut body = vec![0; length];
        self.input.read_exact(&mut body)?;
        let mut seal = [0; SEAL_BYTES];
        self.input.read_exact(&mut seal)?;
        let sealed = sealed(self.side, self.number, &body);
        if hmac::verify(&self.key, &sealed, &seal).is_err() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "wrong secret"));
        }
        self.number += 1;
        serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
    }
}

fn sign(key: &hmac::Key, side: Side, number: u64, body: &[u8]) -> hmac::Tag {
    hmac::sign(key, &sealed(side, number, body))
}

fn sealed(side: Side, number: u64, body: &[u8]) -> Vec<u8> {
    let side = match side {
        Side::Controller => b"c",
        Side::Agent => b"a",
    };
    [&side[..], &number.to_be_bytes(), body].concat()
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn frames_are_received_in_order() {
        let mut wire = Vec::new();
        let mut writer = session(Side::Controller, b"a secret of sixteen").writer(&mut wire);
        writer.send(&"one").unwrap();
        writer.send(&vec![2; 5_000]).unwrap();
        let mut reader = session(Side::Agent, b"a secret of sixteen").reader(&wire[..]);
        assert_eq!(reader.receive::<String>().unwrap(), "one");
        assert_eq!(reader.receive::<Vec<u32>>().unwrap().len(), 5_000);
        assert_eq!(reader.receive::<String>().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn wrong_secrets_changed_bytes_replays_and_reflections_are_rejected() {
        let mut wire = Vec::new();
        session(Side::Controller, b"a secret of sixteen").writer(&mut wire).send(&"one").unwrap();
        let check_rejected = |side, secret, wire: &[u8], skip| {
            let mut reader = session(side, secret).reader(wire);
            for _ in 0..skip {
                reader.receive::<String>().unwrap();
            }
            assert_eq!(
                reader.receive::<String>().unwrap_err().kind(),
                io::ErrorKind::PermissionDenied
            );
        };
        check_rejected(Side::Agent, b"wrong secret of it", &wire, 0);
        check_rejected(Side::Controller, b"a secret of sixteen", &wire, 0);
        check_rejected(Side::Agent, b"a secret of sixteen", &[&wire[..], &wire[..]].concat(), 1);
        for at in 4..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 1;
            check_rejected(Side::Agent, b"a secret of sixteen", &changed, 0);
        }
    }

    #[test]
    fn unauthenticated_peers_cannot_send_large_frames() {
        let wire = u32::try_from(limits::AGENT_FIRST_FRAME_BYTES_MAX + 1).unwrap().to_be_bytes();
        let mut reader = session(Side::Agent, b"a secret of sixteen").reader(&wire[..]);
        assert_eq!(reader.receive::<String>().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn secrets_are_trimmed_and_have_a_minimum_length() {
        assert!(Secret::new(b"  sixteen bytes !!\n").is_ok());
        assert!(Secret::new(b"  fifteen bytes !\n").is_err());
        assert!(Secret::new(&vec![b'x'; limits::AGENT_SECRET_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn secret_files_are_read_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "  sixteen bytes !!\r\n").unwrap();
        assert_eq!(Secret::read(&file).ok().map(|secret| secret.0.len()), Some(16));
        let error = Secret::read(Path::new("/dev/zero")).err().unwrap_or_default();
        assert!(error.starts_with("/dev/zero: larger than"), "{error}");
    }

    /// One end of a session whose random bytes are all zero.
    fn session(side: Side, secret: &[u8]) -> Session {
        struct Zero;
        impl Entropy for Zero {
            fn fill(&self, bytes: &mut [u8]) {
                bytes.fill(0);
            }
        }
        struct Peer;
        impl Read for Peer {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(0);
                Ok(buffer.len())
            }
        }
        impl Write for Peer {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        handshake(&mut Peer, side, &Secret::new(secret).unwrap(), &Zero).unwrap()
    }
}
