//! `$ref`: to another part of the description, or to a file in its folder or below. Never to a URL.
//!
//! Architecture invariant: every path that this module passes on stays within the API's folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use base::limits;
use model::Place;
use percent_encoding::percent_decode_str;

use super::{Refs, values};
use crate::address;
use crate::report::{Report, shorten};
use crate::tree::{self, Keep, Node, Value};

/// A parsed `$ref`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Path relative to the API's folder, separated by `/`; `None` for the description itself.
    pub(super) file: Option<String>,
    /// The JSON pointer's parts, unescaped.
    pub(super) pointer: Vec<String>,
}

impl Reference {
    /// Parses a `$ref` in the file `from` (`None` for the description itself).
    ///
    /// # Errors
    /// Message and help, if it is a URL, an absolute path, leads out of the folder or has an invalid
    /// pointer.
    pub(super) fn read(text: &str, from: Option<&str>) -> Result<Self, address::Wrong> {
        let wrong = |message: String, help: &str| Err((message, help.to_owned()));
        let shown = shorten(text);
        if address::is_absolute(text) {
            return wrong(
                format!("`{shown}` is a URL, and URLs are not fetched"),
                "save the file in the folder of the description and refer to it there",
            );
        }
        let (path, fragment) = text.split_once('#').unwrap_or((text, ""));
        let Some(path) = percent_decoded(path) else {
            return wrong(
                format!("`{shown}` has an invalid percent escape"),
                "write %25 for a percent sign",
            );
        };
        if path.contains('\\') || path.chars().any(char::is_control) || path.contains('?') {
            return wrong(
                format!("`{shown}` is not a relative path"),
                "separate folders by `/`, without `?` and control characters",
            );
        }
        if path.starts_with('/') {
            return wrong(
                format!("`{shown}` is an absolute path"),
                "write it relative to this file",
            );
        }
        let Some(pointer) = pointer_parts(fragment) else {
            return wrong(
                format!("`{shown}` has no JSON pointer after the `#`"),
                "write a pointer such as `#/paths/~1pets`",
            );
        };
        if path.is_empty() {
            return Ok(Self { file: from.map(str::to_owned), pointer });
        }
        match joined(from, &path) {
            Some(file) => Ok(Self { file: Some(file), pointer }),
            None => {
                wrong(format!("`{shown}` leads outside the API's folder"), "move the file into it")
            }
        }
    }
}

/// `path` relative to the file `from`, without `.` and `..`; `None` if it leads out of the folder, or names no file.
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

/// The pointer after the `#`, such as `/a~1b/c`; empty for the whole file. Source: RFC 6901 sections 3 and 6.
fn pointer_parts(fragment: &str) -> Option<Vec<String>> {
    let decoded = percent_decoded(fragment)?;
    if decoded.is_empty() {
        return Some(Vec::new());
    }
    let parts = decoded.strip_prefix('/')?.split('/');
    Some(parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect())
}

/// Decodes percent-encoding; `None` for a `%` without two hex digits, or invalid UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let is_escape = |after: &str| {
        after.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let valid = text.split('%').skip(1).all(is_escape);
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    valid.then(|| decoded.into_owned())
}

/// The node that `pointer` leads to.
pub(super) fn at<'n, 'a>(root: &'n Node<'a>, pointer: &[String]) -> Option<&'n Node<'a>> {
    pointer.iter().try_fold(root, |node, part| match &node.value {
        Value::Map(map) => map.get(part),
        Value::List(items) => items.get(part.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => None,
    })
}

/// The file that a node is in, and the `$ref`s that led there.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Path relative to the API's folder; `None` for the description itself.
    file: Option<String>,
    followed: Vec<Reference>,
}

impl Chain {
    /// Whether the node is in the description itself.
    pub(super) fn is_in_description(&self) -> bool {
        self.file.is_none()
    }
}

/// The target of a `$ref`.
pub(super) enum RefTarget<'n> {
    Description(&'n Node<'n>),
    /// Another file, and the pointer into it.
    File(Rc<Node<'static>>, Vec<String>),
}

impl<'n> RefTarget<'n> {
    /// The node; the target of a [`Resolver`] always has one.
    pub(super) fn node(&self) -> Option<&Node<'_>> {
        match self {
            Self::Description(node) => Some(node),
            Self::File(root, pointer) => at(root, pointer),
        }
    }
}

/// Follows `$ref`s. Each file is read once.
pub(super) struct Resolver<'n, 'r> {
    /// The description.
    main: PathBuf,
    root: &'n Node<'n>,
    load: Refs<'r>,
    /// Files by path relative to the API's folder; `None` for an unreadable one, which has been reported.
    loaded: BTreeMap<String, Option<Rc<Node<'static>>>>,
    /// Number of bytes that may still be loaded.
    bytes_left: u64,
}

impl<'n, 'r> Resolver<'n, 'r> {
    pub(super) fn new(main: PathBuf, root: &'n Node<'n>, load: Refs<'r>) -> Self {
        Self { main, root, load, loaded: BTreeMap::new(), bytes_left: limits::REF_BYTES_MAX }
    }

    /// The description.
    pub(super) fn root(&self) -> &'n Node<'n> {
        self.root
    }

    /// Calls `visit` with `node`, or with its target if it is a `$ref` whose target is found.
    pub(super) fn resolve(
        &mut self,
        node: &Node<'_>,
        allowed: &[&[&str]],
        report: &mut Report,
        visit: &mut dyn FnMut(&Node<'_>, &mut Report),
    ) {
        self.resolve_from(node, &Chain::default(), allowed, report, visit);
    }

    fn resolve_from(
        &mut self,
        node: &Node<'_>,
        chain: &Chain,
        allowed: &[&[&str]],
        report: &mut Report,
        visit: &mut dyn FnMut(&Node<'_>, &mut Report),
    ) {
        let Some(reference) = node.as_map().and_then(|map| map.get("$ref")) else {
            return visit(node, report);
        };
        let Some((target, chain)) = self.follow(reference, chain, allowed, report) else { return };
        let before = report.enter(self.path(&chain));
        if let Some(node) = target.node() {
            self.resolve_from(node, &chain, allowed, report, visit);
        }
        report.enter(before);
    }

    /// Follows the value of one `$ref`. `allowed` are the maps of the description, as pointers, that the target may be
    /// in.
    pub(super) fn follow(
        &mut self,
        node: &Node<'_>,
        chain: &Chain,
        allowed: &[&[&str]],
        report: &mut Report,
    ) -> Option<(RefTarget<'n>, Chain)> {
        let place = node.place;
        let text = values::text(node, "$ref", report)?;
        let reference = match Reference::read(text, chain.file.as_deref()) {
            Ok(reference) => reference,
            Err((message, help)) => return report.reject(place, message, help),
        };
        if chain.followed.contains(&reference) {
            return report.reject(
                place,
                "this `$ref` leads back to itself",
                "refer to the actual definition",
            );
        }
        if chain.followed.len() >= limits::REF_DEPTH_MAX {
            let message = format!("a chain of more than {} `$ref`s", limits::REF_DEPTH_MAX);
            return report.reject(place, message, "refer to the target directly");
        }
        let target = match &reference.file {
            None => self.in_description(&reference.pointer, allowed, place, report)?,
            Some(file) => {
                RefTarget::File(self.file(file, place, report)?, reference.pointer.clone())
            }
        };
        if target.node().is_none() {
            let message = format!("`{}` does not exist", shorten(text));
            return report.reject(place, message, "correct the `$ref`");
        }
        let mut followed = chain.followed.clone();
        followed.push(reference.clone());
        Some((target, Chain { file: reference.file, followed }))
    }

    fn in_description(
        &self,
        pointer: &[String],
        allowed: &[&[&str]],
        place: Place,
        report: &mut Report,
    ) -> Option<RefTarget<'n>> {
        let inside = |map: &&&[&str]| {
            pointer.split_last().is_some_and(|(_, parents)| parents.iter().eq(map.iter()))
        };
        if !allowed.iter().any(|map| inside(&map)) {
            let places: Vec<String> =
                allowed.iter().map(|map| format!("`#/{}/NAME`", map.join("/"))).collect();
            let help = format!("refer to {}", places.join(" or "));
            return report.reject(place, "this `$ref` refers to an object of another kind", help);
        }
        let Some(node) = at(self.root, pointer) else {
            let message = format!("`#/{}` does not exist", shorten(&pointer.join("/")));
            return report.reject(place, message, "correct the `$ref`");
        };
        Some(RefTarget::Description(node))
    }

    /// The tree of `file`, which the `$ref` at `place` names.
    fn file(&mut self, file: &str, place: Place, report: &mut Report) -> Option<Rc<Node<'static>>> {
        if let Some(known) = self.loaded.get(file) {
            return known.clone();
        }
        if self.loaded.len() >= limits::REF_FILES_MAX {
            let message = format!("`$ref`s to more than {} files", limits::REF_FILES_MAX);
            return report.reject(place, message, "merge some of the files");
        }
        let read = match (self.load)(file).and_then(|text| self.charge(text)) {
            Ok(text) => {
                let before = report.enter(self.path_of(file));
                let node = tree::read(&text, Keep::Everything, report);
                report.enter(before);
                node.map(|node| Rc::new(node.into_owned()))
            }
            Err(cause) => {
                let message = format!("cannot read `{}`: {cause}", shorten(file));
                report.reject(place, message, "correct the `$ref`")
            }
        };
        self.loaded.insert(file.to_owned(), read.clone());
        read
    }

    fn charge(&mut self, text: Vec<u8>) -> Result<Vec<u8>, String> {
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        self.bytes_left = self.bytes_left.checked_sub(size).ok_or_else(|| {
            let most = limits::REF_BYTES_MAX;
            format!("the files named by `$ref`s would have more than {most} bytes together")
        })?;
        Ok(text)
    }

    /// The file that `chain` leads to, for diagnostics.
    pub(super) fn path(&self, chain: &Chain) -> PathBuf {
        chain.file.as_deref().map_or_else(|| self.main.clone(), |file| self.path_of(file))
    }

    fn path_of(&self, file: &str) -> PathBuf {
        self.main.parent().unwrap_or(Path::new("")).join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_within_the_folder_is_resolved() {
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
    fn a_reference_that_leads_elsewhere_is_rejected() {
        reject("../cats.yaml", None, "leads outside");
        reject("a/../../cats.yaml", None, "leads outside");
        reject("%2e%2e/cats.yaml", None, "leads outside");
        reject("../../x", Some("paths/pets.yaml"), "leads outside");
        reject("/etc/passwd", None, "absolute");
        reject("%2fetc/passwd", None, "absolute");
        reject("https://example.org/a.yaml", None, "URL");
        reject("//example.org/a.yaml", None, "URL");
        reject("file:/etc/passwd", None, "URL");
        reject("c:\\a.yaml", None, "URL");
        reject("..\\a.yaml", None, "not a relative path");
        reject("a%00.yaml", None, "not a relative path");
        reject("%zz.yaml", None, "escape");
        reject("%e4.yaml", None, "escape");
        reject("a.yaml#pets", None, "JSON pointer");
        reject(".", None, "leads outside");
    }

    #[track_caller]
    fn reject(text: &str, from: Option<&str>, phrase: &str) {
        let (message, help) = Reference::read(text, from).expect_err("it is rejected");
        assert!(message.contains(phrase) && !help.is_empty(), "{message}");
    }

    #[track_caller]
    fn check(text: &str, from: Option<&str>, expect: &str) {
        let Reference { file, pointer } = Reference::read(text, from).expect("it is accepted");
        assert_eq!(format!("{} {pointer:?}", file.as_deref().unwrap_or("-")), expect);
    }
}
