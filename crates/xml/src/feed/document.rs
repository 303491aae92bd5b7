//! Builds a tree while its bytes arrive.

use super::{BEHIND, Source};
use crate::build::{self, Added, Tree};
use crate::document::{Document, ELEMENT, ROOT, Record};
use crate::error::{Error, OffsetError};
use crate::machine::Machine;
use crate::names::number;
use crate::options::Options;

/// The initial capacity of a tree.
const NODES: usize = 64;

/// Builds a tree while its bytes arrive, in pieces that may be cut anywhere. The result is the tree, or the
/// error, that [`Document::parse_with`] returns for all the bytes together.
///
/// One difference: [`Document::parse_with`] rejects a document larger than `limits.bytes` without parsing
/// it, while a feed reports an earlier error first.
///
/// ```
/// use penstock_xml::{DocumentFeed, Options};
///
/// let mut feed = DocumentFeed::new(&Options::default());
/// for piece in ["<order><sym", "bol>I", "BM</symbol></order", ">"] {
///     feed.feed(piece.as_bytes())?;
/// }
/// let document = feed.finish()?;
/// assert_eq!(document.root().string_value(), "IBM");
/// # Ok::<(), penstock_xml::Error>(())
/// ```
#[derive(Debug)]
pub struct DocumentFeed {
    source: Source,
    machine: Machine,
    tree: Tree,
    failed: Option<Error>,
}

impl DocumentFeed {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let machine = Machine::new(options.limits, 0);
        let tree = Tree::for_reading(NODES);
        Self { source: Source::new(options), machine, tree, failed: None }
    }

    /// Adds the next bytes.
    ///
    /// # Errors
    /// The first place where the document isn't well-formed or exceeds a limit, as soon as the markup that it
    /// is in is complete. Later calls return the same error.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.push(bytes, false)
    }

    /// Whether the document element has a child of this name, as far as it was fed.
    #[must_use]
    pub fn has_child(&self, namespace: &str, local: &str) -> bool {
        /// The index of the document element in `nodes`, and its children's parent.
        fn top(nodes: &[Record]) -> Option<u32> {
            let is_element = |record: &Record| record.kind() == ELEMENT && record.parent == ROOT;
            nodes.iter().position(is_element).map(number)
        }
        let names = &self.machine.namespaces.names;
        let (Some(uri), Some(local)) = (names.find_symbol(namespace), names.find_symbol(local))
        else {
            return false;
        };
        let nodes = &self.tree.document.nodes;
        let (Some(name), Some(top)) = (names.find_name(uri, local), top(nodes)) else {
            return false;
        };
        nodes.iter().any(|record| {
            record.parent == top
                && record.kind() == ELEMENT
                && names.get_qname(record.value()).name == name
        })
    }

    /// The document as far as it was fed. Open elements end there; a text of U+0000 is added to the innermost one. No
    /// document contains that character, so the string value of an open element equals no other text. The rest of the
    /// document is not checked.
    #[must_use]
    pub fn cut(mut self) -> Document {
        let text = &mut self.source.input.text;
        self.tree.end_early(number(text.len()));
        text.push('\0');
        self.into_document()
    }

    /// Returns the document after its last bytes.
    ///
    /// # Errors
    /// As [`DocumentFeed::feed`], and for a document that is incomplete.
    pub fn finish(mut self) -> Result<Document, Error> {
        self.push(&[], true)?;
        Ok(self.into_document())
    }

    fn into_document(self) -> Document {
        let Self { source, mut machine, mut tree, .. } = self;
        let mut text = source.input.text;
        text.shrink_to_fit();
        if !machine.composed.is_empty() || machine.entities_used() {
            let behind = number(text.len());
            tree.move_behind(BEHIND, behind);
            for (start, _) in &mut machine.origins {
                *start = start.wrapping_sub(BEHIND).wrapping_add(behind);
            }
        }
        let mut document = build::finish(tree, &mut machine, &source.dtd, text.into());
        document.base = source.options.base_uri.map(Box::from);
        document
    }

    #[cfg(test)]
    pub(super) fn scanned(&self) -> usize {
        self.source.scanned
    }

    fn push(&mut self, bytes: &[u8], is_end: bool) -> Result<(), Error> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let pushed = self.source.push(bytes, is_end, &mut self.machine).and_then(|()| {
            let built = self.build();
            built.map_err(|error| self.source.input.locate(error))
        });
        self.failed = pushed.as_ref().err().cloned();
        pushed
    }

    fn build(&mut self) -> Result<(), OffsetError> {
        let Self { source, machine, tree, .. } = self;
        if !source.may_step(machine) {
            return Ok(());
        }
        loop {
            machine.run(source.view(), tree);
            let step = machine.general_step(source.view())?;
            match tree.add(machine, step) {
                Added::Some => {}
                Added::Nothing if source.scan(machine) => {}
                Added::Nothing | Added::End => return Ok(()),
            }
        }
    }
}
