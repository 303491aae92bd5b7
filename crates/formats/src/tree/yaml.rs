//! YAML 1.2 with the core schema (section 10.3), by saphyr-parser's events: one document, plain keys.
//!
//! Anchors and aliases are copied out, within a budget, so that a few lines cannot stand for
//! billions; `<<` merges maps as YAML 1.1 had it, because API descriptions use it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::limits;
use model::Place;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Broken, Keep, Map, Member, Node, START, Value, count};
use crate::report::Report;

/// Reads the whole of `text` as one document.
pub(super) fn read<'a>(text: &'a str, keep: Keep, report: &mut Report) -> Result<Node<'a>, Broken> {
    let mut builder =
        Builder { report, keep, open: Vec::new(), anchors: BTreeMap::new(), copies: 0, root: None };
    let mut documents = 0_u32;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| {
            Broken::new(
                place(error.marker()),
                format!("not YAML: {}", error.info()),
                "correct the YAML",
            )
        })?;
        let at = place(&span.start);
        if let Event::DocumentStart(_) = event {
            documents = documents.saturating_add(1);
            if documents > 1 {
                return Err(Broken::new(at, "a second document in one file", "split the file"));
            }
        }
        builder.event(event, at)?;
    }
    builder.root.ok_or_else(|| Broken::new(START, "the file is empty", "describe an API in it"))
}

/// saphyr counts lines from 1 and columns from 0.
fn place(marker: &Marker) -> Place {
    Place { line: count(marker.line()), column: count(marker.col()).saturating_add(1) }
}

struct Builder<'a, 'r> {
    report: &'r mut Report,
    /// What of the document is kept.
    keep: Keep,
    open: Vec<Open<'a>>,
    anchors: BTreeMap<usize, Node<'a>>,
    /// Nodes that aliases have copied so far.
    copies: usize,
    root: Option<Node<'a>>,
}

/// A list or a map whose end has not come yet.
struct Open<'a> {
    place: Place,
    anchor: usize,
    /// What of it is kept: everything below an anchor, since an alias may stand where it is read.
    keep: Keep,
    content: Content<'a>,
}

enum Content<'a> {
    List(Vec<Node<'a>>),
    Map {
        members: Vec<Member<'a>>,
        /// The key whose value comes next.
        key: Option<(Cow<'a, str>, Place)>,
        /// Values of `<<`.
        merged: Vec<Node<'a>>,
    },
}

impl<'a> Builder<'a, '_> {
    fn event(&mut self, event: Event<'a>, at: Place) -> Result<(), Broken> {
        match event {
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
            Event::Alias(id) => {
                let node = self.copy_of(id, at)?;
                self.add(node)
            }
            Event::Scalar(text, style, anchor, tag) => {
                if self.wants_key() {
                    return self.key(text, at);
                }
                let value = scalar(text, style, tag.as_deref(), at)?;
                self.complete(Node { place: at, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(at, anchor, tag.as_deref(), "seq", Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                let content = Content::Map { members: Vec::new(), key: None, merged: Vec::new() };
                self.open(at, anchor, tag.as_deref(), "map", content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    /// What is kept of the node that comes next.
    fn keep_next(&self) -> Keep {
        match self.open.last() {
            None => self.keep,
            Some(Open { keep, content: Content::List(_), .. }) => *keep,
            Some(Open { keep, content: Content::Map { key, .. }, .. }) => match key {
                Some((key, _)) if key != "<<" => keep.below(key),
                Some(_) | None => Keep::Everything,
            },
        }
    }

    fn wants_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, text: Cow<'a, str>, at: Place) -> Result<(), Broken> {
        if let Some(Open { content: Content::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some((text, at));
        }
        Ok(())
    }

    fn open(
        &mut self,
        place: Place,
        anchor: usize,
        tag: Option<&Tag>,
        expect: &str,
        content: Content<'a>,
    ) -> Result<(), Broken> {
        if self.wants_key() {
            return Err(Broken::new(place, "a list or a map as a key", "write a text as the key"));
        }
        if self.open.len() >= limits::JSON_DEPTH_MAX {
            return Err(too_deep(place));
        }
        if let Some(tag) = tag.filter(|tag| !(tag.is_yaml_core_schema() && tag.suffix == expect)) {
            return Err(unknown_tag(tag, place));
        }
        let keep = if anchor == 0 { self.keep_next() } else { Keep::Everything };
        self.open.push(Open { place, anchor, keep, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Broken> {
        let Some(Open { place, anchor, content, .. }) = self.open.pop() else { return Ok(()) };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map { members, merged, .. } => {
                let mut map = Map::new(members, self.report);
                if !merged.is_empty() {
                    map = merge(map, merged, self.report)?;
                }
                Value::Map(map)
            }
        };
        self.complete(Node { place, value }, anchor)
    }

    /// A node is whole: remembered under its anchor, and put where it belongs.
    fn complete(&mut self, node: Node<'a>, anchor: usize) -> Result<(), Broken> {
        if anchor != 0 {
            let copy = self.copy(&node, 0)?;
            self.anchors.insert(anchor, copy);
        }
        self.add(node)
    }

    fn add(&mut self, mut node: Node<'a>) -> Result<(), Broken> {
        if self.keep_next() == Keep::Nothing {
            node.value = Value::Unread;
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut parent.content {
            Content::List(items) => items.push(node),
            Content::Map { members, key, merged } => match key.take() {
                Some((name, _)) if name == "<<" => merged.push(node),
                Some((key, key_place)) => members.push(Member { key, key_place, value: node }),
                None => match node.value {
                    Value::Text(text) | Value::Number(text) => *key = Some((text, node.place)),
                    Value::Null
                    | Value::Bool(_)
                    | Value::List(_)
                    | Value::Map(_)
                    | Value::Unread => {
                        return Err(Broken::new(
                            node.place,
                            "an alias for no text as a key",
                            "write the key",
                        ));
                    }
                },
            },
        }
        Ok(())
    }

    fn copy_of(&mut self, id: usize, at: Place) -> Result<Node<'a>, Broken> {
        let Some(node) = self.anchors.remove(&id) else {
            return Err(Broken::new(at, "an alias inside its own anchor", "write the value out"));
        };
        let copy = self.copy(&node, self.open.len());
        self.anchors.insert(id, node);
        copy
    }

    /// Copies a node that will stand `depth` levels deep.
    fn copy(&mut self, node: &Node<'a>, depth: usize) -> Result<Node<'a>, Broken> {
        self.copies = self.copies.saturating_add(1);
        if self.copies > limits::YAML_COPIES_MAX {
            let message = format!("aliases stand for more than {} values", limits::YAML_COPIES_MAX);
            return Err(Broken::new(node.place, message, "use fewer aliases"));
        }
        if depth > limits::JSON_DEPTH_MAX {
            return Err(too_deep(node.place));
        }
        let below = depth.saturating_add(1);
        let value = match &node.value {
            Value::List(items) => Value::List(
                items.iter().map(|item| self.copy(item, below)).collect::<Result<_, _>>()?,
            ),
            Value::Map(map) => {
                let copy_member = |member: &Member<'a>| {
                    let value = self.copy(&member.value, below)?;
                    Ok(Member { key: member.key.clone(), key_place: member.key_place, value })
                };
                let members = map.members.iter().map(copy_member).collect::<Result<_, _>>()?;
                Value::Map(Map { members, by_key: map.by_key.clone() })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => {
                node.value.clone()
            }
        };
        Ok(Node { place: node.place, value })
    }
}

/// Adds the members of `<<`'s maps that `map` does not have itself; an earlier map wins over a later one.
fn merge<'a>(map: Map<'a>, merged: Vec<Node<'a>>, report: &mut Report) -> Result<Map<'a>, Broken> {
    let mut sources = Vec::new();
    for node in merged {
        match node.value {
            Value::Map(source) => sources.push(source),
            Value::List(items) => {
                for item in items {
                    match item.value {
                        Value::Map(source) => sources.push(source),
                        Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Text(_)
                        | Value::List(_)
                        | Value::Unread => return Err(no_map_to_merge(item.place)),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => {
                return Err(no_map_to_merge(node.place));
            }
        }
    }
    let mut whole = map;
    for source in sources {
        let new: Vec<Member<'a>> =
            source.members.into_iter().filter(|member| whole.get(&member.key).is_none()).collect();
        let mut members = whole.members;
        members.extend(new);
        whole = Map::new(members, report);
    }
    Ok(whole)
}

fn no_map_to_merge(place: Place) -> Broken {
    Broken::new(place, "`<<` stands for no map", "give it an alias of a map, or a list of such")
}

fn too_deep(place: Place) -> Broken {
    Broken::new(
        place,
        format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX),
        "flatten it",
    )
}

fn unknown_tag(tag: &Tag, place: Place) -> Broken {
    let written = crate::report::shorten(&tag.to_string());
    Broken::new(place, format!("the tag `{written}` means nothing here"), "remove the tag")
}

fn scalar<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: Place,
) -> Result<Value<'a>, Broken> {
    let Some(tag) = tag else {
        let plain = matches!(style, ScalarStyle::Plain);
        return Ok(if plain { resolve(text) } else { Value::Text(text) });
    };
    // `!` alone makes a text of anything (section 6.9.1).
    let is_text = (tag.handle.is_empty() && tag.suffix == "!")
        || (tag.handle == "!" && tag.suffix.is_empty());
    if is_text {
        return Ok(Value::Text(text));
    }
    if !tag.is_yaml_core_schema() {
        return Err(unknown_tag(tag, place));
    }
    let value = resolve(text.clone());
    match (tag.suffix.as_str(), &value) {
        ("str", _) => Ok(Value::Text(text)),
        ("null", Value::Null) | ("bool", Value::Bool(_)) | ("int" | "float", Value::Number(_)) => {
            Ok(value)
        }
        _ => Err(unknown_tag(tag, place)),
    }
}

/// What a plain scalar is, by the core schema (section 10.3.2).
fn resolve(text: Cow<'_, str>) -> Value<'_> {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        number if is_number(number) => Value::Number(text),
        _ => Value::Text(text),
    }
}

fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)))
        }
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let some_digit = !whole.is_empty() || !fraction.is_empty();
    some_digit
        && digits(whole)
        && digits(fraction)
        && exponent.is_none_or(|e| !e.is_empty() && digits(e))
}
