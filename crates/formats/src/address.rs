//! Endpoint URLs, base paths and host names, as texts of a file.

use std::net::Ipv6Addr;

use model::{Endpoint, Scheme};

use crate::report::shorten;

/// What is wrong, and what to write instead.
pub(crate) type Wrong = (String, String);

fn wrong<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, Wrong> {
    Err((message.into(), help.into()))
}

/// Whether `text` names a scheme or an authority: the URL of something, not a path.
pub(crate) fn is_absolute(text: &str) -> bool {
    text.starts_with("//") || scheme_of(text).is_some()
}

/// RFC 3986 section 3.1.
pub(crate) fn scheme_of(text: &str) -> Option<&str> {
    let (scheme, _) = text.split_once(':')?;
    let starts = scheme.bytes().next().is_some_and(|b| b.is_ascii_alphabetic());
    let goes_on =
        scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    (starts && goes_on).then_some(scheme)
}

/// An endpoint: http or https, a host, perhaps a port and a path, and nothing else.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, Wrong> {
    let shown = shorten(text);
    if let Some(inside) = text.strip_prefix("etcd(") {
        let key = shorten(inside.trim_end_matches(')'));
        return wrong(
            format!("endpoints from etcd (`{key}`) are not served yet"),
            "write the URL itself",
        );
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return wrong(
            format!("`{shown}` is no URL"),
            "write http://host:port/path or https://host/path",
        );
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => {
            let other = shorten(other);
            return wrong(format!("the scheme `{other}` is not served"), "use http or https");
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
        return wrong("the URL holds a user or a password", "remove what stands before the `@`");
    }
    let (host, port) = host_and_port(authority)?;
    let (own_port, bracketed) = (own_port(scheme), bracket(&host));
    let port = port.unwrap_or(own_port);
    let authority = if port == own_port { bracketed } else { format!("{bracketed}:{port}") };
    Ok(Endpoint { scheme, host, port, path: path_prefix(path)?, authority })
}

/// The host of an http or https URL that may have a query, in lower case.
pub(crate) fn url_host(text: &str) -> Result<String, Wrong> {
    if text.contains('#') || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return wrong(
            format!("`{}` is no URL to fetch from", shorten(text)),
            "write it without blanks and `#`",
        );
    }
    let before_query = text.split_once('?').map_or(text, |(before, _)| before);
    endpoint(before_query).map(|endpoint| endpoint.host)
}

fn own_port(scheme: Scheme) -> u16 {
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
                return wrong("a `[` without `]` in the URL", "write an IPv6 address as [::1]");
            };
            let Ok(address) = address.parse::<Ipv6Addr>() else {
                return wrong(
                    format!("`{}` is no IPv6 address", shorten(address)),
                    "correct it, without a zone",
                );
            };
            let port = match after.strip_prefix(':') {
                Some(port) => Some(port),
                None if after.is_empty() => None,
                None => return wrong("something stands behind the `]`", "write [::1]:port"),
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
            wrong(format!("`{}` is no port", shorten(text)), "write a number from 1 to 65535")
        }
    }
}

/// A host name in lower case. Source: RFC 1035 section 2.3.4 for the lengths; `_` is common in
/// container networks.
pub(crate) fn host_name(text: &str) -> Result<String, Wrong> {
    const NAME_MAX: usize = 253;
    const LABEL_MAX: usize = 63;
    if text.is_empty() {
        return wrong("the host is missing", "write http://host:port/path or https://host/path");
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
            format!("`{}` is no host name", shorten(text)),
            "use letters, digits, `-` and dots",
        );
    }
    Ok(name.to_ascii_lowercase())
}

/// One of `x-penstock-hosts`: a host name, or `*.` and a host name.
pub(crate) fn host_pattern(text: &str) -> Result<String, Wrong> {
    if text.contains([':', '/']) {
        return wrong(
            format!("`{}` is more than a host name", shorten(text)),
            "write it without scheme and port",
        );
    }
    match text.strip_prefix("*.") {
        Some(below) => Ok(format!("*.{}", host_name(below)?)),
        None => host_name(text),
    }
}

/// A prefix of paths: empty, or `/a/b` without slash at the end. It is compared and forwarded byte
/// for byte, so it must stand as it goes over the wire.
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
        return wrong("an empty segment (`//`) in the path", "write one slash");
    }
    if segment.contains(['{', '}', '*']) {
        let help = "write it out: a prefix has no parameters and no wildcard";
        return wrong(format!("`{}` is no plain segment", shorten(segment)), help);
    }
    literal(segment)
}

/// Text of a path that stands for itself, without braces and slashes.
pub(crate) fn literal(text: &str) -> Result<(), Wrong> {
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        if *first == b'%' {
            bytes = escape(text, rest)?;
        } else if !is_path_character(*first) {
            let help = "percent-encode it as UTF-8 (a blank is %20)";
            return wrong(format!("`{}` holds a character that no path has", shorten(text)), help);
        }
    }
    if is_dot_segment(text) {
        return wrong("a `.` or `..` segment in the path", "write the path without it");
    }
    Ok(())
}

/// Dot segments, escaped ones included: the gateway resolves them before routing.
fn is_dot_segment(text: &str) -> bool {
    let plain = text.to_ascii_lowercase().replace("%2e", ".");
    plain == "." || plain == ".."
}

fn escape<'b>(text: &str, after: &'b [u8]) -> Result<&'b [u8], Wrong> {
    match after {
        [b'0', b'0', ..] => wrong("`%00` in the path", "remove it: such requests are refused"),
        [high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => Ok(rest),
        _ => wrong(
            format!("`{}` holds a `%` that is no escape", shorten(text)),
            "write %25 for a percent sign",
        ),
    }
}

/// `pchar` without the escape (RFC 3986 section 3.3).
fn is_path_character(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_taken_apart() {
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
    fn what_is_no_endpoint_says_why() {
        check("api.example.org", "`api.example.org` is no URL");
        check("ftp://example.org", "the scheme `ftp` is not served");
        check("ws://example.org", "the scheme `ws` is not served");
        check("http://", "the host is missing");
        check("http:///path", "the host is missing");
        check("http://user:secret@example.org", "the URL holds a user or a password");
        check("http://example.org/?a=b", "`http://example.org/?a=b` has a query or a fragment");
        check("http://example.org#x", "`http://example.org#x` has a query or a fragment");
        check("http://example.org:0", "`0` is no port");
        check("http://example.org:", "`` is no port");
        check("http://example.org:+80", "`+80` is no port");
        check("http://example.org:65536", "`65536` is no port");
        check("http://[::1", "a `[` without `]` in the URL");
        check("http://[::1]x", "something stands behind the `]`");
        check("http://[fe80::1%25eth0]", "`fe80::1%25eth0` is no IPv6 address");
        check("http://b\u{fc}cher.example", "`b\u{fc}cher.example` is not ASCII");
        check("http://a b", "`a b` is no host name");
        check("http://a..b", "`a..b` is no host name");
        check("http://x/a/../b", "a `.` or `..` segment in the path");
        check("http://x/a/%2E%2e/b", "a `.` or `..` segment in the path");
        check("http://x/{id}", "`{id}` is no plain segment");
        check("http://x/a//b", "an empty segment (`//`) in the path");
        check("http://x/%zz", "`%zz` holds a `%` that is no escape");
        check("http://x/%00", "`%00` in the path");
        check("http://x/a\\b", "`a\\b` holds a character that no path has");
        check(
            "etcd(pets, http://localhost)",
            "endpoints from etcd (`pets, http://localhost`) are not served yet",
        );
    }

    #[track_caller]
    fn check(url: &str, expect: &str) {
        let told = match endpoint(url) {
            Ok(e) => format!("{:?} {} {} `{}` {}", e.scheme, e.host, e.port, e.path, e.authority),
            Err((message, help)) => {
                assert!(!help.is_empty(), "{message}");
                message
            }
        };
        assert_eq!(told, expect);
    }
}
