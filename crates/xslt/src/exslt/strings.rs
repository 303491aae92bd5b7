//! EXSLT strings.

use xpath::Value;

use super::call::Call;
use super::{Answer, Row, row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("align",      2, 3, align),
    row("concat",     1, 1, concat),
    row("decode-uri", 1, 2, decode_uri),
    row("encode-uri", 2, 3, encode_uri),
    row("padding",    1, 2, padding),
    row("replace",    3, 3, replace),
    row("split",      1, 2, split),
    row("tokenize",   1, 2, tokenize),
];

fn string<'d>(call: &mut Call<'_, 'd>, text: String) -> Answer<Value<'d>> {
    call.host.made(text.len())?;
    Ok(Value::String(text))
}

/// The second string laid over the padding at its left, right or middle; longer ones are cut.
fn align<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let (text, padding, side) = (call.text(), call.text(), call.text());
    let (have, room) = (text.chars().count(), padding.chars().count());
    let text: String = text.chars().take(room).collect();
    let free = room.saturating_sub(have);
    let before = match side.as_str() {
        "right" => free,
        "center" => free / 2,
        _ => 0,
    };
    let left = padding.chars().take(before);
    let right = padding.chars().skip(before.saturating_add(have));
    let aligned = left.chain(text.chars()).chain(right).collect();
    string(call, aligned)
}

fn concat<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let nodes = call.nodes()?;
    let mut out = String::new();
    for item in &nodes {
        let text = item.string_value();
        call.host.made(text.len())?;
        out.push_str(&text);
    }
    Ok(Value::String(out))
}

fn padding<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let wanted = xpath::round(call.number());
    let pattern = call.optional_text().unwrap_or_else(|| " ".to_owned());
    let bytes = wanted * pattern.len().min(4) as f64;
    if pattern.is_empty() || wanted.is_nan() || wanted < 1.0 {
        return Ok(Value::String(String::new()));
    }
    // The largest that a count may be; more is past the limit of every run.
    let most = u32::MAX;
    let count = if bytes >= f64::from(most) { None } else { format!("{wanted:.0}").parse().ok() };
    let count: usize = count.unwrap_or(most as usize);
    call.host.made(count)?;
    Ok(Value::String(pattern.chars().cycle().take(count).collect()))
}

/// Each search string by the replacement at its place; of several that fit, the longest.
fn replace<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = call.text();
    let (search, replacements) = (strings(call), strings(call));
    let mut pairs: Vec<(&str, &str)> = search
        .iter()
        .enumerate()
        .map(|(at, from)| (from.as_str(), replacements.get(at).map_or("", String::as_str)))
        .filter(|(from, _)| !from.is_empty())
        .collect();
    pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    call.host.spend(text.len().saturating_mul(pairs.len()) / 16)?;
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(next) = rest.chars().next() {
        let fits = pairs.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, *to)));
        if let Some((after, to)) = fits {
            call.host.made(to.len())?;
            out.push_str(to);
            rest = after;
        } else {
            out.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or("");
        }
    }
    string(call, out)
}

fn strings(call: &mut Call<'_, '_>) -> Vec<String> {
    match call.value() {
        Some(Value::NodeSet(nodes)) => {
            nodes.iter().map(|item| item.string_value().into_owned()).collect()
        }
        Some(other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_))) => {
            vec![other.into_string()]
        }
        None => Vec::new(),
    }
}

/// Between each two of the characters; empty tokens aren't any.
fn tokenize<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = call.text();
    let delimiters = call.optional_text().unwrap_or_else(|| "\t\r\n ".to_owned());
    call.host.spend(text.len().saturating_mul(delimiters.len()) / 16)?;
    if delimiters.is_empty() {
        return call.elements("token", &characters(&text));
    }
    let tokens: Vec<&str> =
        text.split(|c| delimiters.contains(c)).filter(|token| !token.is_empty()).collect();
    call.elements("token", &tokens)
}

fn split<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = call.text();
    let pattern = call.optional_text().unwrap_or_else(|| " ".to_owned());
    if pattern.is_empty() {
        return call.elements("token", &characters(&text));
    }
    let tokens: Vec<&str> = text.split(&pattern).filter(|token| !token.is_empty()).collect();
    call.elements("token", &tokens)
}

fn characters(text: &str) -> Vec<&str> {
    text.split_inclusive(|_| true).collect()
}

/// Source: RFC 2396 section 2.3, unreserved, and 2.2 with RFC 2732's brackets, reserved.
const MARKS: &str = "-_.!~*'()";
const RESERVED: &str = ";/?:@&=+$,[]";

/// Of encodings other than UTF-8 the answer is empty, as EXSLT has it.
fn is_utf8(encoding: Option<String>) -> bool {
    encoding.is_none_or(|name| name.eq_ignore_ascii_case("utf-8"))
}

fn encode_uri<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = call.text();
    let all = call.value().is_some_and(|value| value.boolean());
    if !is_utf8(call.optional_text()) {
        return Ok(Value::String(String::new()));
    }
    let mut out = String::new();
    for c in text.chars() {
        let kept = c.is_ascii_alphanumeric() || MARKS.contains(c) || !all && RESERVED.contains(c);
        if kept {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    string(call, out)
}

fn decode_uri<'d>(call: &mut Call<'_, 'd>) -> Answer<Value<'d>> {
    let text = call.text();
    if !is_utf8(call.optional_text()) {
        return Ok(Value::String(String::new()));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = |at: usize| {
            let digit = after.get(at).and_then(|b| char::from(*b).to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok())
        };
        if let (b'%', Some(high), Some(low)) = (byte, hex(0), hex(1)) {
            out.push(high << 4 | low);
            rest = after.get(2..).unwrap_or(&[]);
        } else {
            out.push(byte);
            rest = after;
        }
    }
    // What the bytes say may not be UTF-8, or characters that XML doesn't have.
    let decoded = String::from_utf8(out).ok().filter(|text| xml::is_text(text));
    string(call, decoded.unwrap_or_default())
}
