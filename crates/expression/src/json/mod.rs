//! JSON as it was sent: a strict reader (RFC 8259) into a compact tree over the source text.
//!
//! A [`Document`] is the text and one node of 16 bytes per value and member name, in the order of the text.
//! Nothing is converted: numbers keep their digits, members their order, arrays of one element and empty
//! values stay what they are, and an untouched subtree is written as the bytes that it was read from.
//!
//! Members of one name: all are kept and written; a look-up answers the last one, as Java's readers do.
//! [`Duplicates::Refuse`] makes them an error.
//!
//! Architecture invariant: reading, walking and writing take time linear in the text and no recursion.

mod build;
mod escape;
mod read;

pub use build::Builder;
pub(crate) use escape::quoted_len;
pub use escape::{push_quoted, push_string_body};
pub use read::{Duplicates, JsonError, JsonErrorKind, Limits};

use std::borrow::Cow;
use std::fmt;

/// A JSON text and its tree. Borrows the text it was read from; [`Document::into_owned`] lets go of it.
#[derive(Clone, Debug)]
pub struct Document<'s> {
    text: Cow<'s, str>,
    nodes: Vec<Node>,
}

/// Where a value stands in the text, and where the next one stands in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    start: u32,
    end: u32,
    /// Index of the first node after this one's subtree.
    next: u32,
    /// Three bits of [`Tag`], one for "has escapes", the rest counts elements or members.
    meta: u32,
}

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

/// Stands in for a node that isn't there; no public function can lead to it.
const NOWHERE: Node = Node { start: 0, end: 0, next: u32::MAX, meta: Tag::Null as u32 };

/// The six kinds of value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number, as text.
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
    /// Whatever RFC 8259 doesn't allow, text that is not UTF-8, and a limit that is passed: with line and column.
    pub fn parse(bytes: &'s [u8]) -> Result<Self, JsonError> {
        read::read(bytes, &Limits::default())
    }

    /// Reads one JSON text within `limits`.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_with(bytes: &'s [u8], limits: &Limits) -> Result<Self, JsonError> {
        read::read(bytes, limits)
    }

    /// The outermost value.
    #[must_use]
    pub fn root(&self) -> Ref<'_> {
        Ref { document: self, index: 0 }
    }

    /// The text that the tree stands on.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same document with a text of its own.
    #[must_use]
    pub fn into_owned(self) -> Document<'static> {
        Document { text: Cow::Owned(self.text.into_owned()), nodes: self.nodes }
    }

    /// Values and member names in the tree.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, index: u32) -> Node {
        self.nodes.get(index as usize).copied().unwrap_or(NOWHERE)
    }

    fn slice(&self, node: Node) -> &str {
        self.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    /// The string or name at `node`, without quotes, escapes resolved.
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

/// One value of a document. Small, copied freely, and unable to outlive its document.
#[derive(Clone, Copy)]
pub struct Ref<'d> {
    document: &'d Document<'d>,
    index: u32,
}

impl<'d> Ref<'d> {
    fn node(self) -> Node {
        self.document.node(self.index)
    }

    fn at_index(self, index: u32) -> Self {
        Self { document: self.document, index }
    }

    /// Which of the six kinds this is.
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

    /// The value's JSON text, exactly as it was read.
    #[must_use]
    pub fn raw(self) -> &'d str {
        self.document.slice(self.node())
    }

    /// Where the value begins in the document's text, in bytes.
    #[must_use]
    pub fn offset(self) -> usize {
        self.node().start as usize
    }

    /// `true` and `false`; `None` for another kind.
    #[must_use]
    pub fn boolean(self) -> Option<bool> {
        match self.node().tag() {
            Tag::True => Some(true),
            Tag::False => Some(false),
            Tag::Null | Tag::Number | Tag::String | Tag::Array | Tag::Object | Tag::Key => None,
        }
    }

    /// `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.node().tag() == Tag::Null
    }

    /// A number's text; `None` for another kind.
    #[must_use]
    pub fn number_text(self) -> Option<&'d str> {
        (self.node().tag() == Tag::Number).then(|| self.raw())
    }

    /// A string's text with escapes resolved; `None` for another kind. Allocates only where there are escapes.
    #[must_use]
    pub fn string(self) -> Option<Cow<'d, str>> {
        (self.kind() == Kind::String).then(|| self.document.string(self.node()))
    }

    /// Elements of an array or members of an object; zero for another kind.
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

    /// The last member of that name; `None` too when this is no object.
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

    /// The element at `place`, from 0; `None` too when this is no array.
    #[must_use]
    pub fn at(self, place: usize) -> Option<Self> {
        let array = self.node();
        if array.tag() != Tag::Array || place >= array.count() as usize {
            return None;
        }
        let first = self.index + 1;
        // Elements that hold nothing stand one beside the other.
        if array.next - first == array.count() {
            return Some(self.at_index(first + u32::try_from(place).ok()?));
        }
        self.elements().nth(place)
    }

    /// The elements of an array, in order; none for another kind.
    #[must_use]
    pub fn elements(self) -> Elements<'d> {
        let node = self.node();
        let end = if node.tag() == Tag::Array { node.next } else { 0 };
        Elements { document: self.document, index: self.index + 1, end }
    }

    /// The members of an object, in order; none for another kind.
    #[must_use]
    pub fn members(self) -> Members<'d> {
        let node = self.node();
        let end = if node.tag() == Tag::Object { node.next } else { 0 };
        Members { document: self.document, index: self.index + 1, end }
    }

    /// This value and all below it, each before what it holds, in the order of the text.
    pub fn descendants(self) -> impl Iterator<Item = Self> {
        (self.index..self.node().next)
            .map(move |index| self.at_index(index))
            .filter(|value| value.node().tag() != Tag::Key)
    }

    /// What stands in an array or an object, in order; none for another kind.
    pub fn children(self) -> impl Iterator<Item = Self> {
        self.elements().chain(self.members().map(|(_, value)| value))
    }

    /// Whether both are the same place of the same document.
    #[must_use]
    pub fn is_same_place(self, other: Self) -> bool {
        std::ptr::eq(self.document, other.document) && self.index == other.index
    }

    /// This value, all below it, and the names of members.
    pub(crate) fn node_count(self) -> usize {
        self.node().next.saturating_sub(self.index) as usize
    }

    /// Position in the document's order.
    pub(crate) fn index(self) -> u32 {
        self.index
    }
}

impl Document<'_> {
    fn is_named(&self, index: u32, name: &str) -> bool {
        let key = self.node(index);
        if key.meta & ESCAPED != 0 {
            return self.string(key) == name;
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

/// See [`Ref::elements`].
#[derive(Clone, Debug)]
pub struct Elements<'d> {
    document: &'d Document<'d>,
    index: u32,
    end: u32,
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

/// See [`Ref::members`].
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
