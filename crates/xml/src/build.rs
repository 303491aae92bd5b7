//! Builds a tree from the steps of the machine.

use bytes::Bytes;
use bytestring::ByteString;

use crate::content::Content;
use crate::document::{
    AttributeRecord, COMMENT, Document, ELEMENT, Instruction, NO_PARENT, NONE,
    NamespaceDeclaration, PI, ROOT, Record, TAGGED, TEXT, Tag, VALUE_SHIFT,
};
use crate::dtd::{Dtd, Entity};
use crate::entities::EntityResolver;
use crate::error::{Error, OffsetError};
use crate::input::Input;
use crate::machine::quick::StepSink;
use crate::machine::{Machine, ScannedAttribute, Span, Step, View};
use crate::names::{EMPTY, Symbol, number, shrink};
use crate::node::Node;
use crate::options::Options;
use crate::shared::SharedNames;

impl Document {
    /// Parses a document with the default limits. The encoding is detected, document types are rejected.
    ///
    /// # Errors
    /// The first place where the document isn't well-formed or exceeds a limit.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse_with(bytes, &Options::default())
    }

    /// Parses a document.
    ///
    /// # Errors
    /// The first place where the document isn't well-formed or exceeds a limit.
    pub fn parse_with(bytes: &[u8], options: &Options) -> Result<Self, Error> {
        Self::from_input(&Input::new(bytes, options)?, None, options)
    }

    /// As [`Document::parse`], but shares the bytes rather than copying them if they are UTF-8 with ` ` as line ends.
    /// The document keeps the whole buffer alive.
    ///
    /// # Errors
    /// As [`Document::parse`].
    pub fn parse_shared(bytes: &Bytes) -> Result<Self, Error> {
        let Ok(text) = ByteString::try_from(bytes.clone()) else { return Self::parse(bytes) };
        let options = Options::default();
        Self::from_input(&Input::of_text(&text, &options)?, Some(&text), &options)
    }

    /// As [`Document::parse_with`]; `resolver` supplies the external subset and the external
    /// parameter entities, if [`Options::doctype`] permits a document type at all.
    ///
    /// # Errors
    /// As [`Document::parse_with`]. An error in an external entity is reported at the reference to
    /// it, as [`ErrorKind::InEntity`](crate::ErrorKind::InEntity).
    pub fn parse_with_entities(
        bytes: &[u8],
        options: &Options,
        resolver: &dyn EntityResolver,
    ) -> Result<Self, Error> {
        Self::from_input(&Input::with_entities(bytes, options, resolver)?, None, options)
    }

    /// `owner` is the shared buffer that holds the input, if any.
    fn from_input(
        input: &Input<'_>,
        owner: Option<&ByteString>,
        options: &Options,
    ) -> Result<Self, Error> {
        let view = input.view();
        let mut machine = Machine::new(options.limits, input.start());
        let most = usize::try_from(options.limits.nodes).unwrap_or(usize::MAX);
        let nodes = nodes_of(view.source).min(most);
        let mut tree = Tree::for_reading(nodes);
        read(view, &mut machine, &mut tree).map_err(|error| error.locate(input.text()))?;
        let source = match (owner, input.borrowed()) {
            (Some(owner), Some(text)) => owner.slice_ref(text),
            _ => view.source.into(),
        };
        let mut document = finish(tree, &mut machine, view.dtd, source);
        document.base = options.base_uri.as_deref().map(Box::from);
        Ok(document)
    }
}

fn read(view: View<'_>, machine: &mut Machine, tree: &mut Tree) -> Result<(), OffsetError> {
    loop {
        machine.run(view, tree);
        let step = machine.general_step(view)?;
        match tree.add(machine, step) {
            Added::Some => {}
            Added::Nothing | Added::End => return Ok(()),
        }
    }
}

/// The number of nodes of a longer document is estimated from this many bytes at its beginning.
const BEGINNING: usize = 2048;

/// Estimates the number of nodes in `source`.
fn nodes_of(source: &str) -> usize {
    match source.as_bytes().get(..=BEGINNING) {
        None => (source.len() / 12).saturating_add(8),
        Some(beginning) => {
            let nodes = nodes_in(beginning).saturating_mul(source.len()) / BEGINNING;
            // No document has more than one in two bytes.
            nodes.saturating_add(nodes / 8).min(source.len() / 2)
        }
    }
}

/// Estimates the nodes that begin in `text`: tags other than end tags, and texts before tags.
fn nodes_in(text: &[u8]) -> usize {
    let (parts, _) = text.as_chunks::<64>();
    let (nexts, _) = text.get(1..).unwrap_or(&[]).as_chunks::<64>();
    // Without branches, so that many bytes are compared at once.
    let nodes = |(&one, &next): (&u8, &u8)| {
        u8::from((one == b'<') & (next != b'/')) + u8::from((one != b'>') & (next == b'<'))
    };
    let count = |(part, next): (&[u8; 64], &[u8; 64])| {
        part.iter().zip(next).map(nodes).fold(0_u8, u8::wrapping_add)
    };
    parts.iter().zip(nexts).map(count).map(usize::from).sum()
}

/// Makes the document from a complete `tree` and its `source`.
pub(crate) fn finish(tree: Tree, machine: &mut Machine, dtd: &Dtd, source: ByteString) -> Document {
    let Tree { mut document, .. } = tree;
    let source_len = source.len();
    let mut added = std::mem::take(&mut machine.composed);
    if machine.entities_used() {
        added.insert_str(0, &dtd.text);
    }
    document.text = Content::of(source, added);
    document.source_len = number(source_len);
    let prolog =
        document.element().and_then(Node::source_start).and_then(|end| document.text.get(0..end));
    document.is_whole = prolog
        .is_some_and(|prolog| memchr::memmem::find(prolog.as_bytes(), b"<!DOCTYPE").is_none());
    let origin = |(start, place): &(usize, usize)| (number(source_len + start), number(*place));
    document.origins = dtd.origins.iter().map(origin).collect();
    document.origins.extend_from_slice(&machine.origins);
    document.names = machine.take_names();
    for (name, entity) in &dtd.entities {
        if let Entity::Unparsed(system) = entity {
            let declared = document.declared.get_or_insert_default();
            declared.unparsed.insert(name.as_str().into(), system.as_str().into());
        }
    }
    document.names.shrink();
    shrink(&mut document.nodes);
    shrink(&mut document.attributes);
    shrink(&mut document.tags);
    shrink(&mut document.declarations);
    document
}

/// Adds the steps of the fast path to the tree. Between `resume` and `pause`, the last child of the innermost open
/// element refers to the next node, as if that were a sibling.
impl StepSink for Tree {
    const TAKES_ALL: bool = true;

    #[inline]
    fn resume(&mut self) -> usize {
        let (_, last) = self.top;
        if last != NONE {
            self.set_next(last, self.next_child());
        }
        self.count()
    }

    #[inline(always)]
    fn element(&mut self, qname: u32, at: u32) {
        let index = self.next_child();
        let b = ELEMENT | (qname << VALUE_SHIFT);
        self.document.nodes.push(Record { parent: self.top.0, next: NONE, a: at, b });
        self.top = (index, NONE);
    }

    #[inline]
    fn tagged(&mut self, qname: u32, at: u32, attributes: &[ScannedAttribute]) {
        self.start((qname, at), attributes, &[]);
    }

    #[inline(always)]
    fn leaf(&mut self, qname: u32, at: u32, text: Span) {
        let index = self.next_child();
        let (b, content) = (ELEMENT | (qname << VALUE_SHIFT), TEXT | (text.len << VALUE_SHIFT));
        self.document.nodes.extend([
            Record { parent: self.top.0, next: index.wrapping_add(2), a: at, b },
            Record { parent: index, next: NONE, a: text.start, b: content },
        ]);
        self.top.1 = index;
    }

    #[inline(always)]
    fn text(&mut self, span: Span) {
        let index = self.next_child();
        let (next, b) = (index.wrapping_add(1), TEXT | (span.len << VALUE_SHIFT));
        self.document.nodes.push(Record { parent: self.top.0, next, a: span.start, b });
        self.top.1 = index;
    }

    #[inline(always)]
    fn end(&mut self) {
        let (ended, last) = self.top;
        // The root has no sibling, so this is right for it too.
        self.set_next(last, NONE);
        let next = self.next_child();
        if let Some(record) = self.document.nodes.get_mut(ended as usize) {
            record.next = next;
            self.top = (record.parent, ended);
        }
    }

    #[inline]
    fn pause(&mut self) -> usize {
        self.set_next(self.top.1, NONE);
        self.count()
    }
}

/// Whether a step added something to a tree.
pub(crate) enum Added {
    Some,
    /// The step needs more of the source.
    Nothing,
    End,
}

/// A document that grows in document order.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) document: Document,
    /// The innermost open node with its last child so far.
    top: (u32, u32),
}

impl Default for Tree {
    fn default() -> Self {
        Self::of(Document::new())
    }
}

impl Tree {
    /// An empty tree for parsing; [`finish`] adds the names.
    pub(crate) fn for_reading(nodes: usize) -> Self {
        Self::of(Document::with_capacity(nodes, SharedNames::none()))
    }

    /// A tree for a copy of `source`, without its nodes. The caller adds the nodes and renumbers the references to
    /// them.
    pub(crate) fn copying(source: &Document) -> Self {
        let mut nodes = Vec::with_capacity(source.nodes.len());
        nodes.push(Document::NOTHING);
        Self::of(source.with_nodes(nodes))
    }

    fn of(document: Document) -> Self {
        Self { document, top: (ROOT, NONE) }
    }

    /// Adds a node as the last child of the innermost open one.
    #[inline]
    pub(crate) fn push(&mut self, a: u32, b: u32) -> u32 {
        let index = self.link();
        self.document.nodes.push(Record { parent: self.top.0, next: NONE, a, b });
        index
    }

    /// Makes the next node the last child of the innermost open one; returns its index.
    #[inline]
    fn link(&mut self) -> u32 {
        let index = number(self.document.nodes.len());
        let before = std::mem::replace(&mut self.top.1, index);
        if before != NONE
            && let Some(record) = self.document.nodes.get_mut(before as usize)
        {
            record.next = index;
        }
        index
    }

    /// Number of nodes and attributes; the first attribute is unused.
    #[inline]
    fn count(&self) -> usize {
        let attributes = self.document.attributes.len().saturating_sub(1);
        self.document.nodes.len().wrapping_add(attributes)
    }

    /// The index of the next node.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the limit on nodes has 32 bits")]
    fn next_child(&self) -> u32 {
        self.document.nodes.len() as u32
    }

    #[inline(always)]
    fn set_next(&mut self, index: u32, next: u32) {
        if let Some(record) = self.document.nodes.get_mut(index as usize) {
            record.next = next;
        }
    }

    /// Adds a step.
    #[inline]
    pub(crate) fn add(&mut self, machine: &mut Machine, step: Step) -> Added {
        match step {
            Step::Start { qname, at } => {
                self.start((qname, at), &machine.attributes, &machine.declared);
            }
            Step::End => drop(self.leave()),
            Step::Text(span) => self.push_text(TEXT, span),
            Step::Comment(span) => self.push_text(COMMENT, span),
            Step::Instruction { target, data, at } => {
                let name = machine.namespaces.names.name(EMPTY, target);
                let qname = machine.namespaces.names.qname(EMPTY, name);
                self.instruction(qname, data, at);
            }
            Step::Wait => return Added::Nothing,
            Step::Finished => return Added::End,
        }
        Added::Some
    }

    /// Moves the addresses at and after `from` so that they begin at `to`.
    pub(crate) fn move_behind(&mut self, from: u32, to: u32) {
        let moved = |address: &mut u32| {
            if *address >= from {
                *address = address.wrapping_sub(from).wrapping_add(to);
            }
        };
        for record in &mut self.document.nodes {
            let is_address = match record.kind() {
                ELEMENT => record.b & TAGGED == 0,
                kind => matches!(kind, TEXT | COMMENT),
            };
            if is_address {
                moved(&mut record.a);
            }
        }
        self.document.tags.iter_mut().for_each(|tag| moved(&mut tag.at));
        self.document.attributes.iter_mut().for_each(|record| moved(&mut record.start));
        for instruction in &mut self.document.instructions {
            moved(&mut instruction.start);
            moved(&mut instruction.at);
        }
    }

    #[inline]
    fn start(
        &mut self,
        (qname, at): (u32, u32),
        attributes: &[ScannedAttribute],
        declared: &[(Symbol, Symbol)],
    ) {
        let mut record = (at, ELEMENT | (qname << VALUE_SHIFT));
        if !attributes.is_empty() || !declared.is_empty() {
            record = (number(self.document.tags.len()), record.1 | TAGGED);
        }
        let index = self.push(record.0, record.1);
        self.enter();
        if record.1 & TAGGED != 0 {
            let attribute = self.attributes(attributes, index);
            let declaration = self.declarations(declared);
            self.document.tags.push(Tag { at, attribute, declaration });
        }
    }

    fn attributes(&mut self, attributes: &[ScannedAttribute], owner: u32) -> u32 {
        let all = &mut self.document.attributes;
        if attributes.is_empty() {
            return NONE;
        }
        if all.is_empty() {
            all.push(AttributeRecord { owner: NO_PARENT, next: NONE, qname: 0, start: 0, len: 0 });
        }
        let first = number(all.len());
        for (count, attribute) in (1..).zip(attributes) {
            let Span { start, len } = attribute.value;
            let next = if count == attributes.len() { NONE } else { number(all.len() + 1) };
            all.push(AttributeRecord { owner, next, qname: attribute.qname, start, len });
            if attribute.is_id {
                let index = number(all.len() - 1);
                self.document.declared.get_or_insert_default().ids.insert(index);
            }
        }
        first
    }

    pub(crate) fn declarations(&mut self, declared: &[(Symbol, Symbol)]) -> u32 {
        let all = &mut self.document.declarations;
        if declared.is_empty() {
            return NONE;
        }
        if all.is_empty() {
            all.push(NamespaceDeclaration { next: NONE, prefix: EMPTY, uri: EMPTY });
        }
        let first = number(all.len());
        for (count, &(prefix, uri)) in (1..).zip(declared) {
            let next = if count == declared.len() { NONE } else { number(all.len() + 1) };
            all.push(NamespaceDeclaration { next, prefix, uri });
        }
        first
    }

    /// Opens the last child.
    #[inline]
    pub(crate) fn enter(&mut self) {
        self.top = (self.top.1, NONE);
    }

    /// Returns whether an element was open.
    #[inline]
    pub(crate) fn leave(&mut self) -> bool {
        let (ended, _) = self.top;
        let parent = self.document.record(ended).parent;
        if parent != NO_PARENT {
            self.top = (parent, ended);
        }
        parent != NO_PARENT
    }

    /// Adds a text of one byte to the innermost open element, if there is one.
    pub(crate) fn end_early(&mut self, at: u32) {
        if self.top.0 != ROOT {
            self.push_text(TEXT, Span { start: at, len: 1 });
        }
    }

    #[inline]
    fn push_text(&mut self, kind: u32, span: Span) {
        self.push(span.start, kind | (span.len << VALUE_SHIFT));
    }

    fn instruction(&mut self, qname: u32, data: Span, at: u32) {
        let number_of = number(self.document.instructions.len());
        self.document.instructions.push(Instruction {
            qname,
            start: data.start,
            len: data.len,
            at,
        });
        self.push(number_of, PI);
    }
}
