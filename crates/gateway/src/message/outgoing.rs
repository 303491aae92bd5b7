//! A request as it goes to an upstream: a client's, or one of the gateway's own.

use base::Method;
use wire::http1::{BodyFraming, Field, Known};

use super::{HeadEdits, Peer, Request};

/// A request as it goes to an upstream. It borrows everything, so that one that is forwarded unchanged is not copied.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) method: Method,
    pub(crate) repetition: Repetition,
    pub(crate) method_name: &'a [u8],
    /// Below the endpoint's path.
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
    /// The head that `fields` are offsets into.
    pub(crate) bytes: &'a [u8],
    pub(crate) fields: &'a [Field],
    pub(crate) edits: &'a HeadEdits,
    pub(crate) framing: BodyFraming,
    /// Who sent it.
    pub(crate) peer: &'a Peer,
    /// The value of `Host`, instead of the endpoint's authority.
    pub(crate) authority: Option<&'a [u8]>,
    /// The host that the client asked for.
    pub(crate) host: &'a [u8],
    /// The protocol that the request may switch to.
    pub(crate) upgrade: Option<&'a [u8]>,
    /// The upstream has to accept the key of the WebSocket handshake, which is the gateway's: its client has none.
    pub(crate) has_own_key: bool,
    /// The client accepts trailers, which gRPC servers require (RFC 9110 section 10.1.4).
    pub(crate) wants_trailers: bool,
    /// The connection is not used again.
    pub(crate) closes: bool,
    /// The request line has the whole URL: the endpoint is reached through a forward proxy.
    pub(crate) is_absolute: bool,
    /// The request line has HTTP/1.0. The body has a known length, and the connection is not used again.
    pub(crate) is_http10: bool,
}

/// Whether a request may be sent again after bytes of it were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repetition {
    /// If its method is idempotent. Source: RFC 9110 section 9.2.2.
    #[default]
    ByMethod,
    /// If a reused connection ended without a response, regardless of the method: repeating it does no harm.
    Harmless,
    /// Never, since it contains a value that the server accepts once, such as a code or a refresh token. It is sent on
    /// a new connection: an idle one could end before the server reads the request.
    SingleUse,
}

impl<'a> Outgoing<'a> {
    /// A client's request. `path`: the part below the API's base path; `upgrade`: it may switch protocols.
    pub(crate) fn of(
        request: &'a Request,
        path: &'a [u8],
        edits: &'a HeadEdits,
        upgrade: bool,
    ) -> Self {
        let (head, bytes) = (&request.head, request.bytes.as_slice());
        let protocol = || head.find(Known::Upgrade).map_or(&b""[..], |field| field.value.of(bytes));
        Self {
            method: head.method(),
            repetition: Repetition::ByMethod,
            method_name: head.method_bytes(bytes),
            path,
            query: edits.query(head.query(bytes)),
            bytes,
            fields: head.fields(),
            edits,
            framing: head.framing(),
            peer: &request.peer,
            authority: None,
            host: head.host(bytes),
            upgrade: upgrade.then(protocol),
            has_own_key: request.is_connect,
            wants_trailers: wants_trailers(request),
            closes: false,
            is_absolute: false,
            is_http10: false,
        }
    }

    /// Whether it is a gRPC stream, whose messages may be few and far between.
    pub(crate) fn is_grpc(&self) -> bool {
        let mut fields = self.fields.iter();
        is_grpc(fields.find(|field| field.known == Known::ContentType), self.bytes)
    }

    /// A request of the gateway's own. `target`: path and query.
    pub(crate) fn own(
        method_name: &'a [u8],
        target: &'a [u8],
        edits: &'a HeadEdits,
        peer: &'a Peer,
    ) -> Self {
        Self {
            authority: None,
            method: Method::from_bytes(method_name),
            repetition: Repetition::ByMethod,
            method_name,
            path: target,
            query: None,
            bytes: &[],
            fields: &[],
            edits,
            framing: BodyFraming::None,
            peer,
            host: &[],
            upgrade: None,
            has_own_key: false,
            wants_trailers: false,
            closes: false,
            is_absolute: false,
            is_http10: false,
        }
    }
}

impl Request {
    /// Whether it is a gRPC stream, whose messages may be few and far between.
    pub(crate) fn is_grpc(&self) -> bool {
        is_grpc(self.head.find(Known::ContentType), &self.bytes)
    }
}

fn is_grpc(content_type: Option<&Field>, bytes: &[u8]) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    content_type.is_some_and(|field| {
        let start = field.value.of(bytes).get(..GRPC.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
    })
}

/// Whether the client accepts trailers.
pub(crate) fn wants_trailers(request: &Request) -> bool {
    request.head.find(Known::Te).is_some_and(|field| {
        let codings = field.value.of(&request.bytes);
        codings
            .split(|byte| *byte == b',')
            .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    })
}
