//! Medians of what the issue sets a target for. `cargo run --profile quick -p penstock-expression --example measure`

#![expect(clippy::unwrap_used, reason = "a measurement of fixed texts")]

use std::borrow::Cow;
use std::cell::OnceCell;
use std::hint::black_box;

use base::{Clock, SystemClock};
use penstock_expression::json::{Document, Ref};
use penstock_expression::jsonpath::Path;
use penstock_expression::synapse::{Mode, SynapseExpression};
use penstock_expression::template::{Argument, MediaType, PayloadTemplate, Settings};
use penstock_expression::{EvalError, Expression, Scope};

/// A body that is read when it is asked for.
struct Message<'s> {
    bytes: &'s [u8],
    json: OnceCell<Document<'s>>,
}

impl Scope for Message<'_> {
    fn json(&self) -> Result<Option<Ref<'_>>, EvalError> {
        if self.json.get().is_none() {
            let read =
                Document::parse(self.bytes).map_err(|error| EvalError::Body(error.to_string()))?;
            let _ = self.json.set(read);
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

fn main() {
    let clock = SystemClock::new();
    for size in [1_024, 10_240, 102_400] {
        let body = array_payload(size);
        let arguments = ["json-eval($.payload)", "json-eval($.size)"];
        let arguments = arguments.map(|source| Argument::new(Expression::compile(source).unwrap()));
        let format = r#"{"payload":$1,"size":"$2"}"#;
        let template =
            PayloadTemplate::compile(format, arguments.to_vec(), Settings::new(MediaType::Json))
                .unwrap();
        let mut out = Vec::new();
        let rounds = 200_000_000 / size / 100;
        report(&clock, &format!("parse {size} B"), rounds, || {
            black_box(Document::parse(black_box(&body)).unwrap());
        });
        report(&clock, &format!("template, bytes to bytes, {size} B"), rounds, || {
            let message = Message { bytes: black_box(&body), json: OnceCell::new() };
            out.clear();
            template.render(&message, &mut out).unwrap();
            black_box(&out);
        });
    }
    let order = order_document();
    let document = Document::parse(order.as_bytes()).unwrap();
    println!("document of {} B, parsed before", order.len());
    for source in ["$.order.customer.address.city", "$.items[3].name", "$['order']['total']"] {
        let path = Path::compile(source).unwrap();
        report(&clock, source, 20_000, || {
            black_box(path.evaluate(black_box(document.root())).unwrap());
        });
    }
    let message = Message { bytes: order.as_bytes(), json: OnceCell::new() };
    message.json().unwrap();
    for source in [
        "${payload.order.customer.address.city}",
        "${payload.order.total > 100}",
        "${payload.items[3].price * 2}",
        "${headers.tier == 'silver' ? payload.order.id : 'none'}",
    ] {
        let expression = SynapseExpression::compile(source, Mode::Compatible).unwrap();
        report(&clock, source, 20_000, || {
            black_box(expression.evaluate(black_box(&message)).unwrap());
        });
    }
}

/// The published payload: exactly `size` bytes, strings of ten characters (WSO2's generator, type ARRAY).
fn array_payload(size: usize) -> Vec<u8> {
    let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut letters = alphabet.iter().cycle();
    let mut body = format!("{{\"size\":\"{size}B\",\"payload\":[").into_bytes();
    while body.len() + 15 < size {
        body.push(b'"');
        body.extend(letters.by_ref().take(10));
        body.extend_from_slice(b"\",");
    }
    let rest = size.saturating_sub(body.len() + 4);
    body.push(b'"');
    body.extend(letters.take(rest));
    body.extend_from_slice(b"\"]}");
    body
}

fn order_document() -> String {
    let items: Vec<_> = (0..12)
        .map(|n| format!(r#"{{"sku":"A-{n:03}","name":"thing {n}","price":{n}.50,"count":{n}}}"#))
        .collect();
    format!(
        r#"{{"order":{{"id":"o-1","customer":{{"name":"Ann Example","address":{{"street":"Main","city":"Colombo","zip":"00100"}}}},"total":151.25}},"items":[{}],"notes":"{}"}}"#,
        items.join(","),
        "x".repeat(140)
    )
}

/// The median of 101 samples of `rounds` each, in nanoseconds.
fn report(clock: &SystemClock, what: &str, rounds: usize, mut work: impl FnMut()) {
    let rounds = rounds.max(10);
    let mut samples: Vec<u64> = (0..101)
        .map(|_| {
            let before = clock.now();
            (0..rounds).for_each(|_| work());
            clock.now().since_us(before) * 1_000 / rounds as u64
        })
        .collect();
    samples.sort_unstable();
    println!("{:>9} ns  {what}", samples[50]);
}
