//! Copies a document without some of its nodes, or an element as a document of its own.

use crate::build::Tree;
use crate::document::{Document, NO_PARENT, NONE, ROOT, Record, next_serial};
use crate::index::Indexes;
use crate::names::{EMPTY, XML, number};
use crate::node::Node;

impl Document {
    /// Copies the document without the nodes for which `omits` returns true, and everything below them. It is
    /// called in document order. The copy keeps positions, base URI, unparsed entities and ids.
    #[must_use]
    pub fn pruned<'d>(&'d self, omits: impl FnMut(Node<'d>) -> bool) -> Self {
        self.copied(self.root(), omits)
    }

    /// Everything at and below `top`, the root or an element.
    fn copied<'d>(&'d self, top: Node<'d>, mut omits: impl FnMut(Node<'d>) -> bool) -> Self {
        let mut tree = Tree::copying(self);
        // The new index of each old one.
        let mut numbers = vec![NO_PARENT; self.nodes.len()];
        let sibling = |node: Node<'d>| if node == top { None } else { node.next_sibling() };
        let mut at = top;
        let mut next = if top.is_element() { Some(top) } else { top.first_child() };
        loop {
            while let Some(node) = next {
                at = node;
                next = None;
                if !omits(node) {
                    let record = self.record(node.index());
                    let number = tree.push(record.a, record.b);
                    if let Some(slot) = numbers.get_mut(node.index() as usize) {
                        *slot = number;
                    }
                    if node.is_element() {
                        tree.enter();
                        next = node.first_child();
                        if next.is_none() {
                            tree.leave();
                        }
                    }
                }
                next = next.or_else(|| sibling(node));
            }
            match at.parent().filter(|parent| at != top && parent.is_element()) {
                Some(parent) => {
                    tree.leave();
                    at = parent;
                    next = sibling(parent);
                }
                None => break,
            }
        }
        let mut copy = tree.document;
        let number = |old: u32| numbers.get(old as usize).copied().unwrap_or(NO_PARENT);
        for attribute in &mut copy.attributes {
            attribute.owner = number(attribute.owner);
        }
        copy.nodes.shrink_to_fit();
        copy
    }
}

impl Document {
    /// Copies the element `top` and everything below it, in a document in order, where these nodes are adjacent.
    fn slice_of(&self, top: u32) -> Self {
        let end = self.end(top);
        // The root precedes them.
        let shift = top.wrapping_sub(1);
        let all = self.nodes.get(top as usize..end as usize).unwrap_or(&[]);
        let mut nodes = Vec::with_capacity(all.len().saturating_add(1));
        nodes.push(Self::NOTHING);
        nodes.extend_from_slice(all);
        for record in nodes.iter_mut().skip(1) {
            record.parent = record.parent.wrapping_sub(shift);
            // No sibling precedes `top`, so NONE is unchanged.
            record.next = record.next.saturating_sub(shift);
        }
        if let Some(first) = nodes.get_mut(1) {
            (first.parent, first.next) = (ROOT, NONE);
        }
        let mut copy = self.with_nodes(nodes);
        let is_copied = |owner: &u32| (top..end).contains(owner);
        for attribute in &mut copy.attributes {
            let owner = Some(attribute.owner).filter(is_copied);
            attribute.owner = owner.map_or(NO_PARENT, |owner| owner.wrapping_sub(shift));
        }
        copy
    }

    /// A copy with other nodes; references to nodes by number are unchanged.
    pub(crate) fn with_nodes(&self, nodes: Vec<Record>) -> Self {
        Self {
            serial: next_serial(),
            text: self.text.clone(),
            source_len: self.source_len,
            is_whole: false,
            nodes,
            attributes: self.attributes.clone(),
            tags: self.tags.clone(),
            declarations: self.declarations.clone(),
            instructions: self.instructions.clone(),
            names: self.names.clone(),
            origins: self.origins.clone(),
            links: None,
            declared: self.declared.clone(),
            chains: None,
            base: self.base.clone(),
            indexes: Indexes::default(),
        }
    }
}

impl<'d> Node<'d> {
    /// Whether at least half of a document that is in order is at or below this element: then [`Node::to_document`] is
    /// cheap.
    #[must_use]
    pub fn is_most_of_document(self) -> bool {
        let document = self.document();
        let below = || document.end(self.index()).saturating_sub(self.index());
        self.is_element()
            && document.is_in_order()
            && below().saturating_mul(2) >= number(document.nodes.len())
    }

    /// A copy of an element and everything below it as a document of its own, with the namespaces in scope. It has all
    /// of the document's text and names: for a small part of a large one, [`crate::copy_subtree`] is better.
    #[must_use]
    pub fn to_document(self) -> Document {
        let document = self.document();
        let mut copy = if document.is_in_order() && self.is_element() {
            document.slice_of(self.index())
        } else {
            document.copied(self, |_| false)
        };
        // The names of the copy have the same numbers. The element's own declarations are kept, and come first in its
        // scope.
        let mut own = document.declarations_of(self.record()).filter(|(_, uri)| *uri != EMPTY);
        let mut next = own.next();
        for binding in document.scope(self).bindings() {
            if next == Some(*binding) {
                next = own.next();
            } else if binding.0 != XML {
                copy.declare(1, binding.0, binding.1);
            }
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use crate::{Doctype, Document, Kind, Options, QNameRef, WriterOptions};

    const TEXT: &str = "<!DOCTYPE a [<!ATTLIST b i ID #IMPLIED><!NOTATION n SYSTEM 'n'><!ENTITY u SYSTEM 's' NDATA n>\
                        <!ENTITY e ' <c/> '>]><!--x-->\n<a xmlns:p='u'> <b i='one' p:y='&lt;'> <b i='two'/>t </b>&e;\
                        <?p q?> <d> <b i='three'/></d></a>";

    fn read() -> Document {
        let base_uri = Some("file:a".to_owned());
        let options = Options { doctype: Doctype::Read, base_uri, ..Options::default() };
        Document::parse_with(TEXT.as_bytes(), &options).unwrap()
    }

    fn written(document: &Document) -> String {
        String::from_utf8(document.write(WriterOptions::default()).unwrap()).unwrap()
    }

    #[test]
    fn the_omitted_nodes_are_missing_and_no_others() {
        let document = read();
        let copy = document.pruned(|node| {
            let is_space = node.kind() == Kind::Text && node.text().trim().is_empty();
            is_space || node.local_name() == "d"
        });
        let expected = "<!--x--><a xmlns:p=\"u\"><b i=\"one\" p:y=\"&lt;\"><b i=\"two\"/>t </b><c/><?p q?></a>";
        assert!(written(&copy).ends_with(expected), "{}", written(&copy));
        assert_eq!(written(&document.pruned(|_| false)), written(&document));
        assert_eq!(copy.base_uri(), Some("file:a"));
        assert_eq!(copy.unparsed_entity("u"), Some("s"));
        for id in ["one", "two", "three"] {
            let place = |document: &Document| {
                document
                    .element_by_id(id)
                    .map(|node| (node.position(), node.string_value().into_owned()))
            };
            let own =
                place(&document).map(|(position, value)| (position, value.trim_start().to_owned()));
            assert_eq!(place(&copy), own.filter(|_| id != "three"), "{id}");
        }
        let attribute = copy.element_by_id("one").unwrap().attributes().next().unwrap();
        assert_eq!(
            attribute.parent().map(|owner| owner.position()),
            Some(copy.element_by_id("one").unwrap().position())
        );
    }

    #[test]
    fn an_element_is_copied_with_the_namespaces_in_scope() {
        let text = "<e xmlns='d' xmlns:p='u' xmlns:q='v'>x<a p:y='1' xmlns:p='w'><b i='2'/> t<!--c--><c><d/></c></a></e>";
        let document = Document::parse(text.as_bytes()).unwrap();
        let top = document.element().unwrap().children().last().unwrap();
        let copy = top.to_document();
        let expected = "<a xmlns:p=\"w\" xmlns=\"d\" xmlns:q=\"v\" p:y=\"1\"><b i=\"2\"/> t<!--c--><c><d/></c></a>";
        assert!(written(&copy).ends_with(expected), "{}", written(&copy));
        let (element, b) = (copy.element().unwrap(), top.first_child().unwrap());
        assert!(copy.is_in_order() && element.parent() == Some(copy.root()));
        assert_eq!(element.next_sibling(), None);
        assert_eq!(element.first_child().unwrap().position(), b.position());
        let parts = |node: crate::Node<'_>| node.descendants().count();
        assert_eq!((parts(element), element.attributes().count()), (parts(top), 1));
        assert_eq!(
            written(&b.to_document()),
            written(&element.first_child().unwrap().to_document())
        );
        assert!(top.is_most_of_document() && !b.is_most_of_document());
    }

    #[test]
    fn an_edited_document_is_copied_in_its_order() {
        let mut document = read();
        let root = document.element().unwrap();
        let (root, last) = (root.id(), root.last_child().unwrap().id());
        let first = document.node(root).unwrap().first_child().unwrap().id();
        document.insert_before(first, last).unwrap();
        document.set_attribute(last, QNameRef::local("x"), "1").unwrap();
        let copy = document.pruned(|node| node.kind() == Kind::Comment);
        assert!(copy.is_in_order());
        assert_eq!(written(&copy), written(&document).replace("<!--x-->", ""));
        assert_eq!(copy.element_by_id("three").map(|node| node.local_name()), Some("b"));
    }
}
