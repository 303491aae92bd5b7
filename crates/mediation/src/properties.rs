//! Properties that hold for any artefact, message and body, for fuzz targets and tests.

use std::path::Path;

use expression::json;
use xpath::Budget;

use crate::message::mapping;
use crate::{
    Body, Compiler, Direction, Environment, Format, LogLevel, Message, Origin, PlainHead, Run,
};

/// The budget of a run, so that no input takes long.
const STEPS: u64 = 20_000;
const BYTES: u64 = 16 << 20;

struct Nobody;

impl Environment for Nobody {
    fn unix_ms(&self) -> i64 {
        0
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// Runs every sequence of the input on a body, separated by a zero byte: artefacts are compiled or rejected with a place,
/// and runs end within their budget.
///
/// # Panics
/// If the property does not hold.
pub fn sequences(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (artefact, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(document) = xml::Document::parse(artefact) else { return };
    let origin = Origin { file: Path::new("a.xml"), document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    for diagnostic in diagnostics {
        assert!(diagnostic.place.is_some() && !diagnostic.message.is_empty(), "{diagnostic}");
    }
    for (_, sequence) in program.sequences() {
        let body = Body::held(Format::guess(body), body.to_vec());
        let head = Box::<PlainHead>::default();
        let mut message = Message::new(Direction::Request, head, body);
        let mut run = Run::new(sequence, None, Budget::new(STEPS, BYTES));
        let _ = run.resume(&program, &Nobody, &mut message);
        let _ = message.finish();
    }
}

/// JSON that became XML and JSON again does not change any more.
///
/// # Panics
/// If the property does not hold.
pub fn mapping(input: &[u8]) {
    let round = |document: &json::Document<'_>| {
        let xml = mapping::to_xml(document.root()).ok()?;
        let bytes = xml.write(xml::WriterOptions::default()).ok()?;
        let read = xml::Document::parse(&bytes);
        let read = read.unwrap_or_else(|error| panic!("{error}: {}", document.text()));
        read.element().map(mapping::to_json)
    };
    let Ok(document) = json::Document::parse(input) else { return };
    let Some(once) = round(&document) else { return };
    let twice = round(&once).unwrap_or_else(|| panic!("{}", once.text()));
    assert_eq!(once.text(), twice.text());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop};
    use proptest::{prop_assert, proptest};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::default())]

        #[test]
        fn any_json_survives_a_second_round(
            names in prop::collection::vec("[@$a-c0-2 é_x-]{0,4}", 1..6),
            text in any::<String>(),
        ) {
            let mut builder = json::Builder::new();
            builder.begin_object();
            for name in &names {
                builder.key(name);
                builder.string(&text);
            }
            builder.key("list").begin_array();
            for name in &names {
                builder.string(name);
            }
            builder.end().end();
            let document = builder.finish();
            mapping(document.text().as_bytes());
            prop_assert!(true);
        }
    }
}
