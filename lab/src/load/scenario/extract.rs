//! Values from a response: by JSONPath or regular expression from its body, or from a header field.

use expression::json::Document;
use expression::jsonpath::{Path, Selection};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use crate::load::response::Captured;

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extract {
    /// JSONPath of a value in the body; of several, the first.
    Json(String),
    /// Regular expression; its first group, or the whole match if it has none.
    Regex(String),
    /// Name of a header field.
    Header(String),
}

/// A compiled [`Extract`].
pub(super) enum Extractor {
    Json(Path),
    Regex(Regex),
    Header(String),
}

impl Extract {
    /// # Errors
    /// A message: the path or expression is invalid.
    pub(super) fn compile(&self) -> Result<Extractor, String> {
        Ok(match self {
            Self::Json(path) => {
                Extractor::Json(Path::compile(path).map_err(|error| error.to_string())?)
            }
            Self::Regex(pattern) => {
                Extractor::Regex(Regex::new(pattern).map_err(|error| error.to_string())?)
            }
            Self::Header(name) => Extractor::Header(name.clone()),
        })
    }
}

impl Extractor {
    /// `None`: the response has no such value, or not as text.
    pub(super) fn run(&self, response: &Captured) -> Option<String> {
        match self {
            Self::Json(path) => {
                let document = Document::parse(response.body()?).ok()?;
                let value = match path.evaluate(document.root()).ok()? {
                    Selection::One(value) => value,
                    Selection::Many(values) => values.into_iter().next()?,
                };
                (!value.is_null()).then(|| value.text().into_owned())
            }
            Self::Regex(pattern) => {
                let found = pattern.captures(response.body()?)?;
                let value = found.get(1).or_else(|| found.get(0))?;
                String::from_utf8(value.as_bytes().to_vec()).ok()
            }
            Self::Header(name) => {
                let fields = std::str::from_utf8(response.head()).ok()?;
                let mut fields = fields.lines().filter_map(|line| line.split_once(':'));
                let (_, value) = fields.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
                Some(value.trim().to_owned())
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_body_and_head() {
        let json = |path: &str| Extract::Json(path.to_owned());
        check(&json("$.items[1].id"), Some("8"));
        check(&json("$..id"), Some("7"));
        check(&json("$.name"), Some("\u{e9}\""));
        check(&json("$.none"), None);
        check(&json("$.missing"), None);
        let regex = |pattern: &str| Extract::Regex(pattern.to_owned());
        check(&regex(r#""id":(\d)\}\]"#), Some("8"));
        check(&regex(r#"id":\d"#), Some("id\":7"));
        check(&regex("absent"), None);
        check(&Extract::Header("ETAG".to_owned()), Some("W/\"1:2\""));
        check(&Extract::Header("Age".to_owned()), None);
    }

    #[test]
    fn a_body_that_was_too_long_to_keep_has_no_values() {
        let mut response = Captured::new(false, true);
        response.add_body(b"{\"id\":1}");
        let id = Extract::Json("$.id".to_owned()).compile().unwrap();
        assert_eq!(id.run(&response).as_deref(), Some("1"));
        response.add_body(&vec![b' '; crate::limits::SCENARIO_BODY_BYTES_MAX]);
        assert_eq!(id.run(&response), None);
    }

    #[track_caller]
    fn check(extract: &Extract, expect: Option<&str>) {
        let mut response = Captured::new(true, true);
        response.add_head(b"HTTP/1.1 200 OK\r\nETag: W/\"1:2\"\r\n\r\n");
        let body = "{\"items\":[{\"id\":7},{\"id\":8}],\"name\":\"\u{e9}\\\"\",\"none\":null}";
        response.add_body(body.as_bytes());
        assert_eq!(extract.compile().unwrap().run(&response).as_deref(), expect, "{extract:?}");
    }
}
