//! XML, XPath and XSLT, as in peer.c.

use std::hint::black_box;

use xml::Document;
use xpath::{Budget, Context, Expression, NoBindings, StaticContext, Value};
use xslt::{NoResolver, Params, Stylesheet};

use crate::{Output, least_ns};

/// Parses and drops a tree; the checksum is its number of nodes.
pub(crate) fn read(file: &str) -> Output {
    let bytes = std::fs::read(file)?;
    let nodes = Document::parse(&bytes)?.root().descendants().count();
    let ns = least_ns(|| drop(black_box(Document::parse(black_box(&bytes)))));
    Ok(format!("{ns:.0}\t{nodes}"))
}

/// Heap bytes of the tree, and bytes of the document.
pub(crate) fn heap(file: &str) -> Output {
    let bytes = std::fs::read(file)?;
    Ok(format!("{}\t{}", Document::parse(&bytes)?.heap_bytes(), bytes.len()))
}

struct Prefixes;

impl StaticContext for Prefixes {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let uri = match prefix {
            "soapenv" => "http://schemas.xmlsoap.org/soap/envelope/",
            "m" => "http://services.samples/xsd",
            "t" => "http://someuri",
            _ => return None,
        };
        Some(uri.to_owned())
    }
}

/// Evaluates a compiled expression on a tree; the checksum is the number of nodes, or the value.
pub(crate) fn select(file: &str, expression: &str) -> Output {
    let document = Document::parse(&std::fs::read(file)?)?;
    let expression = Expression::compile(expression, &Prefixes)?;
    let context = Context::new(document.root());
    let checksum = match expression.evaluate(context, &mut NoBindings, &Budget::large())? {
        Value::NodeSet(nodes) => format!("{} nodes", nodes.len()),
        Value::Number(number) => xpath::number_to_string(number).into_owned(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::String(text) => text,
    };
    let ns = least_ns(|| {
        _ = black_box(expression.evaluate(black_box(context), &mut NoBindings, &Budget::large()));
    });
    Ok(format!("{ns:.0}\t{checksum}"))
}

/// Parses and transforms a document; the checksum is the size of the result without XML declaration and whitespace,
/// which may differ (XSLT section 16.1).
pub(crate) fn transform(file: &str, sheet: &str) -> Output {
    let bytes = std::fs::read(file)?;
    let sheet = Stylesheet::compile(&std::fs::read(sheet)?, &NoResolver)?;
    let params = Params::new();
    let run = |bytes: &[u8]| -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let mut out = Vec::new();
        sheet.transform(&Document::parse(bytes)?, &params, &mut out)?;
        Ok(out)
    };
    let out = String::from_utf8(run(&bytes)?)?;
    let body = out.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    let body = body.map_or(out.as_str(), |(_, body)| body);
    let size = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).count();
    let ns = least_ns(|| drop(black_box(run(black_box(&bytes)))));
    Ok(format!("{ns:.0}\t{size}"))
}
