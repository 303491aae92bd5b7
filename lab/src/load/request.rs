//! The bytes of a request, prepared once before the measurement.
//!
//! Parts that are the same in every request are stored once, and the token is inserted when writing. So 4,000
//! tokens and a payload of 100 KiB take the size of the tokens plus 100 KiB, not 400 MB.

use std::io::IoSlice;
use std::sync::Arc;

use base::Method;

use wire::h2::client::RequestFields;

use crate::limits;
use crate::load::{LoadError, Protocol};

/// Where to connect, and the request target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) secure: bool,
    /// Host name or address, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As in the URL; the value of `Host`.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
}

impl Destination {
    /// # Errors
    /// [`LoadError::Usage`]: not an absolute `http` or `https` URL.
    pub(crate) fn parse(url: &str) -> Result<Self, LoadError> {
        let usage = |what: &str| LoadError::Usage(format!("`{url}`: {what}"));
        if url.bytes().any(|byte| !(0x21..=0x7e).contains(&byte)) {
            return Err(usage(
                "spaces, control and non-ASCII characters in a URL must be percent-encoded",
            ));
        }
        let (secure, rest) = match url.split_once("://") {
            Some(("http" | "ws", rest)) => (false, rest),
            Some(("https" | "wss", rest)) => (true, rest),
            Some(_) | None => {
                return Err(usage("not an absolute URL; write http://HOST... or https://HOST..."));
            }
        };
        if rest.contains('#') {
            return Err(usage("a fragment (#...) is never sent; remove it"));
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(usage("user and password in a URL are not supported; use --header"));
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        let (host, port) = split_port(authority).ok_or_else(|| usage("invalid port"))?;
        if host.is_empty() {
            return Err(usage("the host is missing"));
        }
        Ok(Self {
            secure,
            host: host.to_owned(),
            port: port.unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_owned(),
            path: format!("{slash}{path}"),
        })
    }
}

/// `None` if the port is invalid.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.is_empty() {
        return Some((host, None));
    }
    let digits = port.strip_prefix(':')?;
    Some((host, Some(digits.parse().ok().filter(|port| *port > 0)?)))
}

/// Bearer tokens, sent in rotation.
pub(crate) type Tokens = Arc<[Vec<u8>]>;

/// The parts of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestSpec<'a> {
    pub(crate) method: Option<&'a str>,
    pub(crate) headers: &'a [(String, String)],
    /// `None`: no body, which differs from an empty one.
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) tokens: Tokens,
    pub(crate) protocol: Protocol,
    /// The connection ends with the response.
    pub(crate) closes: bool,
}

/// A request in three parts: before the token, the token, and after it. For HTTP/2, the fields without the token.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    fields: Arc<RequestFields>,
    /// Length of the body, at the end of `after`.
    body_len: Option<usize>,
    pub(crate) method: Method,
    before: Vec<u8>,
    tokens: Tokens,
    after: Vec<u8>,
}

impl Prepared {
    /// # Errors
    /// [`LoadError::Usage`]: an invalid method or header field, or a field set by the generator itself.
    pub(crate) fn new(target: &Destination, spec: RequestSpec<'_>) -> Result<Self, LoadError> {
        let fallback = if spec.payload.is_some() { "POST" } else { "GET" };
        let method = spec.method.unwrap_or(fallback);
        if !is_token(method) || method == "CONNECT" {
            return Err(LoadError::Usage(format!("method `{method}` is not supported")));
        }
        check_headers(spec.headers, !spec.tokens.is_empty())?;
        let fields = fields(target, method, &spec)?;
        let given = |name: &str| spec.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut before = format!("{method} {} HTTP/1.1\r\n", target.path).into_bytes();
        let mut line = |name: &str, value: &str| {
            before.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        };
        if !given("host") {
            line("Host", &target.authority);
        }
        if let Some(payload) = spec.payload {
            if !given("content-type") {
                line("Content-Type", "application/json");
            }
            line("Content-Length", &payload.len().to_string());
        }
        for (name, value) in spec.headers {
            line(name, value);
        }
        if spec.closes && !given("connection") {
            line("Connection", "close");
        }
        let mut after = Vec::new();
        if !spec.tokens.is_empty() {
            before.extend_from_slice(b"Authorization: Bearer ");
            after.extend_from_slice(b"\r\n");
        }
        after.extend_from_slice(b"\r\n");
        after.extend_from_slice(spec.payload.unwrap_or_default());
        Ok(Self {
            fields: Arc::new(fields),
            body_len: spec.payload.map(<[u8]>::len),
            method: Method::from_bytes(method.as_bytes()),
            before,
            tokens: spec.tokens,
            after,
        })
    }

    /// A WebSocket message in its frame, which is written as it is.
    pub(crate) fn of_frame(frame: Vec<u8>) -> Self {
        Self {
            fields: Arc::new(RequestFields::new([])),
            body_len: None,
            method: Method::Get,
            before: frame,
            tokens: Tokens::default(),
            after: Vec::new(),
        }
    }

    /// The fields of a request by HTTP/2, except for the token.
    pub(crate) fn fields(&self) -> &Arc<RequestFields> {
        &self.fields
    }

    pub(crate) fn body(&self) -> Option<&[u8]> {
        self.body_len.map(|len| {
            let from = self.after.len().saturating_sub(len);
            self.after.get(from..).unwrap_or_default()
        })
    }

    /// Token number `turn` (modulo the number of tokens), if there are any.
    pub(crate) fn bearer(&self, turn: usize) -> Option<&[u8]> {
        (!self.tokens.is_empty()).then(|| self.token(turn))
    }

    /// The method as sent.
    pub(crate) fn method_name(&self) -> &str {
        let end = self.before.iter().position(|&byte| byte == b' ').unwrap_or(0);
        std::str::from_utf8(self.before.get(..end).unwrap_or_default()).unwrap_or_default()
    }

    pub(crate) fn tokens(&self) -> usize {
        self.tokens.len()
    }

    /// Length of the request with token number `turn` (modulo the number of tokens).
    pub(crate) fn len(&self, turn: usize) -> usize {
        self.before.len() + self.token(turn).len() + self.after.len()
    }

    /// The bytes left after `written` bytes, in at most three slices.
    pub(crate) fn rest<'a>(&'a self, turn: usize, written: usize) -> [IoSlice<'a>; 3] {
        let mut skip = written;
        [&self.before[..], self.token(turn), &self.after[..]].map(|part| {
            let rest = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            IoSlice::new(rest)
        })
    }

    fn token(&self, turn: usize) -> &[u8] {
        let turn = turn.checked_rem(self.tokens.len()).unwrap_or(0);
        self.tokens.get(turn).map_or(&[], Vec::as_slice)
    }
}

/// The fields of a request by HTTP/2; none with another protocol.
///
/// # Errors
/// [`LoadError::Usage`]: a field that HTTP/2 does not allow.
fn fields(
    target: &Destination,
    method: &str,
    spec: &RequestSpec<'_>,
) -> Result<RequestFields, LoadError> {
    // Source: RFC 9113 section 8.2.2.
    const CONNECTION_FIELDS: [&str; 4] =
        ["connection", "keep-alive", "proxy-connection", "upgrade"];
    if !matches!(spec.protocol, Protocol::Http2 { .. }) {
        return Ok(RequestFields::new([]));
    }
    let is = |name: &str, own: &str| name.eq_ignore_ascii_case(own);
    let given = |own: &str| spec.headers.iter().find(|(name, _)| is(name, own));
    if let Some(name) = CONNECTION_FIELDS.iter().find(|name| given(name).is_some()) {
        return Err(LoadError::Usage(format!("header `{name}`: HTTP/2 does not allow it")));
    }
    let authority = given("host").map_or(target.authority.as_str(), |(_, value)| value);
    let scheme = if target.secure { "https" } else { "http" };
    let mut fields = vec![
        (":method", method),
        (":scheme", scheme),
        (":authority", authority),
        (":path", &target.path),
    ];
    let length = spec.payload.map(|payload| payload.len().to_string());
    if let Some(length) = &length {
        if given("content-type").is_none() {
            fields.push(("content-type", "application/json"));
        }
        fields.push(("content-length", length));
    }
    let others = spec.headers.iter().filter(|(name, _)| !is(name, "host"));
    fields.extend(others.map(|(name, value)| (name.as_str(), value.as_str())));
    Ok(RequestFields::new(fields))
}

/// Framing fields, set by the generator itself.
const OWN_FIELDS: [&str; 2] = ["content-length", "transfer-encoding"];

/// # Errors
/// The problem of the field.
pub(super) fn check_header(name: &str, value: &str) -> Result<(), &'static str> {
    if !is_token(name) {
        return Err("invalid character in the name");
    }
    if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
        return Err("control or non-ASCII character in the value");
    }
    if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err("set by the generator according to the payload");
    }
    Ok(())
}

fn check_headers(headers: &[(String, String)], tokens: bool) -> Result<(), LoadError> {
    for (name, value) in headers {
        let usage = |what: &str| Err(LoadError::Usage(format!("header `{name}`: {what}")));
        if let Err(what) = check_header(name, value) {
            return usage(what);
        }
        if tokens && name.eq_ignore_ascii_case("authorization") {
            return usage("conflicts with --tokens");
        }
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if bytes > limits::HEAD_BYTES_MAX as usize {
        return Err(LoadError::Usage(format!(
            "header fields of {bytes} bytes exceed the limit of {}",
            limits::HEAD_BYTES_MAX
        )));
    }
    Ok(())
}

/// RFC 9110 section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_host_port_authority_and_path() {
        check_url("http://localhost:8280/echo/1.0.0", "localhost 8280 localhost:8280 /echo/1.0.0");
        check_url("http://a.example", "a.example 80 a.example /");
        check_url("https://a.example/x?y=1&z", "a.example 443 a.example /x?y=1&z");
        check_url("http://a.example?y", "a.example 80 a.example /?y");
        check_url("http://[::1]:81/", "::1 81 [::1]:81 /");
        check_url("http://[::1]", "::1 80 [::1] /");
    }

    #[test]
    fn invalid_urls_are_rejected() {
        check_url("localhost:8280/", "http://HOST");
        check_url("ftp://a.example/", "http://HOST");
        check_url("http://", "host is missing");
        check_url("http://:80/", "host is missing");
        check_url("http://a.example:0/", "port");
        check_url("http://a.example:65536/", "port");
        check_url("http://a.example:8o/", "port");
        check_url("http://[::1/", "port");
        check_url("http://[::1]80/", "port");
        check_url("http://u:p@a.example/", "--header");
        check_url("http://a.example/#top", "fragment");
        check_url("http://a.example/a b", "percent-encoded");
        check_url("http://a.example/\u{e9}", "percent-encoded");
        check_url("http://a.example/\r\nX: y", "percent-encoded");
    }

    #[test]
    fn a_payload_implies_post_with_length_and_json() {
        let spec = RequestSpec { payload: Some(b"{}"), ..RequestSpec::default() };
        check(
            spec,
            &["POST /p HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\n\
               Content-Length: 2\r\n\r\n{}"],
        );
    }

    #[test]
    fn without_a_payload_there_are_no_body_fields() {
        check(RequestSpec::default(), &["GET /p HTTP/1.1\r\nHost: h:1\r\n\r\n"]);
    }

    #[test]
    fn an_empty_payload_has_a_length() {
        let spec =
            RequestSpec { method: Some("PUT"), payload: Some(b""), ..RequestSpec::default() };
        check(
            spec,
            &["PUT /p HTTP/1.1\r\nHost: h:1\r\nContent-Type: application/json\r\n\
               Content-Length: 0\r\n\r\n"],
        );
    }

    #[test]
    fn given_header_fields_replace_defaults_and_tokens_rotate() {
        let headers = [
            ("host".to_owned(), "other".to_owned()),
            ("CONTENT-TYPE".to_owned(), "text/plain".to_owned()),
            ("X-A".to_owned(), "1".to_owned()),
        ];
        let spec = RequestSpec {
            headers: &headers,
            payload: Some(b"body"),
            tokens: [b"one".to_vec(), b"three".to_vec()].into(),
            ..RequestSpec::default()
        };
        let request = |token| {
            format!(
                "POST /p HTTP/1.1\r\nContent-Length: 4\r\nhost: other\r\n\
                 CONTENT-TYPE: text/plain\r\nX-A: 1\r\nAuthorization: Bearer {token}\r\n\r\nbody"
            )
        };
        check(spec, &[&request("one"), &request("three"), &request("one")]);
    }

    #[test]
    fn invalid_header_fields_are_rejected() {
        for (name, value, expect) in [
            ("X A", "1", "name"),
            ("", "1", "name"),
            ("X-A", "1\r\nX-B: 2", "control"),
            ("Content-Length", "3", "payload"),
            ("transfer-encoding", "chunked", "payload"),
        ] {
            let headers = [(name.to_owned(), value.to_owned())];
            check_rejected(RequestSpec { headers: &headers, ..RequestSpec::default() }, expect);
        }
        let headers = [("authorization".to_owned(), "Basic x".to_owned())];
        let tokens = Tokens::from([b"t".to_vec()]);
        check_rejected(
            RequestSpec { headers: &headers, tokens, ..RequestSpec::default() },
            "--tokens",
        );
        check_rejected(
            RequestSpec { method: Some("GE T"), ..RequestSpec::default() },
            "not supported",
        );
        check_rejected(
            RequestSpec { method: Some("CONNECT"), ..RequestSpec::default() },
            "not supported",
        );
    }

    #[test]
    fn a_request_can_be_continued_from_any_byte() {
        let tokens = Tokens::from([b"token".to_vec()]);
        let spec = RequestSpec { payload: Some(b"payload"), tokens, ..RequestSpec::default() };
        let prepared = Prepared::new(&target(), spec).unwrap();
        let whole = joined(&prepared, 0, 0);
        assert_eq!(whole.len(), prepared.len(0));
        for written in 0..=whole.len() {
            assert_eq!(joined(&prepared, 0, written), whole[written..]);
        }
    }

    fn target() -> Destination {
        Destination::parse("http://h:1/p").unwrap()
    }

    fn joined(prepared: &Prepared, turn: usize, written: usize) -> Vec<u8> {
        prepared.rest(turn, written).iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[track_caller]
    fn check(spec: RequestSpec<'_>, expect: &[&str]) {
        let prepared = Prepared::new(&target(), spec).unwrap();
        for (turn, expect) in expect.iter().enumerate() {
            assert_eq!(String::from_utf8(joined(&prepared, turn, 0)).unwrap(), *expect);
        }
    }

    #[track_caller]
    fn check_rejected(spec: RequestSpec<'_>, expect: &str) {
        let error = Prepared::new(&target(), spec).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    /// `expect`: host, port, authority and path, or a phrase of the error.
    #[track_caller]
    fn check_url(url: &str, expect: &str) {
        match Destination::parse(url) {
            Ok(Destination { host, port, authority, path, secure }) => {
                assert_eq!(format!("{host} {port} {authority} {path}"), expect);
                assert_eq!(secure, url.starts_with("https:"));
            }
            Err(error) => assert!(error.to_string().contains(expect), "{url}: {error}"),
        }
    }
}
