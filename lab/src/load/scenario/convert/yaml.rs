//! YAML as a JSON value, from the events of saphyr-parser: one document, scalar keys. Plain scalars follow the core
//! schema (YAML 1.2 section 10.3).

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// # Errors
/// Line, column and problem.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let at = error.marker();
            format!("{}:{}: error: invalid YAML: {}", at.line(), at.col() + 1, error.info())
        })?;
        let at = (span.start.line(), span.start.col() + 1);
        let fail = |what: &str| Err(format!("{}:{}: error: {what}", at.0, at.1));
        let value = match event {
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingEnd | Event::SequenceEnd => match open.pop() {
                Some(Open::Map(map, _)) => Value::Object(map),
                Some(Open::List(list)) => Value::Array(list),
                None => return fail("unexpected end of a collection"),
            },
            Event::Scalar(text, style, ..) => scalar(&text, style),
            Event::Alias(_) => return fail("aliases (`*name`) are not supported; write the value"),
            Event::DocumentStart(_) if root.is_some() => return fail("more than one document"),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => continue,
        };
        match open.last_mut() {
            None => root = Some(value),
            Some(Open::List(list)) => list.push(value),
            Some(Open::Map(map, key)) => match key.take() {
                Some(name) => drop(map.insert(name, value)),
                None => match value {
                    Value::String(name) => *key = Some(name),
                    Value::Number(number) => *key = Some(number.to_string()),
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                        return fail("a key has to be a string or a number");
                    }
                },
            },
        }
    }
    root.ok_or_else(|| "1:1: error: the file is empty".to_owned())
}

/// A collection that is not complete.
enum Open {
    /// With a key whose value is missing.
    Map(Map<String, Value>, Option<String>),
    List(Vec<Value>),
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        // Numbers of JSON are numbers of YAML.
        _ => match serde_json::from_str(text) {
            Ok(Value::Number(number)) => Value::Number(number),
            Ok(_) | Err(_) => Value::String(text.to_owned()),
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn yaml_is_read_as_json() {
        let text = "a: 1.5\nb: [true, ~, 'x', \"1\"]\n200: {c: }\nd: |\n  two\n  lines\ne: 1.0.0\n";
        let expect =
            r#"{"200":{"c":null},"a":1.5,"b":[true,null,"x","1"],"d":"two\nlines\n","e":"1.0.0"}"#;
        assert_eq!(read(text).unwrap().to_string(), expect);
    }

    #[test]
    fn errors_have_a_position() {
        for (text, expect) in [
            ("", "1:1: error: the file is empty"),
            ("a: &x 1\nb: *x\n", "2:4: error: aliases"),
            ("a: 1\n---\nb: 2\n", "2:1: error: more than one document"),
            ("a: [1\nb: 2", "2:"),
            ("[a]: 1\n", "1:"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(expect), "{error}");
        }
    }
}
