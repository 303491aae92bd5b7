//! Attributes and namespace declarations of an element.

use super::chains::{ChainIndex, MANY, Of};
use super::{Edit, QNameRef};
use crate::chars;
use crate::document::{
    ATTRIBUTE, AttributeRecord, Document, NO_PARENT, NONE, NamespaceDeclaration, NodeId, Record,
    TAGGED, Tag,
};
use crate::error::ErrorKind;
use crate::names::{EMPTY, NameId, XML_NAMESPACE, XMLNS_NAMESPACE, number};

impl Document {
    /// Sets an attribute; a new one is added at the end.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`], [`ErrorKind::BadText`], [`ErrorKind::WrongKind`].
    pub fn set_attribute(
        &mut self,
        element: NodeId,
        name: QNameRef<'_>,
        value: &str,
    ) -> Edit<NodeId> {
        let owner = self.element_index(element)?;
        let qname = self.intern_attribute(name)?;
        let (start, len) = self.store(value)?;
        let wanted = self.names.get_qname(qname).name;
        let (last, same) = self.attribute_of(owner, wanted);
        if let Some(found) = self.attributes.get_mut(same as usize).filter(|_| same != NONE) {
            *found = AttributeRecord { qname, start, len, ..*found };
            self.value_changed(same, value);
            return Ok(self.id_of(same | ATTRIBUTE));
        }
        if self.attributes.is_empty() {
            self.attributes.push(AttributeRecord {
                owner: NO_PARENT,
                next: 0,
                qname: 0,
                start: 0,
                len: 0,
            });
        }
        let index = number(self.attributes.len());
        self.attributes.push(AttributeRecord { owner, next: NONE, qname, start, len });
        match self.attributes.get_mut(last as usize).filter(|_| last != NONE) {
            Some(before) => before.next = index,
            None => self.tag_of(owner).attribute = index,
        }
        if let Some(chains) = &mut self.chains {
            chains.add(Of::Attributes, owner, number(wanted.index()), index);
        }
        Ok(self.id_of(index | ATTRIBUTE))
    }

    /// The last attribute of an element, and the one with that name.
    fn attribute_of(&mut self, owner: u32, wanted: NameId) -> (u32, u32) {
        let name = number(wanted.index());
        let known = self.chains.as_ref();
        if let Some(found) = known.and_then(|chains| chains.find(Of::Attributes, owner, name)) {
            return found;
        }
        let (mut last, mut same, mut count) = (NONE, NONE, 0);
        for attribute in crate::Node::new(self, owner).attributes() {
            last = attribute.index() & !ATTRIBUTE;
            count += 1;
            if attribute.name() == wanted {
                same = last;
            }
        }
        if count >= MANY {
            let all = crate::Node::new(self, owner).attributes();
            let entry =
                |found: crate::Node<'_>| (number(found.name().index()), found.index() & !ATTRIBUTE);
            let chain = ChainIndex { last, by_name: all.map(entry).collect() };
            self.chains.get_or_insert_default().insert(Of::Attributes, owner, chain);
        }
        (last, same)
    }

    /// Removes an attribute; returns whether there was one.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKind`], [`ErrorKind::UnknownNode`].
    pub fn remove_attribute(
        &mut self,
        element: NodeId,
        namespace: &str,
        local: &str,
    ) -> Edit<bool> {
        let owner = self.element_index(element)?;
        let Some(name) = self.name_id(namespace, local) else { return Ok(false) };
        let mut all = crate::Node::new(self, owner).attributes();
        let found = all.find(|attribute| attribute.name() == name).map(crate::Node::index);
        if let Some(index) = found {
            self.unchain(index & !ATTRIBUTE);
        }
        Ok(found.is_some())
    }

    /// Declares a prefix (empty: the default namespace) on an element, or changes its declaration there.
    /// Names keep their namespaces; the writer adds the declarations that they need.
    ///
    /// # Errors
    /// [`ErrorKind::BadNamespaceDeclaration`] for reserved prefixes and namespaces, and an empty one with a prefix.
    pub fn declare_namespace(&mut self, element: NodeId, prefix: &str, uri: &str) -> Edit {
        let owner = self.element_index(element)?;
        let reserved = matches!(prefix, "xml" | "xmlns")
            || matches!(uri, XML_NAMESPACE | XMLNS_NAMESPACE)
            || (uri.is_empty() && !prefix.is_empty());
        if reserved || !(prefix.is_empty() || chars::is_ncname(prefix)) || !chars::is_text(uri) {
            return Err(ErrorKind::BadNamespaceDeclaration(prefix.to_owned()).into());
        }
        let (prefix, uri) = (self.names.symbol(prefix), self.names.symbol(uri));
        self.declare(owner, prefix, uri);
        Ok(())
    }

    pub(crate) fn declare(&mut self, owner: u32, prefix: u32, uri: u32) {
        self.indexes.declarations_changed();
        let (last, same) = self.declaration_of(owner, prefix);
        if let Some(found) = self.declarations.get_mut(same as usize).filter(|_| same != NONE) {
            found.uri = uri;
            return;
        }
        if self.declarations.is_empty() {
            self.declarations.push(NamespaceDeclaration { next: NONE, prefix: EMPTY, uri: EMPTY });
        }
        let index = number(self.declarations.len());
        self.declarations.push(NamespaceDeclaration { next: NONE, prefix, uri });
        match self.declarations.get_mut(last as usize).filter(|_| last != NONE) {
            Some(before) => before.next = index,
            None => self.tag_of(owner).declaration = index,
        }
        if let Some(chains) = &mut self.chains {
            chains.add(Of::Declarations, owner, prefix, index);
        }
    }

    /// The last declaration of an element, and the one for that prefix.
    fn declaration_of(&mut self, owner: u32, prefix: u32) -> (u32, u32) {
        let known = self.chains.as_ref();
        if let Some(found) = known.and_then(|chains| chains.find(Of::Declarations, owner, prefix)) {
            return found;
        }
        let first = self.tag(self.record(owner)).map_or(NONE, |tag| tag.declaration);
        let chain = || {
            let of = |at: u32| self.declarations.get(at as usize).filter(|_| at != NONE);
            std::iter::successors(of(first).map(|found| (first, found)), move |(_, found)| {
                of(found.next).map(|next| (found.next, next))
            })
        };
        let (mut last, mut same, mut count) = (NONE, NONE, 0);
        for (at, found) in chain() {
            last = at;
            count += 1;
            if found.prefix == prefix {
                same = at;
            }
        }
        if count >= MANY {
            let by_name = chain().map(|(at, found)| (found.prefix, at)).collect();
            let chain = ChainIndex { last, by_name };
            self.chains.get_or_insert_default().insert(Of::Declarations, owner, chain);
        }
        (last, same)
    }

    /// The element's tag, created if it has none.
    fn tag_of(&mut self, index: u32) -> &mut Tag {
        let new = number(self.tags.len());
        let mut slot = new;
        if let Some(record) = self.nodes.get_mut(index as usize) {
            if record.b & TAGGED != 0 {
                slot = record.a;
            } else {
                self.tags.push(Tag { at: record.a, attribute: NONE, declaration: NONE });
                *record = Record { a: new, b: record.b | TAGGED, ..*record };
            }
        }
        #[expect(clippy::indexing_slicing, reason = "the slot was found or pushed above")]
        &mut self.tags[slot as usize]
    }

    /// Drops the index of the element's attributes.
    pub(super) fn drop_attribute_index(&mut self, owner: u32) {
        if let Some(chains) = &mut self.chains {
            chains.remove(Of::Attributes, owner);
        }
    }

    pub(super) fn value_changed(&mut self, attribute: u32, value: &str) {
        if self.is_id(attribute) {
            self.indexes.id_changed(value, attribute);
        }
    }

    pub(super) fn unchain(&mut self, index: u32) {
        let Some(gone) = self.attribute(index) else { return };
        self.drop_attribute_index(gone.owner);
        let before = crate::Node::new(self, gone.owner)
            .attributes()
            .map(|attribute| attribute.index() & !ATTRIBUTE)
            .take_while(|&other| other != index)
            .last();
        match before.and_then(|before| self.attributes.get_mut(before as usize)) {
            Some(before) => before.next = gone.next,
            None => self.tag_of(gone.owner).attribute = gone.next,
        }
        if let Some(own) = self.attributes.get_mut(index as usize) {
            *own = AttributeRecord { owner: NO_PARENT, next: NONE, ..gone };
        }
        self.forget_id(index);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, QNameRef};

    #[test]
    fn each_chain_is_walked_once_even_if_elements_alternate() {
        const COUNT: usize = 500;
        let mut document = Document::parse(b"<e><f/></e>").unwrap();
        let outer = document.element().unwrap();
        let elements = [outer.id(), outer.first_child().unwrap().id()];
        for number in 0..COUNT {
            for element in elements {
                let name = format!("n{number}");
                document.set_attribute(element, QNameRef::local(&name), "v").unwrap();
                document.declare_namespace(element, &name, "u").unwrap();
                document.declare_namespace(element, &name, &name).unwrap();
            }
        }
        for element in elements {
            let node = document.node(element).unwrap();
            assert_eq!(node.attributes().count(), COUNT);
            let all: Vec<_> = node.declarations().collect();
            assert_eq!(all.len(), COUNT);
            assert!(all.iter().all(|(prefix, uri)| prefix == uri), "{all:?}");
        }
        assert_eq!(document.chains.map(|chains| chains.walks), Some(4));
    }
}
