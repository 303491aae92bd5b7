//! Copies a document without some of its nodes.

use crate::build::Tree;
use crate::document::{Document, NO_PARENT};
use crate::node::Node;

impl Document {
    /// Copies the document without the nodes for which `omits` returns true, and everything below them. It is
    /// called in document order. The copy keeps positions, base URI, unparsed entities and ids.
    #[must_use]
    pub fn pruned<'d>(&'d self, mut omits: impl FnMut(Node<'d>) -> bool) -> Self {
        let mut tree = Tree::copying(self);
        // New indexes by the old ones.
        let mut numbers = vec![NO_PARENT; self.nodes.len()];
        let mut at = self.root();
        let mut next = at.first_child();
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
                        tree.enter(number);
                        next = node.first_child();
                        if next.is_none() {
                            tree.leave();
                        }
                    }
                }
                next = next.or_else(|| node.next_sibling());
            }
            match at.parent().filter(|parent| parent.is_element()) {
                Some(parent) => {
                    tree.leave();
                    at = parent;
                    next = parent.next_sibling();
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
