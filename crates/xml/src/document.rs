//! The arena of a document, and navigation in it.
//!
//! A node is 16 bytes: parent, next sibling, and two words that depend on its kind. As long as a document
//! is as it was parsed (or built in order), indexes ascend in document order and a node's first child has
//! the index after its own; previous siblings and last children follow from that. The first edit that
//! breaks the order creates [`Links`] for all nodes, which are used from then on.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::content::Content;
use crate::edit::ChainIndexes;
use crate::index::{Climb, Indexes};
use crate::names::{EMPTY, NameId, Symbol, number};
use crate::node::{Kind, Node};
use crate::shared::SharedNames;

/// No node, attribute or declaration: 0 is the root, which is never a child.
pub(crate) const NONE: u32 = 0;
/// The parent of the root and of detached nodes.
pub(crate) const NO_PARENT: u32 = u32::MAX;
/// Marks the indexes of attributes among those of nodes.
pub(crate) const ATTRIBUTE: u32 = 1 << 31;

pub(crate) const ROOT: u32 = 0;
pub(crate) const ELEMENT: u32 = 1;
pub(crate) const TEXT: u32 = 2;
pub(crate) const COMMENT: u32 = 3;
pub(crate) const PI: u32 = 4;
const KIND_BITS: u32 = 3;
pub(crate) const KIND_MASK: u32 = (1 << KIND_BITS) - 1;
/// The element has a [`Tag`]: `a` is its index.
pub(crate) const TAGGED: u32 = 1 << KIND_BITS;
pub(crate) const VALUE_SHIFT: u32 = KIND_BITS + 1;

/// A node. `a` is the start of its text; of an element, its offset in the source or the index of its tag; of
/// a processing instruction, its index. `b` is the kind, [`TAGGED`], and above them the length of the text,
/// or the element's name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) parent: u32,
    pub(crate) next: u32,
    pub(crate) a: u32,
    pub(crate) b: u32,
}

impl Record {
    #[inline]
    pub(crate) fn kind(self) -> u32 {
        self.b & KIND_MASK
    }

    #[inline]
    pub(crate) fn value(self) -> u32 {
        self.b >> VALUE_SHIFT
    }
}

/// The data that only some elements have. Attributes and declarations are chains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) at: u32,
    pub(crate) attribute: u32,
    pub(crate) declaration: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AttributeRecord {
    /// [`NO_PARENT`]: removed.
    pub(crate) owner: u32,
    pub(crate) next: u32,
    pub(crate) qname: u32,
    pub(crate) start: u32,
    pub(crate) len: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NamespaceDeclaration {
    pub(crate) next: u32,
    pub(crate) prefix: Symbol,
    pub(crate) uri: Symbol,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    pub(crate) qname: u32,
    pub(crate) start: u32,
    pub(crate) len: u32,
    pub(crate) at: u32,
}

/// The links that can't be derived once a document has been edited out of order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Links {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) previous: u32,
}

/// The declarations of a document type that outlive parsing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declared {
    /// Attributes of type ID.
    pub(crate) ids: HashSet<u32>,
    /// System identifiers of unparsed entities, by name.
    pub(crate) unparsed: HashMap<Box<str>, Box<str>>,
}

impl Declared {
    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.ids.capacity() * size_of::<u32>()
            + self.unparsed.iter().map(|(name, uri)| name.len() + uri.len()).sum::<usize>()
            + self.unparsed.capacity() * size_of::<(Box<str>, Box<str>)>()
    }
}

/// A document: the tree and all its text. See [`Node`] for reading, and the methods that take
/// `&mut self` for editing. Detached nodes stay in memory until the document is dropped.
#[derive(Debug)]
pub struct Document {
    pub(crate) serial: u32,
    pub(crate) text: Content,
    pub(crate) source_len: u32,
    /// The document equals its source, and has no document type.
    pub(crate) is_whole: bool,
    pub(crate) nodes: Vec<Record>,
    /// Attributes. The first is unused, so that 0 can mean none.
    pub(crate) attributes: Vec<AttributeRecord>,
    pub(crate) tags: Vec<Tag>,
    pub(crate) declarations: Vec<NamespaceDeclaration>,
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) names: SharedNames,
    /// The places of text after the source: (its start, its offset in the source), ascending.
    pub(crate) origins: Vec<(u32, u32)>,
    pub(crate) links: Option<Vec<Links>>,
    /// Boxed, since most documents have no document type.
    pub(crate) declared: Option<Box<Declared>>,
    pub(crate) chains: Option<Box<ChainIndexes>>,
    pub(crate) base: Option<Box<str>>,
    pub(crate) indexes: Indexes,
}

static SERIALS: AtomicU32 = AtomicU32::new(1);

pub(crate) fn next_serial() -> u32 {
    SERIALS.fetch_add(1, Ordering::Relaxed)
}

impl Default for Document {
    fn default() -> Self {
        Self::new()
    }
}

/// The copy has the same content but its own identity: ids of one document aren't valid in the other.
impl Clone for Document {
    fn clone(&self) -> Self {
        let copy = self.with_nodes(self.nodes.clone());
        Self { is_whole: self.is_whole, links: self.links.clone(), ..copy }
    }
}

/// Identifies a node of a document across edits. Other documents reject it (documents are distinguished by a
/// counter that wraps after 2^32 of them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl Document {
    /// An empty document: its root alone.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(1, SharedNames::new())
    }

    pub(crate) fn with_capacity(capacity: usize, names: SharedNames) -> Self {
        let mut nodes = Vec::with_capacity(capacity);
        nodes.push(Self::NOTHING);
        Self {
            serial: next_serial(),
            text: Content::default(),
            source_len: 0,
            is_whole: false,
            nodes,
            attributes: Vec::new(),
            tags: Vec::new(),
            declarations: Vec::new(),
            instructions: Vec::new(),
            names,
            origins: Vec::new(),
            links: None,
            declared: None,
            chains: None,
            base: None,
            indexes: Indexes::default(),
        }
    }

    #[must_use]
    pub fn root(&self) -> Node<'_> {
        Node::new(self, 0)
    }

    /// The document element: the root's first child that is an element.
    #[must_use]
    pub fn element(&self) -> Option<Node<'_>> {
        self.root().children().find(|child| child.kind() == Kind::Element)
    }

    /// The node with that id; none if the id belongs to another document, or to a removed attribute.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<Node<'_>> {
        let known = match id.index & ATTRIBUTE {
            0 => (id.index as usize) < self.nodes.len(),
            _ => self.attribute(id.index).is_some_and(|attribute| attribute.owner != NO_PARENT),
        };
        (known && id.serial == self.serial).then(|| Node::new(self, id.index))
    }

    /// The id of a name in this document; `None` if no node has had it.
    #[must_use]
    pub fn name_id(&self, namespace: &str, local: &str) -> Option<NameId> {
        let (uri, local) = (self.names.find_symbol(namespace)?, self.names.find_symbol(local)?);
        self.names.find_name(uri, local)
    }

    /// Distinguishes the document from all others in memory (a counter that wraps after 2^32 documents).
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// Whether the document is as it was parsed, or built in document order: then comparing the order of two
    /// nodes takes constant time.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.links.is_none()
    }

    /// The number of names: [`NameId::index`] is below it.
    #[must_use]
    pub fn names_len(&self) -> usize {
        self.names.names_len()
    }

    /// The name with that [`NameId::index`], if there is one.
    #[must_use]
    pub fn name_at(&self, index: usize) -> Option<NameId> {
        (index < self.names_len()).then(|| NameId::numbered(index))
    }

    /// [`Options::base_uri`](crate::Options::base_uri): the base of relative references in the document.
    #[must_use]
    pub fn base_uri(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// The system identifier of an unparsed entity, as written in its declaration.
    #[must_use]
    pub fn unparsed_entity(&self, name: &str) -> Option<&str> {
        self.declared.as_ref()?.unparsed.get(name).map(|uri| &**uri)
    }

    /// Estimates the size of the document when it is written: all its text, or all its nodes with short names.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        const NODE_BYTES: usize = 12;
        let nodes = self.nodes.len().saturating_add(self.attributes.len());
        self.text.len().max(nodes.saturating_mul(NODE_BYTES))
    }

    /// The number of the document's bytes that lie in `owner`, because [`Document::parse_shared`] shared them.
    #[must_use]
    pub fn bytes_shared_with(&self, owner: &[u8]) -> usize {
        let source = self.text.source();
        if owner.as_ptr_range().contains(&source.as_ptr()) { source.len() } else { 0 }
    }

    /// The heap memory of the document, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        fn held<T>(vec: &Vec<T>) -> usize {
            vec.capacity() * size_of::<T>()
        }
        self.text.heap_bytes()
            + held(&self.nodes)
            + held(&self.attributes)
            + held(&self.tags)
            + held(&self.declarations)
            + held(&self.instructions)
            + held(&self.origins)
            + self.declared.as_ref().map_or(0, |declared| declared.heap_bytes())
            + self.indexes.heap_bytes()
            + self.chains.as_ref().map_or(0, |chains| chains.heap_bytes())
            + self.links.as_ref().map_or(0, held)
            + self.names.heap_bytes()
            + self.base.as_ref().map_or(0, |base| base.len())
    }

    pub(crate) const NOTHING: Record = Record { parent: NO_PARENT, next: NONE, a: 0, b: ROOT };

    #[inline]
    pub(crate) fn record(&self, index: u32) -> Record {
        self.nodes.get(index as usize).copied().unwrap_or(Self::NOTHING)
    }

    /// `index` with or without [`ATTRIBUTE`].
    pub(crate) fn attribute(&self, index: u32) -> Option<AttributeRecord> {
        self.attributes.get((index & !ATTRIBUTE) as usize).copied()
    }

    /// Whether an attribute, without [`ATTRIBUTE`], is of type ID.
    pub(crate) fn is_id(&self, attribute: u32) -> bool {
        self.declared.as_ref().is_some_and(|declared| declared.ids.contains(&attribute))
    }

    /// Removes the type of an attribute that is removed or renamed.
    pub(crate) fn forget_id(&mut self, attribute: u32) {
        if let Some(declared) = &mut self.declared {
            declared.ids.remove(&attribute);
        }
    }

    pub(crate) fn tag(&self, record: Record) -> Option<Tag> {
        (record.b & TAGGED != 0).then(|| self.tags.get(record.a as usize).copied()).flatten()
    }

    pub(crate) fn declarations_of(&self, record: Record) -> Declarations<'_> {
        let next = self.tag(record).map_or(NONE, |tag| tag.declaration);
        Declarations { document: self, next }
    }

    #[inline]
    pub(crate) fn slice(&self, start: u32, len: u32) -> &str {
        let start = start as usize;
        self.text.get(start..start.saturating_add(len as usize)).unwrap_or("")
    }

    // Navigation; 0 is none.

    #[inline]
    pub(crate) fn first(&self, index: u32) -> u32 {
        match &self.links {
            Some(links) => links.get(index as usize).map_or(NONE, |links| links.first),
            None => {
                let child = index.wrapping_add(1);
                match self.nodes.get(child as usize) {
                    Some(record) if record.parent == index => child,
                    Some(_) | None => NONE,
                }
            }
        }
    }

    pub(crate) fn last(&self, index: u32) -> u32 {
        if let Some(links) = &self.links {
            return links.get(index as usize).map_or(NONE, |links| links.last);
        }
        let end = self.end(index);
        if end == index.wrapping_add(1) {
            return NONE;
        }
        let found = self.climb(end.wrapping_sub(1), index);
        found.unwrap_or_else(|| self.shortcut(index).last)
    }

    pub(crate) fn previous(&self, index: u32) -> u32 {
        if let Some(links) = &self.links {
            return links.get(index as usize).map_or(NONE, |links| links.previous);
        }
        let parent = self.record(index).parent;
        match index.checked_sub(1) {
            Some(before) if before != parent => {
                self.climb(before, parent).unwrap_or_else(|| self.shortcut(index).previous)
            }
            Some(_) | None => NONE,
        }
    }

    /// The ancestor-or-self of `from` that is a child of `parent`, unless there is a shortcut to it. In documents
    /// in order only.
    fn climb(&self, mut from: u32, parent: u32) -> Option<u32> {
        let mut climb = Climb::default();
        loop {
            let above = self.record(from).parent;
            if above == parent || above == NO_PARENT {
                return Some(from);
            }
            from = above;
            if climb.ends(self) {
                return None;
            }
        }
    }

    /// One more than the last index in the subtree of `index`. In documents in order only.
    pub(crate) fn end(&self, mut index: u32) -> u32 {
        let mut climb = Climb::default();
        loop {
            let record = self.record(index);
            if record.next != NONE {
                return record.next;
            }
            if record.parent == NO_PARENT {
                return number(self.nodes.len());
            }
            index = record.parent;
            if climb.ends(self) {
                return self.shortcut(index).end;
            }
        }
    }
}

/// The declarations of one element: (prefix, URI).
pub(crate) struct Declarations<'d> {
    document: &'d Document,
    next: u32,
}

impl Iterator for Declarations<'_> {
    type Item = (Symbol, Symbol);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == NONE {
            return None;
        }
        let found = self.document.declarations.get(self.next as usize)?;
        self.next = found.next;
        Some((found.prefix, found.uri))
    }
}

impl Document {
    /// The namespace that `prefix` is bound to at the element `index`: [`EMPTY`] without a default namespace, `None` if
    /// the prefix isn't bound.
    pub(crate) fn namespace_of(&self, mut index: u32, prefix: Symbol) -> Option<Symbol> {
        if prefix == crate::names::XML {
            return Some(crate::names::XML_URI);
        }
        while index != NO_PARENT {
            let record = self.record(index);
            if record.b & TAGGED != 0
                && let Some((_, uri)) = self.declarations_of(record).find(|(p, _)| *p == prefix)
            {
                return (uri != EMPTY || prefix == EMPTY).then_some(uri);
            }
            index = record.parent;
        }
        (prefix == EMPTY).then_some(EMPTY)
    }
}
