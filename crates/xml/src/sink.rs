//! The push interface: the trait [`Sink`], the [`Builder`], which builds a tree, and [`copy_subtree`], which
//! pushes a tree into a sink.

use crate::build::Tree;
use crate::document::{COMMENT, Document, ELEMENT, Instruction, NONE, PI, TEXT, VALUE_SHIFT};
use crate::edit::{QNameRef, check_comment, check_instruction};
use crate::error::{Error, ErrorKind};
use crate::limits::XML_BYTES_CEILING as TEXT_BYTES_MAX;
use crate::names::{EMPTY, number};
use crate::node::{Kind, Node};

/// Receives a document piece by piece: `start_element`, then its namespaces and attributes, then its content,
/// then `end_element`. [`crate::Writer`] serialises it, [`Builder`] builds a tree.
pub trait Sink {
    type Error;

    /// # Errors
    /// The name is invalid. This and the other methods: a limit of the sink.
    fn start_element(&mut self, name: QNameRef<'_>) -> Result<(), Self::Error>;
    /// Declares a prefix (empty: the default namespace) on the element just started.
    ///
    /// # Errors
    /// No element was just started; the prefix is reserved.
    fn namespace(&mut self, prefix: &str, uri: &str) -> Result<(), Self::Error>;
    /// Sets an attribute of the element just started; one of the same name is replaced.
    ///
    /// # Errors
    /// No element was just started.
    fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Result<(), Self::Error>;
    /// # Errors
    /// Characters that XML doesn't allow.
    fn text(&mut self, text: &str) -> Result<(), Self::Error>;
    /// # Errors
    /// `--`, or characters that XML doesn't allow.
    fn comment(&mut self, text: &str) -> Result<(), Self::Error>;
    /// # Errors
    /// A target that isn't a name; `?>`.
    fn processing_instruction(&mut self, target: &str, data: &str) -> Result<(), Self::Error>;
    /// # Errors
    /// No element is open.
    fn end_element(&mut self) -> Result<(), Self::Error>;

    /// Takes a copy of `element`, which is not the top of the copied tree, in one piece. Returns false if this sink
    /// takes only pieces.
    ///
    /// # Errors
    /// As for the pieces.
    fn leaf(&mut self, element: Node<'_>) -> Result<bool, Self::Error> {
        let _ = element;
        Ok(false)
    }
}

/// Pushes a copy of `node` and everything below it into `sink`; of the root, its children. The copy
/// declares all namespaces in scope at `node`, so that prefixes in values keep their meaning.
///
/// # Errors
/// Errors of the sink.
pub fn copy_subtree<S: Sink>(node: Node<'_>, sink: &mut S) -> Result<(), S::Error> {
    copy_declaring(node, |_, _| true, sink)
}

/// As [`copy_subtree`], but the copy declares only the namespaces in scope at `node` for which `keeps` returns true,
/// and those that its names need.
///
/// # Errors
/// Errors of the sink.
pub fn copy_declaring<S: Sink>(
    node: Node<'_>,
    keeps: impl Fn(&str, &str) -> bool,
    sink: &mut S,
) -> Result<(), S::Error> {
    let mut at = node;
    loop {
        let mut is_done = at != node && at.is_leaf() && sink.leaf(at)?;
        if !is_done {
            enter(at, (at == node).then_some(&keeps), sink)?;
            if let Some(child) = at.first_child() {
                at = child;
                continue;
            }
        }
        loop {
            if at.is_element() && !std::mem::take(&mut is_done) {
                sink.end_element()?;
            }
            if at == node {
                return Ok(());
            }
            if let Some(next) = at.next_sibling() {
                at = next;
                break;
            }
            match at.parent() {
                Some(parent) => at = parent,
                None => return Ok(()),
            }
        }
    }
}

/// `keeps` selects the namespaces that the top of the tree declares.
fn enter<S: Sink>(
    node: Node<'_>,
    keeps: Option<&impl Fn(&str, &str) -> bool>,
    sink: &mut S,
) -> Result<(), S::Error> {
    match node.kind() {
        Kind::Root | Kind::Namespace => Ok(()),
        Kind::Text => sink.text(node.text()),
        Kind::Comment => sink.comment(node.text()),
        Kind::ProcessingInstruction => sink.processing_instruction(node.local_name(), node.text()),
        Kind::Attribute => sink.attribute(node.qname_ref(), node.text()),
        Kind::Element => {
            sink.start_element(node.qname_ref())?;
            if let Some(keeps) = keeps {
                let is_kept = |(prefix, uri): &(&str, &str)| *prefix != "xml" && keeps(prefix, uri);
                for (prefix, uri) in node.namespaces_in_scope().filter(is_kept) {
                    sink.namespace(prefix, uri)?;
                }
            } else {
                for (prefix, uri) in node.declarations() {
                    sink.namespace(prefix, uri)?;
                }
            }
            for attribute in node.attributes() {
                sink.attribute(attribute.qname_ref(), attribute.text())?;
            }
            Ok(())
        }
    }
}

impl<'d> Node<'d> {
    /// Whether this is an element without attributes and declarations that is empty or contains only text.
    fn is_leaf(self) -> bool {
        let is_plain = || self.document().tag(self.record()).is_none();
        let has_text = |child: Self| child.kind() == Kind::Text && child.next_sibling().is_none();
        self.is_element() && is_plain() && self.first_child().is_none_or(has_text)
    }

    /// The name with its prefix, to create another node of that name.
    #[must_use]
    pub fn qname_ref(self) -> QNameRef<'d> {
        QNameRef::new(self.prefix(), self.namespace(), self.local_name())
    }
}

/// Builds a tree in document order, which is faster and smaller than editing one. Adjacent texts are joined.
pub struct Builder {
    tree: Tree,
    /// The element just started; [`NONE`] once it has content.
    fresh: u32,
    /// The text that further text joins.
    text: u32,
    /// Maximum size of one text, in bytes: a record stores a length of 28 bits.
    text_bytes_max: u32,
}

impl Default for Builder {
    fn default() -> Self {
        Self { tree: Tree::default(), fresh: NONE, text: NONE, text_bytes_max: TEXT_BYTES_MAX }
    }
}

impl Builder {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the document; open elements are closed.
    #[must_use]
    pub fn finish(self) -> Document {
        self.tree.document
    }

    fn add(&mut self, a: u32, b: u32) -> u32 {
        self.fresh = NONE;
        self.text = NONE;
        self.tree.push(a, b)
    }

    fn fresh_element(&self) -> Result<u32, Error> {
        if self.fresh == NONE {
            Err(ErrorKind::WrongKind(Kind::Text).into())
        } else {
            Ok(self.fresh)
        }
    }
}

impl Sink for Builder {
    type Error = Error;

    fn start_element(&mut self, name: QNameRef<'_>) -> Result<(), Error> {
        let qname = self.tree.document.intern(name)?;
        let index = self.add(u32::MAX, ELEMENT | (qname << VALUE_SHIFT));
        self.tree.enter();
        self.fresh = index;
        Ok(())
    }

    fn namespace(&mut self, prefix: &str, uri: &str) -> Result<(), Error> {
        let element = self.tree.document.id_of(self.fresh_element()?);
        self.tree.document.declare_namespace(element, prefix, uri)
    }

    fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Result<(), Error> {
        let element = self.tree.document.id_of(self.fresh_element()?);
        self.tree.document.set_attribute(element, name, value).map(drop)
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let (start, len) = self.tree.document.store(text)?;
        if let Some(record) = self.tree.document.nodes.get_mut(self.text as usize)
            && self.text != NONE
            && record.a.saturating_add(record.value()) == start
        {
            let joined = record.value().saturating_add(len);
            if joined > self.text_bytes_max {
                return Err(ErrorKind::TooLarge.into());
            }
            record.b = TEXT | (joined << VALUE_SHIFT);
            return Ok(());
        }
        self.text = self.add(start, TEXT | (len << VALUE_SHIFT));
        Ok(())
    }

    fn comment(&mut self, text: &str) -> Result<(), Error> {
        check_comment(text)?;
        let (start, len) = self.tree.document.store(text)?;
        self.add(start, COMMENT | (len << VALUE_SHIFT));
        Ok(())
    }

    fn processing_instruction(&mut self, target: &str, data: &str) -> Result<(), Error> {
        check_instruction(target, data)?;
        let document = &mut self.tree.document;
        let (start, len) = document.store(data)?;
        let local = document.names.symbol(target);
        let name = document.names.name(EMPTY, local);
        let qname = document.names.qname(EMPTY, name);
        let index = number(document.instructions.len());
        document.instructions.push(Instruction { qname, start, len, at: u32::MAX });
        self.add(index, PI);
        Ok(())
    }

    fn end_element(&mut self) -> Result<(), Error> {
        (self.fresh, self.text) = (NONE, NONE);
        if self.tree.leave() { Ok(()) } else { Err(ErrorKind::WrongKind(Kind::Root).into()) }
    }
}

impl Document {
    /// Copies `source`, from any document, with everything below it. The copy is detached; it declares the
    /// namespaces in scope at `source`. To copy a document import the children of its root.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKind`] of the root and of attributes, [`ErrorKind::TooLarge`].
    pub fn import(&mut self, source: Node<'_>) -> Result<crate::NodeId, Error> {
        match source.kind() {
            Kind::Root | Kind::Attribute | Kind::Namespace => {
                return Err(ErrorKind::WrongKind(source.kind()).into());
            }
            Kind::Element | Kind::Text | Kind::Comment | Kind::ProcessingInstruction => {}
        }
        let mut importer = Importer { document: self, open: Vec::new(), top: None };
        copy_subtree(source, &mut importer)?;
        importer.top.ok_or_else(|| ErrorKind::UnknownNode.into())
    }

    /// Copies a node of this document, as [`Document::import`] does.
    ///
    /// # Errors
    /// As [`Document::import`]; [`ErrorKind::UnknownNode`].
    pub fn duplicate(&mut self, node: crate::NodeId) -> Result<crate::NodeId, Error> {
        let mut builder = Builder::new();
        let source = self.node(node).ok_or_else(|| Error::from(ErrorKind::UnknownNode))?;
        if matches!(source.kind(), Kind::Root | Kind::Attribute) {
            return Err(ErrorKind::WrongKind(source.kind()).into());
        }
        copy_subtree(source, &mut builder)?;
        let copy = builder.finish();
        self.import(copy.root().first_child().ok_or_else(|| Error::from(ErrorKind::UnknownNode))?)
    }
}

struct Importer<'t> {
    document: &'t mut Document,
    open: Vec<crate::NodeId>,
    top: Option<crate::NodeId>,
}

impl Importer<'_> {
    fn add(&mut self, id: crate::NodeId) -> Result<(), Error> {
        match self.open.last() {
            Some(&parent) => self.document.append_new(parent, id),
            None => self.top = Some(id),
        }
        Ok(())
    }

    fn element(&self) -> Result<crate::NodeId, Error> {
        self.open.last().copied().ok_or_else(|| ErrorKind::UnknownNode.into())
    }
}

impl Sink for Importer<'_> {
    type Error = Error;

    fn start_element(&mut self, name: QNameRef<'_>) -> Result<(), Error> {
        let id = self.document.create_element(name)?;
        self.add(id)?;
        self.open.push(id);
        Ok(())
    }

    fn namespace(&mut self, prefix: &str, uri: &str) -> Result<(), Error> {
        let element = self.element()?;
        self.document.declare_namespace(element, prefix, uri)
    }

    fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Result<(), Error> {
        let element = self.element()?;
        self.document.set_attribute(element, name, value).map(drop)
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        let id = self.document.create_text(text)?;
        self.add(id)
    }

    fn comment(&mut self, text: &str) -> Result<(), Error> {
        let id = self.document.create_comment(text)?;
        self.add(id)
    }

    fn processing_instruction(&mut self, target: &str, data: &str) -> Result<(), Error> {
        let id = self.document.create_processing_instruction(target, data)?;
        self.add(id)
    }

    fn end_element(&mut self) -> Result<(), Error> {
        self.open.pop().map(drop).ok_or_else(|| ErrorKind::UnknownNode.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Builder, Sink};
    use crate::{ErrorKind, QNameRef};

    #[test]
    fn text_that_grows_beyond_the_limit_is_rejected_and_keeps_its_length() {
        let mut builder = Builder { text_bytes_max: 10, ..Builder::default() };
        builder.start_element(QNameRef::local("a")).unwrap();
        builder.text("01234").unwrap();
        builder.text("56789").unwrap();
        assert_eq!(builder.text("x"), Err(ErrorKind::TooLarge.into()));
        assert_eq!(builder.finish().root().string_value(), "0123456789");
    }
}
