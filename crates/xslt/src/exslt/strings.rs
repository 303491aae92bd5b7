//! EXSLT strings.

use std::collections::HashMap;

use xml::{Builder, Node, Sink};
use xpath::Value;

use super::arguments::{Arguments, NODE_BYTES};
use super::{Evaluated, Row, row};

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

/// The first string laid over the second at its left, right or middle; longer ones are cut.
fn align<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let (text, padding, side) = (args.text()?, args.text()?, args.text()?);
    args.host.budget().charge_scanning(text.len().saturating_add(padding.len()))?;
    args.charge_memory(text.len().saturating_add(padding.len()))?;
    let (have, width) = (text.chars().count(), padding.chars().count());
    let text: String = text.chars().take(width).collect();
    let free = width.saturating_sub(have);
    let before = match side.as_str() {
        "right" => free,
        "center" => free / 2,
        _ => 0,
    };
    let left = padding.chars().take(before);
    let right = padding.chars().skip(before.saturating_add(have));
    Ok(Value::String(left.chain(text.chars()).chain(right).collect()))
}

fn concat<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let nodes = args.nodes()?;
    let mut out = String::new();
    for item in &nodes {
        let text = item.charged_string_value(args.host.budget())?;
        args.charge_memory(text.len())?;
        out.push_str(&text);
    }
    Ok(Value::String(out))
}

fn padding<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let width = xpath::round(args.number()?);
    let pattern = args.optional_text()?.unwrap_or_else(|| " ".to_owned());
    if pattern.is_empty() || width.is_nan() || width < 1.0 {
        return Ok(Value::String(String::new()));
    }
    // A width above 32 bits exceeds every budget.
    let width =
        if width >= f64::from(u32::MAX) { None } else { format!("{width:.0}").parse().ok() };
    let width: usize = width.unwrap_or(u32::MAX as usize);
    args.host.budget().charge_scanning(width)?;
    args.charge_memory(width.saturating_mul(pattern.len().min(4)))?;
    Ok(Value::String(pattern.chars().cycle().take(width).collect()))
}

/// The replacement of a search string.
enum Replacement<'d> {
    Text(String),
    Node(Node<'d>),
}

/// Replaces search strings, the longest first where several match. The result consists of text nodes and copies of the
/// elements that replace search strings; text without elements in between is one node.
fn replace<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = args.text()?;
    let (search, replacements) = (strings(args)?, replacements(args)?);
    let mut by_length: Vec<usize> = search.iter().map(String::len).filter(|len| *len > 0).collect();
    by_length.sort_unstable_by_key(|len| std::cmp::Reverse(*len));
    by_length.dedup();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (at, from) in search.iter().enumerate() {
        known.entry(from.as_str()).or_insert(at);
    }
    let built = |error: xml::Error| xpath::Error::Host(error.to_string());
    let mut builder = Builder::new();
    let mut elements = 0usize;
    let (mut rest, mut copied) = (text.as_str(), 0usize);
    while let Some(next) = rest.get(copied..).and_then(|rest| rest.chars().next()) {
        let here = rest.get(copied..).unwrap_or("");
        args.charge_steps(1)?;
        let mut found = None;
        for len in &by_length {
            args.host.budget().charge_reading(*len)?;
            found = here.get(..*len).and_then(|start| known.get(start).copied());
            if found.is_some() {
                break;
            }
        }
        let Some(at) = found else {
            copied = copied.saturating_add(next.len_utf8());
            continue;
        };
        let len = search.get(at).map_or(0, String::len);
        append(args, &mut builder, rest.get(..copied).unwrap_or(""))?;
        match replacements.get(at) {
            Some(Replacement::Text(text)) => append(args, &mut builder, text)?,
            Some(Replacement::Node(node)) => {
                charge_copy(args, *node)?;
                elements = elements.saturating_add(1);
                xml::copy_subtree(*node, &mut builder).map_err(built)?;
            }
            None => {}
        }
        rest = here.get(len..).unwrap_or("");
        copied = 0;
    }
    append(args, &mut builder, rest)?;
    // Each element may have a text before it, and the last one behind it.
    args.children(builder, elements.saturating_mul(2).saturating_add(1))
}

/// Charges a copy of an element and its descendants, with all namespaces in its scope.
fn charge_copy(args: &Arguments<'_, '_>, element: Node<'_>) -> Evaluated<()> {
    // The text before it, and the places of both in the node-set.
    args.charge_memory(NODE_BYTES.saturating_mul(2))?;
    let mut parts = element.namespaces_in_scope().count();
    for node in std::iter::once(element).chain(element.descendants()) {
        let mut bytes = node.text().len();
        for attribute in node.attributes() {
            parts = parts.saturating_add(1);
            bytes = bytes.saturating_add(attribute.text().len());
        }
        parts = parts.saturating_add(node.declarations().count()).saturating_add(1);
        args.charge_steps(parts)?;
        let records = parts.saturating_mul(NODE_BYTES);
        args.charge_memory(records.saturating_add(bytes.saturating_mul(2)))?;
        parts = 0;
    }
    Ok(())
}

fn append(args: &Arguments<'_, '_>, builder: &mut Builder, text: &str) -> Evaluated<()> {
    args.charge_memory(text.len().saturating_mul(2))?;
    builder.text(text).map_err(|error| xpath::Error::Host(error.to_string()))
}

fn strings(args: &mut Arguments<'_, '_>) -> Evaluated<Vec<String>> {
    match args.value() {
        Some(Value::NodeSet(nodes)) => {
            let mut texts = Vec::new();
            for item in &nodes {
                let text = item.charged_string_value(args.host.budget())?;
                args.charge_memory(text.len().saturating_add(size_of::<String>()))?;
                texts.push(text.into_owned());
            }
            Ok(texts)
        }
        Some(other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_))) => {
            Ok(vec![other.into_string()])
        }
        None => Ok(Vec::new()),
    }
}

/// The replacements: copies of elements, and the text of other nodes.
fn replacements<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Vec<Replacement<'d>>> {
    match args.value() {
        Some(Value::NodeSet(nodes)) => {
            let mut all = Vec::new();
            for item in &nodes {
                args.charge_memory(size_of::<Replacement<'_>>())?;
                all.push(match item.node().filter(|node| node.is_element()) {
                    Some(element) => Replacement::Node(element),
                    None => {
                        let text = item.charged_string_value(args.host.budget())?;
                        Replacement::Text(text.into_owned())
                    }
                });
            }
            Ok(all)
        }
        Some(other @ (Value::String(_) | Value::Number(_) | Value::Boolean(_))) => {
            Ok(vec![Replacement::Text(other.into_string())])
        }
        None => Ok(Vec::new()),
    }
}

/// Splits at each of the characters; empty tokens are dropped.
fn tokenize<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = args.text()?;
    let delimiters = args.optional_text()?.unwrap_or_else(|| "\t\r\n ".to_owned());
    args.charge_steps(text.len().saturating_mul(delimiters.len()) / 16)?;
    if delimiters.is_empty() {
        return args.elements("token", characters(&text).map(Ok));
    }
    let tokens = text.split(|c| delimiters.contains(c)).filter(|token| !token.is_empty());
    args.elements("token", tokens.map(Ok))
}

fn split<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = args.text()?;
    let pattern = args.optional_text()?.unwrap_or_else(|| " ".to_owned());
    args.host.budget().charge_scanning(text.len())?;
    if pattern.is_empty() {
        return args.elements("token", characters(&text).map(Ok));
    }
    let tokens = text.split(&pattern).filter(|token| !token.is_empty());
    args.elements("token", tokens.map(Ok))
}

fn characters(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|_| true)
}

/// Unreserved and reserved characters of URIs. Source: RFC 2396 sections 2.3 and 2.2, and RFC 2732 for brackets.
const MARKS: &str = "-_.!~*'()";
const RESERVED: &str = ";/?:@&=+$,[]";

/// Whether the encoding is UTF-8. For others the result is empty, as EXSLT allows.
fn is_utf8(encoding: Option<String>) -> bool {
    encoding.is_none_or(|name| name.eq_ignore_ascii_case("utf-8"))
}

fn encode_uri<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = args.text()?;
    let all = args.value().is_some_and(|value| value.boolean());
    if !is_utf8(args.optional_text()?) {
        return Ok(Value::String(String::new()));
    }
    args.host.budget().charge_scanning(text.len())?;
    args.charge_memory(text.len().saturating_mul(3))?;
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
    Ok(Value::String(out))
}

fn decode_uri<'d>(args: &mut Arguments<'_, 'd>) -> Evaluated<Value<'d>> {
    let text = args.text()?;
    if !is_utf8(args.optional_text()?) {
        return Ok(Value::String(String::new()));
    }
    args.host.budget().charge_scanning(text.len())?;
    args.charge_memory(text.len())?;
    let decoded = percent_encoding::percent_decode_str(&text).decode_utf8().ok();
    // The decoded characters may be some that XML does not allow.
    let decoded = decoded.filter(|text| xml::is_text(text));
    Ok(Value::String(decoded.unwrap_or_default().into_owned()))
}
