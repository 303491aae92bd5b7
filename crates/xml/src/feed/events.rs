//! Events of bytes that come in pieces.

use super::Source;
use crate::error::{OffsetError, XmlError};
use crate::machine::{Machine, Step};
use crate::options::Options;
use crate::reader::{Event, event};

/// What [`EventFeed::next_event`] has.
#[derive(Debug)]
pub enum FeedEvent<'r> {
    Event(Event<'r>),
    /// Nothing before more bytes are fed, or their end is told.
    NeedInput,
    /// The well-formed document was told to its end.
    End,
}

/// Events of a document while its bytes come, in pieces that may be cut anywhere: the same as
/// [`crate::reader::Reader`] has of all of them together, up to the same error at the same place. Text comes whole
/// between two pieces of markup here too. What was told is dropped: the memory is that of what was fed and not
/// pulled yet, and of one piece of markup or text, at most that of the document.
///
/// ```
/// use penstock_xml::Options;
/// use penstock_xml::reader::{Event, EventFeed, FeedEvent};
///
/// let mut feed = EventFeed::new(&Options::default());
/// let mut text = String::new();
/// for piece in [Some("<order><symbol>I"), Some("BM</symbol></order>"), None] {
///     match piece {
///         Some(piece) => feed.feed(piece.as_bytes()),
///         None => feed.end(),
///     }
///     while let FeedEvent::Event(event) = feed.next_event()? {
///         if let Event::Text(piece) = event {
///             text.push_str(piece);
///         }
///     }
/// }
/// assert_eq!(text, "IBM");
/// # Ok::<(), penstock_xml::XmlError>(())
/// ```
#[derive(Debug)]
pub struct EventFeed {
    source: Source,
    machine: Machine,
    failed: Option<XmlError>,
    is_told: bool,
}

impl EventFeed {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut machine = Machine::new(options.limits, 0);
        machine.keep_origins = false;
        Self { source: Source::new(options), machine, failed: None, is_told: false }
    }

    /// Takes the next bytes. What is wrong with them [`EventFeed::next_event`] tells, behind the events before it.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.source.forget(&mut self.machine);
        self.push(bytes, false);
    }

    /// There are no more bytes.
    pub fn end(&mut self) {
        self.push(&[], true);
    }

    /// Bytes of memory for text.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.source.intake.text.capacity()
    }

    fn push(&mut self, bytes: &[u8], is_end: bool) {
        if self.failed.is_none() {
            self.failed = self.source.push(bytes, is_end, &mut self.machine).err();
        }
    }

    /// The next event of what was fed.
    ///
    /// # Errors
    /// What isn't well-formed, with its place; from then on the same again.
    pub fn next_event(&mut self) -> Result<FeedEvent<'_>, XmlError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.is_told {
            return Ok(FeedEvent::End);
        }
        self.machine.spill.clear();
        let step = match self.step() {
            Ok(step) => step,
            Err(fault) => {
                let error = self.source.intake.locate(fault);
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        self.is_told = matches!(step, Step::Finished);
        Ok(match event(&self.machine, self.source.view(), step) {
            Some(event) => FeedEvent::Event(event),
            None if self.is_told => FeedEvent::End,
            None => FeedEvent::NeedInput,
        })
    }

    fn step(&mut self) -> Result<Step, OffsetError> {
        let Self { source, machine, .. } = self;
        if !source.may_step(machine) {
            return Ok(Step::Wait);
        }
        loop {
            let step = machine.step(source.view())?;
            let waits = matches!(step, Step::Wait);
            if !waits || !source.look(machine) {
                return Ok(step);
            }
        }
    }
}
