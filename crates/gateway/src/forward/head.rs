//! The head of the forwarded request: the client's, byte for byte, without the fields that must not be
//! forwarded, and with those that the gateway adds. Written from the offsets of the parsed head.

use model::Endpoint;
use wire::http1::{BodyFraming, Known, KnownSet, write};

use crate::flow::OutFraming;
use crate::message::Request;

use super::Forwarding;

/// Fields that the gateway writes or handles itself.
const OURS: KnownSet =
    KnownSet::of(&[Known::Host, Known::ContentLength, Known::TransferEncoding, Known::Expect]);

/// Fields with which a client could impersonate a proxy or an authenticated caller.
const IDENTITY: KnownSet = KnownSet::of(&[
    Known::XForwardedFor,
    Known::XForwardedHost,
    Known::XForwardedPort,
    Known::XForwardedPrefix,
    Known::XForwardedProto,
    Known::XForwarded,
    Known::Forwarded,
    Known::XJwtAssertion,
]);

/// Appends the whole head, empty line included. Returns the framing of the body.
pub(crate) fn write_head(
    out: &mut Vec<u8>,
    request: &Request,
    endpoint: &Endpoint,
    forwarding: &Forwarding<'_>,
) -> OutFraming {
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    write::request_line(
        out,
        head.method_bytes(bytes),
        endpoint.path.as_bytes(),
        path_below(endpoint, forwarding.remainder),
        head.query(bytes),
    );
    write::field(out, b"Host", endpoint.authority.as_bytes());
    let drop = if request.peer.trusted { OURS } else { OURS.union(IDENTITY) };
    forwarding.edits.write_fields(out, bytes, head.fields(), drop);
    out.extend_from_slice(&request.peer.forwarded_lines);
    if !request.peer.trusted {
        write::field(out, b"X-Forwarded-Host", head.host(bytes));
    }
    if forwarding.upgrade {
        let protocol = head.find(Known::Upgrade).map_or(&b""[..], |field| field.value.of(bytes));
        out.extend_from_slice(b"Connection: Upgrade\r\n");
        write::field(out, b"Upgrade", protocol);
    } else if wants_trailers(request) {
        out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n");
    }
    let framing = write_framing(out, request);
    out.extend_from_slice(b"\r\n");
    framing
}

/// The path after the endpoint's own; `/` if both are empty.
fn path_below<'a>(endpoint: &Endpoint, remainder: &'a [u8]) -> &'a [u8] {
    if remainder.is_empty() && endpoint.path.is_empty() { b"/" } else { remainder }
}

fn write_framing(out: &mut Vec<u8>, request: &Request) -> OutFraming {
    match request.head.framing() {
        BodyFraming::None => {
            if expects_body(request.head.method()) {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
            OutFraming::Plain
        }
        BodyFraming::Length(bytes) => {
            write::field_number(out, b"Content-Length", bytes);
            OutFraming::Plain
        }
        BodyFraming::Chunked => {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            OutFraming::Chunked
        }
    }
}

/// Whether the client accepts trailers, which gRPC servers require (RFC 9110 section 10.1.4).
fn wants_trailers(request: &Request) -> bool {
    request.head.find(Known::Te).is_some_and(|field| {
        let codings = field.value.of(&request.bytes);
        codings
            .split(|byte| *byte == b',')
            .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    })
}

/// Methods whose requests need `Content-Length: 0` if they have no body (RFC 9110 section 8.6).
fn expects_body(method: base::Method) -> bool {
    use base::Method::{Connect, Delete, Get, Head, Options, Other, Patch, Post, Put, Trace};
    match method {
        Post | Put | Patch => true,
        Get | Head | Delete | Options | Trace | Connect | Other => false,
    }
}
