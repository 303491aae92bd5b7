//! Editing a tree, through [`NodeId`]s on `&mut Document`. An edit that would break the tree is rejected and
//! changes nothing.

mod attributes;
mod chains;

use crate::chars;
use crate::document::{
    ATTRIBUTE, AttributeRecord, COMMENT, Document, ELEMENT, Instruction, Links, NO_PARENT, NONE,
    NodeId, PI, Record, TAGGED, TEXT, VALUE_SHIFT,
};
use crate::error::{Error, ErrorKind};
use crate::limits::XML_BYTES_CEILING;
use crate::names::{EMPTY, XML_NAMESPACE, XMLNS_NAMESPACE, number};
use crate::node::{Kind, Node};

pub(crate) use chains::ChainIndexes;

/// The name of a new element or attribute. The prefix is a preference: the writer replaces it if it is bound to
/// another namespace. Empty strings stand for no prefix and no namespace.
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

    pub(crate) fn is_valid(self) -> bool {
        chars::is_ncname(self.local)
            && (self.prefix.is_empty() || chars::is_ncname(self.prefix))
            && (self.prefix == "xml") == (self.namespace == XML_NAMESPACE)
            && self.prefix != "xmlns"
            && self.namespace != XMLNS_NAMESPACE
            && (self.prefix.is_empty() || !self.namespace.is_empty())
    }
}

type Edit<T = ()> = Result<T, Error>;

impl Document {
    /// Creates a detached element.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`].
    pub fn create_element(&mut self, name: QNameRef<'_>) -> Edit<NodeId> {
        let qname = self.intern(name)?;
        self.create(u32::MAX, ELEMENT | (qname << VALUE_SHIFT))
    }

    /// Creates a detached text.
    ///
    /// # Errors
    /// [`ErrorKind::BadText`].
    pub fn create_text(&mut self, text: &str) -> Edit<NodeId> {
        let (start, len) = self.store(text)?;
        self.create(start, TEXT | (len << VALUE_SHIFT))
    }

    /// Creates a detached comment.
    ///
    /// # Errors
    /// [`ErrorKind::BadText`], also for `--` and a `-` at the end.
    pub fn create_comment(&mut self, text: &str) -> Edit<NodeId> {
        check_comment(text)?;
        let (start, len) = self.store(text)?;
        self.create(start, COMMENT | (len << VALUE_SHIFT))
    }

    /// Creates a detached processing instruction.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`]; [`ErrorKind::BadText`], also for `?>` in `data` and white space before it.
    pub fn create_processing_instruction(&mut self, target: &str, data: &str) -> Edit<NodeId> {
        check_instruction(target, data)?;
        let (start, len) = self.store(data)?;
        let local = self.names.symbol(target);
        let name = self.names.name(EMPTY, local);
        let qname = self.names.qname(EMPTY, name);
        let index = number(self.instructions.len());
        self.instructions.push(Instruction { qname, start, len, at: u32::MAX });
        self.create(index, PI)
    }

    /// Moves `child` to the end of `parent`'s children.
    ///
    /// # Errors
    /// [`ErrorKind::Cycle`], [`ErrorKind::WrongKind`] of either, [`ErrorKind::UnknownNode`].
    pub fn append(&mut self, parent: NodeId, child: NodeId) -> Edit {
        let parent = self.holder(parent)?;
        let child = self.movable(child, parent)?;
        self.unlink(child);
        let last = self.link(parent).last;
        self.place_between(parent, last, NONE, child);
        Ok(())
    }

    /// Moves `child` before `before`.
    ///
    /// # Errors
    /// As [`Document::append`]; [`ErrorKind::WrongKind`] if `before` is detached.
    pub fn insert_before(&mut self, before: NodeId, child: NodeId) -> Edit {
        let before = self.index_of(before)?;
        let parent = self.record(before).parent;
        if before & ATTRIBUTE != 0 || parent == NO_PARENT {
            return Err(ErrorKind::WrongKind(self.kind_of(before)).into());
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

    /// Moves `child` behind `after`.
    ///
    /// # Errors
    /// As [`Document::insert_before`].
    pub fn insert_after(&mut self, after: NodeId, child: NodeId) -> Edit {
        let index = self.index_of(after)?;
        if index & ATTRIBUTE == 0 && after != child {
            self.create_links();
            if let Some(next) = self.node(after).and_then(Node::next_sibling).map(Node::id) {
                // It is behind `after` already.
                return if next == child { Ok(()) } else { self.insert_before(next, child) };
            }
            if let Some(parent) = self.node(after).and_then(Node::parent).map(Node::id) {
                return self.append(parent, child);
            }
        }
        if after == child { Ok(()) } else { Err(ErrorKind::WrongKind(self.kind_of(index)).into()) }
    }

    /// Moves `around` to the place of `child`, and `child` to the end of its children.
    ///
    /// # Errors
    /// As [`Document::insert_before`] and [`Document::append`].
    pub fn wrap(&mut self, child: NodeId, around: NodeId) -> Edit {
        self.insert_before(child, around)?;
        self.append(around, child)
    }

    /// Detaches the children of `parent`, and moves `new` there.
    ///
    /// # Errors
    /// As [`Document::append`].
    pub fn replace_children(&mut self, parent: NodeId, new: &[NodeId]) -> Edit {
        let old = self.node(parent).into_iter().flat_map(Node::children);
        for child in old.map(Node::id).collect::<Vec<_>>() {
            self.detach(child)?;
        }
        new.iter().try_for_each(|child| self.append(parent, *child))
    }

    /// Detaches a node with everything below it; an attribute is removed.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKind`] of the root, [`ErrorKind::UnknownNode`].
    pub fn detach(&mut self, node: NodeId) -> Edit {
        let index = self.index_of(node)?;
        if index & ATTRIBUTE != 0 {
            self.unchain(index & !ATTRIBUTE);
            return Ok(());
        }
        if index == 0 {
            return Err(ErrorKind::WrongKind(Kind::Root).into());
        }
        self.create_links();
        self.unlink(index);
        Ok(())
    }

    /// Replaces `old` with `new`; `old` is detached.
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

    /// Renames an element or attribute.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`]; [`ErrorKind::DuplicateAttribute`]; [`ErrorKind::WrongKind`].
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
                let owner = self.node(node).and_then(Node::parent);
                let mut others = owner.into_iter().flat_map(Node::attributes);
                if others.any(|other| other.index() != index && other.name() == wanted) {
                    return Err(ErrorKind::DuplicateAttribute(name.local.to_owned()).into());
                }
                if let Some(found) = self.attributes.get_mut((index & !ATTRIBUTE) as usize) {
                    found.qname = qname;
                }
                self.forget_id(index & !ATTRIBUTE);
                if let Some(owner) = self.attribute(index).map(|found| found.owner) {
                    self.drop_attribute_index(owner);
                }
                Ok(())
            }
            Kind::Root
            | Kind::Text
            | Kind::Comment
            | Kind::ProcessingInstruction
            | Kind::Namespace => Err(ErrorKind::WrongKind(kind).into()),
        }
    }

    /// Sets the text of a text node, comment, processing instruction or attribute.
    ///
    /// # Errors
    /// [`ErrorKind::BadText`], [`ErrorKind::WrongKind`], [`ErrorKind::UnknownNode`].
    pub fn set_text(&mut self, node: NodeId, text: &str) -> Edit {
        let index = self.index_of(node)?;
        let kind = self.kind_of(index);
        match kind {
            Kind::Comment => check_comment(text)?,
            Kind::ProcessingInstruction => check_instruction("t", text)?,
            Kind::Text | Kind::Attribute => {}
            Kind::Root | Kind::Element | Kind::Namespace => {
                return Err(ErrorKind::WrongKind(kind).into());
            }
        }
        let (start, len) = self.store(text)?;
        if index & ATTRIBUTE != 0 {
            if let Some(found) = self.attributes.get_mut((index & !ATTRIBUTE) as usize) {
                *found = AttributeRecord { start, len, ..*found };
            }
            self.value_changed(index & !ATTRIBUTE, text);
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

    pub(crate) fn id_of(&self, index: u32) -> NodeId {
        NodeId { index, serial: self.serial }
    }

    /// Every edit of a node of the tree begins here.
    fn index_of(&mut self, id: NodeId) -> Edit<u32> {
        self.is_whole = false;
        self.node(id).map(Node::index).ok_or_else(|| ErrorKind::UnknownNode.into())
    }

    fn kind_of(&self, index: u32) -> Kind {
        Node::new(self, index).kind()
    }

    fn element_index(&mut self, id: NodeId) -> Edit<u32> {
        let index = self.index_of(id)?;
        let kind = self.kind_of(index);
        if kind == Kind::Element { Ok(index) } else { Err(ErrorKind::WrongKind(kind).into()) }
    }

    fn holder(&mut self, id: NodeId) -> Edit<u32> {
        let index = self.index_of(id)?;
        let kind = self.kind_of(index);
        let holds = matches!(kind, Kind::Element | Kind::Root);
        if holds { Ok(index) } else { Err(ErrorKind::WrongKind(kind).into()) }
    }

    /// Checks that the node can be moved into `parent`.
    fn movable(&mut self, id: NodeId, parent: u32) -> Edit<u32> {
        let index = self.index_of(id)?;
        if index == 0 || index & ATTRIBUTE != 0 {
            return Err(ErrorKind::WrongKind(self.kind_of(index)).into());
        }
        let mut above = parent;
        while above != NO_PARENT {
            if above == index {
                return Err(ErrorKind::Cycle.into());
            }
            above = self.record(above).parent;
        }
        self.create_links();
        Ok(index)
    }

    pub(crate) fn intern(&mut self, name: QNameRef<'_>) -> Edit<u32> {
        if !name.is_valid() {
            return Err(ErrorKind::BadName(name.local.to_owned()).into());
        }
        let (uri, local) = (self.names.symbol(name.namespace), self.names.symbol(name.local));
        let prefix = self.names.symbol(name.prefix);
        let id = self.names.name(uri, local);
        Ok(self.names.qname(prefix, id))
    }

    pub(crate) fn intern_attribute(&mut self, name: QNameRef<'_>) -> Edit<u32> {
        if name.prefix.is_empty() && name.namespace.is_empty() && name.local == "xmlns" {
            return Err(ErrorKind::BadName(name.local.to_owned()).into());
        }
        self.intern(name)
    }

    /// Stores text; returns its start and length.
    pub(crate) fn store(&mut self, text: &str) -> Edit<(u32, u32)> {
        if !chars::is_text(text) {
            return Err(ErrorKind::BadText.into());
        }
        self.store_checked(text)
    }

    pub(crate) fn store_checked(&mut self, text: &str) -> Edit<(u32, u32)> {
        let start = self.text.len();
        let end = start.saturating_add(text.len());
        if text.len() > XML_BYTES_CEILING as usize || end >= u32::MAX as usize {
            return Err(ErrorKind::TooLarge.into());
        }
        if self.origins.last().is_none_or(|(_, place)| *place != u32::MAX) {
            self.origins.push((number(start), u32::MAX));
        }
        self.text.push_str(text);
        Ok((number(start), number(text.len())))
    }

    pub(crate) fn create(&mut self, a: u32, b: u32) -> Edit<NodeId> {
        let index = number(self.nodes.len());
        if index >= ATTRIBUTE - 1 {
            return Err(ErrorKind::TooLarge.into());
        }
        self.create_links();
        self.nodes.push(Record { parent: NO_PARENT, next: NONE, a, b });
        if let Some(links) = &mut self.links {
            links.push(Links::default());
        }
        Ok(self.id_of(index))
    }

    /// Creates the links that followed from the order of indexes so far.
    fn create_links(&mut self) {
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

    /// Appends a node that was just created, without checks.
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
        self.indexes.structure_changed();
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
            *own = Record { parent: NO_PARENT, next: NONE, ..record };
        }
        self.change_link(index, |links| links.previous = NONE);
    }

    fn place_between(&mut self, parent: u32, previous: u32, next: u32, index: u32) {
        self.indexes.structure_changed();
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
}

pub(crate) fn check_comment(text: &str) -> Edit {
    if text.contains("--") || text.ends_with('-') { Err(ErrorKind::BadText.into()) } else { Ok(()) }
}

pub(crate) fn check_instruction(target: &str, data: &str) -> Edit {
    if !chars::is_ncname(target) || target.eq_ignore_ascii_case("xml") {
        return Err(ErrorKind::BadName(target.to_owned()).into());
    }
    if data.contains("?>") || data.starts_with([' ', '\t', '\n', '\r']) {
        return Err(ErrorKind::BadText.into());
    }
    Ok(())
}
