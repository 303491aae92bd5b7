//! Parses endpoint URLs, base paths and host names.

use std::net::{IpAddr, Ipv6Addr};

use model::{Endpoint, Scheme};

use crate::report::shorten;

/// Message and help.
pub(crate) type Wrong = (String, String);

fn wrong<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, Wrong> {
    Err((message.into(), help.into()))
}

/// Whether `text` has a scheme or an authority: a URL, not a path.
pub(crate) fn is_absolute(text: &str) -> bool {
    text.starts_with("//") || scheme_of(text).is_some()
}

/// The scheme of a URL (RFC 3986 section 3.1).
pub(crate) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let starts = scheme.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    let goes_on =
        scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (starts && goes_on).then_some(scheme)
}

/// An endpoint: http or https, a host, optionally a port and a path.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, Wrong> {
    let shown = shorten(text);
    if let Some(inside) = text.strip_prefix("etcd(") {
        let key = shorten(inside.trim_end_matches(')'));
        return wrong(
            format!("endpoints in etcd (`{key}`) are not supported yet"),
            "write the URL of the endpoint",
        );
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong(
            format!("`{shown}` is not a URL"),
            "write http://host:port/path or https://host/path",
        );
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => {
            let other = shorten(other);
            return wrong(format!("unsupported scheme `{other}`"), "use http or https");
        }
    };
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    if path.contains(['?', '#']) {
        return wrong(format!("`{shown}` has a query or a fragment"), "end the URL after its path");
    }
    if authority.contains('@') {
        return wrong(
            "the URL contains a user name or password",
            "remove everything up to the `@`",
        );
    }
    let (host, port) = host_and_port(authority)?;
    let (default_port, bracketed) = (default_port(scheme), bracket(&host));
    let port = port.unwrap_or(default_port);
    let authority = if port == default_port { bracketed } else { format!("{bracketed}:{port}") };
    Ok(Endpoint { scheme, host, port, path: path_prefix(path)?, authority })
}

/// The host of an http or https URL that may have a query, in lower case.
pub(crate) fn url_host(text: &str) -> Result<String, Wrong> {
    if text.contains('#') || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return wrong(
            format!("`{}` is not a valid URL", shorten(text)),
            "write it without spaces and without `#`",
        );
    }
    let before_query = text.split_once('?').map_or(text, |(before, _)| before);
    endpoint(before_query).map(|endpoint| endpoint.host)
}

/// Whether messages to this URL are protected in transit: it is https, or on this machine.
///
/// # Errors
/// If it is not an http or https URL.
pub(crate) fn is_confidential(url: &str) -> Result<bool, Wrong> {
    let host = url_host(url)?;
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    Ok(is_loopback || scheme_of(url).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")))
}

fn default_port(scheme: Scheme) -> u16 {
    match scheme {
        Scheme::Http => 80,
        Scheme::Https => 443,
    }
}

fn bracket(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), Wrong> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => {
            let Some((address, after)) = inside.split_once(']') else {
                return wrong("the URL has a `[` without `]`", "write an IPv6 address as [::1]");
            };
            let Ok(address) = address.parse::<Ipv6Addr>() else {
                return wrong(
                    format!("`{}` is not an IPv6 address", shorten(address)),
                    "write it without a zone, such as [2001:db8::1]",
                );
            };
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return wrong("unexpected text after the `]`", "write [::1]:port"),
            };
            (address.to_string(), port)
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host_name(host)?, Some(port)),
            None => (host_name(authority)?, None),
        },
    };
    let port = port.map(self::port).transpose()?;
    Ok((host, port))
}

fn port(text: &str) -> Result<u16, Wrong> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse::<u16>() {
        Ok(port) if digits && port > 0 => Ok(port),
        Ok(_) | Err(_) => {
            wrong(format!("`{}` is not a port", shorten(text)), "write a number from 1 to 65535")
        }
    }
}

/// A host name in lower case. Source: RFC 1035 section 2.3.4 for the lengths; `_` is common in
/// container networks.
pub(crate) fn host_name(text: &str) -> Result<String, Wrong> {
    const NAME_MAX: usize = 253;
    const LABEL_MAX: usize = 63;
    if text.is_empty() {
        return wrong("the URL has no host", "write http://host:port/path or https://host/path");
    }
    if !text.is_ascii() {
        return wrong(
            format!("`{}` is not ASCII", shorten(text)),
            "write the host in its xn-- form",
        );
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_MAX
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    if name.len() > NAME_MAX || !name.split('.').all(is_label) {
        return wrong(
            format!("`{}` is not a host name", shorten(text)),
            "use letters, digits, `-` and dots",
        );
    }
    Ok(name.to_ascii_lowercase())
}

/// An entry of `x-penstock-hosts`: a host name, or `*.` and a host name.
pub(crate) fn host_pattern(text: &str) -> Result<String, Wrong> {
    if text.contains([':', '/']) {
        return wrong(
            format!("`{}` is not just a host name", shorten(text)),
            "write it without scheme and port",
        );
    }
    match text.strip_prefix("*.") {
        Some(below) => Ok(format!("*.{}", host_name(below)?)),
        None => host_name(text),
    }
}

/// A path prefix: empty, or `/a/b` without a slash at the end. It is compared and forwarded byte
/// for byte, so it must be written as it is sent.
pub(crate) fn path_prefix(text: &str) -> Result<String, Wrong> {
    let path = text.trim_end_matches('/');
    if path.is_empty() {
        return Ok(String::new());
    }
    let Some(below) = path.strip_prefix('/') else {
        return wrong(
            format!("`{}` does not start with `/`", shorten(text)),
            "write it as /name/version",
        );
    };
    for segment in below.split('/') {
        segment_is_plain(segment)?;
    }
    Ok(path.to_owned())
}

fn segment_is_plain(segment: &str) -> Result<(), Wrong> {
    if segment.is_empty() {
        return wrong("the path has an empty segment (`//`)", "remove one of the slashes");
    }
    if segment.contains(['{', '}', '*']) {
        let help = "parameters and wildcards are allowed only under `paths`";
        return wrong(format!("`{}` is not a literal segment", shorten(segment)), help);
    }
    literal(segment)
}

/// Checks the literal text of a path segment.
pub(crate) fn literal(text: &str) -> Result<(), Wrong> {
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        if *first == b'%' {
            bytes = escape(text, rest)?;
        } else if !is_path_character(*first) {
            let help = "percent-encode it as UTF-8 (a space is %20)";
            return wrong(
                format!("`{}` has a character that is not allowed in paths", shorten(text)),
                help,
            );
        }
    }
    if is_dot_segment(text) {
        return wrong("the path has a `.` or `..` segment", "write the path without it");
    }
    Ok(())
}

/// Dot segments, escaped ones included: the gateway resolves them before routing, so they would
/// never match.
fn is_dot_segment(text: &str) -> bool {
    let plain = text.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn escape<'b>(text: &str, after: &'b [u8]) -> Result<&'b [u8], Wrong> {
    match after {
        [b'0', b'0', ..] => wrong("the path has a `%00`", "remove it: such requests are rejected"),
        [high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => Ok(rest),
        _ => wrong(
            format!("`{}` has an invalid percent escape", shorten(text)),
            "write %25 for a percent sign",
        ),
    }
}

/// `pchar` without escapes. Source: RFC 3986 section 3.3.
fn is_path_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_parsed() {
        check("http://127.0.0.1:8688", "Http 127.0.0.1 8688 `` 127.0.0.1:8688");
        check("https://API.Example.org/v2/", "Https api.example.org 443 `/v2` api.example.org");
        check("http://localhost:80/a%20b", "Http localhost 80 `/a%20b` localhost");
        check("HTTPS://[::1]:8443/x", "Https ::1 8443 `/x` [::1]:8443");
        check("http://[2001:DB8::1]", "Http 2001:db8::1 80 `` [2001:db8::1]");
        check(
            "http://my_service.default.svc.cluster.local.",
            "Http my_service.default.svc.cluster.local 80 `` my_service.default.svc.cluster.local",
        );
    }

    #[test]
    fn an_invalid_endpoint_is_rejected() {
        reject("api.example.org", "not a URL");
        reject("ftp://example.org", "scheme `ftp`");
        reject("ws://example.org", "scheme `ws`");
        reject("http://", "no host");
        reject("http:///path", "no host");
        reject("http://user:secret@example.org", "password");
        reject("http://example.org/?a=b", "query");
        reject("http://example.org#x", "query");
        reject("http://example.org:0", "`0` is not a port");
        reject("http://example.org:", "`` is not a port");
        reject("http://example.org:+80", "`+80`");
        reject("http://example.org:65536", "`65536`");
        reject("http://[::1", "without `]`");
        reject("http://[::1]x", "after the `]`");
        reject("http://[fe80::1%25eth0]", "IPv6");
        reject("http://b\u{fc}cher.example", "ASCII");
        reject("http://a b", "host name");
        reject("http://a..b", "host name");
        reject("http://x/a/../b", "`..`");
        reject("http://x/a/%2E%2e/b", "`..`");
        reject("http://x/{id}", "`{id}`");
        reject("http://x/a//b", "`//`");
        reject("http://x/%zz", "escape");
        reject("http://x/%00", "`%00`");
        reject("http://x/a\\b", "not allowed");
        reject("etcd(pets, http://localhost)", "etcd");
    }

    #[track_caller]
    fn reject(url: &str, phrase: &str) {
        let (message, help) = endpoint(url).expect_err("it is rejected");
        assert!(message.contains(phrase) && !help.is_empty(), "{message}");
    }

    #[track_caller]
    fn check(url: &str, expect: &str) {
        let e = endpoint(url).expect("it is accepted");
        let shown = format!("{:?} {} {} `{}` {}", e.scheme, e.host, e.port, e.path, e.authority);
        assert_eq!(shown, expect);
    }
}
