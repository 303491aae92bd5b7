//! Events while the bytes arrive.

use super::Source;
use crate::error::{Error, OffsetError};
use crate::machine::{Machine, Step};
use crate::options::Options;
use crate::reader::{Event, event};

/// The result of [`EventFeed::next_event`].
#[derive(Debug)]
pub enum FeedEvent<'r> {
    Event(Event<'r>),
    /// The next event requires more bytes, or a call of [`EventFeed::end`].
    NeedInput,
    /// The end of a well-formed document.
    End,
}

/// Events of a document while its bytes arrive, in pieces that may be cut anywhere. Events and errors are those of
/// [`crate::reader::Reader`] for all the bytes together. The text between two pieces of markup is one event here too.
/// An event's text is dropped once the next one is pulled: memory holds the bytes that were fed but not pulled yet, and
/// one piece of markup or text.
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
/// # Ok::<(), penstock_xml::Error>(())
/// ```
#[derive(Debug)]
pub struct EventFeed {
    source: Source,
    machine: Machine,
    failed: Option<Error>,
    is_ended: bool,
}

impl EventFeed {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut machine = Machine::new(options.limits, 0);
        machine.keep_origins = false;
        Self { source: Source::new(options), machine, failed: None, is_ended: false }
    }

    /// Adds the next bytes. Errors are returned by [`EventFeed::next_event`], after the events before them.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.source.drop_parsed(&mut self.machine);
        self.push(bytes, false);
    }

    /// Marks the end of the document.
    pub fn end(&mut self) {
        self.push(&[], true);
    }

    /// Bytes of memory held for text.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.source.input.text.capacity()
    }

    fn push(&mut self, bytes: &[u8], is_end: bool) {
        if self.failed.is_none() {
            self.failed = self.source.push(bytes, is_end, &mut self.machine).err();
        }
    }

    /// Returns the next event of the bytes fed so far.
    ///
    /// # Errors
    /// The first place where the document isn't well-formed or exceeds a limit. Later calls return the same
    /// error.
    pub fn next_event(&mut self) -> Result<FeedEvent<'_>, Error> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.is_ended {
            return Ok(FeedEvent::End);
        }
        self.machine.composed.clear();
        let step = match self.step() {
            Ok(step) => step,
            Err(error) => {
                let error = self.source.input.locate(error);
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        self.is_ended = matches!(step, Step::Finished);
        Ok(match event(&self.machine, self.source.view(), step) {
            Some(event) => FeedEvent::Event(event),
            None if self.is_ended => FeedEvent::End,
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
            if !waits || !source.scan(machine) {
                return Ok(step);
            }
        }
    }
}
