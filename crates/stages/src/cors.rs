//! Which cross-origin requests a browser is told it may make.
//!
//! Beside the way of a request: the gateway asks [`preflight`] for an `OPTIONS` that carries
//! `Origin` and `Access-Control-Request-Method`, and [`simple`] for the answer to any other request
//! that carries `Origin`. Only for an API that has a [`Cors`].
//!
//! Source: the Fetch standard, section 3.3 (CORS protocol); WSO2's `CORSRequestHandler`.
//! Architecture invariant: an origin that isn't listed is never told `*` with credentials, nor
//! echoed.

use model::{Cors, MethodSet};

/// The answer to a preflight: status 200 or 204 with these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreflightHeaders<'a> {
    pub origin: AllowOrigin<'a>,
    pub credentials: bool,
    pub methods: AllowMethods<'a>,
    pub headers: AllowHeaders<'a>,
}

/// What an actual answer carries beside the backend's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleHeaders<'a> {
    pub origin: AllowOrigin<'a>,
    pub credentials: bool,
    pub expose: &'a [String],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowOrigin<'a> {
    /// `*`: the same answer for every origin.
    Any,
    /// The listed origin that asked; the answer varies by origin.
    Origin(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowMethods<'a> {
    /// As configured.
    Listed(&'a [String]),
    /// The resource's own.
    Resource(MethodSet),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowHeaders<'a> {
    /// As configured; nothing is written when empty.
    Listed(&'a [String]),
    /// `*` is configured: what was asked for; the answer varies by it.
    Requested(&'a [u8]),
}

/// Decides a preflight. `None`: the answer carries no CORS field at all, so the browser refuses.
/// `resource_methods`: what `route` offers at the path.
#[must_use]
pub fn preflight<'a>(
    cors: &'a Cors,
    origin: &'a [u8],
    requested_method: &[u8],
    requested_headers: Option<&'a [u8]>,
    resource_methods: MethodSet,
) -> Option<PreflightHeaders<'a>> {
    let _ = (
        cors,
        origin,
        requested_method,
        requested_headers,
        resource_methods,
    );
    None
}

/// The fields of an actual answer. `None`: none, besides `Vary: Origin` where [`varies`].
#[must_use]
pub fn simple<'a>(cors: &'a Cors, origin: &'a [u8]) -> Option<SimpleHeaders<'a>> {
    let _ = (cors, origin);
    None
}

/// Whether answers differ by origin, so that `Vary: Origin` stands on every one of them, those
/// without CORS fields included.
#[must_use]
pub fn varies(cors: &Cors) -> bool {
    !cors.allow_origins.iter().any(|origin| origin == "*")
}

impl PreflightHeaders<'_> {
    /// Appends the fields as lines, `name: value CRLF` each.
    pub fn append(&self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

impl SimpleHeaders<'_> {
    /// Appends the fields as lines, `name: value CRLF` each.
    pub fn append(&self, out: &mut Vec<u8>) {
        let _ = out;
    }
}
