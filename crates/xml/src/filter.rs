//! Nodes of one look, by number alone: the array of a document as it was read is looked through without climbing,
//! and a kind, or a name that is always written with the same prefix, is one word of a node.

use crate::document::{
    COMMENT, Document, ELEMENT, KIND_MASK, NONE, PI, Record, TAGGED, TEXT, VALUE_SHIFT,
};
use crate::names::NameId;
use crate::node::{Descendants, Kind, Node};

/// What a child has to look like to be found. Made for one document, and without meaning in others.
#[derive(Debug, Clone, Copy)]
pub struct NodeFilter {
    /// Of a node's second word.
    mask: u32,
    word: u32,
    /// A name that is written with several prefixes, and has to be looked up for each.
    name: Option<NameId>,
}

impl NodeFilter {
    /// Children of any kind.
    #[must_use]
    pub fn any() -> Self {
        Self { mask: 0, word: 0, name: None }
    }

    /// Those of that kind. The root, attributes and namespace nodes are nobody's children.
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

    /// Elements of that name, which is one of the document.
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
    fn fits(self, document: &Document, record: &Record) -> bool {
        record.b & self.mask == self.word
            && self.name.is_none_or(|name| document.names.get_qname(record.value()).name == name)
    }
}

/// The nodes below a node that look as they should, in document order.
#[derive(Debug, Clone)]
pub struct FilteredDescendants<'d> {
    document: &'d Document,
    sought: NodeFilter,
    looked: u64,
    way: Way<'d>,
}

#[derive(Debug, Clone)]
enum Way<'d> {
    /// From and up to these numbers.
    Array {
        at: u32,
        end: u32,
    },
    Tree(Descendants<'d>),
}

impl FilteredDescendants<'_> {
    /// How many nodes were looked at since this was asked last: the work done.
    #[inline]
    pub fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
    }
}

impl<'d> Iterator for FilteredDescendants<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let (document, sought) = (self.document, self.sought);
        match &mut self.way {
            Way::Array { at, end } => {
                let left = document.nodes.get(*at as usize..*end as usize)?;
                let passed = left.iter().position(|record| sought.fits(document, record));
                let passed = crate::names::number(passed.unwrap_or(left.len()));
                let found = at.saturating_add(passed);
                self.looked = self.looked.saturating_add(u64::from(passed)).saturating_add(1);
                *at = found.saturating_add(1);
                (found < *end).then(|| Node::new(document, found))
            }
            Way::Tree(all) => all.find(|node| {
                self.looked = self.looked.saturating_add(1);
                sought.fits(document, &node.record())
            }),
        }
    }
}

/// The children of a node that look as they should.
#[derive(Debug, Clone)]
pub struct FilteredChildren<'d> {
    document: &'d Document,
    sought: NodeFilter,
    looked: u64,
    next: u32,
}

impl FilteredChildren<'_> {
    /// How many nodes were looked at since this was asked last: the work done.
    #[inline]
    pub fn take_visited(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
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
            self.looked += 1;
            if self.sought.fits(self.document, &record) {
                return Some(Node::new(self.document, index));
            }
        }
        None
    }
}

impl<'d> Node<'d> {
    /// The nodes below that look like that. Quicker than to ask each of [`Node::descendants`].
    #[inline]
    #[must_use]
    pub fn filtered_descendants(self, sought: NodeFilter) -> FilteredDescendants<'d> {
        let way = match self.numbers_below() {
            Some((at, end)) => Way::Array { at, end },
            None => Way::Tree(self.descendants()),
        };
        FilteredDescendants { document: self.document(), sought, looked: 0, way }
    }

    /// The children that look like that.
    #[inline]
    #[must_use]
    pub fn filtered_children(self, sought: NodeFilter) -> FilteredChildren<'d> {
        let next = self.first_child().map_or(NONE, Node::index);
        FilteredChildren { document: self.document(), sought, looked: 0, next }
    }

    /// In a document whose numbers ascend in document order: those of the nodes below.
    fn numbers_below(self) -> Option<(u32, u32)> {
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
