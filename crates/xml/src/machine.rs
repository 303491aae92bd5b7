//! The parser behind both tree and events: a state machine that turns each piece of markup into a [`Step`]
//! and checks well-formedness and namespaces.
//!
//! Each step gets a [`View`] of the input. Steps refer to text by address and to names by the numbers of
//! [`Namespaces`]. The address space is the source, then the texts of the DTD, then `composed`: text that had
//! to be composed.

pub(crate) mod quick;
pub(crate) mod references;
pub(crate) mod tags;
mod text;

use crate::chars::{self, COLON, NAME, SPACE};
use crate::dtd::Dtd;
use crate::error::{ErrorKind, OffsetError};
use crate::names::{Symbol, number};
use crate::namespaces::{Mark, Namespaces};
use crate::options::Limits;
use crate::shared::{self, SharedNames};

/// The input of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'i> {
    pub(crate) source: &'i str,
    pub(crate) dtd: &'i Dtd,
    /// Why the source ends early.
    pub(crate) broken: Option<&'i OffsetError>,
    /// The source consists of complete pieces up to this offset.
    pub(crate) whole: usize,
    /// The address of the DTD's texts, after the source.
    pub(crate) behind: usize,
}

/// Text by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Attributes and declarations are in the machine.
    Start {
        qname: u32,
        at: u32,
    },
    End,
    Text(Span),
    Comment(Span),
    Instruction {
        target: Symbol,
        data: Span,
        at: u32,
    },
    /// The next step needs more of the source.
    Wait,
    Finished,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ScannedAttribute {
    pub(crate) qname: u32,
    pub(crate) value: Span,
    pub(crate) is_id: bool,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    raw: Symbol,
    mark: Mark,
}

/// An entity being parsed in content.
#[derive(Debug, Clone)]
struct Frame {
    /// Where parsing continues after the reference, in the frame below.
    resume: usize,
    start: usize,
    end: usize,
    /// Elements open at the reference.
    depth: usize,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Prolog,
    Content,
    Epilog,
}

/// Tables and buffers that one parse leaves for the next.
#[derive(Debug)]
pub(crate) struct Scratch {
    namespaces: Namespaces,
    attributes: Vec<ScannedAttribute>,
    declared: Vec<(Symbol, Symbol)>,
    open: Vec<Open>,
    raw_attributes: Vec<tags::RawAttribute>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            namespaces: Namespaces::new(),
            attributes: Vec::new(),
            declared: Vec::new(),
            open: Vec::with_capacity(16),
            raw_attributes: Vec::new(),
        }
    }

    /// Prepares for the next document. Returns false if it has grown too large to be kept.
    fn reset(&mut self) -> bool {
        let is_large = self.attributes.capacity() > KEPT_ITEMS_MAX
            || self.declared.capacity() > KEPT_ITEMS_MAX
            || self.open.capacity() > KEPT_ITEMS_MAX
            || self.raw_attributes.capacity() > KEPT_ITEMS_MAX;
        if is_large || !self.namespaces.reset() {
            return false;
        }
        self.attributes.clear();
        self.declared.clear();
        self.open.clear();
        self.raw_attributes.clear();
        true
    }
}

/// A longer list is not kept for the next document.
const KEPT_ITEMS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) namespaces: Namespaces,
    pub(crate) attributes: Vec<ScannedAttribute>,
    /// Declarations of the last [`Step::Start`]: (prefix, URI).
    pub(crate) declared: Vec<(Symbol, Symbol)>,
    /// Text that doesn't occur in the source as it is.
    pub(crate) composed: String,
    /// The places of composed text: (address, offset in the source).
    pub(crate) origins: Vec<(u32, u32)>,
    pub(crate) keep_origins: bool,
    limits: Limits,
    /// Offset in the source, or in the text of the innermost frame.
    pos: usize,
    frames: Vec<Frame>,
    /// The offset in the source of the outermost reference.
    reference_at: usize,
    open: Vec<Open>,
    raw_attributes: Vec<tags::RawAttribute>,
    phase: Phase,
    doctype_passed: bool,
    pending_end: bool,
    nodes: u32,
    growth: references::Growth,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let mut scratch = Scratch {
            namespaces: std::mem::replace(&mut self.namespaces, Namespaces::none()),
            attributes: std::mem::take(&mut self.attributes),
            declared: std::mem::take(&mut self.declared),
            open: std::mem::take(&mut self.open),
            raw_attributes: std::mem::take(&mut self.raw_attributes),
        };
        if scratch.reset() {
            shared::keep(scratch);
        }
    }
}

impl Machine {
    pub(crate) fn new(limits: Limits, start: usize) -> Self {
        let Scratch { namespaces, attributes, declared, open, raw_attributes } = shared::scratch();
        Self {
            namespaces,
            attributes,
            declared,
            composed: String::new(),
            origins: Vec::new(),
            keep_origins: true,
            limits,
            pos: start,
            frames: Vec::new(),
            reference_at: 0,
            open,
            raw_attributes,
            phase: Phase::Prolog,
            doctype_passed: false,
            pending_end: false,
            nodes: 0,
            growth: references::Growth { bytes: 0, limit: limits.entity_bytes },
        }
    }

    /// The names of a document that has been parsed.
    pub(crate) fn take_names(&mut self) -> SharedNames {
        if self.namespaces.names.are_few() {
            return self.namespaces.names.share();
        }
        std::mem::replace(&mut self.namespaces, Namespaces::none()).names
    }

    /// Whether text may point into the DTD.
    pub(crate) fn entities_used(&self) -> bool {
        self.doctype_passed
    }

    /// How far the source has been parsed.
    pub(crate) fn position(&self) -> usize {
        if self.frames.is_empty() { self.pos } else { self.reference_at }
    }

    /// Starts at `start` of the source.
    pub(crate) fn begin(&mut self, start: usize) {
        self.pos = start;
    }

    /// The offset in the source, between two pieces of markup; none inside an entity or an empty element.
    pub(crate) fn between(&self) -> Option<usize> {
        (self.frames.is_empty() && !self.pending_end).then_some(self.pos)
    }

    /// Whether parsing is before or after the root element.
    pub(crate) fn is_outside(&self) -> bool {
        self.phase != Phase::Content
    }

    /// Whether a document type may still come.
    pub(crate) fn awaits_doctype(&self) -> bool {
        self.phase == Phase::Prolog && !self.doctype_passed
    }

    /// The next step.
    #[inline]
    pub(crate) fn step(&mut self, view: View<'_>) -> Result<Step, OffsetError> {
        let mut step = None;
        self.attributes.clear();
        self.declared.clear();
        self.run(view, &mut step);
        match step {
            Some(step) => Ok(step),
            None => self.general_step(view),
        }
    }

    /// The next step, by the general path.
    #[inline]
    pub(crate) fn general_step(&mut self, view: View<'_>) -> Result<Step, OffsetError> {
        if self.pending_end {
            self.pending_end = false;
            return Ok(self.close());
        }
        match self.phase {
            Phase::Content => self.content(view),
            Phase::Prolog | Phase::Epilog => self.outside(view),
        }
    }

    /// Whether the fast path may apply.
    #[inline]
    fn is_quick(&self) -> bool {
        self.phase == Phase::Content && self.frames.is_empty() && !self.pending_end
    }

    #[inline(never)]
    fn content(&mut self, view: View<'_>) -> Result<Step, OffsetError> {
        loop {
            if self.pos >= view.whole && self.frames.is_empty() {
                return Ok(Step::Wait);
            }
            let text = self.text(view);
            let bytes = text.as_bytes();
            let step = match bytes.get(self.pos) {
                Some(b'<') => match bytes.get(self.pos.wrapping_add(1)) {
                    Some(b'/') => return self.end_tag(view, text),
                    Some(b'!') if is_cdata(bytes, self.pos) => self.characters(view)?,
                    Some(b'!') => Some(self.comment(view, text)?),
                    Some(b'?') => Some(self.instruction(view, text)?),
                    Some(_) => Some(self.start_tag(view, text)?),
                    None => return Err(self.short(view, "a tag")),
                },
                Some(_) => self.characters(view)?,
                None if self.frames.is_empty() => return Err(self.unclosed(view)),
                None => {
                    self.leave_frame()?;
                    None
                }
            };
            if let Some(step) = step {
                return Ok(step);
            }
        }
    }

    /// Takes a step before or after the root element.
    fn outside(&mut self, view: View<'_>) -> Result<Step, OffsetError> {
        let text = view.source;
        let bytes = text.as_bytes();
        loop {
            self.pos = skip_space(bytes, self.pos);
            if self.pos >= view.whole {
                return Ok(Step::Wait);
            }
            let rest = bytes.get(self.pos..).unwrap_or(&[]);
            match rest {
                [] => return self.finish(view),
                [b'<', b'?', ..] => return self.instruction(view, text),
                [b'<', b'!', b'-', ..] => return self.comment(view, text),
                [b'<', b'!', ..] => self.pass_doctype(view, rest)?,
                [b'<', b'/', ..] => {
                    let end = name_end(bytes, self.pos.saturating_add(2));
                    let name = piece(text, self.pos.saturating_add(2), end);
                    return Err(self.error(self.pos, ErrorKind::StrayEndTag(name)));
                }
                [b'<'] => return Err(self.short(view, "a tag")),
                [b'<', ..] if self.phase == Phase::Prolog => return self.start_tag(view, text),
                [b'<', ..] => return Err(self.error(self.pos, ErrorKind::SecondRoot)),
                _ => return Err(self.error(self.pos, ErrorKind::TextOutsideRoot)),
            }
        }
    }

    fn finish(&mut self, view: View<'_>) -> Result<Step, OffsetError> {
        if let Some(broken) = view.broken {
            return Err(broken.clone());
        }
        match self.phase {
            Phase::Prolog => Err(self.error(self.pos, ErrorKind::Empty)),
            Phase::Content | Phase::Epilog => Ok(Step::Finished),
        }
    }

    fn pass_doctype(&mut self, view: View<'_>, rest: &[u8]) -> Result<(), OffsetError> {
        const START: &[u8] = b"<!DOCTYPE";
        if !rest.starts_with(START) {
            if rest.len() < START.len() && START.starts_with(rest) {
                return Err(self.short(view, "a declaration"));
            }
            return Err(self.expected(
                "an element, a comment or `<!DOCTYPE`",
                view.source,
                self.pos,
            ));
        }
        if self.phase != Phase::Prolog || self.doctype_passed {
            return Err(self.error(self.pos, ErrorKind::DoctypeMisplaced));
        }
        if let Some(error) = &view.dtd.error {
            return Err(error.clone());
        }
        let Some(range) = &view.dtd.range else {
            return Err(self.error(self.pos, ErrorKind::DoctypeRejected));
        };
        self.doctype_passed = true;
        self.pos = range.end;
        Ok(())
    }

    fn unclosed(&self, view: View<'_>) -> OffsetError {
        if let Some(broken) = view.broken {
            return broken.clone();
        }
        let open = self.open.last().map_or("", |open| self.namespaces.names.str(open.raw));
        self.error(self.pos, ErrorKind::Unclosed(open.to_owned()))
    }

    #[inline]
    fn close(&mut self) -> Step {
        if let Some(open) = self.open.pop() {
            self.namespaces.leave(open.mark);
        }
        if self.open.is_empty() {
            self.phase = Phase::Epilog;
        }
        Step::End
    }

    /// The text that `pos` refers to.
    #[inline]
    fn text<'i>(&self, view: View<'i>) -> &'i str {
        match self.frames.last() {
            None => view.source,
            Some(frame) => view.dtd.text.get(frame.start..frame.end).unwrap_or(""),
        }
    }

    /// The address of the beginning of the text.
    #[inline]
    fn base(&self, view: View<'_>) -> usize {
        match self.frames.last() {
            None => 0,
            Some(frame) => view.behind.wrapping_add(frame.start),
        }
    }

    #[inline]
    fn span(&self, view: View<'_>, start: usize, end: usize) -> Span {
        let len = number(end.wrapping_sub(start));
        Span { start: number(self.base(view).wrapping_add(start)), len }
    }

    #[inline]
    fn count_nodes(&mut self, more: usize) -> Result<(), OffsetError> {
        self.nodes = self.nodes.saturating_add(number(more));
        if self.nodes > self.limits.nodes {
            return Err(self.limit("nodes", self.limits.nodes));
        }
        Ok(())
    }

    fn limit(&self, what: &'static str, limit: u32) -> OffsetError {
        self.error(self.pos, ErrorKind::Limit { what, limit })
    }

    /// An error at `at` of the current text, or at the reference to the entity that the text is from.
    #[cold]
    fn error(&self, at: usize, kind: ErrorKind) -> OffsetError {
        let at = if self.frames.is_empty() { at } else { self.reference_at };
        OffsetError::new(at, kind)
    }

    /// The text ends inside `what`.
    #[cold]
    fn short(&self, view: View<'_>, what: &'static str) -> OffsetError {
        if let Some(frame) = self.frames.last() {
            return self.error(self.pos, ErrorKind::EntityUnbalanced(frame.name.clone()));
        }
        match view.broken {
            Some(broken) => broken.clone(),
            None => self.error(view.source.len(), ErrorKind::UnexpectedEnd(what)),
        }
    }

    #[cold]
    fn expected(&self, expected: &'static str, text: &str, at: usize) -> OffsetError {
        let found = match text.get(at..).and_then(|rest| rest.chars().next()) {
            Some(found) => format!("`{}`", found.escape_debug()),
            None => "the end".to_owned(),
        };
        self.error(at, ErrorKind::Expected { expected, found })
    }
}

fn is_cdata(bytes: &[u8], at: usize) -> bool {
    bytes.get(at.wrapping_add(2)) == Some(&b'[')
}

#[inline]
fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| chars::has(byte, SPACE)) {
        at = at.wrapping_add(1);
    }
    at
}

#[inline]
fn name_end(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| chars::has(byte, NAME | COLON)) {
        at = at.wrapping_add(1);
    }
    at
}

/// At most 64 characters of the text, for messages.
fn piece(text: &str, start: usize, end: usize) -> String {
    let whole = text.get(start..end).unwrap_or("");
    match whole.char_indices().nth(64) {
        Some((cut, _)) => [whole.get(..cut).unwrap_or(""), "..."].concat(),
        None => whole.to_owned(),
    }
}
