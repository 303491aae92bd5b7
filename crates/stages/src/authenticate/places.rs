//! Credentials in a query and in cookies, and patterns of the `Referer` that may be sent with them.

use model::{AuthFailure, KeyPlace};

pub fn parameters(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query.split(|byte| *byte == b'&')
}

/// The pairs in the value of `Cookie`.
pub fn cookies(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let pairs = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    pairs.filter(|pair| !pair.is_empty())
}

/// The value of the pair `NAME=VALUE`, if it has this name.
#[must_use]
pub fn value_of<'r>(pair: &'r [u8], name: &str) -> Option<&'r [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The value of the only pair of this name.
///
/// # Errors
/// [`AuthFailure::RepeatedHeader`] if there are several, since an upstream could read another one.
pub fn only<'r>(
    pairs: impl Iterator<Item = &'r [u8]>,
    name: &str,
) -> Result<Option<&'r [u8]>, AuthFailure> {
    let mut values = pairs.filter_map(|pair| value_of(pair, name));
    let found = values.next();
    if values.next().is_some() { Err(AuthFailure::RepeatedHeader) } else { Ok(found) }
}

/// Whether a query parameter is an API key.
#[must_use]
pub fn is_key(places: &[KeyPlace], pair: &[u8]) -> bool {
    let is_it =
        |place: &KeyPlace| matches!(place, KeyPlace::Query(name) if value_of(pair, name).is_some());
    places.iter().any(is_it)
}

/// Appends the parameters of `query`, unless they are API keys.
pub fn write_query(places: &[KeyPlace], query: &[u8], out: &mut Vec<u8>) {
    let mut is_first = true;
    for pair in parameters(query).filter(|pair| !is_key(places, pair)) {
        if !is_first {
            out.push(b'&');
        }
        out.extend_from_slice(pair);
        is_first = false;
    }
}

/// Whether `text` matches `pattern`, in which `*` matches anything except spaces.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    is_like(pattern, text, |byte| byte)
}

/// As [`matches`], of bytes that are compared after `fold`.
pub(super) fn is_like(pattern: &[u8], text: &[u8], fold: fn(u8) -> u8) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // The pattern after the last `*`, and the text that this `*` does not cover yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (Some((b'*', after)), _) => {
                (pattern, star) = (after, Some((after, text)));
            }
            (Some((expected, after)), Some((found, rest))) if fold(*expected) == fold(*found) => {
                (pattern, text) = (after, rest);
            }
            (None, None) => return true,
            (_, _) => match star {
                Some((after, [taken, rest @ ..])) if *taken != b' ' => {
                    (pattern, text, star) = (after, rest, Some((after, rest)));
                }
                Some(_) | None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_anything_but_spaces() {
        for (pattern, text, expect) in [
            ("https://a/", "https://a/", true),
            ("https://a/", "https://a/b", false),
            ("https://*.a/*", "https://x.y.a/b?c", true),
            ("https://*.a/*", "https://a/", false),
            ("*", "", true),
            ("a*b*c", "a12b3bc", true),
            ("a*b*c", "a1 2bc", false),
            ("a.c", "abc", false),
            ("", "a", false),
            ("**a", "bca", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expect, "{pattern} {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn the_properties_of_credentials_hold(
            bytes in proptest::prelude::any::<Vec<u8>>(), text in "(Bearer |Basic )?[ab=;*]{0,4}\n(key=?|a|&|=| ){0,8}\n[a*]{0,4}",
        ) {
            crate::properties::credentials(&bytes);
            crate::properties::credentials(text.as_bytes());
        }
    }
}
