//! Iteration over the nodes of one kind or name: a scan of the array in a document that is in order, with one
//! comparison per node unless a name is written with several prefixes.

use crate::document::{
    COMMENT, Document, ELEMENT, KIND_MASK, NO_PARENT, NONE, PI, Record, TAGGED, TEXT, VALUE_SHIFT,
};
use crate::names::NameId;
use crate::node::{Descendants, Kind, Node};

/// A kind or name of nodes. Valid in the document that it was created for.
#[derive(Debug, Clone, Copy)]
pub struct NodeFilter {
    /// Applies to a node's second word.
    mask: u32,
    word: u32,
    /// A name that is written with several prefixes, which has to be looked up for each.
    name: Option<NameId>,
}

impl NodeFilter {
    /// Nodes of any kind.
    #[must_use]
    pub fn any() -> Self {
        Self { mask: 0, word: 0, name: None }
    }

    /// Nodes of that kind. The root, attributes and namespace nodes are never children.
    #[must_use]
    pub fn kind(kind: Kind) -> Self {
        let word = match kind {
            Kind::Element => ELEMENT,
            Kind::Text => TEXT,
            Kind::Comment => COMMENT,
            Kind::ProcessingInstruction => PI,
            Kind::Root | Kind::Attribute | Kind::Namespace => KIND_MASK,
        };
        Self { mask: KIND_MASK, word, name: None }
    }

    /// Elements with that name, which belongs to `document`.
    #[must_use]
    pub fn name(document: &Document, name: NameId) -> Self {
        match document.names.sole_qname(name) {
            Some(qname) => {
                Self { mask: !TAGGED, word: ELEMENT | (qname << VALUE_SHIFT), name: None }
            }
            None => Self { name: Some(name), ..Self::kind(Kind::Element) },
        }
    }

    #[inline]
    fn matches(self, document: &Document, record: &Record) -> bool {
        record.b & self.mask == self.word
            && self.name.is_none_or(|name| document.names.get_qname(record.value()).name == name)
    }
}

/// The descendants of a node that match a filter, in document order.
#[derive(Debug, Clone)]
pub struct FilteredDescendants<'d> {
    document: &'d Document,
    filter: NodeFilter,
    /// The node whose children are passed over.
    over: u32,
    visited: u64,
    walk: Walk<'d>,
}

#[derive(Debug, Clone)]
enum Walk<'d> {
    /// A range of indexes.
    Array {
        at: u32,
        end: u32,
    },
    Tree(Descendants<'d>),
}

impl FilteredDescendants<'_> {
    /// The number of nodes visited since the last call: the work done.
    #[inline]
    pub fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.visited)
    }

    /// Passes over the children of `parent`, but not their descendants, until this is called for another node.
    #[inline]
    pub fn pass_over(&mut self, parent: Node<'_>) {
        self.over = parent.index();
    }
}

/// Records that are compared at once.
const RECORDS: usize = 4;

/// The index of the first record that matches.
#[inline]
fn position(records: &[Record], matches: impl Fn(&Record) -> bool) -> Option<usize> {
    let (chunks, _) = records.as_chunks::<RECORDS>();
    let passed = chunks.iter().position(|chunk| chunk.iter().any(&matches)).unwrap_or(chunks.len());
    let passed = passed.wrapping_mul(RECORDS);
    let found = records.get(passed..)?.iter().position(matches)?;
    Some(passed.wrapping_add(found))
}

impl<'d> Iterator for FilteredDescendants<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let (document, filter, over) = (self.document, self.filter, self.over);
        let matches = |record: &Record| filter.matches(document, record) && record.parent != over;
        match &mut self.walk {
            Walk::Array { at, end } => {
                let left = document.nodes.get(*at as usize..*end as usize)?;
                let passed = position(left, matches);
                let passed = crate::names::number(passed.unwrap_or(left.len()));
                let found = at.saturating_add(passed);
                self.visited = self.visited.saturating_add(u64::from(passed)).saturating_add(1);
                *at = found.saturating_add(1);
                (found < *end).then(|| Node::new(document, found))
            }
            Walk::Tree(all) => all.find(|node| {
                self.visited = self.visited.saturating_add(1);
                matches(&node.record())
            }),
        }
    }
}

/// The children of a node that match a filter.
#[derive(Debug, Clone)]
pub struct FilteredChildren<'d> {
    document: &'d Document,
    filter: NodeFilter,
    visited: u64,
    next: u32,
}

impl FilteredChildren<'_> {
    /// The number of nodes visited since the last call: the work done.
    #[inline]
    pub fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.visited)
    }
}

impl<'d> Iterator for FilteredChildren<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        while self.next != NONE {
            let index = self.next;
            let record = self.document.record(index);
            self.next = record.next;
            self.visited += 1;
            if self.filter.matches(self.document, &record) {
                return Some(Node::new(self.document, index));
            }
        }
        None
    }
}

/// The element children of a node, for several look-ups by name that mostly come in their order.
#[derive(Debug, Clone)]
pub struct Row<'d> {
    document: &'d Document,
    visited: u64,
    next: u32,
}

impl<'d> Row<'d> {
    /// The next element, if it matches: then the one after it is next. Nodes of other kinds are skipped.
    #[inline]
    pub fn next_if(&mut self, filter: NodeFilter) -> Option<Node<'d>> {
        while self.next != NONE {
            let index = self.next;
            let record = self.document.record(index);
            self.visited += 1;
            let is_element = record.kind() == ELEMENT;
            if is_element && !filter.matches(self.document, &record) {
                return None;
            }
            self.next = record.next;
            if is_element {
                return Some(Node::new(self.document, index));
            }
        }
        None
    }

    /// The number of nodes visited since the last call: the work done.
    #[inline]
    pub fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.visited)
    }
}

impl<'d> Node<'d> {
    /// The children that are elements, from the first one on.
    #[inline]
    #[must_use]
    pub fn row(self) -> Row<'d> {
        let next = self.first_child().map_or(NONE, Node::index);
        Row { document: self.document(), visited: 0, next }
    }

    /// The descendants that match. Faster than filtering [`Node::descendants`].
    #[inline]
    #[must_use]
    pub fn filtered_descendants(self, filter: NodeFilter) -> FilteredDescendants<'d> {
        let walk = match self.descendant_indexes() {
            Some((at, end)) => Walk::Array { at, end },
            None => Walk::Tree(self.descendants()),
        };
        FilteredDescendants { document: self.document(), filter, over: NO_PARENT, visited: 0, walk }
    }

    /// The children that match.
    #[inline]
    #[must_use]
    pub fn filtered_children(self, filter: NodeFilter) -> FilteredChildren<'d> {
        let next = self.first_child().map_or(NONE, Node::index);
        FilteredChildren { document: self.document(), filter, visited: 0, next }
    }

    /// The range of the descendants' indexes, if the document is in order.
    fn descendant_indexes(self) -> Option<(u32, u32)> {
        let document = self.document();
        if !document.is_in_order() {
            return None;
        }
        Some(match self.first_child() {
            Some(child) => (child.index(), document.end(self.index())),
            None => (0, 0),
        })
    }
}
