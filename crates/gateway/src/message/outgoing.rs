//! A request as it goes to an upstream: a client's, or one of the gateway's own.

use base::Method;
use wire::http1::{BodyFraming, Field, Known};

use super::{HeadEdits, Peer, Request};

/// A request as it goes to an upstream. It borrows everything, so that one that is forwarded unchanged is not copied.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    method: Method,
    method_name: &'a [u8],
    /// Below the endpoint's path.
    path: &'a [u8],
    query: Option<&'a [u8]>,
    /// The head that `fields` are offsets into.
    pub(crate) bytes: &'a [u8],
    pub(crate) fields: &'a [Field],
    pub(crate) edits: &'a HeadEdits,
    pub(crate) framing: BodyFraming,
    /// Who sent it.
    pub(crate) peer: &'a Peer,
    /// The host that the client asked for.
    pub(crate) host: &'a [u8],
    /// The protocol that the request may switch to.
    pub(crate) upgrade: Option<&'a [u8]>,
    /// Its sender accepts trailers, which gRPC servers require (RFC 9110 section 10.1.4).
    pub(crate) wants_trailers: bool,
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
            method_name: head.method_bytes(bytes),
            path,
            query: head.query(bytes),
            bytes,
            fields: head.fields(),
            edits,
            framing: head.framing(),
            peer: &request.peer,
            host: head.host(bytes),
            upgrade: upgrade.then(protocol),
            wants_trailers: wants_trailers(request),
        }
    }

    pub(crate) fn method(&self) -> Method {
        self.edits.method().map_or(self.method, Method::from_bytes)
    }

    pub(crate) fn method_name(&self) -> &'a [u8] {
        self.edits.method().unwrap_or(self.method_name)
    }

    /// Path and query below the endpoint's path. A new target has its query, if any, in its path.
    pub(crate) fn target(&self) -> (&'a [u8], Option<&'a [u8]>) {
        match self.edits.target() {
            Some(target) => (target, None),
            None => (self.path, self.query),
        }
    }
}

fn wants_trailers(request: &Request) -> bool {
    request.head.find(Known::Te).is_some_and(|field| {
        let codings = field.value.of(&request.bytes);
        codings
            .split(|byte| *byte == b',')
            .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    })
}
