//! Path templates, read once at load.

use std::borrow::Cow;
use std::cmp::Reverse;

/// A path template, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) segments: Vec<Segment>,
    pub(super) end: End,
}

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Text, [`canonical`].
    Literal(Vec<u8>),
    /// Text and parameters: `{name}.json`.
    Mixed(Pattern),
    /// A parameter alone: `{id}`, any segment but an empty one.
    Plain,
}

/// How a template ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `/pets`
    Bare,
    /// `/pets/`
    Slash,
    /// `/pets/*`
    Rest,
}

/// The texts around the parameters of a mixed segment, joined by [`HOLE`]s. Each hole stands for
/// at least one byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(pub(super) Vec<u8>);

/// Where a parameter stands in a [`Pattern`]: no [`canonical`] segment holds a slash.
const HOLE: u8 = b'/';
/// What an escaped slash becomes. `wire` refuses `%00`, so nothing else does.
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
        let mut holes = 0;
        let mut rest = text;
        while let Some((before, parameter)) = rest.split_once('{') {
            let Some((_, after)) = parameter.split_once('}') else {
                break;
            };
            pattern.extend_from_slice(&canonical(before.as_bytes()));
            pattern.push(HOLE);
            holes += 1;
            rest = after;
        }
        pattern.extend_from_slice(&canonical(rest.as_bytes()));
        match holes {
            0 => Self::Literal(pattern),
            1 if pattern.len() == 1 => Self::Plain,
            _ => Self::Mixed(Pattern(pattern)),
        }
    }
}

impl Pattern {
    /// Sorts the more specific first: more text, then fewer parameters, then by text.
    pub(super) fn specificity(&self) -> (Reverse<usize>, usize, &[u8]) {
        let holes = self.0.iter().filter(|byte| **byte == HOLE).count();
        (Reverse(self.0.len() - holes), holes, &self.0)
    }
}

/// Whether `segment` fits `pattern`. Each parameter takes as little as it can, which finds a fit
/// whenever there is one, in one pass.
pub(super) fn fits(pattern: &[u8], segment: &[u8]) -> bool {
    let mut texts = pattern.split(|byte| *byte == HOLE);
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

/// What follows the first occurrence of `text` in `bytes`.
fn after_first<'a>(bytes: &'a [u8], text: &[u8]) -> Option<&'a [u8]> {
    if text.is_empty() {
        return Some(bytes);
    }
    let at = bytes.windows(text.len()).position(|window| window == text)?;
    bytes.get(at + text.len()..)
}

/// The one form in which paths, base paths and templates are compared: without escapes. What a
/// backend may take for the same has to meet the same template, `%40` for `@` included, or a rule
/// could be walked around by spelling. An escaped slash stays apart from one that separates, so
/// that there are as many segments as before. Allocates only where there is an escape.
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

/// The byte that the escape at the start stands for, and what follows it.
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
    fn a_template_is_taken_apart_at_its_slashes() {
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
    fn parameters_inside_a_segment_leave_holes() {
        check("/{name}.json", "[_.json]");
        check("/{a}-{b}", "[_-_]");
        check("/{a}{b}", "[__]");
        check("/v{major}.{minor}", "[v_._]");
    }

    #[test]
    fn literals_lose_their_escapes() {
        check("/gr\u{f6}\u{df}e", "gr\u{f6}\u{df}e");
        check("/gr%c3%B6\u{df}e", "gr\u{f6}\u{df}e");
        check("/%7euser/%40me/a b/a%20b", "~user @me a b a b");
        check("/a%2fb%2F/c", "a\0b\0 c");
        check("/100%/%zz/%4", "100% %zz %4");
        check("/a{b/a*b/*/x", "a{b a*b * x");
    }

    #[test]
    fn a_parameter_takes_at_least_one_byte_and_never_blocks_a_fit() {
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
            assert_eq!(fits(pattern.as_bytes(), segment.as_bytes()), expect, "{segment}");
        }
    }

    /// `expect` shows segments between blanks: `{}` for a plain one, `[..]` for a mixed one.
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
                Segment::Plain => "{}".to_owned(),
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
