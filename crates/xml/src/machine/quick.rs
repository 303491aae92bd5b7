//! The fast path for most of a document: start tags whose names were predicted, with plain attributes, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Attribute, Machine, Open, Phase, Span, Step, View};
use crate::build::Leaves;
use crate::names::{EMPTY, Symbol};
use crate::namespaces::{Bindings, Mark, Prediction, Raw};
use crate::scan;

/// A tag with more attributes is left to the general path.
const ATTRIBUTES_MAX: usize = 8;

/// Receives the steps of the fast path.
pub(crate) trait StepSink {
    /// An element without attributes and declarations.
    fn element(&mut self, qname: u32, at: u32);
    /// An element without declarations.
    fn tagged(&mut self, qname: u32, at: u32, attributes: &[Attribute]);
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
    fn tagged(&mut self, qname: u32, at: u32, _: &[Attribute]) {
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
        let is_limited =
            self.open.len() >= depth || (self.limits.name_bytes as usize) < scan::CLOSED_BYTES_MAX;
        if !self.is_quick() || !view.dtd.attributes.is_empty() || is_limited {
            return;
        }
        let (names, bindings) = self.namespaces.prediction();
        let room = self.limits.nodes.saturating_sub(self.nodes);
        let attributes_max = ATTRIBUTES_MAX.min(self.limits.attributes as usize);
        let (open, attributes) = (&mut self.open, &mut self.attributes);
        let mut quick =
            Quick { source, rest, names, bindings, open, attributes, attributes_max, room, depth };
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
    /// Of the last start tag that has some.
    attributes: &'m mut Vec<Attribute>,
    attributes_max: usize,
    /// How many nodes there may be from here on.
    room: u32,
    /// How many elements may be open: fewer are.
    depth: usize,
}

impl<'m, 's> Quick<'m, 's> {
    /// Takes a step if the fast path applies. None: it does not apply to the next one.
    #[inline(always)]
    fn step<T: StepSink>(&mut self, to: &mut T) -> Option<()> {
        match self.rest {
            [b'<', b'/', name @ ..] => self.end(name, to),
            [b'<', name @ ..] => self.start(name, to),
            _ => {
                let len = scan::short_text(self.rest);
                let is_plain = matches!(self.rest.get(len..)?, [b'<', after, ..] if *after != b'!');
                if is_plain { self.text(len, to) } else { None }
            }
        }
    }

    /// A start tag, or as many elements that contain plain text alone as follow each other.
    #[inline(always)]
    fn start<T: StepSink>(&mut self, name: &'s [u8], to: &mut T) -> Option<()> {
        let last = self.names.named(self.names.last)?;
        let Some((symbol, raw)) = self.names.after(last, name) else {
            return self.tagged(last, name, to);
        };
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

    /// A start tag with attributes, or of an empty element, after the element `last`.
    #[inline(never)]
    fn tagged<T: StepSink>(&mut self, last: &Raw, name: &'s [u8], to: &mut T) -> Option<()> {
        let (symbol, raw) = self.names.element_after(last)?;
        let (mut rest, mut before) = (raw.behind(name)?, raw);
        let mut locals = [EMPTY; ATTRIBUTES_MAX];
        self.attributes.clear();
        let (inside, is_empty) = loop {
            match rest {
                [b'>', inside @ ..] => break (inside, false),
                // One step has to be enough.
                [b'/', b'>', behind @ ..] if to.leaves().is_some() => break (behind, true),
                [b' ', attribute @ ..] => {
                    let (raw, qname) = self.names.attribute_after(before)?;
                    let [b'=', quote @ (b'"' | b'\''), value @ ..] = raw.behind(attribute)? else {
                        return None;
                    };
                    let len = scan::value(value, 0, *quote);
                    let [end, behind @ ..] = value.get(len..)? else { return None };
                    let count = self.attributes.len();
                    // Two with one local name may be the same.
                    let repeats = locals.contains(&raw.local());
                    if end != quote || count >= self.attributes_max || repeats {
                        return None;
                    }
                    *locals.get_mut(count)? = raw.local();
                    let start = offset(self.source.len().wrapping_sub(value.len()));
                    let value = Span { start, len: offset(len) };
                    self.attributes.push(Attribute { qname, value, is_id: false });
                    (rest, before) = (behind, raw);
                }
                _ => return None,
            }
        };
        let room = self.room.checked_sub(offset(self.attributes.len().wrapping_add(1)))?;
        to.tagged(raw.as_element(), self.at(), self.attributes);
        if is_empty {
            to.end();
        } else {
            let mark = Mark { undo: self.bindings.undone(), environment: self.names.environment };
            self.open.push(Open { raw: symbol, mark });
        }
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
            match after {
                [b'<', b'/', name @ ..] if len > 0 && raw.is_closed(name) => {}
                _ => break,
            }
            let Some(behind) = after.get(raw.tag_len().wrapping_add("/".len())..) else { break };
            let at = offset(self.source.len().wrapping_sub(rest.len()));
            let start = at.wrapping_add(offset(raw.tag_len()));
            to.add(raw.as_element(), at, Span { start, len: offset(len) });
            names.last = symbol;
            (rest, room) = (behind, room_after);
            let [b'<', name @ ..] = rest else { break };
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
    fn end<T: StepSink>(&mut self, name: &[u8], to: &mut T) -> Option<()> {
        let &Open { raw, mark } = self.open.last()?;
        let raw = self.names.named(raw)?;
        if !raw.is_closed(name) {
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
