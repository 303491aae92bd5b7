//! Elements of one name, by number alone: the array of a document as it was read is looked through without
//! climbing, and a name that is always written with the same prefix is one word of a node.

use crate::document::{Document, ELEMENT, NONE, Record, TAGGED, VALUE_SHIFT};
use crate::names::NameId;
use crate::node::{Descendants, Node};

/// What an element of the name looks like.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    /// All of its second word but [`TAGGED`].
    Word(u32),
    /// Written with several prefixes.
    Name(NameId),
}

impl Wanted {
    fn of(document: &Document, name: NameId) -> Self {
        match document.names.sole_qname(name) {
            Some(qname) => Self::Word(ELEMENT | (qname << VALUE_SHIFT)),
            None => Self::Name(name),
        }
    }

    #[inline]
    fn fits(self, document: &Document, record: &Record) -> bool {
        match self {
            Self::Word(word) => record.b & !TAGGED == word,
            Self::Name(name) => {
                record.kind() == ELEMENT && document.names.get_qname(record.value()).name == name
            }
        }
    }
}

/// The elements below a node that have a name, in document order.
#[derive(Debug, Clone)]
pub struct NamedDescendants<'d> {
    document: &'d Document,
    wanted: Wanted,
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

impl NamedDescendants<'_> {
    /// How many nodes were looked at since this was asked last: the work done.
    pub fn looked(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
    }
}

impl<'d> Iterator for NamedDescendants<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        let (document, wanted) = (self.document, self.wanted);
        match &mut self.way {
            Way::Array { at, end } => {
                let left = document.nodes.get(*at as usize..*end as usize)?;
                let passed = left.iter().position(|record| wanted.fits(document, record));
                let passed = crate::names::number(passed.unwrap_or(left.len()));
                let found = at.saturating_add(passed);
                self.looked = self.looked.saturating_add(u64::from(passed)).saturating_add(1);
                *at = found.saturating_add(1);
                (found < *end).then(|| Node::new(document, found))
            }
            Way::Tree(all) => all.find(|node| {
                self.looked = self.looked.saturating_add(1);
                wanted.fits(document, &node.record())
            }),
        }
    }
}

/// The children of a node that are elements of a name.
#[derive(Debug, Clone)]
pub struct NamedChildren<'d> {
    document: &'d Document,
    wanted: Wanted,
    looked: u64,
    next: u32,
}

impl NamedChildren<'_> {
    /// How many nodes were looked at since this was asked last: the work done.
    pub fn looked(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
    }
}

impl<'d> Iterator for NamedChildren<'d> {
    type Item = Node<'d>;

    #[inline]
    fn next(&mut self) -> Option<Node<'d>> {
        while self.next != NONE {
            let index = self.next;
            let record = self.document.record(index);
            self.next = record.next;
            self.looked = self.looked.saturating_add(1);
            if self.wanted.fits(self.document, &record) {
                return Some(Node::new(self.document, index));
            }
        }
        None
    }
}

impl<'d> Node<'d> {
    /// The elements below of that name, which is one of this document. Quicker than to ask each of
    /// [`Node::descendants`] for its name.
    #[must_use]
    pub fn named_descendants(self, name: NameId) -> NamedDescendants<'d> {
        let document = self.document();
        let way = match self.numbers_below() {
            Some((at, end)) => Way::Array { at, end },
            None => Way::Tree(self.descendants()),
        };
        NamedDescendants { document, wanted: Wanted::of(document, name), looked: 0, way }
    }

    /// The children that are elements of that name, which is one of this document.
    #[must_use]
    pub fn named_children(self, name: NameId) -> NamedChildren<'d> {
        let document = self.document();
        let next = self.first_child().map_or(NONE, Node::index);
        NamedChildren { document, wanted: Wanted::of(document, name), looked: 0, next }
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
