//! Rules for caching a response, and for how long: RFC 9111 for a shared cache. Pure.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use crate::message::{Framing, Head, Request};

/// The directives of `Cache-Control` that matter here. Source: RFC 9111 section 5.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    /// The response has to be validated first; so has one with `max-age=0`.
    pub(crate) no_cache: bool,
    private: bool,
    /// A response to a request that identifies the client may be stored: `public`, `must-revalidate` or `s-maxage`.
    /// Source: section 3.5.
    shared: bool,
    max_age: Option<u64>,
    s_maxage: Option<u64>,
}

impl Directives {
    fn parse<'v>(values: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut found = Self::default();
        for directive in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let mut halves = directive.splitn(2, |byte| *byte == b'=');
            let name = halves.next().unwrap_or_default().trim_ascii();
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            if is("no-store") {
                found.no_store = true;
            } else if is("no-cache") {
                found.no_cache = true;
            } else if is("private") {
                found.private = true;
            } else if is("public") || is("must-revalidate") {
                found.shared = true;
            } else if is("max-age") {
                found.max_age = least(found.max_age, halves.next());
            } else if is("s-maxage") {
                found.shared = true;
                found.s_maxage = least(found.s_maxage, halves.next());
            }
        }
        found
    }

    pub(crate) fn of_request(request: &Request) -> Self {
        let values = |name| request_values(request, name);
        let mut found = Self::parse(values(b"cache-control"));
        let mut pragma = values(b"pragma");
        let is_old = pragma.any(|value| value.eq_ignore_ascii_case(b"no-cache"));
        found.no_cache |= found.max_age == Some(0) || is_old;
        found
    }
}

/// The smallest value; anything unparsable counts as 0.
fn least(known: Option<u64>, value: Option<&[u8]>) -> Option<u64> {
    let text = std::str::from_utf8(value.unwrap_or_default()).unwrap_or_default();
    let seconds = text.trim().trim_matches('"').parse().unwrap_or(0);
    Some(known.map_or(seconds, |known| known.min(seconds)))
}

/// The values of all fields of this name.
pub(crate) fn request_values<'r>(
    request: &'r Request,
    name: &'r [u8],
) -> impl Iterator<Item = &'r [u8]> {
    let bytes = request.bytes.as_slice();
    let named = request
        .head
        .fields()
        .iter()
        .filter(move |field| field.name.of(bytes).eq_ignore_ascii_case(name));
    named.map(move |field| field.value.of(bytes))
}

/// The same for a response.
pub(crate) fn values<'h>(head: &'h Head, name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    let all = head.fields(Framing::Length(0));
    let named = all.filter(move |(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|(_, value)| value)
}

/// How long a response may be used, in seconds, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freshness {
    /// From when the upstream made it.
    pub(crate) lifetime_s: u64,
    /// Age of the response when it arrived.
    pub(crate) age_s: u64,
    /// Whether the response is explicitly for all clients.
    pub(crate) is_shared: bool,
}

/// Whether the response may be stored, and for how long it is fresh. `is_personal`: the upstream learnt who the client
/// is; `default_s`: the lifetime of a response that names none. Source: RFC 9111 sections 3, 3.5, 4.2.1.
///
/// Stricter than the RFC: only 200; nothing with `Set-Cookie`, `Content-Range` or `no-cache`; nothing encoded without
/// `Vary: Accept-Encoding`.
pub(crate) fn storable(head: &Head, is_personal: bool, default_s: u64) -> Option<Freshness> {
    let control = Directives::parse(values(head, "cache-control"));
    let has = |name| values(head, name).next().is_some();
    let varies = |name: &[u8]| vary(head).any(|varied| varied.eq_ignore_ascii_case(name));
    if head.status() != 200
        || control.no_store
        || control.no_cache
        || control.private
        || is_personal && !control.shared
        || has("set-cookie")
        || has("content-range")
        || has("content-encoding") && !varies(b"accept-encoding")
        || varies(b"*")
    {
        return None;
    }
    let number = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse().ok();
    let age_s = values(head, "age").next().and_then(number).unwrap_or(0);
    let explicit = control.s_maxage.or(control.max_age);
    let lifetime_s = match explicit {
        Some(seconds) => seconds,
        None if has("expires") => expires(head).unwrap_or(0),
        None => default_s,
    };
    let is_shared = control.shared;
    (lifetime_s > age_s).then_some(Freshness { lifetime_s, age_s, is_shared })
}

/// The names in `Vary`.
pub(crate) fn vary(head: &Head) -> impl Iterator<Item = &[u8]> {
    let names = values(head, "vary").flat_map(|value| value.split(|byte| *byte == b','));
    names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty())
}

/// `Expires` minus `Date`, in seconds.
fn expires(head: &Head) -> Option<u64> {
    let date = |name| values(head, name).next().and_then(http_date);
    date("expires")?.checked_sub(date("date")?)
}

/// Seconds since the Unix epoch. Source: RFC 9110 section 5.6.7, the preferred format only, which is one of RFC 2822.
fn http_date(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    let at = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    u64::try_from(at.unix_timestamp()).ok()
}

/// Whether a client that has `etags` has this one. Source: RFC 9110 section 13.1.2, weak comparison.
pub(crate) fn matches(etags: &[u8], etag: &[u8]) -> bool {
    let strong = |etag: &[u8]| -> Vec<u8> {
        let etag = etag.trim_ascii();
        etag.strip_prefix(b"W/").unwrap_or(etag).to_vec()
    };
    let etag = strong(etag);
    etags.trim_ascii() == b"*" || etags.split(|byte| *byte == b',').any(|one| strong(one) == etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect`: lifetime and age, or nothing if it is not stored.
    #[track_caller]
    fn check(fields: &str, has_authorization: bool, expect: Option<(u64, u64)>) {
        let mut head = Head::default();
        head.edits.set_status(200);
        for line in fields.lines() {
            let (name, value) = line.split_once(": ").unwrap();
            head.edits.append(name.as_bytes(), value.as_bytes());
        }
        let found = storable(&head, has_authorization, 300);
        assert_eq!(found.map(|it| (it.lifetime_s, it.age_s)), expect, "{fields}");
    }

    #[test]
    fn a_response_says_whether_and_for_how_long_it_is_stored() {
        check("", false, Some((300, 0)));
        check("Cache-Control: public, max-age=60", false, Some((60, 0)));
        check("Cache-Control: max-age=60, s-maxage=90", false, Some((90, 0)));
        check("Cache-Control: max-age=60\nCache-Control: max-age=30\nAge: 7", false, Some((30, 7)));
        check("Cache-Control: max-age=60\nAge: 60", false, None);
        check("Cache-Control: max-age=x", false, None);
        check("Cache-Control: max-age=0", false, None);
        for never in ["no-store", "NO-CACHE", "private", "private=\"X-A\", max-age=60"] {
            check(&format!("Cache-Control: {never}"), false, None);
        }
        check("Set-Cookie: a=b", false, None);
        check("Vary: Accept, *", false, None);
        check("Content-Encoding: gzip", false, None);
        check("Content-Encoding: gzip\nVary: Origin, accept-encoding", false, Some((300, 0)));
    }

    #[test]
    fn a_response_to_credentials_is_stored_only_if_it_says_so() {
        check("Cache-Control: max-age=60", true, None);
        for shared in ["public, max-age=60", "s-maxage=60", "must-revalidate, max-age=60"] {
            check(&format!("Cache-Control: {shared}"), true, Some((60, 0)));
        }
    }

    #[test]
    fn expires_counts_from_date() {
        let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\nExpires: ";
        check(&format!("{date}Sun, 06 Nov 1994 08:50:37 GMT"), false, Some((60, 0)));
        check(&format!("{date}Sun, 06 Nov 1994 08:49:37 GMT"), false, None);
        check(&format!("{date}0"), false, None);
        check(
            &format!("{date}Mon, 07 Nov 1994 08:49:37 GMT\nCache-Control: max-age=5"),
            false,
            Some((5, 0)),
        );
    }

    #[test]
    fn etags_are_compared_weakly() {
        for (etags, etag, expect) in [
            ("\"a\"", "\"a\"", true),
            ("W/\"a\", \"b\"", "\"a\"", true),
            ("\"b\"", "W/\"b\"", true),
            ("*", "\"b\"", true),
            ("\"a\"", "\"b\"", false),
        ] {
            assert_eq!(matches(etags.as_bytes(), etag.as_bytes()), expect, "{etags} {etag}");
        }
    }
}
