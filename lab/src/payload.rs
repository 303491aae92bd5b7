//! Payloads of an exact size, in the three JSON shapes of WSO2's performance tests.
//!
//! The result is compact JSON and identical on every machine. Characters cycle through `0-9A-Za-z`; strings
//! are ten characters long, and a remainder too short for another string extends the last one.
//!
//! Source: WSO2 `performance-common`, `payload-generator`; its test vectors are among the tests below.

use std::str::FromStr;

use crate::limits;

const CHARACTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Characters of one string in an array or object. Source: `--payload-min-length`, default 10.
const STRING_CHARACTERS: usize = 10;

/// The layout of the JSON object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonShape {
    /// `{"size":"50B","payload":["0123456789","ABCDEFGH"]}`: used by the published runs since 2018.
    Array,
    /// `{"size":"50B","payload":"0123456789ABCDEFGHIJKLM"}`
    Simple,
    /// `{"size":"65B","payload":{"payload1":"0123456789","payload2":"A"}}`
    Object,
}

impl JsonShape {
    /// Every shape by its command line name.
    pub const ALL: [(&str, Self); 3] =
        [("array", Self::Array), ("simple", Self::Simple), ("object", Self::Object)];

    fn opening(self) -> &'static str {
        match self {
            Self::Array => "[\"",
            Self::Simple => "\"",
            Self::Object => "{\"payload1\":\"",
        }
    }

    fn closing(self) -> &'static str {
        match self {
            Self::Array => "\"]}",
            Self::Simple => "\"}",
            Self::Object => "\"}}",
        }
    }

    /// The text between a string and the next one, whose number is `next` (from 2). `None` if the shape has only one
    /// string.
    fn between(self, next: usize) -> Option<String> {
        match self {
            Self::Array => Some("\",\"".to_owned()),
            Self::Simple => None,
            Self::Object => Some(format!("\",\"payload{next}\":\"")),
        }
    }
}

impl FromStr for JsonShape {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, shape)| shape)
            .ok_or_else(|| format!("unknown shape `{name}`; expected array, simple or object"))
    }
}

/// Makes a payload of exactly `bytes` bytes.
///
/// # Errors
/// `bytes` is below the minimum of the shape (the message gives the minimum), or above
/// [`limits::PAYLOAD_BYTES_MAX`].
pub fn make(shape: JsonShape, bytes: usize) -> Result<Vec<u8>, String> {
    if bytes > limits::PAYLOAD_BYTES_MAX {
        let most = limits::PAYLOAD_BYTES_MAX;
        return Err(format!("a payload of {bytes} bytes is too large; the maximum is {most}"));
    }
    let mut text = frame(shape, bytes);
    let limit = bytes.saturating_sub(shape.closing().len());
    if text.len() >= limit {
        let least = least(shape);
        return Err(format!("{bytes} bytes are too few for this shape; the minimum is {least}"));
    }
    let mut characters = CHARACTERS.iter().cycle();
    let mut string = 0;
    let mut strings = 1;
    while text.len() < limit {
        text.extend(characters.next());
        string += 1;
        if string == STRING_CHARACTERS {
            string = 0;
            if let Some(between) = shape.between(strings + 1)
                && limit - text.len() > between.len()
            {
                text.extend_from_slice(between.as_bytes());
                strings += 1;
            }
        }
    }
    text.extend_from_slice(shape.closing().as_bytes());
    debug_assert_eq!(text.len(), bytes);
    Ok(text)
}

fn frame(shape: JsonShape, bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.max(64));
    text.extend_from_slice(format!("{{\"size\":\"{bytes}B\",\"payload\":").as_bytes());
    text.extend_from_slice(shape.opening().as_bytes());
    text
}

/// The minimum size: the frame and one character.
fn least(shape: JsonShape) -> usize {
    let fits = |&bytes: &usize| frame(shape, bytes).len() + shape.closing().len() < bytes;
    (1..100).find(fits).unwrap_or(100)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn arrays_match_wso2s_vectors() {
        check(JsonShape::Array, 50, r#"{"size":"50B","payload":["0123456789","ABCDEFGH"]}"#);
        check(JsonShape::Array, 55, r#"{"size":"55B","payload":["0123456789","ABCDEFGHIJKLM"]}"#);
        check(JsonShape::Array, 56, r#"{"size":"56B","payload":["0123456789","ABCDEFGHIJ","K"]}"#);
    }

    #[test]
    fn simple_payloads_match_wso2s_vectors() {
        check(JsonShape::Simple, 50, r#"{"size":"50B","payload":"0123456789ABCDEFGHIJKLM"}"#);
        check(
            JsonShape::Simple,
            100,
            r#"{"size":"100B","payload":"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"}"#,
        );
    }

    #[test]
    fn objects_match_wso2s_vectors() {
        check(JsonShape::Object, 50, r#"{"size":"50B","payload":{"payload1":"0123456789"}}"#);
        check(
            JsonShape::Object,
            64,
            r#"{"size":"64B","payload":{"payload1":"0123456789ABCDEFGHIJKLMN"}}"#,
        );
        check(
            JsonShape::Object,
            65,
            r#"{"size":"65B","payload":{"payload1":"0123456789","payload2":"A"}}"#,
        );
    }

    #[test]
    fn published_sizes_have_the_published_number_of_items() {
        for (bytes, items) in [(50, 2), (1024, 77), (10_240, 786), (102_400, 7_875)] {
            let json: serde_json::Value =
                serde_json::from_slice(&make(JsonShape::Array, bytes).unwrap()).unwrap();
            assert_eq!(json["payload"].as_array().unwrap().len(), items, "{bytes} bytes");
        }
    }

    #[test]
    fn every_size_is_exact_and_valid_json() {
        for (name, shape) in JsonShape::ALL {
            for bytes in (least(shape)..600).chain([999, 1_000, 1_001, 9_999, 10_000, 99_999]) {
                let payload = make(shape, bytes).unwrap();
                assert_eq!(payload.len(), bytes, "{name}");
                let json: serde_json::Value = serde_json::from_slice(&payload).unwrap();
                assert_eq!(json["size"], format!("{bytes}B"), "{name}");
                assert!(!payload.windows(2).any(|pair| pair == b"\"\""), "{name} {bytes}: empty");
            }
        }
    }

    #[test]
    fn sizes_below_the_minimum_are_rejected_with_the_minimum() {
        for (shape, least) in
            [(JsonShape::Simple, 28), (JsonShape::Array, 30), (JsonShape::Object, 41)]
        {
            for bytes in 0..least {
                let error = make(shape, bytes).unwrap_err();
                assert!(error.ends_with(&format!("minimum is {least}")), "{bytes}: {error}");
            }
            assert!(make(shape, least).is_ok());
        }
    }

    #[test]
    fn sizes_above_the_limit_are_rejected_without_allocating() {
        assert!(make(JsonShape::Array, usize::MAX).unwrap_err().contains("too large"));
    }

    #[test]
    fn shapes_parse_by_exact_name() {
        assert_eq!("object".parse(), Ok(JsonShape::Object));
        assert!("Object".parse::<JsonShape>().unwrap_err().contains("array, simple or object"));
    }

    #[track_caller]
    fn check(shape: JsonShape, bytes: usize, expect: &str) {
        assert_eq!(String::from_utf8(make(shape, bytes).unwrap()).unwrap(), expect);
    }
}
