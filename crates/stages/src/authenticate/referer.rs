//! The `Referer` with which an API key may be used.
//!
//! Architecture invariant: scheme, host and path are compared apart, so that `*` in one of them never stands for a part
//! of another. `https://*.example.org/*` does not fit `https://evil.example/.example.org/`.

use super::places::is_like;

/// The parts of a URL or of a pattern. A path begins with `/`, `?` or `#`; it is empty if there is none.
struct Parts<'a> {
    scheme: Option<&'a [u8]>,
    /// With the port, if there is one.
    host: &'a [u8],
    path: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(text: &'a [u8]) -> Self {
        const SEPARATOR: &[u8] = b"://";
        let at = text.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        // One in the path is not that of the scheme.
        let at = at.filter(|at| text.iter().take(*at).all(|byte| !b"/?#".contains(byte)));
        let (scheme, rest) = match at.and_then(|at| text.split_at_checked(at)) {
            Some((scheme, rest)) => (Some(scheme), rest.get(SEPARATOR.len()..).unwrap_or_default()),
            None => (None, text),
        };
        let end = rest.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(rest.len());
        let (host, path) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        Self { scheme, host, path }
    }
}

/// Whether `referer`, an absolute URL, fits `pattern`, in which `*` stands for anything but spaces. A pattern without a
/// scheme fits every scheme. One without a path fits the root alone, unless it ends with `*`, which then stands for
/// every path; the pattern `*` fits every text.
///
/// Source: WSO2's claim `permittedReferer`.
#[must_use]
pub fn fits(pattern: &[u8], referer: &[u8]) -> bool {
    if pattern == b"*" {
        return is_like(pattern, referer, same);
    }
    let (wanted, found) = (Parts::of(pattern), Parts::of(referer));
    let Some(scheme) = found.scheme else { return false };
    let is_scheme = wanted.scheme.is_none_or(|wanted| is_like(wanted, scheme, lower));
    let (host, path) = match (wanted.path, wanted.host) {
        (b"", b"*") => (wanted.host, &b"*"[..]),
        // Otherwise it would stand for the end of a host, which anybody can register.
        (b"", [host @ .., b'*']) => (host, &b"*"[..]),
        (b"", host) => (host, &b"/"[..]),
        (path, host) => (host, path),
    };
    let given = if found.path.is_empty() { &b"/"[..] } else { found.path };
    let is_host = !found.host.is_empty() && found.host.iter().all(|byte| is_of_host(*byte));
    is_scheme && is_host && is_like(host, found.host, lower) && is_like(path, given, same)
}

/// Whether hosts and ports have `byte`: not `@`, after which browsers expect the host, nor `\\`, which is like `/`
/// there.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte)
}

fn same(byte: u8) -> u8 {
    byte
}

fn lower(byte: u8) -> u8 {
    byte.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_host_and_path_are_compared_apart() {
        const SITES: &str = "https://*.example.org/*";
        for (pattern, referer, expect) in [
            (SITES, "https://a.example.org/", true),
            (SITES, "https://a.example.org", true),
            (SITES, "HTTPS://A.b.Example.org/x?y=https://other/", true),
            (SITES, "https://example.org/", false),
            (SITES, "http://a.example.org/", false),
            (SITES, "https://evil.com/.example.org/x", false),
            (SITES, "https://evil.com?.example.org/x", false),
            (SITES, "https://evil.com#.example.org/x", false),
            (SITES, "https://evil.com\\.example.org/x", false),
            (SITES, "https://a.example.org@evil.com/", false),
            (SITES, "https://evil.com:80/://a.example.org/", false),
            (SITES, "https://a.example.org.evil.com/", false),
            (SITES, "https://a.example.org:8443/", false),
            (SITES, "a.example.org/", false),
            ("https://*.example.org:*/*", "https://a.example.org:8443/x", true),
            ("https://a/b/*", "https://a/b/c", true),
            ("https://a/b/*", "https://a/c", false),
            ("https://a", "https://a/", true),
            ("https://a", "https://a", true),
            ("https://a", "https://a/b", false),
            ("https://a*", "https://a/b", true),
            ("https://a*", "https://a.evil.com/b", false),
            ("*.example.org/*", "http://a.example.org/x", true),
            ("*.example.org/*", "https://evil.com/a.example.org/x", false),
            ("example.org/a*", "https://example.org/abc", true),
            ("http*://a/*", "https://a/x", true),
            ("*://*/*", "android-app://com.example/", true),
            ("https://*", "https://anything/at/all", true),
            ("https://*/*", "https:///x", false),
            ("https://[::1]:*/*", "https://[::1]:80/", true),
            ("*", "anything", true),
            ("*", "with space", false),
            ("", "https://a/", false),
            ("https://a/", "", false),
        ] {
            let found = fits(pattern.as_bytes(), referer.as_bytes());
            assert_eq!(found, expect, "{pattern} {referer}");
        }
    }
}
