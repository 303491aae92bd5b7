//! Character data, comments and processing instructions.

use super::{Machine, Span, Step, View, is_cdata, name_end, piece, skip_space};
use crate::error::{ErrorKind, OffsetError};
use crate::limits::XML_BYTES_CEILING;
use crate::names::number;
use crate::scan;

/// How a stretch of characters ended.
enum Edge {
    /// Markup follows, or the text ends.
    Here,
    /// More characters follow.
    Onward,
}

impl Machine {
    /// Text, CDATA sections and references up to the next markup, as one text. `None` if it is empty.
    #[inline]
    pub(super) fn characters(&mut self, view: View<'_>) -> Result<Option<Step>, OffsetError> {
        let text = self.text(view);
        let bytes = text.as_bytes();
        let start = self.pos;
        let end = self.plain(text)?;
        let simple = match bytes.get(end) {
            Some(b'<') => !(bytes.get(end.wrapping_add(1)) == Some(&b'!') && is_cdata(bytes, end)),
            Some(_) => false,
            None => self.frames.is_empty(),
        };
        if !simple {
            return self.composed(view);
        }
        self.pos = end;
        if end == start {
            return Ok(None);
        }
        self.count_nodes(1)?;
        Ok(Some(Step::Text(self.span(view, start, end))))
    }

    /// Where the plain text from `pos` on ends.
    #[inline]
    fn plain(&self, text: &str) -> Result<usize, OffsetError> {
        let bytes = text.as_bytes();
        let mut at = self.pos;
        loop {
            at = scan::text(bytes, at);
            if bytes.get(at) != Some(&b']') {
                return Ok(at);
            }
            match bytes.get(at.wrapping_add(1)..) {
                Some([b']', b'>', ..]) => {
                    return Err(self.error(at, ErrorKind::CdataEndInText));
                }
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// As [`Self::characters`] where the text has to be composed in `composed`.
    fn composed(&mut self, view: View<'_>) -> Result<Option<Step>, OffsetError> {
        let begin = self.composed.len();
        let origin = self.position();
        while let Edge::Onward = self.stretch(view)? {}
        let len = self.composed.len().wrapping_sub(begin);
        if len == 0 {
            return Ok(None);
        }
        if len > XML_BYTES_CEILING as usize {
            return Err(self.limit("bytes per text", XML_BYTES_CEILING));
        }
        self.count_nodes(1)?;
        let span = Span { start: self.composed_address(view, begin), len: number(len) };
        if self.keep_origins {
            self.origins.push((span.start, number(origin)));
        }
        Ok(Some(Step::Text(span)))
    }

    pub(super) fn composed_address(&self, view: View<'_>, at: usize) -> u32 {
        number(view.behind.wrapping_add(view.dtd.text.len()).wrapping_add(at))
    }

    /// One stretch: plain text, a CDATA section, a reference, or the end of an entity.
    fn stretch(&mut self, view: View<'_>) -> Result<Edge, OffsetError> {
        let text = self.text(view);
        let bytes = text.as_bytes();
        match bytes.get(self.pos) {
            None if self.frames.is_empty() => Ok(Edge::Here),
            None => {
                self.leave_frame()?;
                Ok(Edge::Onward)
            }
            Some(b'<') => match bytes.get(self.pos.wrapping_add(1)) {
                Some(b'!') if is_cdata(bytes, self.pos) => {
                    self.cdata(view, text)?;
                    Ok(Edge::Onward)
                }
                _ => Ok(Edge::Here),
            },
            Some(b'&') => {
                self.reference(view, text)?;
                Ok(Edge::Onward)
            }
            Some(_) => {
                let end = self.plain(text)?;
                self.composed.push_str(text.get(self.pos..end).unwrap_or(""));
                self.pos = end;
                Ok(Edge::Onward)
            }
        }
    }

    fn cdata(&mut self, view: View<'_>, text: &str) -> Result<(), OffsetError> {
        const START: &str = "<![CDATA[";
        let rest = text.get(self.pos..).unwrap_or("");
        if !rest.starts_with(START) {
            return Err(match START.starts_with(rest) {
                true => self.short(view, "a CDATA section"),
                false => self.expected("`<![CDATA[`", text, self.pos),
            });
        }
        let start = self.pos.wrapping_add(START.len());
        let Some(len) = find(text, start, b"]]>") else {
            return Err(self.short(view, "a CDATA section"));
        };
        let end = start.wrapping_add(len);
        self.composed.push_str(text.get(start..end).unwrap_or(""));
        self.pos = end.wrapping_add(3);
        Ok(())
    }

    pub(super) fn comment(&mut self, view: View<'_>, text: &str) -> Result<Step, OffsetError> {
        let rest = text.get(self.pos..).unwrap_or("");
        if !rest.starts_with("<!--") {
            return Err(match "<!--".starts_with(rest) || "<![CDATA[".starts_with(rest) {
                true => self.short(view, "a comment"),
                false => self.expected("an element, a comment or text", text, self.pos),
            });
        }
        let start = self.pos.wrapping_add(4);
        let Some(len) = find(text, start, b"--") else {
            return Err(self.short(view, "a comment"));
        };
        let end = start.wrapping_add(len);
        match text.as_bytes().get(end.wrapping_add(2)) {
            Some(b'>') => {}
            Some(_) => return Err(self.error(end, ErrorKind::HyphensInComment)),
            None => return Err(self.short(view, "a comment")),
        }
        self.count_nodes(1)?;
        let span = self.span(view, start, end);
        self.pos = end.wrapping_add(3);
        Ok(Step::Comment(span))
    }

    pub(super) fn instruction(&mut self, view: View<'_>, text: &str) -> Result<Step, OffsetError> {
        let bytes = text.as_bytes();
        let at = self.pos;
        let (target, name_end) = self.target(view, text, at.wrapping_add(2))?;
        let start = skip_space(bytes, name_end);
        let end = match find(text, name_end, b"?>") {
            Some(len) => name_end.wrapping_add(len),
            None if start == name_end && start < bytes.len() && bytes.get(start) != Some(&b'?') => {
                return Err(self.expected("a space or `?>`", text, start));
            }
            None => return Err(self.short(view, "a processing instruction")),
        };
        if start == name_end && end != name_end {
            return Err(self.expected("a space or `?>`", text, name_end));
        }
        self.count_nodes(1)?;
        let data = self.span(view, start.min(end), end);
        let at = number(self.base(view).wrapping_add(at));
        self.pos = end.wrapping_add(2);
        Ok(Step::Instruction { target, data, at })
    }

    /// The target: a name without colon that isn't `xml`.
    fn target(
        &mut self,
        view: View<'_>,
        text: &str,
        at: usize,
    ) -> Result<(u32, usize), OffsetError> {
        let end = name_end(text.as_bytes(), at);
        let written = text.get(at..end).unwrap_or("");
        if written == "xml" && end < text.len() {
            return Err(self.error(self.pos, ErrorKind::DeclarationNotFirst));
        }
        if written.eq_ignore_ascii_case("xml") && end < text.len() {
            return Err(self.error(at, ErrorKind::ReservedTarget(written.to_owned())));
        }
        if written.contains(':') && end < text.len() {
            return Err(self.error(at, ErrorKind::BadName(piece(text, at, end))));
        }
        self.parsed_name(view, text, at)
    }
}

/// The distance from `start` to the first `needle`.
fn find(text: &str, start: usize, needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(text.as_bytes().get(start..)?, needle)
}
