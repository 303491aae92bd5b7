//! A strict JSON reader (RFC 8259) that builds a compact tree over the source text.
//!
//! A [`Document`] is the source text plus one 16-byte node per value and member name, in document order. Nothing is
//! converted: numbers keep their digits, members their order, arrays of one element and empty values are preserved,
//! and an unmodified subtree is written byte for byte.
//!
//! Duplicate member names are kept and written; a lookup returns the last one, as Java's readers do.
//! [`Duplicates::Reject`] makes them an error.
//!
//! ```
//! use penstock_expression::json::Document;
//!
//! let order = Document::parse(br#"{"items":[{"price":1.50}]}"#)?;
//! let price = order.root().get("items").and_then(|items| items.at(0)?.get("price"));
//! assert_eq!(price.map(|price| price.raw()), Some("1.50"));
//!
//! let error = Document::parse(b"{\"a\":1,}").unwrap_err();
//! assert_eq!(error.position(), Some((1, 8)));
//! # Ok::<(), penstock_expression::Error>(())
//! ```
//!
//! Architecture invariant: reading, walking and writing are linear in the text and never recurse.

mod build;
mod escape;
mod read;

pub use crate::error::JsonErrorKind;
pub use build::Builder;
pub(crate) use escape::quoted_len;
pub use escape::{push_quoted, push_string_body};
pub use read::{Duplicates, Limits};
use xpath::Budget;

use std::borrow::Cow;
use std::fmt;

use crate::error::Error;

/// A JSON text and its tree. It borrows the text that it was read from; [`Document::into_owned`] copies it.
#[derive(Clone, Debug)]
pub struct Document<'s> {
    text: Cow<'s, str>,
    nodes: Vec<Node>,
}

/// A value's place in the text, and the next node after its subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    start: u32,
    end: u32,
    /// Index of the first node after this one's subtree.
    next: u32,
    /// Three bits of [`Tag`], one that the string has escapes; the rest is the count of elements or members.
    meta: u32,
}

/// Memory of one value or name in the tree, in bytes.
pub(crate) const NODE_BYTES: usize = 16;
const _: () = assert!(size_of::<Node>() == NODE_BYTES);

const ESCAPED: u32 = 8;
const COUNT_SHIFT: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Tag {
    Null = 0,
    False = 1,
    True = 2,
    Number = 3,
    String = 4,
    Array = 5,
    Object = 6,
    Key = 7,
}

impl Node {
    #[inline(always)]
    fn tag(self) -> Tag {
        match self.meta & 7 {
            0 => Tag::Null,
            1 => Tag::False,
            2 => Tag::True,
            3 => Tag::Number,
            4 => Tag::String,
            5 => Tag::Array,
            6 => Tag::Object,
            _ => Tag::Key,
        }
    }

    fn count(self) -> u32 {
        self.meta >> COUNT_SHIFT
    }
}

/// Placeholder for an index out of range, which no public function can produce.
const NOWHERE: Node = Node { start: 0, end: 0, next: u32::MAX, meta: Tag::Null as u32 };

/// The kinds of JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number in its original spelling.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'s> Document<'s> {
    /// Reads one JSON text with the default [`Limits`].
    ///
    /// # Errors
    /// [`Error::Json`] with line and column if the text is not JSON, not UTF-8, or exceeds a limit.
    pub fn parse(bytes: &'s [u8]) -> Result<Self, Error> {
        read::read(bytes, &Limits::default())
    }

    /// Reads one JSON text within `limits`.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_with(bytes: &'s [u8], limits: &Limits) -> Result<Self, Error> {
        read::read(bytes, limits)
    }

    /// Reads one JSON text; the work and the tree are charged to `budget`.
    ///
    /// # Errors
    /// As [`Document::parse`]; [`Error::Budget`].
    pub fn parse_within(bytes: &'s [u8], budget: &Budget) -> Result<Self, Error> {
        Self::parse_within_limits(bytes, &Limits::default(), budget)
    }

    /// [`Document::parse_within`] with these `limits`.
    ///
    /// # Errors
    /// As [`Document::parse_within`].
    pub fn parse_within_limits(
        bytes: &'s [u8],
        limits: &Limits,
        budget: &Budget,
    ) -> Result<Self, Error> {
        budget.charge_reading(bytes.len())?;
        Self::parse_charged(bytes, limits, budget)
    }

    /// The same, with its tree charged and not the work.
    ///
    /// # Errors
    /// As [`Document::parse_within`].
    pub(crate) fn parse_charged(
        bytes: &'s [u8],
        limits: &Limits,
        budget: &Budget,
    ) -> Result<Self, Error> {
        // The reader makes no more nodes than there is memory for.
        let room = usize::try_from(budget.bytes_left()).unwrap_or(usize::MAX) / NODE_BYTES;
        let nodes = limits.nodes.min(room);
        match read::read(bytes, &Limits { nodes, ..*limits }) {
            Ok(document) => {
                budget.charge_memory(document.tree_bytes())?;
                Ok(document)
            }
            Err(Error::Json { kind: JsonErrorKind::Nodes(_), .. }) if nodes < limits.nodes => {
                Err(budget.out_of_memory().into())
            }
            Err(error) => Err(error),
        }
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Ref<'_> {
        Ref { document: self, index: 0 }
    }

    /// The text of the document.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same document with its own copy of the text.
    #[must_use]
    pub fn into_owned(self) -> Document<'static> {
        Document { text: Cow::Owned(self.text.into_owned()), nodes: self.nodes }
    }

    /// Values and member names in the tree.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Memory of its text and its tree, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.text.len() + self.tree_bytes()
    }

    /// Memory of its tree, in bytes.
    pub(crate) fn tree_bytes(&self) -> usize {
        self.nodes.len() * NODE_BYTES
    }

    fn node(&self, index: u32) -> Node {
        self.nodes.get(index as usize).copied().unwrap_or(NOWHERE)
    }

    fn slice(&self, node: Node) -> &str {
        self.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// The string or name at `node`, without quotes and escapes.
    fn string(&self, node: Node) -> Cow<'_, str> {
        let quoted = self.slice(node);
        let body = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if node.meta & ESCAPED == 0 {
            Cow::Borrowed(body)
        } else {
            Cow::Owned(escape::unescape(body))
        }
    }
}

/// A value of a document: a small handle, free to copy.
#[derive(Clone, Copy)]
pub struct Ref<'d> {
    document: &'d Document<'d>,
    index: u32,
}

/// Consecutive elements of an array, none of which is an array or an object.
#[derive(Clone, Copy)]
pub(crate) struct Scalars<'d> {
    document: &'d Document<'d>,
    index: u32,
    nodes: &'d [Node],
    /// The bytes of their [`Ref::raw`].
    pub(crate) raw_len: usize,
    /// The offsets of their texts, if the document has all of them unchanged.
    pub(crate) plain_len: Option<usize>,
}

impl<'d> Scalars<'d> {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Each for itself.
    pub(crate) fn each(self) -> impl Iterator<Item = Scalar<'d>> {
        let end = self.index + place(self.nodes.len());
        let document = self.document;
        (self.index..end).filter_map(move |index| Ref { document, index }.scalar())
    }

    /// The text of the document from the first to the last, with white space and commas between them.
    pub(crate) fn source(&self) -> &'d [u8] {
        let (Some(first), Some(last)) = (self.nodes.first(), self.nodes.last()) else { return &[] };
        let text = self.document.text.as_bytes();
        text.get(first.start as usize..last.end as usize).unwrap_or_default()
    }

    /// Where their texts are in [`Document::text`], if `plain_len` is known: start and length.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        self.nodes.iter().map(|node| {
            let quote = u32::from(node.tag() == Tag::String);
            let len = (node.end - node.start).saturating_sub(2 * quote);
            ((node.start + quote) as usize, len as usize)
        })
    }

    /// The text of the whole document.
    pub(crate) fn document_text(&self) -> &'d [u8] {
        self.document.text.as_bytes()
    }
}

/// A value without others in it.
#[derive(Clone, Copy)]
pub(crate) struct Scalar<'d> {
    pub(crate) value: Ref<'d>,
    /// The bytes of [`Ref::raw`].
    pub(crate) raw_len: usize,
    /// The text if the document has it unchanged: `null` is empty, and a string has no escapes.
    pub(crate) plain: Option<&'d [u8]>,
}

impl<'d> Ref<'d> {
    fn node(self) -> Node {
        self.document.node(self.index)
    }

    fn at_index(self, index: u32) -> Self {
        Self { document: self.document, index }
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.node().tag() {
            Tag::Null => Kind::Null,
            Tag::False | Tag::True => Kind::Boolean,
            Tag::Number => Kind::Number,
            Tag::String | Tag::Key => Kind::String,
            Tag::Array => Kind::Array,
            Tag::Object => Kind::Object,
        }
    }

    /// The value's JSON text, byte for byte.
    #[must_use]
    pub fn raw(self) -> &'d str {
        self.document.slice(self.node())
    }

    /// The value if it is neither an array nor an object.
    #[inline(always)]
    pub(crate) fn scalar(self) -> Option<Scalar<'d>> {
        let node = self.node();
        let (from, to) = (node.start as usize, node.end as usize);
        let text = |from, to| self.document.text.as_bytes().get(from..to);
        let plain = match node.tag() {
            Tag::String | Tag::Key if node.meta & ESCAPED != 0 => None,
            Tag::String | Tag::Key => text(from + 1, to.saturating_sub(1)),
            Tag::False | Tag::True | Tag::Number => text(from, to),
            Tag::Null => Some(&[][..]),
            Tag::Array | Tag::Object => return None,
        };
        Some(Scalar { value: self, raw_len: to.saturating_sub(from), plain })
    }

    /// The byte offset of the value in the document's text.
    #[must_use]
    pub fn offset(self) -> usize {
        self.node().start as usize
    }

    /// A boolean; `None` for any other kind.
    #[must_use]
    pub fn boolean(self) -> Option<bool> {
        match self.node().tag() {
            Tag::True => Some(true),
            Tag::False => Some(false),
            Tag::Null | Tag::Number | Tag::String | Tag::Array | Tag::Object | Tag::Key => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.node().tag() == Tag::Null
    }

    /// A number in its original spelling; `None` for any other kind.
    #[must_use]
    pub fn number_text(self) -> Option<&'d str> {
        (self.node().tag() == Tag::Number).then(|| self.raw())
    }

    /// A string without escapes; `None` for any other kind. Allocates only if there are escapes.
    #[must_use]
    pub fn string(self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::String).then(|| self.document.string(self.node()))
    }

    /// Whether this is a string with escapes, so that [`Ref::string`] copies it.
    pub(crate) fn is_escaped(self) -> bool {
        self.node().meta & ESCAPED != 0 && self.kind() == Kind::String
    }

    /// The number of elements or members; zero for any other kind.
    #[must_use]
    pub fn len(self) -> usize {
        match self.node().tag() {
            Tag::Array | Tag::Object => self.node().count() as usize,
            Tag::Null | Tag::False | Tag::True | Tag::Number | Tag::String | Tag::Key => 0,
        }
    }

    /// Whether [`Ref::len`] is zero.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The last member of that name; `None` also if this is not an object.
    #[must_use]
    pub fn get(self, name: &str) -> Option<Self> {
        let object = self.node();
        if object.tag() != Tag::Object {
            return None;
        }
        let mut found = None;
        let mut index = self.index + 1;
        while index < object.next {
            if self.document.is_named(index, name) {
                found = Some(self.at_index(index + 1));
            }
            index = self.document.node(index + 1).next;
        }
        found
    }

    /// The element at `place`, from 0; `None` also if this is not an array. Linear in `place` unless all elements are
    /// scalars or empty.
    #[must_use]
    pub fn at(self, place: usize) -> Option<Self> {
        let array = self.node();
        if array.tag() != Tag::Array || place >= array.count() as usize {
            return None;
        }
        let first = self.index + 1;
        // Elements without children are adjacent.
        if array.next - first == array.count() {
            return Some(self.at_index(first + u32::try_from(place).ok()?));
        }
        self.elements().nth(place)
    }

    /// The elements of an array, in order; none for any other kind.
    #[must_use]
    pub fn elements(self) -> Elements<'d> {
        let node = self.node();
        let end = if node.tag() == Tag::Array { node.next } else { 0 };
        Elements { document: self.document, index: self.index + 1, end }
    }

    /// The members of an object, in order; none for any other kind.
    #[must_use]
    pub fn members(self) -> Members<'d> {
        let node = self.node();
        let end = if node.tag() == Tag::Object { node.next } else { 0 };
        Members { document: self.document, index: self.index + 1, end }
    }

    /// This value and all its descendants in document order.
    pub fn descendants(self) -> impl Iterator<Item = Self> {
        (self.index..self.node().next)
            .map(move |index| self.at_index(index))
            .filter(|value| value.node().tag() != Tag::Key)
    }

    /// The elements of an array or the member values of an object, in order; none for any other kind.
    pub fn children(self) -> impl Iterator<Item = Self> {
        // Names are skipped without a copy.
        let (mut members, document) = (self.members(), self.document);
        self.elements().chain(std::iter::from_fn(move || {
            let value = Ref { document, index: members.index + 1 };
            (members.index < members.end).then(|| {
                members.index = value.node().next;
                value
            })
        }))
    }

    /// Whether both are the same node of the same document.
    #[must_use]
    pub fn is_same_place(self, other: Self) -> bool {
        std::ptr::eq(self.document, other.document) && self.index == other.index
    }

    /// The number of nodes in this subtree, member names included.
    pub(crate) fn node_count(self) -> usize {
        self.node().next.saturating_sub(self.index) as usize
    }

    /// Position in document order.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

impl Document<'_> {
    fn is_named(&self, index: u32, name: &str) -> bool {
        let key = self.node(index);
        if key.meta & ESCAPED != 0 {
            // An escape has at most six bytes for each byte of text, so that longer keys need no copy.
            let longest = name.len().saturating_mul(6).saturating_add(2);
            return (key.end - key.start) as usize <= longest && self.string(key) == name;
        }
        let start = key.start as usize + 1;
        (key.end - key.start) as usize == name.len() + 2
            && self.text.as_bytes().get(start..start + name.len()) == Some(name.as_bytes())
    }
}

impl fmt::Debug for Ref<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.raw())
    }
}

/// Iterator of [`Ref::elements`].
#[derive(Clone, Debug)]
pub struct Elements<'d> {
    document: &'d Document<'d>,
    index: u32,
    end: u32,
}

impl<'d> Elements<'d> {
    /// Takes the scalars at the beginning, at most `most`.
    pub(crate) fn next_scalars(&mut self, most: usize) -> Scalars<'d> {
        let (document, index) = (self.document, self.index);
        let end = self.end.min(index.saturating_add(place(most)));
        let rest = document.nodes.get(index as usize..end as usize).unwrap_or_default();
        // A bit for each tag that is there, with and without escapes.
        let (mut count, mut raw_len, mut quotes, mut tags) = (0, 0, 0, 0_u32);
        for node in rest {
            let tag = node.meta & 7;
            if tag >= Tag::Array as u32 {
                break;
            }
            count += 1;
            raw_len += node.end - node.start;
            quotes += 2 * u32::from(tag == Tag::String as u32);
            tags |= 1 << (node.meta & (7 | ESCAPED));
        }
        self.index += place(count);
        let nodes = rest.get(..count).unwrap_or_default();
        let is_plain = tags >> ESCAPED == 0 && tags & (1 << Tag::Null as u32) == 0;
        let plain_len = is_plain.then(|| raw_len.saturating_sub(quotes) as usize);
        let raw_len = raw_len as usize;
        Scalars { document, index, nodes, raw_len, plain_len }
    }
}

impl<'d> Iterator for Elements<'d> {
    type Item = Ref<'d>;

    fn next(&mut self) -> Option<Ref<'d>> {
        if self.index >= self.end {
            return None;
        }
        let found = Ref { document: self.document, index: self.index };
        self.index = found.node().next;
        Some(found)
    }
}

/// Iterator of [`Ref::members`].
#[derive(Clone, Debug)]
pub struct Members<'d> {
    document: &'d Document<'d>,
    index: u32,
    end: u32,
}

impl<'d> Iterator for Members<'d> {
    type Item = (Cow<'d, str>, Ref<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.end {
            return None;
        }
        let name = self.document.string(self.document.node(self.index));
        let value = Ref { document: self.document, index: self.index + 1 };
        self.index = value.node().next;
        Some((name, value))
    }
}

/// Fits, since no longer text is read.
#[expect(clippy::cast_possible_truncation)]
fn place(of: usize) -> u32 {
    of as u32
}
