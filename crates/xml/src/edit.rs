//! Changing a tree. All goes through [`NodeId`]s on `&mut Document`; what would break the tree is refused
//! and changes nothing.

use crate::chars;
use crate::document::{
    ATTRIBUTE, AttributeRecord, COMMENT, Declaration, Document, ELEMENT, Instruction, Links,
    NOBODY, NONE, NodeId, PI, Record, TAGGED, TEXT, Tag, VALUE_SHIFT,
};
use crate::names::{EMPTY, XML_NAMESPACE, XMLNS_NAMESPACE, number};
use crate::node::Kind;
use base::limits::XML_BYTES_CEILING;

/// A name for an element or attribute that is made: the prefix is a wish, which the writer replaces when
/// it is taken. Empty strings stand for no prefix and no namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QNameRef<'n> {
    pub prefix: &'n str,
    pub namespace: &'n str,
    pub local: &'n str,
}

impl<'n> QNameRef<'n> {
    /// A name in no namespace.
    #[must_use]
    pub fn local(local: &'n str) -> Self {
        Self { prefix: "", namespace: "", local }
    }

    #[must_use]
    pub fn new(prefix: &'n str, namespace: &'n str, local: &'n str) -> Self {
        Self { prefix, namespace, local }
    }

    pub(crate) fn is_good(self) -> bool {
        chars::is_ncname(self.local)
            && (self.prefix.is_empty() || chars::is_ncname(self.prefix))
            && (self.prefix == "xml") == (self.namespace == XML_NAMESPACE)
            && self.prefix != "xmlns"
            && self.namespace != XMLNS_NAMESPACE
            && (self.prefix.is_empty() || !self.namespace.is_empty())
    }
}

/// Why an edit was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("the node belongs to another document, or was removed")]
    StrangeNode,
    #[error("this can't be done with a node of kind {0:?}")]
    WrongKind(Kind),
    #[error("a node can't be put inside itself")]
    Cycle,
    #[error("the name isn't one that XML with namespaces allows")]
    BadName,
    #[error("the text holds characters that XML, or this kind of node, doesn't allow")]
    BadText,
    #[error("the document has grown to its limit")]
    TooLarge,
}

type Edit<T = ()> = Result<T, EditError>;

impl Document {
    /// Makes an element that stands nowhere yet; as the following three do.
    ///
    /// # Errors
    /// [`EditError::BadName`].
    pub fn create_element(&mut self, name: QNameRef<'_>) -> Edit<NodeId> {
        let qname = self.intern(name)?;
        self.create(u32::MAX, ELEMENT | (qname << VALUE_SHIFT))
    }

    /// # Errors
    /// [`EditError::BadText`].
    pub fn create_text(&mut self, text: &str) -> Edit<NodeId> {
        let (start, len) = self.keep(text)?;
        self.create(start, TEXT | (len << VALUE_SHIFT))
    }

    /// # Errors
    /// [`EditError::BadText`], also for `--` and a `-` at the end.
    pub fn create_comment(&mut self, text: &str) -> Edit<NodeId> {
        check_comment(text)?;
        let (start, len) = self.keep(text)?;
        self.create(start, COMMENT | (len << VALUE_SHIFT))
    }

    /// # Errors
    /// [`EditError::BadName`]; [`EditError::BadText`], also for `?>` in `data` and white space before it.
    pub fn create_pi(&mut self, target: &str, data: &str) -> Edit<NodeId> {
        check_instruction(target, data)?;
        let (start, len) = self.keep(data)?;
        let local = self.names.symbol(target);
        let name = self.names.name(EMPTY, local);
        let qname = self.names.qname(EMPTY, name);
        let index = number(self.instructions.len());
        self.instructions.push(Instruction { qname, start, len, at: u32::MAX });
        self.create(index, PI)
    }

    /// Makes `child` the last child of `parent`, wherever it stood before.
    ///
    /// # Errors
    /// [`EditError::Cycle`], [`EditError::WrongKind`] of either, [`EditError::StrangeNode`].
    pub fn append(&mut self, parent: NodeId, child: NodeId) -> Edit {
        let parent = self.holder(parent)?;
        let child = self.movable(child, parent)?;
        self.unlink(child);
        let last = self.link(parent).last;
        self.place_between(parent, last, NONE, child);
        Ok(())
    }

    /// Puts `child` in front of `before`.
    ///
    /// # Errors
    /// As [`Document::append`]; [`EditError::WrongKind`] when `before` stands nowhere.
    pub fn insert_before(&mut self, before: NodeId, child: NodeId) -> Edit {
        let before = self.index_of(before)?;
        let parent = self.record(before).parent;
        if before & ATTRIBUTE != 0 || parent == NOBODY {
            return Err(EditError::WrongKind(self.kind_of(before)));
        }
        let child = self.movable(child, parent)?;
        if child == before {
            return Ok(());
        }
        self.unlink(child);
        let previous = self.link(before).previous;
        self.place_between(parent, previous, before, child);
        Ok(())
    }

    /// Takes a node out of its place, with all below it; an attribute is removed for good.
    ///
    /// # Errors
    /// [`EditError::WrongKind`] of the root, [`EditError::StrangeNode`].
    pub fn detach(&mut self, node: NodeId) -> Edit {
        let index = self.index_of(node)?;
        if index & ATTRIBUTE != 0 {
            self.unchain(index & !ATTRIBUTE);
            return Ok(());
        }
        if index == 0 {
            return Err(EditError::WrongKind(Kind::Root));
        }
        self.order_is_lost();
        self.unlink(index);
        Ok(())
    }

    /// Puts `new` where `old` stands; `old` is detached.
    ///
    /// # Errors
    /// As [`Document::insert_before`].
    pub fn replace(&mut self, old: NodeId, new: NodeId) -> Edit {
        if old == new {
            return self.index_of(old).map(drop);
        }
        self.insert_before(old, new)?;
        self.detach(old)
    }

    /// Gives an element or attribute another name.
    ///
    /// # Errors
    /// [`EditError::BadName`], also when the element has such an attribute; [`EditError::WrongKind`].
    pub fn rename(&mut self, node: NodeId, name: QNameRef<'_>) -> Edit {
        let index = self.index_of(node)?;
        let kind = self.kind_of(index);
        match kind {
            Kind::Element => {
                let qname = self.intern(name)?;
                if let Some(record) = self.nodes.get_mut(index as usize) {
                    record.b = ELEMENT | (record.b & TAGGED) | (qname << VALUE_SHIFT);
                }
                Ok(())
            }
            Kind::Attribute => {
                let qname = self.intern_attribute(name)?;
                let wanted = self.names.get_qname(qname).name;
                let owner = self.node(node).and_then(crate::Node::parent);
                let mut others = owner.into_iter().flat_map(crate::Node::attributes);
                if others.any(|other| other.index() != index && other.name() == wanted) {
                    return Err(EditError::BadName);
                }
                if let Some(found) = self.attributes.get_mut((index & !ATTRIBUTE) as usize) {
                    found.qname = qname;
                }
                Ok(())
            }
            Kind::Root
            | Kind::Text
            | Kind::Comment
            | Kind::ProcessingInstruction
            | Kind::Namespace => Err(EditError::WrongKind(kind)),
        }
    }

    /// Sets or adds an attribute; a new one comes last.
    ///
    /// # Errors
    /// [`EditError::BadName`], [`EditError::BadText`], [`EditError::WrongKind`].
    pub fn set_attribute(
        &mut self,
        element: NodeId,
        name: QNameRef<'_>,
        value: &str,
    ) -> Edit<NodeId> {
        let owner = self.element_index(element)?;
        let qname = self.intern_attribute(name)?;
        let (start, len) = self.keep(value)?;
        let wanted = self.names.get_qname(qname).name;
        let node = crate::Node::new(self, owner);
        let (mut last, mut same) = (NONE, NONE);
        for attribute in node.attributes() {
            last = attribute.index() & !ATTRIBUTE;
            if attribute.name() == wanted {
                same = last;
            }
        }
        if let Some(found) = self.attributes.get_mut(same as usize).filter(|_| same != NONE) {
            *found = AttributeRecord { qname, start, len, ..*found };
            return Ok(self.id_of(same | ATTRIBUTE));
        }
        if self.attributes.is_empty() {
            self.attributes.push(AttributeRecord {
                owner: NOBODY,
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
        Ok(self.id_of(index | ATTRIBUTE))
    }

    /// Removes an attribute; whether there was one.
    ///
    /// # Errors
    /// [`EditError::WrongKind`], [`EditError::StrangeNode`].
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

    /// Sets the text of a text, comment, processing instruction or attribute.
    ///
    /// # Errors
    /// [`EditError::BadText`], [`EditError::WrongKind`], [`EditError::StrangeNode`].
    pub fn set_text(&mut self, node: NodeId, text: &str) -> Edit {
        let index = self.index_of(node)?;
        let kind = self.kind_of(index);
        match kind {
            Kind::Comment => check_comment(text)?,
            Kind::ProcessingInstruction => check_instruction("t", text)?,
            Kind::Text | Kind::Attribute => {}
            Kind::Root | Kind::Element | Kind::Namespace => return Err(EditError::WrongKind(kind)),
        }
        let (start, len) = self.keep(text)?;
        if index & ATTRIBUTE != 0 {
            if let Some(found) = self.attributes.get_mut((index & !ATTRIBUTE) as usize) {
                *found = AttributeRecord { start, len, ..*found };
            }
            return Ok(());
        }
        let record = self.record(index);
        if kind == Kind::ProcessingInstruction {
            if let Some(found) = self.instructions.get_mut(record.a as usize) {
                *found = Instruction { start, len, ..*found };
            }
        } else if let Some(found) = self.nodes.get_mut(index as usize) {
            *found = Record { a: start, b: record.kind() | (len << VALUE_SHIFT), ..record };
        }
        Ok(())
    }

    /// Declares a prefix (empty: the default namespace) on an element, or changes its declaration there.
    /// Names keep their namespaces; the writer declares what they need anyway.
    ///
    /// # Errors
    /// [`EditError::BadName`] for reserved prefixes and namespaces, and an empty one with a prefix.
    pub fn declare_namespace(&mut self, element: NodeId, prefix: &str, uri: &str) -> Edit {
        let owner = self.element_index(element)?;
        let reserved = matches!(prefix, "xml" | "xmlns")
            || matches!(uri, XML_NAMESPACE | XMLNS_NAMESPACE)
            || (uri.is_empty() && !prefix.is_empty());
        if reserved || !(prefix.is_empty() || chars::is_ncname(prefix)) || !chars::is_text(uri) {
            return Err(EditError::BadName);
        }
        let (prefix, uri) = (self.names.symbol(prefix), self.names.symbol(uri));
        self.declare(owner, prefix, uri);
        Ok(())
    }

    pub(crate) fn declare(&mut self, owner: u32, prefix: u32, uri: u32) {
        let mut at = self.tag(self.record(owner)).map_or(NONE, |tag| tag.declaration);
        let mut last = NONE;
        while let Some(found) = self.declarations.get_mut(at as usize).filter(|_| at != NONE) {
            if found.prefix == prefix {
                found.uri = uri;
                return;
            }
            last = at;
            at = found.next;
        }
        if self.declarations.is_empty() {
            self.declarations.push(Declaration { next: NONE, prefix: EMPTY, uri: EMPTY });
        }
        let index = number(self.declarations.len());
        self.declarations.push(Declaration { next: NONE, prefix, uri });
        match self.declarations.get_mut(last as usize).filter(|_| last != NONE) {
            Some(before) => before.next = index,
            None => self.tag_of(owner).declaration = index,
        }
    }

    // What the above is made of.

    pub(crate) fn id_of(&self, index: u32) -> NodeId {
        NodeId { index, serial: self.serial }
    }

    fn index_of(&self, id: NodeId) -> Edit<u32> {
        self.node(id).map(crate::Node::index).ok_or(EditError::StrangeNode)
    }

    fn kind_of(&self, index: u32) -> Kind {
        crate::Node::new(self, index).kind()
    }

    fn element_index(&self, id: NodeId) -> Edit<u32> {
        let index = self.index_of(id)?;
        let kind = self.kind_of(index);
        if kind == Kind::Element { Ok(index) } else { Err(EditError::WrongKind(kind)) }
    }

    fn holder(&self, id: NodeId) -> Edit<u32> {
        let index = self.index_of(id)?;
        let kind = self.kind_of(index);
        let holds = matches!(kind, Kind::Element | Kind::Root);
        if holds { Ok(index) } else { Err(EditError::WrongKind(kind)) }
    }

    /// The node to be put below `parent`.
    fn movable(&mut self, id: NodeId, parent: u32) -> Edit<u32> {
        let index = self.index_of(id)?;
        if index == 0 || index & ATTRIBUTE != 0 {
            return Err(EditError::WrongKind(self.kind_of(index)));
        }
        let mut above = parent;
        while above != NOBODY {
            if above == index {
                return Err(EditError::Cycle);
            }
            above = self.record(above).parent;
        }
        self.order_is_lost();
        Ok(index)
    }

    pub(crate) fn intern(&mut self, name: QNameRef<'_>) -> Edit<u32> {
        if !name.is_good() {
            return Err(EditError::BadName);
        }
        let (uri, local) = (self.names.symbol(name.namespace), self.names.symbol(name.local));
        let prefix = self.names.symbol(name.prefix);
        let id = self.names.name(uri, local);
        Ok(self.names.qname(prefix, id))
    }

    pub(crate) fn intern_attribute(&mut self, name: QNameRef<'_>) -> Edit<u32> {
        if name.prefix.is_empty() && name.namespace.is_empty() && name.local == "xmlns" {
            return Err(EditError::BadName);
        }
        self.intern(name)
    }

    /// Takes up text; where it lies, and its length.
    pub(crate) fn keep(&mut self, text: &str) -> Edit<(u32, u32)> {
        if !chars::is_text(text) {
            return Err(EditError::BadText);
        }
        self.keep_checked(text)
    }

    pub(crate) fn keep_checked(&mut self, text: &str) -> Edit<(u32, u32)> {
        let start = self.text.len();
        let end = start.saturating_add(text.len());
        if text.len() > XML_BYTES_CEILING as usize || end >= u32::MAX as usize {
            return Err(EditError::TooLarge);
        }
        if self.spills.last().is_none_or(|(_, place)| *place != u32::MAX) {
            self.spills.push((number(start), u32::MAX));
        }
        self.text.push_str(text);
        Ok((number(start), number(text.len())))
    }

    pub(crate) fn create(&mut self, a: u32, b: u32) -> Edit<NodeId> {
        let index = number(self.nodes.len());
        if index >= ATTRIBUTE - 1 {
            return Err(EditError::TooLarge);
        }
        self.order_is_lost();
        self.nodes.push(Record { parent: NOBODY, next: NONE, a, b });
        if let Some(links) = &mut self.links {
            links.push(Links::default());
        }
        Ok(self.id_of(index))
    }

    /// Makes the links that the order of numbers stood for so far.
    fn order_is_lost(&mut self) {
        if self.links.is_some() {
            return;
        }
        let mut links = vec![Links::default(); self.nodes.len()];
        for (index, record) in (0u32..).zip(&self.nodes).skip(1) {
            let Some(parent) = links.get_mut(record.parent as usize) else { continue };
            if parent.first == NONE {
                parent.first = index;
            }
            let previous = std::mem::replace(&mut parent.last, index);
            if let Some(own) = links.get_mut(index as usize) {
                own.previous = previous;
            }
        }
        self.links = Some(links);
    }

    fn link(&self, index: u32) -> Links {
        let links = self.links.as_ref().and_then(|links| links.get(index as usize));
        links.copied().unwrap_or_default()
    }

    fn change_link(&mut self, index: u32, change: impl FnOnce(&mut Links)) {
        if let Some(found) = self.links.as_mut().and_then(|links| links.get_mut(index as usize)) {
            change(found);
        }
    }

    /// Appends what was just created, so that nothing needs checking.
    pub(crate) fn append_new(&mut self, parent: NodeId, child: NodeId) {
        let last = self.link(parent.index).last;
        self.place_between(parent.index, last, NONE, child.index);
    }

    fn set_next(&mut self, index: u32, next: u32) {
        if let Some(record) = self.nodes.get_mut(index as usize) {
            record.next = next;
        }
    }

    fn unlink(&mut self, index: u32) {
        let record = self.record(index);
        let previous = self.link(index).previous;
        match previous {
            NONE => self.change_link(record.parent, |links| links.first = record.next),
            before => self.set_next(before, record.next),
        }
        match record.next {
            NONE => self.change_link(record.parent, |links| links.last = previous),
            after => self.change_link(after, |links| links.previous = previous),
        }
        if let Some(own) = self.nodes.get_mut(index as usize) {
            *own = Record { parent: NOBODY, next: NONE, ..record };
        }
        self.change_link(index, |links| links.previous = NONE);
    }

    fn place_between(&mut self, parent: u32, previous: u32, next: u32, index: u32) {
        match previous {
            NONE => self.change_link(parent, |links| links.first = index),
            before => self.set_next(before, index),
        }
        match next {
            NONE => self.change_link(parent, |links| links.last = index),
            after => self.change_link(after, |links| links.previous = index),
        }
        self.change_link(index, |links| links.previous = previous);
        if let Some(own) = self.nodes.get_mut(index as usize) {
            *own = Record { parent, next, ..*own };
        }
    }

    /// The element's tag, made if it has none.
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
        #[expect(clippy::indexing_slicing, reason = "the slot was looked up or pushed just now")]
        &mut self.tags[slot as usize]
    }

    fn unchain(&mut self, index: u32) {
        let Some(gone) = self.attribute(index) else { return };
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
            *own = AttributeRecord { owner: NOBODY, next: NONE, ..gone };
        }
        let value = self.slice(gone.start, gone.len);
        if self.ids.get(value) == Some(&gone.owner) {
            let value = value.to_owned();
            self.ids.remove(value.as_str());
        }
    }
}

pub(crate) fn check_comment(text: &str) -> Edit {
    if text.contains("--") || text.ends_with('-') { Err(EditError::BadText) } else { Ok(()) }
}

pub(crate) fn check_instruction(target: &str, data: &str) -> Edit {
    if !chars::is_ncname(target) || target.eq_ignore_ascii_case("xml") {
        return Err(EditError::BadName);
    }
    if data.contains("?>") || data.starts_with([' ', '\t', '\n', '\r']) {
        return Err(EditError::BadText);
    }
    Ok(())
}
