//! The two messages of an exchange. Their heads own their bytes, apart from the body's buffer.

mod certificate;
pub(crate) mod claims;
pub(crate) mod client_trust;
mod edits;
pub(crate) mod forwarded_certificates;
mod outgoing;
mod peer;
pub(crate) mod resources;

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::addresses;
use wire::http1::{Known, KnownSet, RequestHead, ResponseHead, write};

use client_trust::{AcceptedFor, Trust};

pub(crate) use certificate::{CERTIFICATE_FIELD, ClientCertificate, Forwarded};
pub(crate) use edits::HeadEdits;
pub use outgoing::Repetition;
pub(crate) use outgoing::{Outgoing, wants_trailers};
pub(crate) use peer::{Peer, Serves};

/// A request head with its own bytes. Lent by the worker, so that a request allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The head as HTTP/1.1 bytes; `head` holds offsets into it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: RequestHead,
    pub(crate) peer: Rc<Peer>,
    /// The certificate that a trusted proxy forwards for its client.
    pub(crate) forwarded: Forwarded,
    /// Whether it came over TLS.
    pub(crate) secure: bool,
    /// It is an extended CONNECT of HTTP/2: a WebSocket handshake whose key is the gateway's.
    pub(crate) is_connect: bool,
}

impl Request {
    /// The scheme and host of the URL that the client has used. Taken from `X-Forwarded-*` of a trusted proxy.
    pub(crate) fn origin(&self) -> (&[u8], &[u8]) {
        let bytes = self.bytes.as_slice();
        let said = |known| {
            let field = self.head.find(known).filter(|_| self.peer.trusted)?;
            Some(field.value.of(bytes).trim_ascii()).filter(|value| !value.is_empty())
        };
        let scheme: &[u8] = if self.secure { b"https" } else { b"http" };
        (
            said(Known::XForwardedProto).unwrap_or(scheme),
            said(Known::XForwardedHost).unwrap_or_else(|| self.head.host(bytes)),
        )
    }

    /// Whether the client is itself at the other end of the connection. A trusted proxy that names its client is not
    /// the client, nor is its certificate the client's.
    pub(crate) fn is_direct(&self) -> bool {
        !self.peer.trusted || self.head.find(Known::XForwardedFor).is_none()
    }

    /// The certificate that the client has proven, in the TLS handshake with the gateway or with a trusted proxy.
    fn client_certificate(&self) -> Option<&ClientCertificate> {
        match &self.forwarded {
            Forwarded::Certificate(certificate) => Some(certificate),
            Forwarded::Rejected => None,
            Forwarded::Absent => self.peer.certificate.as_ref().filter(|_| self.is_direct()),
        }
    }

    /// SHA-256 of the client's certificate.
    pub(crate) fn certificate(&self) -> Option<&[u8; 32]> {
        self.client_certificate().map(|certificate| &certificate.hash)
    }

    /// The endpoints of an API for which the client's certificate is accepted: [`ClientCertificate::accepted_for`].
    pub(crate) fn accepted_for(&self, trust: Option<&Arc<Trust>>, now_s: u64) -> AcceptedFor {
        let certificate = self.client_certificate();
        certificate.map_or_else(AcceptedFor::default, |it| it.accepted_for(trust, now_s))
    }

    /// The client's address. If the peer is a trusted proxy: the last address in `X-Forwarded-For` that is not one of a
    /// trusted proxy.
    pub(crate) fn client_address(&self, trusted: &[(IpAddr, u8)]) -> IpAddr {
        let peer = &self.peer;
        if !peer.trusted {
            return peer.address;
        }
        let fields = self.head.fields().iter();
        let fields = fields.filter(|field| field.known == Known::XForwardedFor);
        let values = fields.map(|field| field.value.of(&self.bytes));
        addresses::forwarded_for(values, trusted).unwrap_or(peer.address)
    }
}

/// A copy of a client's request head, and changes to it. Lent by the worker. It may outlive the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCopy {
    pub(crate) bytes: Vec<u8>,
    pub(crate) head: RequestHead,
    pub(crate) edits: HeadEdits,
    /// Length of the part of the path that names the service.
    pub(crate) prefix_len: usize,
    pub(crate) remote_address: Option<IpAddr>,
}

impl RequestCopy {
    /// Becomes a copy of `request`, and keeps the memory.
    pub(crate) fn copy(&mut self, request: &Request) {
        self.bytes.clone_from(&request.bytes);
        self.head.clone_from(&request.head);
        self.edits.clear();
        self.remote_address = Some(request.peer.address);
    }

    /// Allocated bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_add(self.edits.capacity())
    }
}

/// A response head with its own bytes, and changes to it. Lent by the worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// The bytes from the upstream; `parsed` holds offsets into them. Empty for the gateway's own responses.
    pub(crate) bytes: Vec<u8>,
    pub(crate) parsed: ResponseHead,
    pub(crate) edits: HeadEdits,
}

/// How a response's body is framed for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body follows: the upstream's length is forwarded (HEAD, 304).
    Declared,
    /// No body and no length (204, 101).
    None,
    Length(u64),
    Chunked,
    /// The body ends with the connection.
    Close,
}

impl Framing {
    /// The length that the gateway writes.
    pub(crate) fn length(self) -> Option<u64> {
        match self {
            Self::Length(bytes) => Some(bytes),
            Self::Declared | Self::None | Self::Chunked | Self::Close => None,
        }
    }
}

/// Framing fields, which the gateway writes itself.
const FRAMING: KnownSet = KnownSet::of(&[Known::ContentLength, Known::TransferEncoding]);

impl Head {
    pub(crate) fn status(&self) -> u16 {
        self.edits.status().unwrap_or_else(|| self.parsed.status())
    }

    fn reason(&self) -> &[u8] {
        if let Some(reason) = self.edits.reason() {
            return reason;
        }
        match self.edits.status() {
            Some(status) => write::reason(status).as_bytes(),
            None => self.parsed.reason(&self.bytes),
        }
    }

    /// Allocated bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_add(self.edits.capacity())
    }

    /// Empties it, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.parsed.clear();
        self.edits.clear();
    }

    /// Appends the status line and the end-to-end fields. `Connection`, a transfer coding and the empty line are
    /// the caller's.
    pub(crate) fn write(&self, out: &mut Vec<u8>, framing: Framing) {
        write::status_line(out, self.status(), self.reason());
        let drop = if framing == Framing::Declared { KnownSet::EMPTY } else { FRAMING };
        self.edits.write_fields(out, &self.bytes, self.parsed.fields(), drop);
        if let Framing::Length(bytes) = framing {
            write::content_length(out, bytes);
        }
    }

    /// The same fields one by one, for protocols without field lines. `Content-Length` is not among them unless
    /// it is [`Framing::Declared`].
    pub(crate) fn fields(&self, framing: Framing) -> impl Iterator<Item = (&[u8], &[u8])> {
        let drop = if framing == Framing::Declared { KnownSet::EMPTY } else { FRAMING };
        self.edits.fields(&self.bytes, self.parsed.fields(), drop)
    }
}
