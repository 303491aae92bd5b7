//! A tree of bytes that come in pieces.

use super::{BEHIND, Source};
use crate::build::{self, Taken, Tree};
use crate::document::Document;
use crate::error::{OffsetError, XmlError};
use crate::machine::Machine;
use crate::names::number;
use crate::options::Options;

/// Nodes that a tree has room for at first.
const NODES: usize = 64;

/// Builds a tree while its bytes come, in pieces that may be cut anywhere: [`Document::parse_with`] of all of
/// them together gives the same tree, or the same error at the same place.
///
/// One difference: [`Document::parse_with`] refuses what is larger than `limits.bytes` without a look at it, here
/// an error further in front is told first.
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
/// # Ok::<(), penstock_xml::XmlError>(())
/// ```
#[derive(Debug)]
pub struct DocumentFeed {
    source: Source,
    machine: Machine,
    tree: Tree,
    failed: Option<XmlError>,
}

impl DocumentFeed {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            source: Source::new(options),
            machine: Machine::new(options.limits, 0),
            tree: Tree::for_reading(NODES),
            failed: None,
        }
    }

    /// Takes the next bytes and adds to the tree what is whole.
    ///
    /// # Errors
    /// Whatever isn't well-formed or exceeds a limit, with its place, as soon as the piece of markup is whole that
    /// it is in; from then on the same again.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), XmlError> {
        self.take(bytes, false)
    }

    /// The document, when all of it was fed.
    ///
    /// # Errors
    /// As [`DocumentFeed::feed`], and what is missing at the end.
    pub fn finish(mut self) -> Result<Document, XmlError> {
        self.take(&[], true)?;
        let Self { source, mut machine, mut tree, .. } = self;
        let text = source.intake.text;
        if !machine.spill.is_empty() || machine.entities_used() {
            let behind = number(text.len());
            tree.move_behind(BEHIND, behind);
            for (start, _) in &mut machine.origins {
                *start = start.wrapping_sub(BEHIND).wrapping_add(behind);
            }
        }
        let mut document = build::finish(tree, machine, &source.dtd, text);
        document.base = source.options.base_uri.map(Box::from);
        Ok(document)
    }

    #[cfg(test)]
    pub(super) fn scanned(&self) -> usize {
        self.source.looked
    }

    fn take(&mut self, bytes: &[u8], is_end: bool) -> Result<(), XmlError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let taken = self.source.push(bytes, is_end, &mut self.machine).and_then(|()| {
            let built = self.build();
            built.map_err(|fault| self.source.intake.locate(fault))
        });
        self.failed = taken.as_ref().err().cloned();
        taken
    }

    fn build(&mut self) -> Result<(), OffsetError> {
        let Self { source, machine, tree, .. } = self;
        if !source.may_step(machine) {
            return Ok(());
        }
        loop {
            machine.run(source.view(), tree);
            let step = machine.careful_step(source.view())?;
            match tree.take(machine, step) {
                Taken::Some => {}
                Taken::Nothing if source.look(machine) => {}
                Taken::Nothing | Taken::End => return Ok(()),
            }
        }
    }
}
