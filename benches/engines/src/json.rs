//! JSONPath, Synapse expressions and payload templates, which have limits in nanoseconds instead of a peer.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::hint::black_box;

use expression::json::{Document, Ref};
use expression::jsonpath::Path;
use expression::template::{Argument, MediaType, PayloadTemplate, Settings};
use expression::{Error, EvalContext, Expression, SynapseExpression};

use crate::{Output, documents, least_ns};

/// A body that is parsed on first use.
struct Message<'s> {
    bytes: &'s [u8],
    json: OnceCell<Document<'s>>,
}

impl<'s> Message<'s> {
    fn new(bytes: &'s [u8]) -> Self {
        Self { bytes, json: OnceCell::new() }
    }
}

impl EvalContext for Message<'_> {
    fn json(&self) -> Result<Option<Ref<'_>>, Error> {
        if self.json.get().is_none() {
            let read =
                Document::parse(self.bytes).map_err(|error| Error::Body(error.to_string()))?;
            _ = self.json.set(read);
        }
        Ok(self.json.get().map(Document::root))
    }

    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed("silver"))
    }

    fn unix_ms(&self) -> i64 {
        0
    }
}

/// A path on a parsed document of 1 KiB.
pub(crate) fn jsonpath(path: &str) -> Output {
    let order = documents::order();
    let document = Document::parse(order.as_bytes())?;
    let path = Path::compile(path)?;
    let found = path.evaluate(document.root())?;
    let checksum = format!("{found:?}").len();
    let ns = least_ns(|| drop(black_box(path.evaluate(black_box(document.root())))));
    Ok(format!("{ns:.0}\t{checksum}"))
}

/// A Synapse expression on a parsed document of 1 KiB.
pub(crate) fn synapse(source: &str) -> Output {
    let order = documents::order();
    let message = Message::new(order.as_bytes());
    message.json()?;
    let compiled = SynapseExpression::compile(source)?;
    let checksum = format!("{:?}", compiled.evaluate(&message)?).len();
    let ns = least_ns(|| drop(black_box(compiled.evaluate(black_box(&message)))));
    Ok(format!("{ns:.0}\t{checksum}"))
}

/// The published mediation of the array payload, from bytes to bytes.
pub(crate) fn template(size: usize) -> Output {
    let body = documents::array_payload(size);
    let arguments = ["json-eval($.payload)", "json-eval($.size)"]
        .map(|source| Expression::compile(source).map(Argument::new));
    let arguments = arguments.into_iter().collect::<Result<Vec<_>, _>>()?;
    let format = r#"{"payload":$1,"size":"$2"}"#;
    let template = PayloadTemplate::compile(format, arguments, Settings::new(MediaType::Json))?;
    let mut out = Vec::new();
    template.render(&Message::new(&body), &mut out)?;
    let size = out.len();
    let ns = least_ns(|| {
        out.clear();
        _ = black_box(template.render(&Message::new(black_box(&body)), &mut out));
    });
    Ok(format!("{ns:.0}\t{size}"))
}
