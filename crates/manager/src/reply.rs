//! Responses, and every way in which a request is rejected.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, PRAGMA,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;
use store::StoreError;

use crate::limits;

pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) const ONE_TIME_PASSWORD: &str =
    "the user has to replace this password first, at /account/password";

/// Why a request is rejected. The names are those of RFC 6749 section 5.2 and RFC 7591 section 3.2.2.
#[derive(Debug)]
pub(crate) enum Refusal {
    InvalidRequest(&'static str),
    /// Unknown client, or wrong secret.
    InvalidClient,
    InvalidGrant(&'static str),
    UnauthorizedClient,
    /// Another error with status 400, and its description.
    Other(&'static str, &'static str),
    /// The access token is missing or not active. Source: RFC 6750 section 3.1.
    InvalidToken,
    /// The access token is not one of a user, with the scope `openid`.
    InsufficientScope,
    UnsupportedGrant(String),
    InvalidMetadata(String),
    /// An application that gateways would reject.
    InvalidDocument(String),
    /// The application has a credential of another one.
    Conflict(String),
    /// Wrong user name or password.
    InvalidUser,
    /// The password is right, and valid for nothing but being replaced.
    OneTimePassword,
    /// Who sends the request may not do this.
    Forbidden(&'static str),
    /// Too many failures; the next attempt may be made in so many seconds.
    Slowed {
        wait_s: u64,
    },
    NotFound,
    MethodNotAllowed {
        allow: &'static str,
    },
    TooLarge,
    UnsupportedMediaType,
    /// The store does not respond, or is full.
    Unavailable,
    /// The LDAP directory does not respond.
    Directory,
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        Self::Unavailable
    }
}

impl Refusal {
    pub(crate) fn reply(self) -> Reply {
        let (status, error, description) = self.parts();
        let body = serde_json::json!({ "error": error, "error_description": description });
        let mut reply = json(status, &body);
        let field = match self {
            Self::InvalidClient | Self::InvalidUser => {
                Some((WWW_AUTHENTICATE, "Basic realm=\"Penstock\"".to_owned()))
            }
            Self::InvalidToken => {
                Some((WWW_AUTHENTICATE, "Bearer error=\"invalid_token\"".to_owned()))
            }
            Self::InsufficientScope => {
                let value = "Bearer error=\"insufficient_scope\", scope=\"openid\"";
                Some((WWW_AUTHENTICATE, value.to_owned()))
            }
            Self::Slowed { wait_s } => Some((RETRY_AFTER, wait_s.to_string())),
            Self::MethodNotAllowed { allow } => Some((ALLOW, allow.to_owned())),
            Self::InvalidRequest(_)
            | Self::InvalidGrant(_)
            | Self::UnauthorizedClient
            | Self::Other(..)
            | Self::UnsupportedGrant(_)
            | Self::InvalidMetadata(_)
            | Self::InvalidDocument(_)
            | Self::Conflict(_)
            | Self::OneTimePassword
            | Self::Forbidden(_)
            | Self::NotFound
            | Self::TooLarge
            | Self::UnsupportedMediaType
            | Self::Unavailable
            | Self::Directory => None,
        };
        if let Some((name, value)) = field {
            set(&mut reply, name, &value);
        }
        reply
    }

    #[rustfmt::skip]
    fn parts(&self) -> (StatusCode, &'static str, String) {
        let (status, error, description) = match self {
            Self::InvalidRequest(why) => (400, "invalid_request", *why),
            Self::InvalidClient => (401, "invalid_client", "unknown client or wrong secret"),
            Self::InvalidGrant(why) => (400, "invalid_grant", *why),
            Self::UnauthorizedClient => (400, "unauthorized_client", "the client is not registered for this grant type"),
            Self::Other(error, why) => (400, *error, *why),
            Self::InvalidToken => (401, "invalid_token", "the access token is missing or not active"),
            Self::InsufficientScope => (403, "insufficient_scope", "this needs an access token of a user with the scope `openid`"),
            Self::UnsupportedGrant(name) => return (StatusCode::BAD_REQUEST, "unsupported_grant_type", format!("the grant type `{name}` is not supported")),
            Self::InvalidMetadata(why) => return (StatusCode::BAD_REQUEST, "invalid_client_metadata", why.clone()),
            Self::InvalidDocument(why) => return (StatusCode::BAD_REQUEST, "invalid_request", why.clone()),
            Self::Conflict(why) => return (StatusCode::CONFLICT, "conflict", why.clone()),
            Self::InvalidUser => (401, "access_denied", "unknown user or wrong password"),
            Self::OneTimePassword => (403, "access_denied", ONE_TIME_PASSWORD),
            Self::Forbidden(why) => (403, "access_denied", *why),
            Self::Slowed { .. } => (429, "slow_down", "too many failed attempts; try again later"),
            Self::NotFound => (404, "not_found", "there is no such resource"),
            Self::MethodNotAllowed { .. } => (405, "invalid_request", "the method is not allowed here"),
            Self::TooLarge => (413, "invalid_request", "the body is too large"),
            Self::UnsupportedMediaType => (415, "invalid_request", "the media type is not supported here"),
            Self::Unavailable => (503, "temporarily_unavailable", "try again later"),
            Self::Directory => (503, "temporarily_unavailable", "the directory of users does not respond; try again later"),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, error, description.to_owned())
    }
}

/// A response that no cache may keep. Source: RFC 6749 section 5.1.
pub(crate) fn json(status: StatusCode, body: &Value) -> Reply {
    let mut reply = bytes(status, body.to_string());
    set(&mut reply, CACHE_CONTROL, "no-store");
    set(&mut reply, PRAGMA, "no-cache");
    reply
}

/// A text that no cache may keep.
pub(crate) fn text(status: StatusCode, body: String) -> Reply {
    let mut reply = bytes(status, body);
    set(&mut reply, CONTENT_TYPE, "text/plain; charset=utf-8");
    set(&mut reply, CACHE_CONTROL, "no-store");
    reply
}

/// A public document.
pub(crate) fn document(body: &str) -> Reply {
    let mut reply = bytes(StatusCode::OK, body.to_owned());
    set(&mut reply, CACHE_CONTROL, "public, max-age=300");
    reply
}

/// A page without scripts that no other page may embed.
pub(crate) fn page(status: StatusCode, html: &str) -> Reply {
    let mut reply = bytes(status, html.to_owned());
    set(&mut reply, CONTENT_TYPE, "text/html; charset=utf-8");
    set(&mut reply, CACHE_CONTROL, "no-store");
    // No `form-action`: browsers apply it to the redirection to the client too.
    set(
        &mut reply,
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    );
    set(&mut reply, X_FRAME_OPTIONS, "DENY");
    set(&mut reply, REFERRER_POLICY, "no-referrer");
    reply
}

/// A page with one sentence, without special characters.
pub(crate) fn message(status: StatusCode, sentence: &str) -> Reply {
    page(
        status,
        &format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{sentence}</title>\n\
             <h1>{sentence}</h1>\n</html>\n"
        ),
    )
}

/// A redirection after a form. Source: RFC 9700 section 4.12: never 307, which would send the password on.
pub(crate) fn redirect(location: &str) -> Reply {
    let mut reply = empty(StatusCode::SEE_OTHER);
    set(&mut reply, LOCATION, location);
    set(&mut reply, REFERRER_POLICY, "no-referrer");
    reply
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = bytes(status, String::new());
    reply.headers_mut().remove(CONTENT_TYPE);
    set(&mut reply, CACHE_CONTROL, "no-store");
    reply
}

fn bytes(status: StatusCode, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    if status == StatusCode::SERVICE_UNAVAILABLE {
        set(&mut reply, RETRY_AFTER, &limits::RETRY_AFTER_S.to_string());
    }
    set(&mut reply, CONTENT_TYPE, "application/json");
    set(&mut reply, HeaderName::from_static("x-content-type-options"), "nosniff");
    reply
}

pub(crate) fn set(reply: &mut Reply, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}
