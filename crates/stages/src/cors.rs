//! CORS: decides which cross-origin requests a browser may send.
//!
//! For APIs with [`Cors`] rules, the gateway calls [`preflight`] for an `OPTIONS` with `Origin` and
//! `Access-Control-Request-Method`, and [`simple`] for the response to any other request with `Origin`.
//!
//! Source: the Fetch standard, section 3.3 (CORS protocol); WSO2's `CORSRequestHandler`.
//! Architecture invariant: an origin that is not listed is never echoed, and `*` is never combined with
//! credentials.

use base::Method;
use model::{Cors, MethodSet};

/// The header fields of the response to a preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreflightHeaders<'a> {
    pub origin: AllowOrigin<'a>,
    pub credentials: bool,
    pub methods: AllowMethods<'a>,
    pub headers: AllowHeaders<'a>,
}

/// The CORS fields of the response to an actual request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleHeaders<'a> {
    pub origin: AllowOrigin<'a>,
    pub credentials: bool,
    pub expose: &'a [String],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowOrigin<'a> {
    /// `*`: any origin.
    Any,
    /// The request's origin, which is listed.
    Origin(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowMethods<'a> {
    /// As configured.
    Listed(&'a [String]),
    /// The methods of the resource.
    Resource(MethodSet),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowHeaders<'a> {
    /// The configured fields; the response field is omitted if empty.
    Listed(&'a [String]),
    /// `*` is configured: the requested headers, by which the response varies.
    Requested(&'a [u8]),
}

/// Decides a preflight. `None`, for an origin that is not listed or a method that is not offered: the
/// response has no CORS field, and the browser blocks the request. Requested headers are not checked: the
/// browser compares them with the list. `resource_methods`: the methods that `route` finds at the path.
#[must_use]
pub fn preflight<'a>(
    cors: &'a Cors,
    origin: &'a [u8],
    requested_method: &[u8],
    requested_headers: Option<&'a [u8]>,
    resource_methods: MethodSet,
) -> Option<PreflightHeaders<'a>> {
    let origin = allow_origin(cors, origin)?;
    let methods = allow_methods(cors, requested_method, resource_methods)?;
    let headers = match requested_headers.filter(|names| is_list_of_names(names)) {
        Some(names) if is_any(&cors.allow_headers) => AllowHeaders::Requested(names),
        Some(_) | None => AllowHeaders::Listed(&cors.allow_headers),
    };
    Some(PreflightHeaders { origin, credentials: credentials(cors, origin), methods, headers })
}

/// The fields of the response to an actual request. `None` for no field other than `Vary: Origin`, which is added if
/// [`varies`].
#[must_use]
pub fn simple<'a>(cors: &'a Cors, origin: &'a [u8]) -> Option<SimpleHeaders<'a>> {
    let origin = allow_origin(cors, origin)?;
    let credentials = credentials(cors, origin);
    Some(SimpleHeaders { origin, credentials, expose: &cors.expose_headers })
}

/// Whether responses differ by origin, so that all of them need `Vary: Origin`, even those without CORS
/// fields. Source: Fetch, section 3.3.5 ("CORS protocol and HTTP caches").
#[must_use]
pub fn varies(cors: &Cors) -> bool {
    !is_any(&cors.allow_origins)
}

/// Origins are serialised in lower case (RFC 6454 section 6.2); the configured ones may not be.
fn allow_origin<'a>(cors: &Cors, origin: &'a [u8]) -> Option<AllowOrigin<'a>> {
    if is_any(&cors.allow_origins) {
        return Some(AllowOrigin::Any);
    }
    let listed = |one: &String| is_match(one.as_bytes(), origin);
    cors.allow_origins.iter().any(listed).then_some(AllowOrigin::Origin(origin))
}

/// Whether `origin` is `listed`, or below it where the listed host starts with `*.`.
fn is_match(listed: &[u8], origin: &[u8]) -> bool {
    let Some(wildcard) = listed.windows(5).position(|part| part == b"://*.") else {
        return listed.eq_ignore_ascii_case(origin);
    };
    // `https://` and `.example.org`; in between only the characters of host names.
    let scheme = listed.get(..wildcard.saturating_add(3)).unwrap_or_default();
    let host = listed.get(wildcard.saturating_add(4)..).unwrap_or_default();
    let Some((start, rest)) = origin.split_at_checked(scheme.len()) else { return false };
    let Some(labels) = rest.len().checked_sub(host.len()) else { return false };
    let Some((labels, end)) = rest.split_at_checked(labels) else { return false };
    let of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let is_below = !labels.is_empty() && labels.iter().all(of_host);
    is_below && start.eq_ignore_ascii_case(scheme) && end.eq_ignore_ascii_case(host)
}

/// No browser accepts credentials with `*` (Fetch, section 3.3.5), and echoing the origin instead would
/// give every site access to the user's session.
fn credentials(cors: &Cors, origin: AllowOrigin<'_>) -> bool {
    match origin {
        AllowOrigin::Any => false,
        AllowOrigin::Origin(_) => cors.allow_credentials,
    }
}

/// `None` if `requested` is not allowed. Methods are case-sensitive.
fn allow_methods<'a>(
    cors: &'a Cors,
    requested: &[u8],
    resource_methods: MethodSet,
) -> Option<AllowMethods<'a>> {
    if cors.allow_methods.is_empty() || is_any(&cors.allow_methods) {
        let offered = resource_methods.contains(Method::from_bytes(requested));
        return offered.then_some(AllowMethods::Resource(resource_methods));
    }
    let listed = cors.allow_methods.iter().any(|method| method.as_bytes() == requested);
    listed.then_some(AllowMethods::Listed(&cors.allow_methods))
}

fn is_any(list: &[String]) -> bool {
    list.iter().any(|one| one == "*")
}

/// Whether `bytes` are a list of field names; only such values are echoed in a response. Source: RFC 9110 sections 5.1
/// and 5.6.2.
fn is_list_of_names(bytes: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    bytes.iter().all(|byte| is_token(byte) || matches!(byte, b',' | b' ' | b'\t'))
}

impl PreflightHeaders<'_> {
    /// Appends the fields as lines, `name: value CRLF` each. `Vary: Origin` is not among them: all
    /// responses have it if [`varies`].
    pub fn append(&self, out: &mut Vec<u8>) {
        self.origin.append(self.credentials, out);
        match self.methods {
            AllowMethods::Listed(methods) => list("Access-Control-Allow-Methods", methods, out),
            AllowMethods::Resource(methods) => {
                field("Access-Control-Allow-Methods", methods.to_string().as_bytes(), out);
            }
        }
        match self.headers {
            AllowHeaders::Listed(names) => list("Access-Control-Allow-Headers", names, out),
            AllowHeaders::Requested(names) => {
                field("Access-Control-Allow-Headers", names, out);
                field("Vary", b"Access-Control-Request-Headers", out);
            }
        }
    }
}

impl SimpleHeaders<'_> {
    /// Appends the fields as lines, `name: value CRLF` each. `Vary: Origin` is not among them: all
    /// responses have it if [`varies`].
    pub fn append(&self, out: &mut Vec<u8>) {
        self.origin.append(self.credentials, out);
        list("Access-Control-Expose-Headers", self.expose, out);
    }
}

impl AllowOrigin<'_> {
    fn append(self, credentials: bool, out: &mut Vec<u8>) {
        match self {
            Self::Any => field("Access-Control-Allow-Origin", b"*", out),
            Self::Origin(origin) => field("Access-Control-Allow-Origin", origin, out),
        }
        if credentials {
            field("Access-Control-Allow-Credentials", b"true", out);
        }
    }
}

/// Appends nothing for an empty list.
fn list(name: &str, values: &[String], out: &mut Vec<u8>) {
    if !values.is_empty() {
        field(name, values.join(", ").as_bytes(), out);
    }
}

fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOP: &str = "https://shop.example";

    fn cors(origins: &[&str], methods: &[&str], headers: &[&str], allow_credentials: bool) -> Cors {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Cors {
            allow_origins: owned(origins),
            allow_methods: owned(methods),
            allow_headers: owned(headers),
            expose_headers: owned(&["X-Request-Id", "ETag"]),
            allow_credentials,
        }
    }

    #[test]
    fn a_listed_origin_is_echoed_and_all_responses_vary_by_it() {
        let rules = cors(&["https://a.example", SHOP], &["GET", "PUT"], &["X-One", "X-Two"], false);
        check_preflight(
            &rules,
            (SHOP, "PUT", Some("x-one")),
            "Access-Control-Allow-Origin: https://shop.example|\
             Access-Control-Allow-Methods: GET, PUT|Access-Control-Allow-Headers: X-One, X-Two|",
        );
        check_simple(
            &rules,
            SHOP,
            "Access-Control-Allow-Origin: https://shop.example|\
             Access-Control-Expose-Headers: X-Request-Id, ETag|",
        );
        assert!(varies(&rules));
    }

    #[test]
    fn a_wildcard_matches_labels_of_a_host_and_nothing_else() {
        let rules = cors(&["https://*.example.org:8443"], &[], &[], true);
        for (origin, allowed) in [
            ("https://a.example.org:8443", true),
            ("https://a.b.EXAMPLE.org:8443", true),
            ("https://example.org:8443", false),
            ("https://.example.org:8443", false),
            ("https://aexample.org:8443", false),
            ("https://a.example.org", false),
            ("http://a.example.org:8443", false),
            ("https://evil.test/a.example.org:8443", false),
            ("https://evil.test:80.example.org:8443", false),
            ("https://", false),
        ] {
            assert_eq!(simple(&rules, origin.as_bytes()).is_some(), allowed, "{origin}");
        }
    }

    #[test]
    fn an_origin_that_is_not_listed_gets_no_cors_fields() {
        let rules = cors(&[SHOP], &[], &[], true);
        for origin in [
            "https://evil.example",
            "https://shop.example.evil.example",
            "http://shop.example",
            "null",
            "",
        ] {
            check_preflight(&rules, (origin, "GET", None), "none");
            check_simple(&rules, origin, "none");
        }
        assert!(varies(&rules), "a cache must not serve the response without fields to the shop");
    }

    #[test]
    fn credentials_are_never_allowed_together_with_any_origin() {
        let rules = cors(&["*", SHOP], &[], &[], true);
        check_preflight(
            &rules,
            (SHOP, "GET", None),
            "Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET, POST|",
        );
        check_simple(
            &rules,
            SHOP,
            "Access-Control-Allow-Origin: *|Access-Control-Expose-Headers: X-Request-Id, ETag|",
        );
        assert!(!varies(&rules));
    }

    #[test]
    fn credentials_are_allowed_to_a_listed_origin() {
        check_preflight(
            &cors(&[SHOP], &[], &[], true),
            ("https://SHOP.example", "POST", None),
            "Access-Control-Allow-Origin: https://SHOP.example|\
             Access-Control-Allow-Credentials: true|Access-Control-Allow-Methods: GET, POST|",
        );
    }

    #[test]
    fn without_configured_methods_those_of_the_resource_are_allowed() {
        for (methods, requested, expect) in [
            (
                &[][..],
                "POST",
                "Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET, POST|",
            ),
            (
                &["*"][..],
                "GET",
                "Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET, POST|",
            ),
            (&[][..], "DELETE", "none"),
            (&[][..], "get", "none"),
            (
                &["DELETE"][..],
                "DELETE",
                "Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: DELETE|",
            ),
            (&["DELETE"][..], "GET", "none"),
        ] {
            check_preflight(&cors(&["*"], methods, &[], false), (SHOP, requested, None), expect);
        }
    }

    #[test]
    fn any_header_echoes_the_requested_names_and_nothing_else() {
        let rules = cors(&["*"], &["GET"], &["*"], false);
        let start = "Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET|";
        for (requested, expect) in [
            (
                Some("x-a, authorization"),
                "Access-Control-Allow-Headers: x-a, authorization|Vary: Access-Control-Request-Headers|",
            ),
            (Some("x-a: b"), "Access-Control-Allow-Headers: *|"),
            (Some("x-a\r\nSet-Cookie"), "Access-Control-Allow-Headers: *|"),
            (None, "Access-Control-Allow-Headers: *|"),
        ] {
            check_preflight(&rules, (SHOP, "GET", requested), &format!("{start}{expect}"));
        }
    }

    /// `request`: origin, method, headers. `expect`: the lines with `|` for their ends, or `none`.
    /// The resource offers GET and POST.
    #[track_caller]
    fn check_preflight(rules: &Cors, request: (&str, &str, Option<&str>), expect: &str) {
        let (origin, method, headers) = request;
        let resource = MethodSet::of(Method::Get).with(Method::Post);
        let headers = headers.map(str::as_bytes);
        let response = preflight(rules, origin.as_bytes(), method.as_bytes(), headers, resource);
        let mut out = Vec::new();
        if let Some(response) = &response {
            response.append(&mut out);
        }
        assert_eq!(shown(response.is_some(), out), expect);
    }

    #[track_caller]
    fn check_simple(rules: &Cors, origin: &str, expect: &str) {
        let response = simple(rules, origin.as_bytes());
        let mut out = Vec::new();
        if let Some(response) = &response {
            response.append(&mut out);
        }
        assert_eq!(shown(response.is_some(), out), expect);
    }

    fn shown(allowed: bool, out: Vec<u8>) -> String {
        let text = String::from_utf8(out).unwrap().replace("\r\n", "|");
        if allowed { text } else { "none".to_owned() }
    }
}
