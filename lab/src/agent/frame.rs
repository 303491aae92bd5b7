//! The connection between controller and agent: TLS 1.3, and length-prefixed frames of JSON.
//!
//! The agent's certificate is generated when it starts, and no peer trusts it. Both sides prove instead that they know
//! the shared secret: each sends an HMAC of the session's exported keying material, which differs between the two
//! sessions of a man in the middle. TLS protects everything else.
//!
//! Architecture invariant: no byte is parsed as JSON before the peer has proved that it knows the secret, and every
//! length is limited.

use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::hmac;
use base::{Clock, SystemClock};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ProtocolVersion, ServerConnection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::tls::{CertificateSet, ClientTls, ServerCertificates, server_config};

use crate::limits;

const PROOF_BYTES: usize = 32;
/// Label of the exported keying material (RFC 5705).
const LABEL: &[u8] = b"EXPERIMENTAL penstock lab agent 4";
/// Host name in the agent's certificate, which is not compared.
const NAME: &str = "penstock-lab-agent";

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

/// An agent's side of TLS, with a certificate that lasts as long as the process.
///
/// # Errors
/// The certificate cannot be generated.
pub(super) fn agent_tls() -> io::Result<Arc<rustls::ServerConfig>> {
    let now_s = SystemClock::new().now().unix_s;
    let pair = wire::tls::generate_self_signed(&[NAME], now_s).map_err(io::Error::other)?;
    let pair = Some((pair.0.as_bytes(), pair.1.as_bytes()));
    let set = CertificateSet::load(pair, Vec::new()).map_err(io::Error::other)?;
    Ok(server_config(Arc::new(ServerCertificates::new(set)), false))
}

/// Connects to an agent by TLS and proves the secret.
///
/// # Errors
/// The connection failed; `PermissionDenied`: the agent has another secret.
pub(super) fn connect(tcp: TcpStream, secret: &Secret) -> io::Result<(FrameReader, FrameWriter)> {
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let tls = ClientConnection::new(ClientTls::insecure().config(), name);
    authenticate(tls.map_err(io::Error::other)?.into(), tcp, (Side::Controller, secret), HANDSHAKE)
}

/// The agent's side of [`connect`].
///
/// # Errors
/// The connection failed; `PermissionDenied`: the controller has another secret.
pub(super) fn accept(
    tcp: TcpStream,
    config: Arc<rustls::ServerConfig>,
    secret: &Secret,
) -> io::Result<(FrameReader, FrameWriter)> {
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    authenticate(tls.into(), tcp, (Side::Agent, secret), HANDSHAKE)
}

const HANDSHAKE: Duration = Duration::from_millis(limits::HANDSHAKE_MS_MAX as u64);

/// Performs the TLS handshake, then exchanges proofs of the secret, all within `wait`: a peer without the secret holds
/// its place no longer, even if it sends slowly.
fn authenticate(
    mut tls: Connection,
    tcp: TcpStream,
    (side, secret): (Side, &Secret),
    wait: Duration,
) -> io::Result<(FrameReader, FrameWriter)> {
    let silence = tcp.read_timeout()?;
    let mut limited = Limited { tcp: &tcp, clock: SystemClock::new(), wait };
    while tls.is_handshaking() {
        tls.complete_io(&mut limited)?;
    }
    // Only since 1.3 is exported keying material bound to the whole handshake.
    if tls.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return Err(io::Error::other("the peer does not support TLS 1.3"));
    }
    let exported = tls.export_keying_material([0; 32], LABEL, None).map_err(io::Error::other)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.0);
    let said = |side: Side| [exported.as_slice(), side.name()].concat();
    let (ours, theirs) = match side {
        Side::Controller => (said(Side::Controller), said(Side::Agent)),
        Side::Agent => (said(Side::Agent), said(Side::Controller)),
    };
    tls.writer().write_all(hmac::sign(&key, &ours).as_ref())?;
    // The peer's proof may have come with the end of the handshake, so that nothing more is read.
    while tls.wants_write() {
        tls.write_tls(&mut limited)?;
    }
    let mut proof = [0; PROOF_BYTES];
    let mut rest = proof.as_mut_slice();
    while !rest.is_empty() {
        match tls.reader().read(rest) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => rest = rest.split_at_mut(read).1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tls.complete_io(&mut limited)?;
            }
            Err(error) => return Err(error),
        }
    }
    if hmac::verify(&key, &theirs, &proof).is_err() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "different secret"));
    }
    tcp.set_read_timeout(silence)?;
    let channel = Channel { tls: Arc::new(Mutex::new(tls)), tcp: Arc::new(tcp) };
    Ok((FrameReader { channel: channel.clone(), received: Vec::new() }, FrameWriter { channel }))
}

/// A socket that is read for a limited time.
struct Limited<'t> {
    tcp: &'t TcpStream,
    /// At zero when the time begins.
    clock: SystemClock,
    wait: Duration,
}

impl Read for Limited<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no proof of the secret in time");
        let left = self.wait.saturating_sub(Duration::from_micros(self.clock.now_us()));
        if left.is_zero() {
            return Err(late());
        }
        self.tcp.set_read_timeout(Some(left))?;
        let waited = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.tcp.read(buffer).map_err(|error| if waited(&error) { late() } else { error })
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tcp.flush()
    }
}

impl Side {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Controller => b"controller",
            Self::Agent => b"agent",
        }
    }
}

/// A TLS connection that one thread reads and another one writes.
#[derive(Clone)]
struct Channel {
    tls: Arc<Mutex<Connection>>,
    tcp: Arc<TcpStream>,
}

impl Channel {
    /// Never held while waiting for the peer's bytes, but while a frame is written: two peers that send more than their
    /// sockets hold, and do not read, wait for each other until the write times out.
    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send_pending(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            tls.write_tls(&mut &*self.tcp)?;
        }
        Ok(())
    }
}

/// Writes frames.
pub(super) struct FrameWriter {
    channel: Channel,
}

impl FrameWriter {
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
        // One write, so that a short frame is one packet.
        self.write(&[&length.to_be_bytes()[..], &body].concat())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut tls = self.channel.tls();
        // Less than the buffer of rustls.
        for chunk in bytes.chunks(RECORD_BYTES) {
            tls.writer().write_all(chunk)?;
            self.channel.send_pending(&mut tls)?;
        }
        Ok(())
    }
}

/// The most bytes of a TLS record. Source: RFC 8446 section 5.1.
const RECORD_BYTES: usize = 16 * 1_024;

/// Reads frames.
pub(super) struct FrameReader {
    channel: Channel,
    /// Bytes of the socket that TLS has not consumed.
    received: Vec<u8>,
}

impl FrameReader {
    /// # Errors
    /// The connection failed; `InvalidData` for a frame that is too long or invalid. The connection cannot be used
    /// afterwards.
    pub(super) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        let most = limits::AGENT_FRAME_BYTES_MAX;
        if length > most {
            return Err(invalid(format!("frame of {length} bytes exceeds the limit of {most}")));
        }
        let mut body = vec![0; length];
        self.read_exact(&mut body)?;
        serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
    }

    /// The longest wait for a part of a frame.
    pub(super) fn set_silence(&self, wait: Duration) -> io::Result<()> {
        self.channel.tcp.set_read_timeout(Some(wait))
    }
}

impl Read for FrameReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut tls = self.channel.tls();
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if !self.received.is_empty() {
                let read = tls.read_tls(&mut self.received.as_slice())?;
                self.received.drain(..read);
                tls.process_new_packets().map_err(|error| invalid(error.to_string()))?;
                // The response to an update of keys.
                self.channel.send_pending(&mut tls)?;
                continue;
            }
            drop(tls);
            let mut bytes = [0; RECORD_BYTES];
            let read = (&*self.channel.tcp).read(&mut bytes)?;
            if read == 0 {
                return Ok(0);
            }
            self.received.extend(bytes.iter().take(read));
        }
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const SECRET: &[u8] = b"a secret of sixteen";

    #[test]
    fn frames_are_received_in_order_in_both_directions_at_once() {
        let ((mut reader, mut writer), agent) = pair(SECRET, SECRET);
        let (mut agent_reader, mut agent_writer) = agent.unwrap();
        // Larger than the buffers of the sockets.
        let large = vec![2; 1_000_000];
        let sent = large.clone();
        let agent = thread::spawn(move || {
            agent_writer.send(&sent).unwrap();
            agent_writer.send(&"two").unwrap();
            let received: Vec<u32> = agent_reader.receive().unwrap();
            received.len()
        });
        let receiver = thread::spawn(move || {
            assert_eq!(reader.receive::<Vec<u32>>().unwrap().len(), 1_000_000);
            assert_eq!(reader.receive::<String>().unwrap(), "two");
            reader.receive::<String>().unwrap_err().kind()
        });
        writer.send(&large).unwrap();
        assert_eq!(agent.join().unwrap(), 1_000_000);
        assert_eq!(receiver.join().unwrap(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_peer_with_another_secret_is_rejected_by_both_sides() {
        let kind = |result: io::Result<_>| result.err().map(|error| error.kind());
        let (controller, agent) = try_pair(SECRET, b"wrong secret of it");
        assert_eq!(kind(agent), Some(io::ErrorKind::PermissionDenied));
        assert!(controller.is_err());
    }

    #[test]
    fn a_peer_must_prove_the_secret_in_time_even_if_it_sends() {
        let (mut one, other) = sockets();
        // The beginning of a TLS record.
        one.write_all(&[22]).unwrap();
        let tls = ServerConnection::new(agent_tls().unwrap()).unwrap();
        let secret = Secret::new(SECRET).unwrap();
        let wait = Duration::from_millis(1);
        let late = authenticate(tls.into(), other, (Side::Agent, &secret), wait);
        assert_eq!(late.err().map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
    }

    #[test]
    fn a_man_in_the_middle_cannot_forward_proofs() {
        // The attacker has a TLS session with each side, and forwards the plaintext.
        let secret = Secret::new(SECRET).unwrap();
        let (controller, toward_controller) = sockets();
        let (toward_agent, agent) = sockets();
        let own = secret.clone();
        let controller = thread::spawn(move || connect(controller, &own).is_err());
        let agent = thread::spawn(move || accept(agent, agent_tls().unwrap(), &secret).is_err());
        let server = ServerConnection::new(agent_tls().unwrap()).unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let client = ClientConnection::new(ClientTls::insecure().config(), name).unwrap();
        let (mut server, mut client) = (Connection::from(server), Connection::from(client));
        while server.is_handshaking() {
            server.complete_io(&mut &toward_controller).unwrap();
        }
        while client.is_handshaking() {
            client.complete_io(&mut &toward_agent).unwrap();
        }
        let forward = |from: (&mut Connection, &TcpStream), to: (&mut Connection, &TcpStream)| {
            let mut proof = [0; PROOF_BYTES];
            while from.0.reader().read_exact(&mut proof).is_err() {
                from.0.read_tls(&mut &*from.1).unwrap();
                from.0.process_new_packets().unwrap();
            }
            to.0.writer().write_all(&proof).unwrap();
            to.0.complete_io(&mut &*to.1).unwrap();
        };
        forward((&mut server, &toward_controller), (&mut client, &toward_agent));
        forward((&mut client, &toward_agent), (&mut server, &toward_controller));
        assert!(controller.join().unwrap() && agent.join().unwrap());
    }

    #[test]
    fn frames_have_a_limit() {
        let ((_reader, mut writer), agent) = pair(SECRET, SECRET);
        let length = u32::try_from(limits::AGENT_FRAME_BYTES_MAX + 1).unwrap();
        writer.write(&length.to_be_bytes()).unwrap();
        let error = agent.unwrap().0.receive::<String>().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
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

    type Ends = io::Result<(FrameReader, FrameWriter)>;

    #[track_caller]
    fn pair(controller: &[u8], agent: &[u8]) -> ((FrameReader, FrameWriter), Ends) {
        let (controller, agent) = try_pair(controller, agent);
        (controller.unwrap(), agent)
    }

    fn try_pair(controller: &[u8], agent: &[u8]) -> (Ends, Ends) {
        let (one, other) = sockets();
        let secret = Secret::new(agent).unwrap();
        let agent = thread::spawn(move || accept(other, agent_tls().unwrap(), &secret));
        let controller = connect(one, &Secret::new(controller).unwrap());
        (controller, agent.join().unwrap())
    }

    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }
}
