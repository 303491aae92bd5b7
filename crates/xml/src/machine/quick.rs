//! The fast path for most of a document: start tags without attributes whose name was predicted, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Machine, Open, Phase, Span, Step, View};
use crate::build::Leaves;
use crate::names::Symbol;
use crate::namespaces::{Bindings, Mark, Prediction, Raw};
use crate::scan::{self, WINDOW};

/// Receives the steps of the fast path.
pub(crate) trait StepSink {
    /// An element without attributes and declarations.
    fn element(&mut self, qname: u32, at: u32);
    fn text(&mut self, span: Span);
    fn end(&mut self);
    /// Whether it takes another step.
    fn takes_more(&self) -> bool;

    /// For elements that contain text alone and follow each other, if it receives them in one piece.
    fn leaves(&mut self) -> Option<Leaves<'_>>;
}

impl StepSink for Option<Step> {
    #[inline]
    fn element(&mut self, qname: u32, at: u32) {
        *self = Some(Step::Start { qname, at });
    }

    #[inline]
    fn text(&mut self, span: Span) {
        *self = Some(Step::Text(span));
    }

    #[inline]
    fn end(&mut self) {
        *self = Some(Step::End);
    }

    #[inline]
    fn takes_more(&self) -> bool {
        self.is_none()
    }

    #[inline]
    fn leaves(&mut self) -> Option<Leaves<'_>> {
        None
    }
}

impl Machine {
    /// Takes steps as long as the fast path applies.
    #[inline(never)]
    pub(crate) fn run<T: StepSink>(&mut self, view: View<'_>, to: &mut T) {
        let source = view.source.as_bytes();
        let rest = source.get(self.pos..).unwrap_or(&[]);
        let depth = self.limits.depth as usize;
        let is_limited = self.open.len() >= depth || (self.limits.name_bytes as usize) < WINDOW;
        if !self.is_quick() || !view.dtd.attributes.is_empty() || is_limited {
            return;
        }
        let (names, bindings) = self.namespaces.prediction();
        let room = self.limits.nodes.saturating_sub(self.nodes);
        let mut quick = Quick { source, rest, names, bindings, open: &mut self.open, room, depth };
        while quick.step(to).is_some() && to.takes_more() {}
        let Quick { rest, names: Prediction { last, environment, .. }, room, .. } = quick;
        self.pos = source.len().wrapping_sub(rest.len());
        self.nodes = self.limits.nodes.wrapping_sub(room);
        self.namespaces.seen_prediction(last, environment);
        if self.open.is_empty() {
            self.phase = Phase::Epilog;
        }
    }
}

/// The part of the machine that the fast path needs.
struct Quick<'m, 's> {
    source: &'s [u8],
    /// What is left of it.
    rest: &'s [u8],
    names: Prediction<'m>,
    bindings: &'m mut Bindings,
    open: &'m mut Vec<Open>,
    /// How many nodes there may be from here on.
    room: u32,
    /// How many elements may be open: fewer are.
    depth: usize,
}

impl<'m> Quick<'m, '_> {
    /// Takes a step if the fast path applies. None: it does not apply to the next one.
    #[inline(always)]
    fn step<T: StepSink>(&mut self, to: &mut T) -> Option<()> {
        match self.rest.first_chunk::<{ WINDOW + 2 }>()? {
            [b'<', b'/', name @ ..] => self.end(name, to),
            [b'<', name @ .., _] => self.start(name, to),
            _ => {
                let len = scan::short_text(self.rest);
                let is_plain = matches!(self.rest.get(len..)?, [b'<', after, ..] if *after != b'!');
                if is_plain { self.text(len, to) } else { None }
            }
        }
    }

    /// A start tag, or as many elements that contain plain text alone as follow each other.
    #[inline(always)]
    fn start<T: StepSink>(&mut self, name: &[u8; WINDOW], to: &mut T) -> Option<()> {
        let (symbol, raw) = self.names.after(self.names.named(self.names.last)?, name)?;
        let inside = self.rest.get(raw.tag_len()..)?;
        if inside.first() != Some(&b'<') && to.leaves().is_some() && self.leaves(symbol, raw, to) {
            return Some(());
        }
        let room = self.room.checked_sub(1)?;
        let mark = Mark { undo: self.bindings.undone(), environment: self.names.environment };
        self.open.push(Open { raw: symbol, mark });
        to.element(raw.as_element(), self.at());
        self.rest = inside;
        self.names.last = symbol;
        self.room = room;
        (self.open.len() < self.depth).then_some(())
    }

    /// Returns whether there was one. The first has the name `symbol`.
    #[inline(never)]
    fn leaves<T: StepSink>(&mut self, mut symbol: Symbol, mut raw: &'m Raw, to: &mut T) -> bool {
        let Some(mut to) = to.leaves() else { return false };
        let (mut rest, mut names, mut room) = (self.rest, self.names, self.room);
        while let Some(inside) = rest.get(raw.tag_len()..)
            && let Some(room_after) = room.checked_sub(2)
        {
            let len = scan::short_text(inside);
            let Some(after) = inside.get(len..) else { break };
            match after.first_chunk::<{ WINDOW + 2 }>() {
                Some([b'<', b'/', name @ ..]) if len > 0 && raw.closed.fits(name) => {}
                _ => break,
            }
            let Some(behind) = after.get(raw.tag_len().wrapping_add("/".len())..) else { break };
            let at = offset(self.source.len().wrapping_sub(rest.len()));
            let start = at.wrapping_add(offset(raw.tag_len()));
            to.add(raw.as_element(), at, Span { start, len: offset(len) });
            names.last = symbol;
            (rest, room) = (behind, room_after);
            let Some([b'<', name @ ..]) = rest.first_chunk::<{ WINDOW + 1 }>() else { break };
            let Some(next) = names.after(raw, name) else { break };
            (symbol, raw) = next;
        }
        (self.rest, self.names, self.room) = (rest, names, room);
        to.finish()
    }

    #[inline(always)]
    fn text<T: StepSink>(&mut self, len: usize, to: &mut T) -> Option<()> {
        let rest = self.rest.get(len..)?;
        self.room = self.room.checked_sub(1)?;
        to.text(Span { start: self.at(), len: offset(len) });
        self.rest = rest;
        Some(())
    }

    #[inline(always)]
    fn end<T: StepSink>(&mut self, name: &[u8; WINDOW], to: &mut T) -> Option<()> {
        let &Open { raw, mark } = self.open.last()?;
        let raw = self.names.named(raw)?;
        if !raw.closed.fits(name) {
            return None;
        }
        self.rest = self.rest.get(raw.tag_len().wrapping_add("/".len())..)?;
        self.open.pop();
        self.bindings.leave(mark);
        self.names.environment = mark.environment;
        to.end();
        (!self.open.is_empty()).then_some(())
    }

    /// The place in the source.
    #[inline(always)]
    fn at(&self) -> u32 {
        offset(self.source.len().wrapping_sub(self.rest.len()))
    }
}

/// Documents have fewer bytes than `XML_BYTES_CEILING`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "offsets have 28 bits")]
fn offset(at: usize) -> u32 {
    at as u32
}
