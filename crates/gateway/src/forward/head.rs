//! The head of the forwarded request: the client's, byte for byte, without the fields that must not be
//! forwarded, and with those that the gateway adds. Written from the offsets of the parsed head.

use model::Endpoint;
use wire::http1::{BodyFraming, Known, KnownSet, write};

use crate::body::OutFraming;
use crate::message::Outgoing;

/// Fields that the gateway writes or handles itself.
const OURS: KnownSet =
    KnownSet::of(&[Known::Host, Known::ContentLength, Known::TransferEncoding, Known::Expect]);

/// Fields with which a client could impersonate a proxy or an authenticated caller.
pub(crate) const IDENTITY: KnownSet = KnownSet::of(&[
    Known::XForwardedFor,
    Known::XForwardedHost,
    Known::XForwardedPort,
    Known::XForwardedPrefix,
    Known::XForwardedProto,
    Known::XForwarded,
    Known::Forwarded,
    Known::XJwtAssertion,
    Known::Identity,
]);

/// Appends the whole head, empty line included. Returns the framing of the body.
pub(super) fn write_head(
    out: &mut Vec<u8>,
    request: &Outgoing<'_>,
    endpoint: &Endpoint,
    forward_fields: &[String],
) -> OutFraming {
    let (prefix, path) = (endpoint.path.as_bytes(), request.path);
    let path = if path.is_empty() && prefix.is_empty() { b"/" } else { path };
    let absolute = request
        .is_absolute
        .then(|| format!("{}://{}{}", endpoint.scheme.as_str(), endpoint.authority, endpoint.path));
    let prefix = absolute.as_ref().map_or(prefix, String::as_bytes);
    write::request_line(out, request.method_name, prefix, path, request.query);
    if request.is_http10 {
        write::as_http10(out);
    }
    write::field(out, b"Host", request.authority.unwrap_or(endpoint.authority.as_bytes()));
    let peer = request.peer;
    let drop = if peer.trusted { OURS } else { OURS.union(IDENTITY) };
    let (bytes, fields) = (request.bytes, request.fields);
    request.edits.write_fields_except(out, bytes, fields, drop, forward_fields);
    out.extend_from_slice(&peer.forwarded_lines);
    if !peer.trusted && !request.host.is_empty() {
        write::field(out, b"X-Forwarded-Host", request.host);
    }
    if let Some(protocol) = request.upgrade {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
        write::field(out, b"Upgrade", protocol);
    } else if request.closes || request.is_http10 {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if request.wants_trailers {
        out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n");
    }
    let framing = write_framing(out, request);
    out.extend_from_slice(b"\r\n");
    framing
}

fn write_framing(out: &mut Vec<u8>, request: &Outgoing<'_>) -> OutFraming {
    match request.framing {
        BodyFraming::None => {
            if expects_body(request.method) {
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

/// Methods whose requests need `Content-Length: 0` if they have no body (RFC 9110 section 8.6).
fn expects_body(method: base::Method) -> bool {
    use base::Method::{Connect, Delete, Get, Head, Options, Other, Patch, Post, Put, Trace};
    match method {
        Post | Put | Patch => true,
        Get | Head | Delete | Options | Trace | Connect | Other => false,
    }
}
