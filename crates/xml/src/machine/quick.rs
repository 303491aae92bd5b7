//! What most of a document is made of, done with few instructions: tags without attributes whose name was foreseen,
//! their end tags, and plain text. Whatever else comes is left untouched to the careful way, which knows it all.

use super::{Machine, Open, Span, Step, View};
use crate::names::number;
use crate::scan::{self, WINDOW};

impl Machine {
    /// The next step, where it is one of the simple ones in the source itself.
    #[inline]
    pub(super) fn quick(&mut self, view: View<'_>) -> Option<Step> {
        let rest = view.source.as_bytes().get(self.pos..)?;
        match rest.split_first_chunk::<1>()? {
            ([b'<'], [b'/', name @ ..]) => self.quick_end(name.first_chunk()?),
            ([b'<'], name) => self.quick_start(view, name.first_chunk()?),
            _ => self.quick_text(rest),
        }
    }

    #[inline]
    fn quick_start(&mut self, view: View<'_>, name: &[u8; WINDOW]) -> Option<Step> {
        let is_full =
            self.open.len() >= self.limits.depth as usize || self.nodes >= self.limits.nodes;
        if is_full || !view.dtd.attributes.is_empty() {
            return None;
        }
        let (raw, len, qname) = self.namespaces.foreseen(name)?;
        let at = number(self.pos);
        self.attributes.clear();
        self.declared.clear();
        self.nodes = self.nodes.wrapping_add(1);
        self.open.push(Open { raw, mark: self.namespaces.mark() });
        self.pos = self.pos.wrapping_add(len).wrapping_add("<>".len());
        Some(Step::Start { qname, at })
    }

    #[inline]
    fn quick_end(&mut self, name: &[u8; WINDOW]) -> Option<Step> {
        let len = self.namespaces.fits(self.open.last()?.raw, name)?;
        self.pos = self.pos.wrapping_add(len).wrapping_add("</>".len());
        Some(self.close())
    }

    #[inline]
    fn quick_text(&mut self, rest: &[u8]) -> Option<Step> {
        let len = scan::text(rest, 0);
        let is_plain = matches!(rest.get(len..), Some([b'<', after, ..]) if *after != b'!');
        if !is_plain || self.nodes >= self.limits.nodes {
            return None;
        }
        let span = Span { start: number(self.pos), len: number(len) };
        self.nodes = self.nodes.wrapping_add(1);
        self.pos = self.pos.wrapping_add(len);
        Some(Step::Text(span))
    }
}
