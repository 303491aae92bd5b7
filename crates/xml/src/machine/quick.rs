//! The fast path for most of a document: start tags without attributes whose name was predicted, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Machine, Open, Phase, Span, Step, View};
use crate::names::number;
use crate::namespaces::Raw;
use crate::scan::{self, WINDOW};

/// Receives the steps of the fast path.
pub(crate) trait StepSink {
    /// An element without attributes and declarations.
    fn element(&mut self, qname: u32, at: u32);
    fn text(&mut self, span: Span);
    fn end(&mut self);

    /// Whether it receives elements that contain text alone in one piece.
    const TAKES_LEAVES: bool;
    fn leaf(&mut self, qname: u32, at: u32, text: Span);
}

impl StepSink for Option<Step> {
    const TAKES_LEAVES: bool = false;

    fn leaf(&mut self, _: u32, _: u32, _: Span) {}

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
        let mut room = self.limits.nodes.checked_sub(self.nodes).filter(|room| *room > 0)?;
        if self.open.len() >= self.limits.depth as usize || !view.dtd.attributes.is_empty() {
            return None;
        }
        let bytes = view.source.as_bytes();
        let (start, mut pos, mut window) = (self.pos, self.pos, name);
        let mut names = self.namespaces.prediction();
        while let Some((symbol, raw, qname)) = names.next(window) {
            let inside = pos.wrapping_add(raw.len as usize).wrapping_add("<>".len());
            let found = if T::TAKES_LEAVES && room > 1 { leaf(bytes, inside, raw) } else { None };
            let Some((text, end)) = found else {
                self.nodes = self.limits.nodes.wrapping_sub(room).wrapping_add(1);
                self.pos = inside;
                self.namespaces.seen_prediction(symbol);
                self.attributes.clear();
                self.declared.clear();
                self.open.push(Open { raw: symbol, mark: self.namespaces.mark() });
                to.element(qname, number(pos));
                return Some(());
            };
            to.leaf(qname, number(pos), text);
            room = room.wrapping_sub(2);
            pos = end;
            match bytes.get(pos..).and_then(<[u8]>::first_chunk::<{ WINDOW + 1 }>) {
                Some([b'<', after @ ..]) if room > 0 => window = after,
                Some(_) | None => break,
            }
        }
        let last = names.last;
        self.namespaces.seen_prediction(last);
        self.nodes = self.limits.nodes.wrapping_sub(room);
        self.pos = pos;
        (pos != start).then_some(())
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

/// The plain text from `at` on, and where the end tag after it ends, if its name is `raw`.
#[inline]
fn leaf(bytes: &[u8], at: usize, raw: &Raw) -> Option<(Span, usize)> {
    let rest = bytes.get(at..)?;
    let len = scan::text(rest, 0);
    let (b"</", name) = rest.get(len..)?.split_first_chunk::<2>()? else { return None };
    if len == 0 || !raw.closed.fits(name.first_chunk()?) {
        return None;
    }
    let end = at.wrapping_add(len).wrapping_add(raw.len as usize).wrapping_add("</>".len());
    Some((Span { start: number(at), len: number(len) }, end))
}
