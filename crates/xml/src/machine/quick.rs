//! The fast path for most of a document: start tags without attributes whose name was predicted, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Machine, Open, Phase, Span, Step, View};
use crate::names::{Symbol, number};
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

    #[inline]
    fn quick_start<T: StepSink>(
        &mut self,
        view: View<'_>,
        name: &[u8; WINDOW],
        to: &mut T,
    ) -> Option<()> {
        let is_full =
            self.open.len() >= self.limits.depth as usize || self.nodes >= self.limits.nodes;
        if is_full || !view.dtd.attributes.is_empty() {
            return None;
        }
        let (raw, len, qname) = self.namespaces.next_is_predicted(name)?;
        let at = number(self.pos);
        self.nodes = self.nodes.wrapping_add(1);
        self.pos = self.pos.wrapping_add(len).wrapping_add("<>".len());
        if T::TAKES_LEAVES
            && let Some((text, end)) = self.leaf(view, raw)
        {
            self.nodes = self.nodes.wrapping_add(1);
            self.pos = end;
            to.leaf(qname, at, text);
            return Some(());
        }
        self.attributes.clear();
        self.declared.clear();
        self.open.push(Open { raw, mark: self.namespaces.mark() });
        to.element(qname, at);
        Some(())
    }

    /// The text of an element whose start tag was read, and where its end tag ends, if it contains plain text alone.
    #[inline]
    fn leaf(&self, view: View<'_>, raw: Symbol) -> Option<(Span, usize)> {
        let rest = view.source.as_bytes().get(self.pos..)?;
        let len = scan::text(rest, 0);
        let (b"</", name) = rest.get(len..)?.split_first_chunk::<2>()? else { return None };
        if len == 0 || self.nodes >= self.limits.nodes {
            return None;
        }
        let name = self.namespaces.fits(raw, name.first_chunk()?)?;
        let end = self.pos.wrapping_add(len).wrapping_add(name).wrapping_add("</>".len());
        Some((Span { start: number(self.pos), len: number(len) }, end))
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
