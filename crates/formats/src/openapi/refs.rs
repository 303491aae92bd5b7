//! `$ref`: to another place of the document, or to a file below its folder. Never to a URL.
//!
//! Architecture invariant: no path leaves this module that could lead out of the API's folder.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use base::limits;
use model::Place;

use super::Refs;
use crate::address;
use crate::report::{Report, shorten};
use crate::tree::{self, Keep, Node, Value};

/// A `$ref`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Relative to the API's folder, `/` between its parts; `None`: the API's own file.
    pub(super) file: Option<String>,
    /// The JSON pointer's parts, unescaped.
    pub(super) pointer: Vec<String>,
}

impl Reference {
    /// Reads the `$ref` that stands in `from` (`None`: the API's own file).
    ///
    /// # Errors
    /// What is wrong, and what to write: it is a URL, absolute, leaves the folder, or is no pointer.
    pub(super) fn read(text: &str, from: Option<&str>) -> Result<Self, address::Wrong> {
        let wrong = |message: String, help: &str| Err((message, help.to_owned()));
        let shown = shorten(text);
        if address::is_absolute(text) {
            return wrong(
                format!("`{shown}` is a URL, which is never fetched"),
                "save it below this folder",
            );
        }
        let (path, fragment) = text.split_once('#').unwrap_or((text, ""));
        let Some(path) = percent_decoded(path) else {
            return wrong(
                format!("`{shown}` holds a broken escape"),
                "write %25 for a percent sign",
            );
        };
        if path.contains('\\') || path.chars().any(char::is_control) || path.contains('?') {
            return wrong(
                format!("`{shown}` is no relative path"),
                "write it with `/` between folders",
            );
        }
        if path.starts_with('/') {
            return wrong(format!("`{shown}` is absolute"), "write it relative to this file");
        }
        let Some(pointer) = pointer_parts(fragment) else {
            return wrong(
                format!("`{shown}` holds no JSON pointer after the `#`"),
                "write `#/paths/~1pets`",
            );
        };
        if path.is_empty() {
            return Ok(Self { file: from.map(str::to_owned), pointer });
        }
        match joined(from, &path) {
            Some(file) => Ok(Self { file: Some(file), pointer }),
            None => {
                wrong(format!("`{shown}` leads out of the API's folder"), "move the file below it")
            }
        }
    }
}

/// `path` as seen from the file `from`, without `.` and `..`; `None`: it leads out, or names no file.
fn joined(from: Option<&str>, path: &str) -> Option<String> {
    let folder = from.and_then(|file| file.rsplit_once('/')).map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// RFC 6901 sections 3 and 6: `/a~1b/c` after the `#`; empty: the whole document.
fn pointer_parts(fragment: &str) -> Option<Vec<String>> {
    let decoded = percent_decoded(fragment)?;
    if decoded.is_empty() {
        return Some(Vec::new());
    }
    let parts = decoded.strip_prefix('/')?.split('/');
    Some(parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        if *first == b'%' {
            let [high, low, after @ ..] = rest else { return None };
            let digit =
                |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
            out.push(digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?);
            bytes = after;
        } else {
            out.push(*first);
        }
    }
    String::from_utf8(out).ok()
}

/// The node that `pointer` leads to.
pub(super) fn at<'n, 'a>(root: &'n Node<'a>, pointer: &[String]) -> Option<&'n Node<'a>> {
    pointer.iter().try_fold(root, |node, part| match &node.value {
        Value::Map(map) => map.get(part),
        Value::List(items) => items.get(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => None,
    })
}

/// The files that `$ref`s led to: each read once.
pub(super) struct Files<'r> {
    load: Refs<'r>,
    /// By path relative to the API's folder; `None`: it cannot be read, which was reported.
    loaded: BTreeMap<String, Option<Rc<Node<'static>>>>,
}

impl<'r> Files<'r> {
    pub(super) fn new(load: Refs<'r>) -> Self {
        Self { load, loaded: BTreeMap::new() }
    }

    /// The tree of `file`, which the `$ref` at `place` names.
    pub(super) fn get(
        &mut self,
        file: &str,
        place: Place,
        report: &mut Report,
        main: &std::path::Path,
    ) -> Option<Rc<Node<'static>>> {
        if let Some(known) = self.loaded.get(file) {
            return known.clone();
        }
        if self.loaded.len() >= limits::REF_FILES_MAX {
            let message = format!("`$ref`s name more than {} files", limits::REF_FILES_MAX);
            report.error(place, message, "put some together");
            return None;
        }
        let read = match (self.load)(file) {
            Ok(text) => {
                let before = report.enter(path_beside(main, file));
                let node = tree::read(&text, Keep::Everything, report);
                report.enter(before);
                node.map(|node| Rc::new(node.into_owned()))
            }
            Err(cause) => {
                report.error(
                    place,
                    format!("`{}` cannot be read: {cause}", shorten(file)),
                    "correct the `$ref`",
                );
                None
            }
        };
        self.loaded.insert(file.to_owned(), read.clone());
        read
    }
}

/// For findings: a file relative to the folder of `main`.
pub(super) fn path_beside(main: &std::path::Path, file: &str) -> PathBuf {
    main.parent().unwrap_or(std::path::Path::new("")).join(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_stays_below_the_folder_or_is_refused() {
        check("pets.yaml", None, "pets.yaml []");
        check("./paths/pets.yaml#/get~1it/a~0b", None, "paths/pets.yaml [\"get/it\", \"a~b\"]");
        check("cats.yaml", Some("paths/pets.yaml"), "paths/cats.yaml []");
        check("../cats.yaml", Some("paths/pets.yaml"), "cats.yaml []");
        check("#/paths/~1pets", None, "- [\"paths\", \"/pets\"]");
        check("#/paths/~1pets", Some("a.yaml"), "a.yaml [\"paths\", \"/pets\"]");
        check("#/paths/~1pets~1%7Bid%7D", None, "- [\"paths\", \"/pets/{id}\"]");
        check("my%20pets.yaml", None, "my pets.yaml []");
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        check("../cats.yaml", None, "`../cats.yaml` leads out of the API's folder");
        check("a/../../cats.yaml", None, "`a/../../cats.yaml` leads out of the API's folder");
        check("%2e%2e/cats.yaml", None, "`%2e%2e/cats.yaml` leads out of the API's folder");
        check("../../x", Some("paths/pets.yaml"), "`../../x` leads out of the API's folder");
        check("/etc/passwd", None, "`/etc/passwd` is absolute");
        check("%2fetc/passwd", None, "`%2fetc/passwd` is absolute");
        check(
            "https://example.org/a.yaml",
            None,
            "`https://example.org/a.yaml` is a URL, which is never fetched",
        );
        check(
            "//example.org/a.yaml",
            None,
            "`//example.org/a.yaml` is a URL, which is never fetched",
        );
        check("file:/etc/passwd", None, "`file:/etc/passwd` is a URL, which is never fetched");
        check("c:\\a.yaml", None, "`c:\\a.yaml` is a URL, which is never fetched");
        check("..\\a.yaml", None, "`..\\a.yaml` is no relative path");
        check("a%00.yaml", None, "`a%00.yaml` is no relative path");
        check("%zz.yaml", None, "`%zz.yaml` holds a broken escape");
        check("a.yaml#pets", None, "`a.yaml#pets` holds no JSON pointer after the `#`");
        check(".", None, "`.` leads out of the API's folder");
    }

    #[track_caller]
    fn check(text: &str, from: Option<&str>, expect: &str) {
        let told = match Reference::read(text, from) {
            Ok(Reference { file, pointer }) => {
                format!("{} {pointer:?}", file.as_deref().unwrap_or("-"))
            }
            Err((message, _)) => message,
        };
        assert_eq!(told, expect);
    }
}
