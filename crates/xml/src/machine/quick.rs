//! The fast path for most of a document: start tags without attributes whose name was predicted, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Machine, Open, Phase, Span, Step, View};
use crate::build::Leaves;
use crate::names::number;
use crate::namespaces::{Prediction, Raw};
use crate::scan::{self, WINDOW};

/// Receives the steps of the fast path.
pub(crate) trait StepSink {
    /// An element without attributes and declarations.
    fn element(&mut self, qname: u32, at: u32);
    fn text(&mut self, span: Span);
    fn end(&mut self);

    /// For elements that contain text alone and follow each other, if it receives them in one piece.
    fn leaves(&mut self) -> Option<Leaves<'_>>;
}

impl StepSink for Option<Step> {
    #[inline]
    fn leaves(&mut self) -> Option<Leaves<'_>> {
        None
    }

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
}

impl Machine {
    /// Takes steps as long as the fast path applies.
    #[inline(never)]
    pub(crate) fn run<T: StepSink>(&mut self, view: View<'_>, to: &mut T) {
        // Of these conditions a quick step can change the phase alone.
        let may_start = self.is_quick();
        while may_start && self.phase == Phase::Content && self.quick(view, to).is_some() {}
    }

    /// The next step, if the fast path applies.
    #[inline(always)]
    pub(super) fn quick<T: StepSink>(&mut self, view: View<'_>, to: &mut T) -> Option<()> {
        let rest = view.source.as_bytes().get(self.pos..)?;
        match rest.split_first_chunk::<1>()? {
            ([b'<'], [b'/', name @ ..]) => self.quick_end(name.first_chunk()?, to),
            ([b'<'], name) => self.quick_start(view, name.first_chunk()?, to),
            _ => self.quick_text(rest, to),
        }
    }

    /// A start tag, or as many elements that contain plain text alone as follow each other.
    #[inline]
    fn quick_start<T: StepSink>(
        &mut self,
        view: View<'_>,
        name: &[u8; WINDOW],
        to: &mut T,
    ) -> Option<()> {
        let room = self.limits.nodes.checked_sub(self.nodes).filter(|room| *room > 0)?;
        if self.open.len() >= self.limits.depth as usize || !view.dtd.attributes.is_empty() {
            return None;
        }
        let bytes = view.source.as_bytes();
        let mut at = Place { pos: number(self.pos), room };
        let mut names = self.namespaces.prediction();
        let found = match to.leaves() {
            Some(to) => leaves(bytes, &mut at, name, &mut names, to),
            None => names.next(name),
        };
        let (last, passed) = (names.last, at.pos as usize != self.pos);
        let Some((raw, qname)) = found else {
            self.namespaces.seen_prediction(last);
            self.nodes = self.limits.nodes.wrapping_sub(at.room);
            self.pos = at.pos as usize;
            return passed.then_some(());
        };
        let inside = at.pos.wrapping_add(raw.len).wrapping_add(number("<>".len()));
        self.namespaces.seen_prediction(last);
        self.nodes = self.limits.nodes.wrapping_sub(at.room).wrapping_add(1);
        self.pos = inside as usize;
        self.attributes.clear();
        self.declared.clear();
        self.open.push(Open { raw: last, mark: self.namespaces.mark() });
        to.element(qname, at.pos);
        Some(())
    }

    #[inline]
    fn quick_end<T: StepSink>(&mut self, name: &[u8; WINDOW], to: &mut T) -> Option<()> {
        let len = self.namespaces.fits(self.open.last()?.raw, name)?;
        self.pos = self.pos.wrapping_add(len).wrapping_add("</>".len());
        self.close();
        to.end();
        Some(())
    }

    #[inline]
    fn quick_text<T: StepSink>(&mut self, rest: &[u8], to: &mut T) -> Option<()> {
        let len = scan::text(rest, 0);
        let is_plain = matches!(rest.get(len..), Some([b'<', after, ..]) if *after != b'!');
        if !is_plain || self.nodes >= self.limits.nodes {
            return None;
        }
        let span = Span { start: number(self.pos), len: number(len) };
        self.nodes = self.nodes.wrapping_add(1);
        self.pos = self.pos.wrapping_add(len);
        to.text(span);
        Some(())
    }
}

/// Where the fast path is in the source, and how many nodes there may be from there on.
struct Place {
    pos: u32,
    room: u32,
}

/// Passes as many elements that contain plain text alone as follow each other to `to`. Returns the element with a
/// predicted name that is next and is none of them.
#[inline(always)]
fn leaves<'b, 'n>(
    bytes: &'b [u8],
    at: &mut Place,
    mut name: &'b [u8; WINDOW],
    names: &mut Prediction<'n>,
    mut to: Leaves<'_>,
) -> Option<(&'n Raw, u32)> {
    loop {
        let (raw, qname) = names.next(name)?;
        let inside = at.pos.wrapping_add(raw.len).wrapping_add(number("<>".len()));
        let Some(len) = leaf(bytes, inside, raw).filter(|_| at.room > 1) else {
            return Some((raw, qname));
        };
        to.add(qname, at.pos, Span { start: inside, len });
        at.room = at.room.wrapping_sub(2);
        at.pos = inside.wrapping_add(len).wrapping_add(raw.len).wrapping_add(number("</>".len()));
        match bytes.get(at.pos as usize..)?.first_chunk::<{ WINDOW + 1 }>()? {
            [b'<', after @ ..] if at.room > 0 => name = after,
            _ => return None,
        }
    }
}

/// The length of the plain text from `at` on, if it is followed by the end tag of `raw`.
#[inline(always)]
fn leaf(bytes: &[u8], at: u32, raw: &Raw) -> Option<u32> {
    let rest = bytes.get(at as usize..)?;
    let len = scan::text(rest, 0);
    let [b'<', b'/', name @ ..] = rest.get(len..)?.first_chunk::<{ WINDOW + 2 }>()? else {
        return None;
    };
    (len > 0 && raw.closed.fits(name)).then_some(number(len))
}
