//! Properties of the readers for any input: the bodies of the fuzz targets.

use std::sync::Arc;

use echo::websocket::{Echoed, echo};

use crate::load::Protocol;
use crate::load::request::Destination;
use crate::load::scenario::{Common, Compiled, Scenario};
use crate::load::websocket::MessageReader;
use crate::suite::source::Source;

/// A scenario file is rejected, or can be sent. Files that it names are not read.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if !text.contains("file") {
        drop(compiled(text));
    }
}

/// The conversion of a HAR file, a curl command or an OpenAPI description is a valid scenario file, if it names no
/// files.
pub fn convert(data: &[u8]) {
    use crate::load::scenario::{from_curl, from_har, from_openapi};
    let text = String::from_utf8_lossy(data);
    let made = [from_har(data), from_curl(&text), from_openapi(&text)];
    for made in made.into_iter().flatten().filter(|made| !made.contains("body_file")) {
        let read = Scenario::from_source(&Source { name: "made.toml".into(), text: made.clone() });
        assert!(read.is_ok(), "{made}\n{read:?}");
    }
}

/// The first outcome of a WebSocket reader does not depend on how the bytes are split, nor does the backend's response
/// to the frames of a client.
pub fn websocket(data: &[u8]) {
    let (mut whole, mut split, mut input) = (Vec::new(), Vec::new(), Vec::new());
    let expect = echo(data, &mut whole);
    let mut found = Echoed::default();
    for byte in data {
        input.push(*byte);
        let echoed = echo(&input, &mut split);
        input.drain(..echoed.used);
        found.used += echoed.used;
        found.messages += echoed.messages;
        found.is_closed = echoed.is_closed;
        if found.is_closed {
            break;
        }
    }
    assert_eq!((split, found), (whole, expect));
    let mut by_byte = MessageReader::new(Some(b"Hello"));
    let first = data.iter().enumerate().find_map(|(at, byte)| {
        by_byte.feed(std::slice::from_ref(byte)).map(|outcome| (at + 1, outcome))
    });
    let end = first.map_or(data.len(), |(end, _)| end);
    let whole = MessageReader::new(Some(b"Hello")).feed(data.get(..end).unwrap_or_default());
    assert_eq!(whole, first.map(|(_, outcome)| outcome));
    // Beyond the first message: no panic.
    let _ = MessageReader::new(None).feed(data);
}

fn compiled(text: &str) -> Option<Compiled> {
    let source = Source { name: "fuzzed.toml".into(), text: text.to_owned() };
    let scenario = Scenario::from_source(&source).ok()?;
    assert_eq!(scenario.names().len(), scenario.pauses_ms().len());
    let common = Common {
        target: Destination::parse("http://localhost/base").ok()?,
        headers: Vec::new(),
        tokens: Arc::default(),
        protocol: Protocol::Http1,
        closes: false,
    };
    Compiled::new(scenario, common, 0).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_the_fuzz_targets_hold() {
        for (name, property) in
            [("scenario", scenario as fn(&[u8])), ("convert", convert), ("websocket", websocket)]
        {
            let folder = format!("{}/../fuzz/seeds/lab_{name}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(folder).unwrap() {
                property(&std::fs::read(entry.unwrap().path()).unwrap());
            }
        }
        let seed = include_str!("../../fuzz/seeds/lab_scenario/orders.toml");
        assert!(compiled(seed).is_some());
    }
}
