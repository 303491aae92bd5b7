//! Parsing while the bytes arrive, in pieces cut anywhere. Tree, events and errors are those of the whole
//! document.
//!
//! [`buffer`] decodes the bytes, [`whole`] finds how far the text consists of complete pieces of markup, and
//! the machine that parses whole documents takes steps that far.

mod buffer;
mod document;
mod events;
#[cfg(test)]
mod tests;
mod whole;

pub use document::DocumentFeed;
pub use events::{EventFeed, FeedEvent};

use crate::dtd::{self, Dtd};
use crate::error::Error;
use crate::limits::XML_BYTES_CEILING;
use crate::machine::{Machine, View};
use crate::options::{Doctype, Options};
use buffer::InputBuffer;
use whole::{Found, Whole};

/// The address of the DTD's texts while the length of the source isn't known.
const BEHIND: u32 = 1 << 28;

/// Fewer parsed bytes aren't dropped.
const DROPPED_MIN: usize = 4_096;

const _: () = assert!(XML_BYTES_CEILING < BEHIND, "a source must fit before it");

/// A document that is still arriving.
#[derive(Debug)]
struct Source {
    input: InputBuffer,
    dtd: Dtd,
    whole: Whole,
    options: Options,
    /// All bytes have arrived.
    is_complete: bool,
    /// Bytes that were scanned, or may have been.
    #[cfg(test)]
    scanned: usize,
}

impl Source {
    fn new(options: &Options) -> Self {
        let most = options.limits.bytes.min(XML_BYTES_CEILING);
        Self {
            input: InputBuffer::new(most),
            dtd: Dtd::default(),
            whole: Whole::new(options.doctype == Doctype::Read),
            options: options.clone(),
            is_complete: false,
            #[cfg(test)]
            scanned: 0,
        }
    }

    /// Adds the next bytes, or marks their end.
    fn push(&mut self, bytes: &[u8], is_end: bool, machine: &mut Machine) -> Result<(), Error> {
        if self.is_complete {
            return Ok(());
        }
        if let Some(start) = self.input.push(bytes, is_end)? {
            machine.begin(start);
        }
        if is_end || self.input.broken.is_some() {
            self.complete(machine);
        }
        Ok(())
    }

    /// Marks the document as complete: the machine reports a piece that isn't.
    fn complete(&mut self, machine: &Machine) {
        self.is_complete = true;
        if machine.awaits_doctype() {
            let (text, broken) = (&self.input.text, self.input.broken.as_ref());
            self.dtd = dtd::find(text, machine.position(), &self.options, None, broken);
        }
    }

    /// Whether the machine may take steps, which it may unless the next piece is known to be incomplete. The fast path
    /// checks that each tag is complete, and the general path stops at the end of the complete pieces.
    fn may_step(&mut self, machine: &Machine) -> bool {
        let is_between = self.input.is_settled() && !self.whole.is_inside();
        #[cfg(test)]
        if is_between {
            self.scanned += self.input.text.len() - machine.position();
        }
        is_between || self.is_complete || (self.input.is_settled() && self.scan(machine))
    }

    /// Whether the piece of markup that the machine waits for is complete by now.
    fn scan(&mut self, machine: &Machine) -> bool {
        let text = self.input.text.as_bytes();
        #[cfg(test)]
        {
            self.scanned += text.len() - self.whole.scanned_to(machine.position());
        }
        match self.whole.scan(text, machine.position(), machine.is_outside()) {
            Found::Part => false,
            Found::Whole => true,
            Found::Doctype => {
                if machine.awaits_doctype() {
                    let at = machine.position();
                    self.dtd = dtd::read(&self.input.text, at, &self.options, None, None);
                }
                true
            }
        }
    }

    /// Drops the text that was parsed once it is more than half of all, so that less is moved than dropped.
    fn drop_parsed(&mut self, machine: &mut Machine) {
        let Some(read) = machine.between().filter(|&read| read >= DROPPED_MIN) else { return };
        if read >= self.input.text.len() / 2 {
            self.input.drop_front(read);
            self.whole.drop_front(read);
            machine.begin(0);
        }
    }

    fn view(&self) -> View<'_> {
        View {
            source: &self.input.text,
            dtd: &self.dtd,
            broken: self.input.broken.as_ref(),
            whole: if self.is_complete { usize::MAX } else { self.whole.to },
            behind: BEHIND as usize,
        }
    }
}
