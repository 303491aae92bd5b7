//! Path templates, parsed at load.

use std::borrow::Cow;
use std::cmp::Reverse;

/// A parsed path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) segments: Vec<Segment>,
    pub(super) end: End,
}

/// A segment of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Text, [`canonical`].
    Literal(Vec<u8>),
    /// Text and parameters: `{name}.json`.
    Mixed(Pattern),
    /// A parameter alone: `{id}`, any segment but an empty one.
    Parameter,
}

/// The end of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `/pets`
    Bare,
    /// `/pets/`
    Slash,
    /// `/pets/*`
    Rest,
}

/// The text of a mixed segment, with a [`PLACEHOLDER`] for each parameter, which matches at least one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(pub(super) Vec<u8>);

/// A parameter in a [`Pattern`]. No [`canonical`] segment contains a slash.
const PLACEHOLDER: u8 = b'/';
/// An escaped slash in a [`canonical`] path. Unambiguous, because `wire` rejects `%00`.
const ESCAPED_SLASH: u8 = 0;

impl Template {
    pub(super) fn read(template: &str) -> Self {
        let mut pieces: Vec<&str> = match template.strip_prefix('/').unwrap_or(template) {
            "" if template.is_empty() => Vec::new(),
            below => below.split('/').collect(),
        };
        let end = match pieces.last() {
            Some(&"*") => End::Rest,
            Some(&"") => End::Slash,
            Some(_) | None => End::Bare,
        };
        if end != End::Bare {
            pieces.pop();
        }
        Self { segments: pieces.into_iter().map(Segment::read).collect(), end }
    }
}

impl Segment {
    fn read(text: &str) -> Self {
        let mut pattern = Vec::new();
        let mut parameters = 0;
        let mut rest = text;
        while let Some((before, parameter)) = rest.split_once('{') {
            let Some((_, after)) = parameter.split_once('}') else {
                break;
            };
            pattern.extend_from_slice(&canonical(before.as_bytes()));
            pattern.push(PLACEHOLDER);
            parameters += 1;
            rest = after;
        }
        pattern.extend_from_slice(&canonical(rest.as_bytes()));
        match parameters {
            0 => Self::Literal(pattern),
            1 if pattern.len() == 1 => Self::Parameter,
            _ => Self::Mixed(Pattern(pattern)),
        }
    }
}

impl Pattern {
    /// A sort key, the most specific first: more text, then fewer parameters, then by text.
    pub(super) fn specificity(&self) -> (Reverse<usize>, usize, &[u8]) {
        let parameters = self.0.iter().filter(|byte| **byte == PLACEHOLDER).count();
        (Reverse(self.0.len() - parameters), parameters, &self.0)
    }
}

/// Whether `segment` matches `pattern`. Each parameter matches as little as possible, which finds a match in one
/// pass if there is one.
pub(super) fn matches(pattern: &[u8], segment: &[u8]) -> bool {
    let mut texts = pattern.split(|byte| *byte == PLACEHOLDER);
    let first = texts.next().unwrap_or_default();
    let Some(mut rest) = segment.strip_prefix(first) else {
        return false;
    };
    let mut texts = texts.peekable();
    while let Some(text) = texts.next() {
        if texts.peek().is_none() {
            return rest.len() > text.len() && rest.ends_with(text);
        }
        let Some(after) = rest.split_first().and_then(|(_, after)| after_first(after, text)) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

/// The bytes after the first occurrence of `text`.
fn after_first<'a>(bytes: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    if text.is_empty() {
        return Some(bytes);
    }
    let at = bytes.windows(text.len()).position(|window| window == text)?;
    bytes.get(at + text.len()..)
}

/// The form in which paths, base paths and templates are compared: unescaped. Paths that an upstream may treat
/// as the same must match the same template, or escapes would bypass a rule. An escaped slash remains distinct
/// from a separator, so that the number of segments is unchanged. Allocates only if there is an escape.
///
/// Source: RFC 3986 sections 2.1 and 6.2.2.
pub(super) fn canonical(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&b'%') {
        return Cow::Borrowed(bytes);
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let (byte, after) = unescape(rest).unwrap_or((*first, after));
        plain.push(byte);
        rest = after;
    }
    Cow::Owned(plain)
}

/// Decodes the escape at the start. Returns the byte and the rest.
fn unescape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, after @ ..] = bytes else {
        return None;
    };
    let byte = hex(*high)? << 4 | hex(*low)?;
    Some((if byte == b'/' { ESCAPED_SLASH } else { byte }, after))
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_split_at_slashes() {
        check("", "");
        check("/", " end/");
        check("/*", " end*");
        check("/pets", "pets");
        check("/pets/", "pets end/");
        check("/files/*", "files end*");
        check("/pets/{id}/x", "pets {} x");
        check("/a//b", "a  b");
    }

    #[test]
    fn parameters_inside_a_segment_are_placeholders() {
        check("/{name}.json", "[_.json]");
        check("/{a}-{b}", "[_-_]");
        check("/{a}{b}", "[__]");
        check("/v{major}.{minor}", "[v_._]");
    }

    #[test]
    fn literals_are_unescaped() {
        check("/gr\u{f6}\u{df}e", "gr\u{f6}\u{df}e");
        check("/gr%c3%B6\u{df}e", "gr\u{f6}\u{df}e");
        check("/%7euser/%40me/a b/a%20b", "~user @me a b a b");
        check("/a%2fb%2F/c", "a\0b\0 c");
        check("/100%/%zz/%4", "100% %zz %4");
        check("/a{b/a*b/*/x", "a{b a*b * x");
    }

    #[test]
    fn a_parameter_matches_at_least_one_byte_without_preventing_a_match() {
        for (pattern, segment, expect) in [
            ("_.json", "a.json", true),
            ("_.json", ".json", false),
            ("_.json", "a.json.json", true),
            ("_.json", "a.jso", false),
            ("_-_", "a-b", true),
            ("_-_", "a-", false),
            ("_-_", "-b", false),
            ("_-_", "a--", true),
            ("_-_-x", "a-b-c-x", true),
            ("__", "a", false),
            ("__", "ab", true),
            ("v_", "v1", true),
            ("v_", "v", false),
            ("ab_ba", "aba", false),
            ("ab_ba", "abba", false),
            ("ab_ba", "ab.ba", true),
        ] {
            let pattern = pattern.replace('_', "/");
            assert_eq!(matches(pattern.as_bytes(), segment.as_bytes()), expect, "{segment}");
        }
    }

    /// `expect`: segments separated by spaces, `{}` for a parameter, `[..]` for a mixed segment.
    #[track_caller]
    fn check(template: &str, expect: &str) {
        let template = Template::read(template);
        let mut shown: Vec<String> = template
            .segments
            .iter()
            .map(|segment| match segment {
                Segment::Literal(text) => String::from_utf8_lossy(text).into_owned(),
                Segment::Mixed(Pattern(text)) => {
                    format!("[{}]", String::from_utf8_lossy(text).replace('/', "_"))
                }
                Segment::Parameter => "{}".to_owned(),
            })
            .collect();
        match template.end {
            End::Bare => {}
            End::Slash => shown.push("end/".to_owned()),
            End::Rest => shown.push("end*".to_owned()),
        }
        assert_eq!(shown.join(" ").trim(), expect.trim());
    }
}
