//! YAML 1.2 with the core schema (section 10.3), from the events of saphyr-parser: one document,
//! scalar keys.
//!
//! Aliases are replaced by copies, within a budget, so that a few lines cannot expand to billions.
//! `<<` merges maps as in YAML 1.1, because API descriptions use it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use base::limits;
use model::Place;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{Keep, Map, Member, Node, START, SyntaxError, Value, count};
use crate::report::Report;

/// Bytes of text that are copied for the cost of one value.
const COPIED_BYTES_PER_VALUE: usize = 64;

/// Reads the whole of `text` as one document.
pub(super) fn read<'a>(
    text: &'a str,
    keep: Keep,
    report: &mut Report,
) -> Result<Node<'a>, SyntaxError> {
    read_within(text, keep, report, limits::YAML_RESCAN_BYTES_MAX)
}

/// As [`read`] with another limit of bytes to scan again.
pub(super) fn read_within<'a>(
    text: &'a str,
    keep: Keep,
    report: &mut Report,
    rescan_bytes_max: u64,
) -> Result<Node<'a>, SyntaxError> {
    match build(text, &Added::default(), keep, report) {
        Err(Stop::Shallow(first)) => {
            let (text, added) = indent_shallow_lines(text, first, rescan_bytes_max)?;
            let node = build(&text, &added, keep, report).map_err(Stop::into_error)?;
            Ok(node.into_owned())
        }
        read => read.map_err(Stop::into_error),
    }
}

/// The reason why reading stopped.
enum Stop {
    Error(SyntaxError),
    /// A line is indented less than YAML requires.
    Shallow(Shallow),
}

#[derive(Clone, Copy)]
enum Shallow {
    /// A line of the quoted scalar that starts here.
    Quoted(Marker),
    /// The line of a flow collection with the token that starts here.
    Flow(Marker),
}

impl Stop {
    fn into_error(self) -> SyntaxError {
        match self {
            Self::Error(error) => error,
            Self::Shallow(shallow) => shallow.error(&Added::default()),
        }
    }
}

fn build<'a>(
    text: &'a str,
    added: &Added,
    keep: Keep,
    report: &mut Report,
) -> Result<Node<'a>, Stop> {
    let mut builder =
        Builder { report, keep, open: Vec::new(), anchors: BTreeMap::new(), copies: 0, root: None };
    let mut documents = 0_u32;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| stop(&error, added))?;
        let at = added.place(&span.start);
        if let Event::DocumentStart(_) = event {
            documents = documents.saturating_add(1);
            if documents > 1 {
                let message = "the file has more than one YAML document";
                return Err(Stop::Error(SyntaxError::new(at, message, "split the file")));
            }
        }
        builder.event(event, at).map_err(Stop::Error)?;
    }
    let empty = || SyntaxError::new(START, "the file is empty", "write an API description");
    builder.root.ok_or_else(empty).map_err(Stop::Error)
}

fn stop(error: &ScanError, added: &Added) -> Stop {
    match error.info() {
        "invalid indentation in quoted scalar" => {
            return Stop::Shallow(Shallow::Quoted(*error.marker()));
        }
        "invalid indentation in flow construct" | "invalid indentation" => {
            return Stop::Shallow(Shallow::Flow(*error.marker()));
        }
        _ => {}
    }
    let message = format!("invalid YAML: {}", error.info());
    Stop::Error(SyntaxError::new(added.place(error.marker()), message, "correct the YAML"))
}

impl Shallow {
    fn at(&self) -> &Marker {
        match self {
            Self::Quoted(at) | Self::Flow(at) => at,
        }
    }

    /// The number of scans of the file, including the check of the result.
    fn scans(&self) -> u64 {
        match self {
            Self::Quoted(_) => 1,
            Self::Flow(_) => 3,
        }
    }

    fn error(&self, added: &Added) -> SyntaxError {
        let place = added.place(self.at());
        match self {
            Self::Quoted(_) => {
                let message = "a line of this quoted string is not indented enough";
                let help = format!("indent its lines by {} spaces", place.column.saturating_sub(1));
                SyntaxError::new(place, message, help)
            }
            Self::Flow(_) => {
                let message = "this line of a `{}` or `[]` is not indented enough";
                SyntaxError::new(place, message, "indent it more than the key it belongs to")
            }
        }
    }

    /// The start of the scalar or the outermost collection, and its bytes in `text`.
    fn extent(&self, text: &str) -> Option<(Marker, Range<usize>)> {
        match self {
            Self::Quoted(start) => {
                let from = byte_at(text, start.index())?;
                let length = scalar_length(text.get(from..)?)?;
                Some((*start, from..from.checked_add(length)?))
            }
            Self::Flow(at) => {
                let start = flow_start(text, at)?;
                let from = byte_at(text, start.index())?;
                let collection = text.get(from..)?;
                let length = flow_length(collection).or_else(|| {
                    // The range ends at the error; the next lines are indented when they are scanned.
                    let chars = at.index().checked_sub(start.index())?.checked_add(1)?;
                    byte_at(collection, chars)
                })?;
                Some((start, from..from.checked_add(length)?))
            }
        }
    }
}

/// Spaces added at the start of lines, by line number.
#[derive(Default)]
struct Added(BTreeMap<usize, usize>);

impl Added {
    /// The position in the original file. saphyr counts lines from 1 and columns from 0.
    fn place(&self, marker: &Marker) -> Place {
        let added = self.0.get(&marker.line()).copied().unwrap_or(0);
        let column = marker.col().saturating_sub(added).saturating_add(1);
        Place { line: count(marker.line()), column: count(column) }
    }
}

/// Adds the indentation that YAML 1.2 requires to the lines of quoted scalars and of flow
/// collections, from the one at `first` on. Other parsers accept such lines, and files of WSO2 and
/// others have them. The value does not change: indentation within them is not part of it.
///
/// Each one costs up to three scans of the file, within `rescan_bytes_max`.
fn indent_shallow_lines(
    text: &str,
    first: Shallow,
    rescan_bytes_max: u64,
) -> Result<(String, Added), SyntaxError> {
    let mut text = text.to_owned();
    let mut added = Added::default();
    let mut shallow = first;
    let mut bytes_left = rescan_bytes_max;
    loop {
        let size = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let cost = size.saturating_mul(shallow.scans());
        bytes_left = bytes_left.checked_sub(cost).ok_or_else(|| shallow.error(&added))?;
        text = indent(&text, &shallow, &mut added).ok_or_else(|| shallow.error(&added))?;
        let next =
            Parser::new_from_str(&text).find_map(Result::err).map(|error| stop(&error, &added));
        match next {
            None => return Ok((text, added)),
            Some(Stop::Error(error)) => return Err(error),
            Some(Stop::Shallow(next)) if is_behind(next.at(), shallow.at()) => shallow = next,
            Some(Stop::Shallow(same)) => return Err(same.error(&added)),
        }
    }
}

fn is_behind(a: &Marker, b: &Marker) -> bool {
    (a.line(), a.col()) > (b.line(), b.col())
}

/// Indents the lines of a quoted scalar or flow collection to the column after its start, which always suffices. `None`
/// without a line to indent, or if the file would become too large.
fn indent(text: &str, shallow: &Shallow, added: &mut Added) -> Option<String> {
    let (start, Range { start: from, end: to }) = shallow.extent(text)?;
    let mut out = String::with_capacity(text.len());
    out.push_str(text.get(..from)?);
    let mut lines = text.get(from..to)?.split_inclusive('\n');
    out.push_str(lines.next()?);
    let mut line = start.line();
    let column = start.col().checked_add(1)?;
    for content in lines {
        line = line.saturating_add(1);
        let indent = content.bytes().take_while(|byte| *byte == b' ').count();
        let is_marker = content.starts_with("---") || content.starts_with("...");
        let missing = column.saturating_sub(indent);
        if missing > 0 && !is_marker && !content.trim().is_empty() {
            let bytes = u64::try_from(out.len().checked_add(missing)?).ok()?;
            if bytes > limits::DOCUMENT_BYTES_MAX {
                return None;
            }
            out.push_str(&" ".repeat(missing));
            let spaces = added.0.entry(line).or_default();
            *spaces = spaces.saturating_add(missing);
        }
        out.push_str(content);
    }
    out.push_str(text.get(to..)?);
    (out.len() > text.len()).then_some(out)
}

/// The offset in bytes of the character with this index.
fn byte_at(text: &str, index: usize) -> Option<usize> {
    text.char_indices().nth(index).map(|(at, _)| at)
}

/// The start of the outermost flow collection that is open at `at`.
fn flow_start(text: &str, at: &Marker) -> Option<Marker> {
    let mut open = Vec::new();
    let mut behind = Marker::new(0, 1, 0);
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        if is_start(&event) {
            open.push(span.start);
        } else if is_end(&event) {
            open.pop();
        }
        behind = span.end;
    }
    let mut chars = text.chars();
    let mut index = 0_usize;
    let is_flow = |start: &Marker| {
        let skipped = start.index().checked_sub(index);
        index = index.max(start.index().saturating_add(1));
        matches!(skipped.and_then(|skipped| chars.nth(skipped)), Some('{' | '['))
    };
    open.into_iter().find(is_flow).or_else(|| next_bracket(text, behind, at))
}

/// The first `{` or `[` from `from` up to `to`. The parser has no event for a collection of which it
/// has scanned the first line only, which may be a key.
fn next_bracket(text: &str, from: Marker, to: &Marker) -> Option<Marker> {
    let (mut line, mut column) = (from.line(), from.col());
    let (mut comment, mut space) = (false, true);
    let end = to.index().checked_sub(from.index())?;
    for (offset, c) in text.chars().skip(from.index()).take(end).enumerate() {
        comment |= c == '#' && space;
        space = c.is_ascii_whitespace();
        match c {
            '\n' => {
                comment = false;
                line = line.checked_add(1)?;
                column = 0;
                continue;
            }
            '{' | '[' if !comment => {
                return Some(Marker::new(from.index().checked_add(offset)?, line, column));
            }
            _ => column = column.checked_add(1)?,
        }
    }
    None
}

/// Length in bytes of the flow collection that `text` starts with, both brackets included. `None` if it has an error,
/// or an alias, whose anchor may precede it.
fn flow_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        if is_start(&event) {
            depth = depth.checked_add(1)?;
        } else if is_end(&event) {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return byte_at(text, span.start.index())?.checked_add(1);
            }
        }
    }
    None
}

fn is_start(event: &Event<'_>) -> bool {
    matches!(event, Event::SequenceStart(..) | Event::MappingStart(..))
}

fn is_end(event: &Event<'_>) -> bool {
    matches!(event, Event::SequenceEnd | Event::MappingEnd)
}

/// Length in bytes of the quoted scalar that `text` starts with, both quotes included.
fn scalar_length(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().peekable();
    let (_, quote) = bytes.next().filter(|(_, byte)| matches!(byte, b'"' | b'\''))?;
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' && quote == b'"' {
            bytes.next();
        } else if byte == quote {
            let doubled = quote == b'\'' && bytes.peek().is_some_and(|(_, next)| *next == quote);
            if !doubled {
                return at.checked_add(1);
            }
            bytes.next();
        }
    }
    None
}

struct Builder<'a, 'r> {
    report: &'r mut Report,
    /// The part of the document that is kept.
    keep: Keep,
    open: Vec<Open<'a>>,
    anchors: BTreeMap<usize, Node<'a>>,
    /// Nodes copied so far.
    copies: usize,
    root: Option<Node<'a>>,
}

/// A list or map that is still being read.
struct Open<'a> {
    place: Place,
    anchor: usize,
    /// The part that is kept: everything below an anchor, since an alias may refer to it from a kept part.
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
    fn event(&mut self, event: Event<'a>, at: Place) -> Result<(), SyntaxError> {
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

    /// The part of the next node that is kept.
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

    fn key(&mut self, text: Cow<'a, str>, at: Place) -> Result<(), SyntaxError> {
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
    ) -> Result<(), SyntaxError> {
        if self.wants_key() {
            let message = "a list or map cannot be a key";
            return Err(SyntaxError::new(place, message, "write a string as the key"));
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

    fn close(&mut self) -> Result<(), SyntaxError> {
        let Some(Open { place, anchor, content, .. }) = self.open.pop() else { return Ok(()) };
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map { members, merged, .. } => {
                let mut map = Map::new(members, self.report);
                if !merged.is_empty() {
                    map = merge(map, merged)?;
                }
                Value::Map(map)
            }
        };
        self.complete(Node { place, value }, anchor)
    }

    /// Adds a complete node, and keeps a copy if it has an anchor.
    fn complete(&mut self, node: Node<'a>, anchor: usize) -> Result<(), SyntaxError> {
        if anchor != 0 {
            let copy = self.copy(&node, 0)?;
            self.anchors.insert(anchor, copy);
        }
        self.add(node)
    }

    fn add(&mut self, mut node: Node<'a>) -> Result<(), SyntaxError> {
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
                        let message = "an alias used as a key must refer to a string";
                        return Err(SyntaxError::new(node.place, message, "write the key itself"));
                    }
                },
            },
        }
        Ok(())
    }

    fn copy_of(&mut self, id: usize, at: Place) -> Result<Node<'a>, SyntaxError> {
        let Some(node) = self.anchors.remove(&id) else {
            let message = "an alias cannot be inside its own anchor";
            return Err(SyntaxError::new(at, message, "write the value itself"));
        };
        let copy = self.copy(&node, self.open.len());
        self.anchors.insert(id, node);
        copy
    }

    /// Copies a node to a position `depth` levels deep.
    fn copy(&mut self, node: &Node<'a>, depth: usize) -> Result<Node<'a>, SyntaxError> {
        let bytes = if let Value::Text(text) = &node.value { text.len() } else { 0 };
        self.copies = self.copies.saturating_add(1 + bytes / COPIED_BYTES_PER_VALUE);
        if self.copies > limits::YAML_COPIES_MAX {
            let message = format!("aliases expand to more than {} values", limits::YAML_COPIES_MAX);
            return Err(SyntaxError::new(node.place, message, "use fewer aliases"));
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

/// Adds the members of the `<<` maps whose keys are not present yet. Earlier maps take precedence.
fn merge<'a>(map: Map<'a>, merged: Vec<Node<'a>>) -> Result<Map<'a>, SyntaxError> {
    let mut sources = Vec::new();
    for node in merged {
        let all = if let Value::List(items) = node.value { items } else { vec![node] };
        for one in all {
            let Value::Map(source) = one.value else { return Err(not_a_map(one.place)) };
            sources.push(source);
        }
    }
    let mut members = map.members;
    members.extend(sources.into_iter().flat_map(|source| source.members));
    // A key that occurs again is not an error here: the first one takes precedence.
    Ok(Map::new(members, &mut Report::new(Path::new(""))))
}

fn not_a_map(place: Place) -> SyntaxError {
    SyntaxError::new(
        place,
        "the value of `<<` must be a map or a list of maps",
        "use an alias of a map",
    )
}

fn too_deep(place: Place) -> SyntaxError {
    SyntaxError::new(
        place,
        format!("nested deeper than {} levels", limits::JSON_DEPTH_MAX),
        "flatten it",
    )
}

fn unknown_tag(tag: &Tag, place: Place) -> SyntaxError {
    let written = crate::report::shorten(&tag.to_string());
    SyntaxError::new(place, format!("unsupported tag `{written}`"), "remove the tag")
}

fn scalar<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
    place: Place,
) -> Result<Value<'a>, SyntaxError> {
    let Some(tag) = tag else {
        let plain = matches!(style, ScalarStyle::Plain);
        return Ok(if plain { resolve(text) } else { Value::Text(text) });
    };
    // The tag `!` makes any scalar a string (section 6.9.1).
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

/// The value of a plain scalar, by the core schema (section 10.3.2).
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
