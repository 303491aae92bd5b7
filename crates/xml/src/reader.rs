//! Parsing without a tree: events, pulled one by one, of a whole document or while its bytes arrive.

pub use crate::feed::{EventFeed, FeedEvent};

use crate::error::Error;
use crate::input::Input;
use crate::machine::tags::address;
use crate::machine::{self, Machine, Step, View};
use crate::names::Symbol;

/// An event. The text between two pieces of markup is one event, with references resolved.
#[derive(Debug)]
pub enum Event<'r> {
    Start(Start<'r>),
    /// The end of the innermost open element; empty elements have one too.
    End,
    Text(&'r str),
    Comment(&'r str),
    ProcessingInstruction {
        target: &'r str,
        data: &'r str,
    },
}

/// Pulls events from an [`Input`].
///
/// ```
/// use penstock_xml::reader::{Event, Reader};
/// use penstock_xml::{Input, Options};
///
/// let input = Input::new(b"<order><symbol>IBM</symbol></order>", &Options::default())?;
/// let mut reader = Reader::new(&input);
/// let mut text = String::new();
/// while let Some(event) = reader.next_event()? {
///     if let Event::Text(piece) = event {
///         text.push_str(piece);
///     }
/// }
/// assert_eq!(text, "IBM");
/// # Ok::<(), penstock_xml::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<'i> {
    input: &'i Input<'i>,
    machine: Machine,
    failed: Option<Error>,
    done: bool,
}

impl<'i> Reader<'i> {
    #[must_use]
    pub fn new(input: &'i Input<'i>) -> Self {
        let mut machine = Machine::new(input.limits, input.start());
        machine.keep_origins = false;
        Self { input, machine, failed: None, done: false }
    }

    /// Returns the next event, or none after the end of a well-formed document.
    ///
    /// # Errors
    /// The first place where the document isn't well-formed or exceeds a limit. Later calls return the same
    /// error.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, Error> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.done {
            return Ok(None);
        }
        self.machine.composed.clear();
        let view = self.input.view();
        let step = match self.machine.step(view) {
            Ok(step) => step,
            Err(error) => {
                let error = error.locate(self.input.text());
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        let event = event(&self.machine, view, step);
        self.done = event.is_none();
        Ok(event)
    }
}

/// The event of a step; none at the end, and if the step needs more of the source.
pub(crate) fn event<'r>(machine: &'r Machine, view: View<'r>, step: Step) -> Option<Event<'r>> {
    let text = |span| address(view, &machine.composed, span);
    Some(match step {
        Step::Start { qname, .. } => Event::Start(Start { machine, view, qname }),
        Step::End => Event::End,
        Step::Text(span) => Event::Text(text(span)),
        Step::Comment(span) => Event::Comment(text(span)),
        Step::Instruction { target, data, .. } => Event::ProcessingInstruction {
            target: machine.namespaces.names.str(target),
            data: text(data),
        },
        Step::Wait | Step::Finished => return None,
    })
}

/// The start of an element.
#[derive(Debug)]
pub struct Start<'r> {
    machine: &'r Machine,
    view: View<'r>,
    qname: u32,
}

/// An attribute of a [`Start`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'r> {
    pub prefix: &'r str,
    pub namespace: &'r str,
    pub local: &'r str,
    pub value: &'r str,
}

impl<'r> Start<'r> {
    fn str(&self, symbol: Symbol) -> &'r str {
        self.machine.namespaces.names.str(symbol)
    }

    fn parts(&self, qname: u32) -> (&'r str, &'r str, &'r str) {
        let names = &self.machine.namespaces.names;
        let qname = names.get_qname(qname);
        let pair = names.get_pair(qname.name);
        (names.str(qname.prefix), names.str(pair.uri), names.str(pair.local))
    }

    #[must_use]
    pub fn prefix(&self) -> &'r str {
        self.parts(self.qname).0
    }

    /// The namespace; empty for none.
    #[must_use]
    pub fn namespace(&self) -> &'r str {
        self.parts(self.qname).1
    }

    #[must_use]
    pub fn local_name(&self) -> &'r str {
        self.parts(self.qname).2
    }

    /// The attributes in the order of the document, defaults of the document type last.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'r>> {
        let (machine, view) = (self.machine, self.view);
        machine.attributes.iter().map(move |found: &machine::ScannedAttribute| {
            let (prefix, namespace, local) = self.parts(found.qname);
            let value = address(view, &machine.composed, found.value);
            Attribute { prefix, namespace, local, value }
        })
    }

    /// The namespaces declared here, as (prefix, namespace).
    pub fn declarations(&self) -> impl Iterator<Item = (&'r str, &'r str)> {
        self.machine.declared.iter().map(|&(prefix, uri)| (self.str(prefix), self.str(uri)))
    }
}
