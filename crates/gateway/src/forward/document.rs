//! A document that the gateway requests from a URL, and the result.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use http::Uri;
use http::uri::Scheme as UriScheme;
use model::{Endpoint, Fault, Scheme};
use wire::tls::ClientTls;

use crate::message::Repetition;

/// Limits of one request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Largest body, in bytes.
    pub bytes_max: usize,
    /// Longest wait for the complete response, name lookup and handshake included, in milliseconds.
    pub total_ms: u32,
}

/// A complete response.
#[derive(Debug)]
pub struct Fetched {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why a request failed. No message contains bytes from the server, except a redirect's location without its query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    #[error("invalid URL: {0}")]
    Url(&'static str),
    #[error("no complete response within {total_ms} ms")]
    Timeout { total_ms: u32 },
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    #[error("the response is larger than {bytes_max} bytes")]
    TooLarge { bytes_max: usize },
    #[error(
        "status {status} redirects to `{location}`: redirects are not followed; configure the final URL"
    )]
    Redirect { status: u16, location: String },
    #[error("the server responded with status {0}")]
    Status(u16),
    #[error("the gateway is shutting down")]
    Stopped,
}

impl FetchError {
    /// Whether the server may respond later.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Fault(_) | Self::Stopped => true,
            Self::Status(status) => *status == 429 || *status >= 500,
            Self::Url(_) | Self::TooLarge { .. } | Self::Redirect { .. } => false,
        }
    }
}

/// Parts of a request besides its URL. The method is GET without a body, else a POST. A field replaces the default of
/// its name.
#[derive(Clone, Default)]
pub struct Content {
    pub fields: Vec<(&'static str, String)>,
    pub body: Option<Vec<u8>>,
    pub repetition: Repetition,
}

/// A request that the thread of upstreams sends.
pub(crate) struct Fetch {
    pub(crate) endpoint: Endpoint,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) content: Content,
    pub(crate) tls: Arc<ClientTls>,
    pub(crate) bounds: Bounds,
    pub(crate) done: SyncSender<Result<Fetched, FetchError>>,
}

/// The endpoint of a URL, and the path and query on it.
pub(crate) fn endpoint(url: &str) -> Result<(Endpoint, String), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "malformed")?;
    let (scheme, default_port) = match uri.scheme() {
        Some(scheme) if *scheme == UriScheme::HTTPS => (Scheme::Https, 443),
        Some(scheme) if *scheme == UriScheme::HTTP => (Scheme::Http, 80),
        Some(_) | None => return Err("must start with http:// or https://"),
    };
    let authority = uri.authority().ok_or("no host")?;
    if authority.as_str().contains('@') {
        return Err("contains user information");
    }
    let host = authority.host();
    let has_port = authority.as_str().len() > host.len();
    if host.is_empty() || has_port != authority.port_u16().is_some() {
        return Err("malformed host or port");
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let endpoint = Endpoint {
        scheme,
        host: bare.unwrap_or(host).to_owned(),
        port: authority.port_u16().unwrap_or(default_port),
        path: String::new(),
        authority: authority.as_str().to_owned(),
    };
    Ok((endpoint, uri.path_and_query().map_or("/", |target| target.as_str()).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_rejected_with_its_problem() {
        for (url, expect) in [
            ("ftp://a.test/", "must start with http:// or https://"),
            ("/keys.json", "must start with http:// or https://"),
            ("http://user:pass@a.test/", "contains user information"),
            ("http://a.test:x/", "malformed host or port"),
            ("http://a.test:/", "malformed host or port"),
            ("http://a.test:65536/", "malformed host or port"),
            ("http:///", "malformed"),
            ("http://a b/", "malformed"),
            ("", "malformed"),
        ] {
            let Err(problem) = endpoint(url) else { panic!("{url}") };
            assert_eq!(problem, expect, "{url}");
        }
        let (found, target) = endpoint("https://[::1]/jwks?x").unwrap();
        assert_eq!((found.host.as_str(), found.port, target.as_str()), ("::1", 443, "/jwks?x"));
    }
}
