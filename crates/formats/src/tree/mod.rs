//! One tree for JSON and YAML, with the line and column of every key and value.
//!
//! Strings borrow from the document where possible. The tree is dropped once the description is
//! read.
//!
//! Architecture invariant: nesting, aliases and size are checked before memory is spent on them.

mod json;
mod keep;
mod yaml;

use std::borrow::Cow;

use base::limits;
use model::Place;

use crate::report::Report;

pub(crate) use keep::{Keep, METHODS};

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'a> {
    pub(crate) place: Place,
    pub(crate) value: Value<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    /// A number as written: `1.0` stays `1.0`, in case a string is required.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Map<'a>),
    /// Checked, but not kept (see [`Keep`]).
    Unread,
}

/// Members in the order of the document, without duplicate keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Map<'a> {
    members: Vec<Member<'a>>,
    /// Positions in `members` by key; only for maps of more than [`LINEAR_MAX`] members.
    by_key: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_place: Place,
    pub(crate) value: Node<'a>,
}

/// Up to this many members a linear search is as fast as any other.
const LINEAR_MAX: usize = 16;

/// A syntax error. Reading stops, unlike for duplicate keys, which go to the report.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl SyntaxError {
    fn new(place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { place, message: message.into(), help: help.into() }
    }
}

const START: Place = Place { line: 1, column: 1 };

/// Reads a document, as JSON or as YAML. `None` if it is not well-formed, which is reported.
pub(crate) fn read<'a>(text: &'a [u8], keep: Keep, report: &mut Report) -> Option<Node<'a>> {
    let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
    if size > limits::DOCUMENT_BYTES_MAX {
        let most = limits::DOCUMENT_BYTES_MAX;
        let message = format!("the file has {size} bytes; the limit is {most}");
        return report.reject(None, message, "split it");
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let before = text.get(..error.valid_up_to()).unwrap_or_default();
            let before = String::from_utf8_lossy(before);
            let place = Lines::new(&before).place(before.len());
            return report.reject(place, "invalid UTF-8", "save the file as UTF-8");
        }
    };
    let read = if is_json(text, report) {
        json::read(text, keep, report)
    } else {
        yaml::read(text, keep, report)
    };
    match read {
        Ok(node) => Some(node),
        Err(SyntaxError { place, message, help }) => report.reject(place, message, help),
    }
}

/// Decides by file extension. Without a known one, a text is JSON if its first character is `{`.
fn is_json(text: &str, report: &Report) -> bool {
    let extension = report.file().extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "json" => true,
        "yaml" | "yml" => false,
        _ => text.trim_start().starts_with('{'),
    }
}

/// The offsets of the lines of a text.
pub(crate) struct Lines<'t> {
    text: &'t [u8],
    /// Whether each byte is one character.
    is_ascii: bool,
    /// Offsets of all lines but the first.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let text = text.as_bytes();
        let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let starts = ends.map(|(at, _)| at.saturating_add(1)).collect();
        Self { text, is_ascii: text.is_ascii(), starts }
    }

    /// Line and column of the byte at `offset`.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let lines = self.starts.partition_point(|start| *start <= offset);
        let start = lines.checked_sub(1).and_then(|line| self.starts.get(line)).copied();
        let end = offset.min(self.text.len());
        let on_line = self.text.get(start.unwrap_or(0)..end).unwrap_or_default();
        let characters = if self.is_ascii {
            on_line.len()
        } else {
            on_line.iter().filter(|b| (**b & 0xc0) != 0x80).count()
        };
        Place { line: count(lines).saturating_add(1), column: count(characters).saturating_add(1) }
    }
}

/// A count as a line or column; documents are far smaller than 4 GiB
/// (`limits::DOCUMENT_BYTES_MAX`).
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl<'a> Node<'a> {
    pub(crate) fn as_map(&self) -> Option<&Map<'a>> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Value::List(list) = &self.value { Some(list) } else { None }
    }

    /// A string, or a number as written, because `version: 1.0` is a number in YAML.
    pub(crate) fn as_text(&self) -> Option<&str> {
        let (Value::Text(text) | Value::Number(text)) = &self.value else { return None };
        Some(text)
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match &self.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if text == "true" => Some(true),
            Value::Text(text) if text == "false" => Some(false),
            Value::Null
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Unread => None,
        }
    }

    /// The kind of the value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Unread => "a value of another type",
        }
    }

    /// The same tree, with its positions moved down by `lines`.
    fn moved_down(mut self, lines: u32) -> Self {
        self.place.line = self.place.line.saturating_add(lines);
        match &mut self.value {
            Value::List(list) => {
                let moved = std::mem::take(list).into_iter().map(|node| node.moved_down(lines));
                *list = moved.collect();
            }
            Value::Map(map) => {
                let members = std::mem::take(&mut map.members).into_iter();
                map.members = members.map(|member| member.moved_down(lines)).collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => {}
        }
        self
    }

    /// The same tree, without borrows from the document.
    pub(crate) fn into_owned(self) -> Node<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let value = match self.value {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(text) => Value::Number(owned(text)),
            Value::Text(text) => Value::Text(owned(text)),
            Value::List(list) => Value::List(list.into_iter().map(Node::into_owned).collect()),
            Value::Map(map) => Value::Map(Map {
                members: map.members.into_iter().map(Member::into_owned).collect(),
                by_key: map.by_key,
            }),
            Value::Unread => Value::Unread,
        };
        Node { place: self.place, value }
    }
}

impl Member<'_> {
    pub(crate) fn moved_down(mut self, lines: u32) -> Self {
        self.key_place.line = self.key_place.line.saturating_add(lines);
        self.value = self.value.moved_down(lines);
        self
    }

    fn into_owned(self) -> Member<'static> {
        Member {
            key: Cow::Owned(self.key.into_owned()),
            key_place: self.key_place,
            value: self.value.into_owned(),
        }
    }
}

impl<'a> Map<'a> {
    /// A map of `members`. Duplicate keys are reported; the first value is kept.
    fn new(members: Vec<Member<'a>>, report: &mut Report) -> Self {
        let (members, by_key) = without_duplicates(members, |m| (&m.key, m.key_place), report);
        Self { members, by_key }
    }

    /// A map of a few members with different keys.
    pub(crate) fn of(members: Vec<Member<'a>>) -> Self {
        Self { members, by_key: Vec::new() }
    }

    /// The same map, with `by` replacing members of the same keys. A null removes the member.
    pub(crate) fn replaced(mut self, by: Vec<Member<'a>>, report: &mut Report) -> Self {
        self.members.retain(|member| by.iter().all(|new| new.key != member.key));
        let new = by.into_iter().filter(|member| !matches!(member.value.value, Value::Null));
        self.members.extend(new);
        Self::new(self.members, report)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Member<'a>> {
        self.members.iter()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        self.member(key).map(|member| &member.value)
    }

    pub(crate) fn member(&self, key: &str) -> Option<&Member<'a>> {
        if self.by_key.is_empty() {
            return self.members.iter().find(|member| member.key == key);
        }
        let key_at = |at: &u32| self.members.get(*at as usize).map(|m| m.key.as_ref());
        let found = self.by_key.binary_search_by(|at| key_at(at).cmp(&Some(key))).ok()?;
        self.members.get(*self.by_key.get(found)? as usize)
    }
}

/// Reports and removes items whose key is a duplicate. Returns the positions ordered by key too, if
/// there are more than [`LINEAR_MAX`] items.
fn without_duplicates<T>(
    items: Vec<T>,
    key: impl Fn(&T) -> (&Cow<'_, str>, Place),
    report: &mut Report,
) -> (Vec<T>, Vec<u32>) {
    let order = sorted(&items, &key);
    let text = |at: u32| items.get(at as usize).map(|item| key(item).0.as_ref());
    let mut duplicates: Vec<u32> = order
        .windows(2)
        .filter_map(|pair| match pair {
            [first, second] if text(*first) == text(*second) => Some(*second),
            _ => None,
        })
        .collect();
    if duplicates.is_empty() {
        let order = if items.len() > LINEAR_MAX { order } else { Vec::new() };
        return (items, order);
    }
    for item in duplicates.iter().filter_map(|at| items.get(*at as usize)) {
        let (name, place) = key(item);
        let message = format!("duplicate key `{}`", crate::report::shorten(name));
        report.error(place, message, "keep one of them");
    }
    duplicates.sort_unstable();
    let mut at = 0_u32;
    let mut items = items;
    items.retain(|_| {
        let kept = duplicates.binary_search(&at).is_err();
        at = at.saturating_add(1);
        kept
    });
    let order = if items.len() > LINEAR_MAX { sorted(&items, &key) } else { Vec::new() };
    (items, order)
}

/// Positions ordered by key, and by position for equal keys.
fn sorted<T>(items: &[T], key: &impl Fn(&T) -> (&Cow<'_, str>, Place)) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count(items.len())).collect();
    order.sort_by(|a, b| {
        let text = |at: &u32| items.get(*at as usize).map(|item| key(item).0.as_ref());
        text(a).cmp(&text(b))
    });
    order
}

#[cfg(test)]
mod tests;
