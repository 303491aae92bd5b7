//! URI templates: RFC 6570, for endpoints; and matching of paths, for resources.

use std::fmt::Write as _;

/// An operator of RFC 6570, section 2.2.
struct Operator {
    mark: char,
    first: &'static str,
    separator: char,
    /// Whether values have their names, and the text after the name of an empty one.
    named: Option<&'static str>,
    /// Whether reserved characters stay.
    reserved: bool,
}

/// Source: RFC 6570 appendix A.
#[rustfmt::skip]
const OPERATORS: &[Operator] = &[
    Operator { mark: '+', first: "",  separator: ',', named: None,      reserved: true },
    Operator { mark: '#', first: "#", separator: ',', named: None,      reserved: true },
    Operator { mark: '.', first: ".", separator: '.', named: None,      reserved: false },
    Operator { mark: '/', first: "/", separator: '/', named: None,      reserved: false },
    Operator { mark: ';', first: ";", separator: ';', named: Some(""),  reserved: false },
    Operator { mark: '?', first: "?", separator: '&', named: Some("="), reserved: false },
    Operator { mark: '&', first: "&", separator: '&', named: Some("="), reserved: false },
];
const SIMPLE: Operator =
    Operator { mark: '\0', first: "", separator: ',', named: None, reserved: false };
/// Synapse's own prefix of a template whose result is decoded and encoded again, so that escapes in values do not
/// count.
pub(crate) const LEGACY: &str = "legacy-encoding:";

/// Expands the `uri-template` of an endpoint. A variable at its beginning may hold a whole URL, as in Synapse.
pub(crate) fn expand_url(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    if let Some(template) = template.strip_prefix(LEGACY) {
        let decoded = decode(&expand(template, value)).replace('%', "%25");
        let mut url = String::with_capacity(decoded.len());
        encode(&mut url, &decoded, true);
        return url;
    }
    match template.strip_prefix('{').filter(|inner| operator(inner).is_none()) {
        Some(inner) => expand(&format!("{{+{inner}"), value),
        None => expand(template, value),
    }
}

fn operator(inner: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| inner.starts_with(operator.mark))
}

/// Expands `template`; variables without a value are left out.
pub(crate) fn expand(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut url = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((literal, (inner, after))) =
        rest.split_once('{').and_then(|(literal, after)| Some((literal, after.split_once('}')?)))
    {
        url.push_str(literal);
        expand_one(&mut url, inner, &value);
        rest = after;
    }
    url.push_str(rest);
    url
}

fn expand_one(url: &mut String, inner: &str, value: &impl Fn(&str) -> Option<String>) {
    let operator = operator(inner);
    let names = operator.map_or(inner, |_| inner.get(1..).unwrap_or_default());
    let operator = operator.unwrap_or(&SIMPLE);
    let mut is_first = true;
    for name in names.split(',') {
        let name = name.trim_end_matches('*');
        let Some(value) = value(name) else { continue };
        if std::mem::take(&mut is_first) {
            url.push_str(operator.first);
        } else {
            url.push(operator.separator);
        }
        if let Some(if_empty) = operator.named {
            // `{?query.param.x}` is about the parameter `x`.
            let short = name.strip_prefix("query.param.").or(name.strip_prefix("uri.var."));
            url.push_str(short.unwrap_or(name));
            url.push_str(if value.is_empty() { if_empty } else { "=" });
        }
        encode(url, &value, operator.reserved);
    }
}

/// Source: RFC 6570 section 3.2.1. Escapes that are there already stay.
pub(crate) fn encode(url: &mut String, value: &str, reserved: bool) {
    let bytes = value.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let hex = |offset: usize| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        let is_escape = *byte == b'%' && hex(1) && hex(2);
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        if plain || is_escape || reserved && b":/?#[]@!$&'()*+,;=".contains(byte) {
            url.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

/// The text of a query parameter, without escapes and with spaces for `+`. Invalid escapes stay.
#[must_use]
pub fn decode(text: &str) -> String {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let bytes = text.as_bytes();
    let (mut decoded, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let escape = digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2)));
        match escape.filter(|_| *byte == b'%') {
            Some((high, low)) => {
                decoded.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
            }
            None => {
                decoded.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Names and values of a query, decoded.
pub(crate) fn query(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// The values of the variables if `path` matches `template`, a path with `{name}`s. A variable matches within a
/// segment, and `{+name}` or a `*` at the end the rest of the path.
pub(crate) fn matches<'t, 'p>(template: &'t str, path: &'p str) -> Option<Vec<(&'t str, &'p str)>> {
    let mut found = Vec::new();
    let (mut template, mut path) = (template, path);
    loop {
        let Some((literal, rest)) = template.split_once('{') else {
            return match template.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix).then_some(found),
                None => (template == path).then_some(found),
            };
        };
        path = path.strip_prefix(literal)?;
        let (name, after) = rest.split_once('}')?;
        let (name, is_rest) = match name.strip_prefix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        // Up to the literal that follows the variable.
        let until = after.split('{').next().unwrap_or_default().trim_end_matches('*');
        let segment = path.find('/').filter(|_| !is_rest).unwrap_or(path.len());
        let end = match until.is_empty() || until.starts_with('/') {
            true if !is_rest => segment,
            true if until.is_empty() => path.len(),
            _ => path.find(until).filter(|end| *end <= segment)?,
        };
        let (value, left) = path.split_at_checked(end)?;
        if value.is_empty() {
            return None;
        }
        found.push((name, value));
        (template, path) = (after, left);
    }
}
