//! A response on its way to the client.

use std::task::Context;

use base::Method;
use model::Fault;
use wire::http1::{ResponseFraming, Version};

use crate::body::request_body::RequestBody;
use crate::body::{Held, Tap};
use crate::forward::UpstreamBody;
use crate::message::resources::Resources;
use crate::message::{Framing, Head, Request};
use crate::worker::Worker;

/// A response: an upstream's, or the gateway's own.
pub(crate) struct Response {
    pub(crate) head: Box<Head>,
    pub(crate) body: Body,
    /// Sees the body pass.
    pub(crate) tap: Option<Box<dyn Tap>>,
}

/// A response's body.
pub(crate) enum Body {
    Empty,
    /// Still on the wire.
    Streaming(UpstreamBody),
    /// Completely in memory.
    Held(Held),
}

impl Response {
    /// The framing for the client.
    pub(crate) fn framing(&self, request: &Request) -> Framing {
        let status = self.head.status();
        match &self.body {
            _ if matches!(status, 101 | 204) => Framing::None,
            Body::Empty if !self.head.bytes.is_empty() && is_without_body(status, request) => {
                Framing::Declared
            }
            // It has no length of its own: that would be the one of the stored response.
            Body::Empty if status == 304 => Framing::None,
            Body::Empty => Framing::Length(0),
            Body::Held(body) => Framing::Length(body.len() as u64),
            Body::Streaming(_) => match self.head.parsed.framing() {
                ResponseFraming::None if is_without_body(status, request) => Framing::Declared,
                ResponseFraming::None => Framing::Length(0),
                ResponseFraming::Length(bytes) => Framing::Length(bytes),
                ResponseFraming::Chunked | ResponseFraming::UntilClose => {
                    match request.head.version() {
                        Version::Http11 => Framing::Chunked,
                        Version::Http10 => Framing::Close,
                    }
                }
            },
        }
    }
}

/// Whether the fields of a body are sent, and the body is not. Source: RFC 9110 sections 9.3.2 and 15.4.5.
fn is_without_body(status: u16, request: &Request) -> bool {
    request.head.method() == Method::Head || status == 304
}

impl Response {
    /// Whether the upstream has agreed to another protocol.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.head.status() == 101 && matches!(self.body, Body::Streaming(_))
    }

    /// Whether no payload is sent after the head.
    pub(crate) fn is_bodiless(&self, request: &Request) -> bool {
        match &self.body {
            Body::Empty => true,
            Body::Held(body) => request.head.method() == Method::Head || body.len() == 0,
            // A request that was HEAD may have become another.
            Body::Streaming(body) => body.is_done() || request.head.method() == Method::Head,
        }
    }

    /// Whether the rest of the request's body is still sent to the upstream. After an error status it is not.
    pub(crate) fn uploads(&self) -> bool {
        match &self.body {
            Body::Streaming(body) => body.uploads() && self.head.status() < 400,
            Body::Empty | Body::Held(_) => false,
        }
    }

    /// Ends an upload that is not complete: the upstream's connection is not used again.
    pub(crate) fn stop_upload(&mut self, resources: &Resources) {
        if let Body::Streaming(body) = &mut self.body {
            body.stop_upload(resources);
        }
    }

    /// Continues the upload, if there is one. Returns whether it is fast enough to extend a deadline.
    pub(crate) fn poll_upload<B: RequestBody>(
        &mut self,
        cx: &mut Context<'_>,
        request_body: &mut B,
        resources: &Resources,
    ) -> bool {
        match &mut self.body {
            Body::Streaming(body) => body.poll_upload(cx, request_body, resources),
            Body::Empty | Body::Held(_) => false,
        }
    }

    /// No more of the upstream's body came in time.
    pub(crate) fn stalled(&mut self) -> Box<Fault> {
        if let Body::Streaming(body) = &mut self.body {
            body.has_stalled();
        }
        let reason = "no data within `stall_ms`";
        Fault::Truncated { authority: self.authority(), reason }.into()
    }

    /// The upstream's response is not valid, or cannot be represented in the client's protocol.
    pub(crate) fn violation(&self, reason: &'static str) -> Box<Fault> {
        Fault::ProtocolViolation { authority: self.authority(), reason }.into()
    }

    pub(crate) fn authority(&self) -> String {
        match &self.body {
            Body::Streaming(body) => body.connection.authority.to_string(),
            Body::Empty | Body::Held(_) => String::new(),
        }
    }

    /// Releases lent buffers. An upstream's connection can be used again if everything is `complete`.
    pub(crate) fn release(self, resources: &Resources, complete: bool) {
        if let Body::Streaming(body) = self.body {
            body.release(resources, complete);
        }
        resources.release_head(self.head);
    }
}

impl Worker {
    /// An empty response of the gateway's own.
    pub(crate) fn own_response(&self, status: u16) -> Response {
        let mut head = self.resources.head();
        head.edits.set_status(status);
        self.resources.append_date(&mut head.edits);
        Response { head, body: Body::Empty, tap: None }
    }

    /// The same with these field lines.
    pub(crate) fn own_response_with(&self, status: u16, lines: &[u8]) -> Response {
        let mut response = self.own_response(status);
        response.head.edits.lines_mut().extend_from_slice(lines);
        response
    }
}
