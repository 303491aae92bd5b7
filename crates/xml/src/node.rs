//! Reading a tree: a [`Node`] is a document and an index.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::document::{
    ATTRIBUTE, COMMENT, Document, ELEMENT, NO_PARENT, NONE, NodeId, PI, ROOT, Record, TAGGED, TEXT,
};
use crate::error::Position;
use crate::index::NamespacesInScope;
use crate::names::{NameId, QName};
use crate::scan;

/// The kinds of node of the XPath data model. A tree has no namespace nodes; XPath derives them from
/// [`Node::namespaces_in_scope`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Root,
    Element,
    Text,
    Comment,
    ProcessingInstruction,
    Attribute,
    Namespace,
}

/// A node of a document. Two are equal if they are the same node of the same document.
#[derive(Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document,
    index: u32,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.document.serial == other.document.serial
    }
}

impl Eq for Node<'_> {}

impl Hash for Node<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} `{}`", self.kind(), self.index & !ATTRIBUTE, self.local_name())
    }
}

impl<'d> Node<'d> {
    #[inline]
    pub(crate) fn new(document: &'d Document, index: u32) -> Self {
        Self { document, index }
    }

    #[inline]
    fn at(self, index: u32) -> Option<Self> {
        (index != NONE).then_some(Self { document: self.document, index })
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    #[inline]
    fn is_attribute(self) -> bool {
        self.index & ATTRIBUTE != 0
    }

    #[inline]
    pub(crate) fn record(self) -> Record {
        self.document.record(self.index)
    }

    #[inline]
    #[must_use]
    pub fn id(self) -> NodeId {
        NodeId { index: self.index, serial: self.document.serial }
    }

    #[inline]
    #[must_use]
    pub fn document(self) -> &'d Document {
        self.document
    }

    #[inline]
    #[must_use]
    pub fn kind(self) -> Kind {
        if self.is_attribute() {
            return Kind::Attribute;
        }
        match self.record().kind() {
            ELEMENT => Kind::Element,
            TEXT => Kind::Text,
            COMMENT => Kind::Comment,
            PI => Kind::ProcessingInstruction,
            _ => Kind::Root,
        }
    }

    #[inline]
    #[must_use]
    pub fn is_element(self) -> bool {
        !self.is_attribute() && self.record().kind() == ELEMENT
    }

    /// The element or root that contains the node; of an attribute, its element; of the root and of detached
    /// nodes, none.
    #[inline]
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        if self.is_attribute() {
            let owner = self.document.attribute(self.index)?.owner;
            return (owner != NO_PARENT).then(|| Self::new(self.document, owner));
        }
        let parent = self.record().parent;
        (parent != NO_PARENT).then(|| Self::new(self.document, parent))
    }

    #[inline]
    #[must_use]
    pub fn first_child(self) -> Option<Self> {
        if self.is_attribute() { None } else { self.at(self.document.first(self.index)) }
    }

    #[must_use]
    pub fn last_child(self) -> Option<Self> {
        if self.is_attribute() { None } else { self.at(self.document.last(self.index)) }
    }

    #[inline]
    #[must_use]
    pub fn next_sibling(self) -> Option<Self> {
        if self.is_attribute() {
            return None;
        }
        self.at(self.record().next)
    }

    #[must_use]
    pub fn previous_sibling(self) -> Option<Self> {
        if self.is_attribute() { None } else { self.at(self.document.previous(self.index)) }
    }

    #[inline]
    #[must_use]
    pub fn children(self) -> Children<'d> {
        Children { next: self.first_child() }
    }

    /// The children that are elements.
    pub fn elements(self) -> impl Iterator<Item = Self> + Clone {
        self.children().filter(|child| child.is_element())
    }

    /// All nodes below this one in document order, without attributes.
    #[inline]
    #[must_use]
    pub fn descendants(self) -> Descendants<'d> {
        Descendants { top: self, next: self.first_child() }
    }

    /// The parent, its parent, and so on to the root.
    #[must_use]
    pub fn ancestors(self) -> Ancestors<'d> {
        Ancestors { next: self.parent() }
    }

    #[must_use]
    pub fn attributes(self) -> Attributes<'d> {
        let tag = if self.is_attribute() { None } else { self.document.tag(self.record()) };
        Attributes { document: self.document, next: tag.map_or(NONE, |tag| tag.attribute) }
    }

    /// The value of an attribute; `namespace` is empty for attributes without prefix.
    #[must_use]
    pub fn attribute(self, namespace: &str, local: &str) -> Option<&'d str> {
        if self.is_attribute() || self.record().b & TAGGED == 0 {
            return None;
        }
        let name = self.document.name_id(namespace, local)?;
        self.attributes().find(|attribute| attribute.name() == name).map(Node::text)
    }

    fn qname(self) -> QName {
        let document = self.document;
        let id = if self.is_attribute() {
            document.attribute(self.index).map_or(0, |attribute| attribute.qname)
        } else {
            let record = self.record();
            match record.kind() {
                ELEMENT => record.value(),
                PI => document.instructions.get(record.a as usize).map_or(0, |pi| pi.qname),
                _ => 0,
            }
        };
        document.names.get_qname(id)
    }

    /// The expanded name of elements, attributes and processing instructions (the target, in no namespace).
    #[inline]
    #[must_use]
    pub fn name(self) -> NameId {
        self.qname().name
    }

    #[must_use]
    pub fn local_name(self) -> &'d str {
        let names = &self.document.names;
        names.str(names.get_pair(self.name()).local)
    }

    /// The namespace; empty for none.
    #[must_use]
    pub fn namespace(self) -> &'d str {
        let names = &self.document.names;
        names.str(names.get_pair(self.name()).uri)
    }

    /// The prefix as written; empty for none.
    #[must_use]
    pub fn prefix(self) -> &'d str {
        self.document.names.str(self.qname().prefix)
    }

    /// The text of text nodes, comments, processing instructions and attributes; empty for others.
    #[inline]
    #[must_use]
    pub fn text(self) -> &'d str {
        let document = self.document;
        if self.is_attribute() {
            let attribute = document.attribute(self.index);
            return attribute.map_or("", |found| document.slice(found.start, found.len));
        }
        let record = self.record();
        match record.kind() {
            TEXT | COMMENT => document.slice(record.a, record.value()),
            PI => {
                let found = document.instructions.get(record.a as usize);
                found.map_or("", |pi| document.slice(pi.start, pi.len))
            }
            _ => "",
        }
    }

    /// The string-value of XPath 1.0 section 5: of an element or the root, all text in it. Borrowed unless
    /// several texts have to be joined.
    #[must_use]
    pub fn string_value(self) -> Cow<'d, str> {
        if !matches!(self.kind(), Kind::Element | Kind::Root) {
            return Cow::Borrowed(self.text());
        }
        if let Some(text) = self.sole_text() {
            return Cow::Borrowed(text);
        }
        let mut texts = self.texts();
        let Some(first) = texts.next() else { return Cow::Borrowed("") };
        let Some(second) = texts.next() else { return Cow::Borrowed(first) };
        let mut all = [first, second].concat();
        all.extend(texts);
        Cow::Owned(all)
    }

    /// The text of an element whose only child is a text.
    #[must_use]
    #[inline(always)]
    pub fn sole_text(self) -> Option<&'d str> {
        let first = match &self.document.links {
            None => self.index.wrapping_add(1),
            Some(_) => self.document.first(self.index),
        };
        let record = self.document.record(first);
        let is_sole = record.parent == self.index && record.next == NONE && record.kind() == TEXT;
        is_sole.then(|| self.document.slice(record.a, record.value()))
    }

    /// Appends the string value to `out`.
    pub fn write_string_value(self, out: &mut String) {
        match self.kind() {
            Kind::Element | Kind::Root => out.extend(self.texts()),
            Kind::Text
            | Kind::Comment
            | Kind::ProcessingInstruction
            | Kind::Attribute
            | Kind::Namespace => out.push_str(self.text()),
        }
    }

    fn texts(self) -> impl Iterator<Item = &'d str> {
        self.descendants().filter(|node| node.record().kind() == TEXT).map(Node::text)
    }

    /// All (prefix, namespace) in scope, `xml` first, then nearest declarations first. A default
    /// namespace that was undeclared isn't in scope. `nth` and `count` take constant time for nodes
    /// of the scope that was looked up last.
    #[must_use]
    pub fn namespaces_in_scope(self) -> NamespacesInScope<'d> {
        NamespacesInScope::new(self)
    }

    /// The namespace declarations of this element itself, as (prefix, namespace).
    pub fn declarations(self) -> impl Iterator<Item = (&'d str, &'d str)> {
        let names = &self.document.names;
        let record = if self.is_attribute() { Document::NOTHING } else { self.record() };
        let found = self.document.declarations_of(record);
        found.map(|(prefix, uri)| (names.str(prefix), names.str(uri)))
    }

    /// The namespace that `prefix` is bound to here. The empty prefix stands for the default namespace, which
    /// is `""` if there is none.
    #[must_use]
    pub fn lookup_namespace(self, prefix: &str) -> Option<&'d str> {
        let holder = if self.is_element() { self } else { self.parent()? };
        let names = &self.document.names;
        let symbol = names.find_symbol(prefix)?;
        self.document.namespace_of(holder.index, symbol).map(|uri| names.str(uri))
    }

    /// The source from the start tag of this element to that of `below`, one of its descendants. `None` in the same
    /// cases as [`Node::source`].
    #[must_use]
    pub fn source_before(self, below: Self) -> Option<&'d str> {
        let document = self.document;
        let is_read = document.is_whole && std::ptr::eq(document, below.document);
        document.text.get(self.source_start()?..below.source_start()?).filter(|_| is_read)
    }

    /// The source of this element with everything below it, without the namespace declarations around it. `None` in a
    /// document that was edited or made of parts of another, and in one with a document type, because the element may
    /// refer to its entities.
    #[must_use]
    pub fn source(self) -> Option<&'d str> {
        let document = self.document;
        let start = self.source_start().filter(|_| document.is_whole)?;
        let source = document.text.source();
        let is_root = self.parent().is_some_and(|above| !above.is_element());
        let end = if is_root { scan::end_of_last(source, self.local_name()) } else { None };
        source.get(start..end.or_else(|| scan::element_end(source.as_bytes(), start))?)
    }

    /// Where the start tag of this element is in the source.
    pub(crate) fn source_start(self) -> Option<usize> {
        let record = self.record();
        let at = self.document.tag(record).map_or(record.a, |tag| tag.at);
        (self.is_element() && at < self.document.source_len).then_some(at as usize)
    }

    /// Where the node is in the source; of an attribute, where its value is. Nodes that were created
    /// rather than read are at `0:0`. The first look-up indexes the source, each takes constant time.
    #[must_use]
    pub fn position(self) -> Position {
        let document = self.document;
        let at = if self.is_attribute() {
            document.attribute(self.index).map_or(u32::MAX, |attribute| attribute.start)
        } else {
            let record = self.record();
            match record.kind() {
                ELEMENT => document.tag(record).map_or(record.a, |tag| tag.at),
                PI => document.instructions.get(record.a as usize).map_or(u32::MAX, |pi| pi.at),
                ROOT => 0,
                COMMENT => record.a.saturating_sub(4),
                _ => record.a,
            }
        };
        document.place(at)
    }

    /// Compares two nodes in document order; documents are ordered by their creation.
    /// Constant time in a document as it was read; in an edited one amortised over the comparisons
    /// between two edits.
    #[inline]
    #[must_use]
    pub fn document_order(self, other: Self) -> Ordering {
        let documents = self.document.serial.cmp(&other.document.serial);
        if documents != Ordering::Equal {
            return documents;
        }
        if self.document.is_in_order() && (self.index | other.index) & ATTRIBUTE == 0 {
            return self.index.cmp(&other.index);
        }
        self.order_by_holder(other)
    }

    fn order_by_holder(self, other: Self) -> Ordering {
        let holder = |node: Self| if node.is_attribute() { node.parent() } else { Some(node) };
        let (Some(mine), Some(theirs)) = (holder(self), holder(other)) else {
            return self.index.cmp(&other.index);
        };
        if mine == theirs {
            return match (self.is_attribute(), other.is_attribute()) {
                (true, true) => self.index.cmp(&other.index),
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => Ordering::Equal,
            };
        }
        match &self.document.links {
            None => mine.index.cmp(&theirs.index),
            Some(_) => self.document.order_of(mine.index, theirs.index),
        }
    }
}

impl Document {
    /// The place of the text that starts at byte `at`.
    fn place(&self, at: u32) -> Position {
        if at < self.source_len || (at == 0 && self.source_len > 0) {
            return self.source_position(at);
        }
        let after = self.origins.partition_point(|(start, _)| *start <= at);
        match after.checked_sub(1).and_then(|before| self.origins.get(before)) {
            Some((_, place)) if *place != u32::MAX => self.source_position(*place),
            Some(_) | None => Position::default(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Children<'d> {
    next: Option<Node<'d>>,
}

impl<'d> Iterator for Children<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let node = self.next?;
        self.next = node.next_sibling();
        Some(node)
    }
}

#[derive(Debug, Clone)]
pub struct Descendants<'d> {
    top: Node<'d>,
    next: Option<Node<'d>>,
}

impl<'d> Iterator for Descendants<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let node = self.next?;
        self.next = node.first_child().or_else(|| following(node, self.top));
        Some(node)
    }
}

/// The node after the subtree of `node`, below `top`.
#[inline]
fn following<'d>(mut node: Node<'d>, top: Node<'d>) -> Option<Node<'d>> {
    while node.index != top.index {
        if let Some(next) = node.next_sibling() {
            return Some(next);
        }
        node = node.parent()?;
    }
    None
}

#[derive(Debug, Clone)]
pub struct Ancestors<'d> {
    next: Option<Node<'d>>,
}

impl<'d> Iterator for Ancestors<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let node = self.next?;
        self.next = node.parent();
        Some(node)
    }
}

#[derive(Debug, Clone)]
pub struct Attributes<'d> {
    document: &'d Document,
    next: u32,
}

impl<'d> Iterator for Attributes<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        if self.next == NONE {
            return None;
        }
        let node = Node::new(self.document, self.next | ATTRIBUTE);
        self.next = self.document.attribute(self.next)?.next;
        Some(node)
    }
}
