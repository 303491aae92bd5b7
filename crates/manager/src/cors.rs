//! Requests of applications in browsers, from the origins that the configuration lists. None sends cookies. Source: the
//! Fetch standard, section 3.3.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;

use crate::limits;
use crate::reply::Reply;

/// Paths for an application without a server of its own. Pages and paths for administrators are not among them.
const PATHS: &[&str] = &[
    "/oauth2/token",
    "/oauth2/revoke",
    "/oauth2/jwks",
    "/oauth2/userinfo",
    "/oauth2/token/.well-known/openid-configuration",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/oauth2/token",
];

/// The CORS decision for the response to a request.
pub(crate) enum Cors {
    /// Nothing.
    Off,
    Denied,
    Allowed(HeaderValue),
}

impl Cors {
    /// `origins`: those that are allowed, or `*`.
    pub(crate) fn of<B>(request: &Request<B>, origins: &[String]) -> Self {
        if origins.is_empty() || !PATHS.contains(&request.uri().path()) {
            return Self::Off;
        }
        let origin = request.headers().get(ORIGIN);
        let is_listed = |origin: &&HeaderValue| {
            origins.iter().any(|one| one == "*" || one.as_bytes() == origin.as_bytes())
        };
        origin.filter(is_listed).map_or(Self::Denied, |origin| Self::Allowed(origin.clone()))
    }

    /// The response to a preflight request; `None`: it is none, or not allowed.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Reply> {
        let is_preflight = *request.method() == Method::OPTIONS
            && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !is_preflight || !matches!(self, Self::Allowed(_)) {
            return None;
        }
        let mut reply = Response::new(Full::new(Bytes::new()));
        *reply.status_mut() = StatusCode::NO_CONTENT;
        let fields = reply.headers_mut();
        fields.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
        let names = HeaderValue::from_static("authorization, content-type, dpop");
        fields.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
        fields.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(limits::PREFLIGHT_S));
        Some(reply)
    }

    /// Adds the fields that let the browser hand `reply` to the application.
    pub(crate) fn apply(self, reply: &mut Reply) {
        let fields = reply.headers_mut();
        if !matches!(self, Self::Off) {
            fields.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Self::Allowed(origin) = self {
            fields.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            let exposed = HeaderValue::from_static("www-authenticate, retry-after");
            fields.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}
