//! Reading while the bytes come: in pieces, cut anywhere. What comes out, tree, events or error, is what the
//! whole would have given at once.
//!
//! [`intake`] makes text of the bytes, [`whole`] knows how far it is made of whole pieces of markup, and the
//! machine that reads whole documents takes steps that far.

mod document;
mod events;
mod intake;
#[cfg(test)]
mod tests;
mod whole;

pub use document::DocumentFeed;
pub use events::{EventFeed, Pulled};

use crate::dtd::{self, Dtd};
use crate::error::XmlError;
use crate::limits::XML_BYTES_CEILING;
use crate::machine::{Machine, View};
use crate::options::{Doctype, Options};
use intake::Intake;
use whole::{Found, Whole};

/// The address of the DTD's texts as long as the length of the source isn't known.
const BEHIND: u32 = 1 << 28;

/// Bytes of text that is worth its dropping.
const FORGOTTEN_MIN: usize = 4_096;

const _: () = assert!(XML_BYTES_CEILING < BEHIND, "a source has to fit before it");

/// A document that is still coming.
#[derive(Debug)]
struct Source {
    intake: Intake,
    dtd: Dtd,
    whole: Whole,
    options: Options,
    /// Nothing more comes.
    is_complete: bool,
    /// Bytes that were looked at, or may have been: the tests see that they are few.
    #[cfg(test)]
    looked: usize,
}

impl Source {
    fn new(options: &Options) -> Self {
        let most = options.limits.bytes.min(XML_BYTES_CEILING);
        Self {
            intake: Intake::new(most),
            dtd: Dtd::default(),
            whole: Whole::new(options.doctype == Doctype::ReadInternal),
            options: options.clone(),
            is_complete: false,
            #[cfg(test)]
            looked: 0,
        }
    }

    /// Takes the next bytes, or the end behind them.
    fn push(&mut self, bytes: &[u8], is_end: bool, machine: &mut Machine) -> Result<(), XmlError> {
        if self.is_complete {
            return Ok(());
        }
        if let Some(start) = self.intake.push(bytes, is_end)? {
            machine.begin(start);
        }
        if is_end || self.intake.broken.is_some() {
            self.complete(machine);
        }
        Ok(())
    }

    /// All is there, be it whole or not: what isn't is told by the machine.
    fn complete(&mut self, machine: &Machine) {
        self.is_complete = true;
        if machine.awaits_doctype() {
            let (text, broken) = (&self.intake.text, self.intake.broken.as_ref());
            self.dtd = dtd::find(text, machine.position(), &self.options, None, broken);
        }
    }

    /// Whether the machine may take steps. As long as it isn't known to be inside of something, it may try:
    /// the quick steps see for themselves what is there, the others come up to what is whole.
    fn may_step(&mut self, machine: &Machine) -> bool {
        let is_between = self.intake.is_settled() && !self.whole.is_inside();
        #[cfg(test)]
        if is_between {
            self.looked += self.intake.text.len() - machine.position();
        }
        is_between || self.is_complete || (self.intake.is_settled() && self.look(machine))
    }

    /// Whether what follows, where the machine waits, is whole by now.
    fn look(&mut self, machine: &Machine) -> bool {
        let text = self.intake.text.as_bytes();
        #[cfg(test)]
        {
            self.looked += text.len() - self.whole.looked_from(machine.position());
        }
        match self.whole.look(text, machine.position(), machine.is_outside()) {
            Found::Part => false,
            Found::Whole => true,
            Found::Doctype => {
                if machine.awaits_doctype() {
                    let at = machine.position();
                    self.dtd = dtd::read(&self.intake.text, at, &self.options, None, None);
                }
                true
            }
        }
    }

    /// Drops the text that was read, when it is most of all: what is moved then is less than what is dropped.
    fn forget(&mut self, machine: &mut Machine) {
        let Some(read) = machine.between().filter(|&read| read >= FORGOTTEN_MIN) else { return };
        if read >= self.intake.text.len() / 2 {
            self.intake.forget(read);
            self.whole.forget(read);
            machine.begin(0);
        }
    }

    fn view(&self) -> View<'_> {
        View {
            source: &self.intake.text,
            dtd: &self.dtd,
            broken: self.intake.broken.as_ref(),
            whole: if self.is_complete { usize::MAX } else { self.whole.to },
            behind: BEHIND as usize,
        }
    }
}
