//! HTTP request methods.

/// A request method. The eight that an OpenAPI path item can name, CONNECT, and the rest.
/// Source: RFC 9110 section 9.3, RFC 5789 (PATCH).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Trace,
    Patch,
    Connect,
    /// Any other token. No operation can declare one, so it is never forwarded.
    Other,
}

impl Method {
    /// The number of variants; `index` is below it.
    pub const COUNT: usize = 10;

    /// Every method but `Other`, in `Allow` order.
    pub const NAMED: [Self; 9] = [
        Self::Get,
        Self::Head,
        Self::Post,
        Self::Put,
        Self::Delete,
        Self::Options,
        Self::Trace,
        Self::Patch,
        Self::Connect,
    ];

    /// Methods are case-sensitive (RFC 9110 section 9.1): `get` is [`Method::Other`].
    #[must_use]
    pub fn from_bytes(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            b"CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }

    /// The token; `OTHER` for [`Method::Other`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Connect => "CONNECT",
            Self::Other => "OTHER",
        }
    }

    /// Index for tables by method, below [`Method::COUNT`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether the method is safe: it changes nothing at the upstream (RFC 9110 section 9.2.1).
    #[must_use]
    pub fn is_safe(self) -> bool {
        match self {
            Self::Get | Self::Head | Self::Options | Self::Trace => true,
            Self::Put | Self::Delete | Self::Post | Self::Patch | Self::Connect | Self::Other => {
                false
            }
        }
    }

    /// Whether sending it twice has the same effect as sending it once (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn is_idempotent(self) -> bool {
        match self {
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace => true,
            Self::Post | Self::Patch | Self::Connect | Self::Other => false,
        }
    }
}
