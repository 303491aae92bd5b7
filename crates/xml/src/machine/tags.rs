//! Start tags with their attributes, and end tags.

use super::{
    Machine, Open, Phase, ScannedAttribute, Span, Step, View, name_end, piece, references,
    skip_space,
};
use crate::chars::{self, COLON, NAME, Written};
use crate::error::{ErrorKind, OffsetError};
use crate::names::{EMPTY, Symbol, XML, XML_URI, XMLNS, XMLNS_URI, number};
use crate::namespaces::Use;

/// An attribute whose prefix isn't resolved yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawAttribute {
    name: Symbol,
    at: usize,
    value: Span,
    is_id: bool,
}

impl Machine {
    pub(super) fn start_tag(&mut self, view: View<'_>, text: &str) -> Result<Step, OffsetError> {
        let at = self.pos;
        let bytes = text.as_bytes();
        let predicted = self.namespaces.predicted();
        let (raw, mut pos) = self.name(view, text, at.wrapping_add(1), predicted)?;
        self.namespaces.seen_element(raw);
        self.attributes.clear();
        self.declared.clear();
        self.raw_attributes.clear();
        let mark = self.namespaces.mark();
        let behind = bytes.get(pos..).unwrap_or(&[]);
        // Most tags have no attributes.
        let known = match behind.first() {
            Some(b' ') if view.dtd.attributes.is_empty() => {
                let Self { namespaces, declared, limits, .. } = self;
                namespaces.enter_known(raw, behind, limits, declared)
            }
            _ => None,
        };
        let (qname, empty) = match known {
            Some((qname, len)) => {
                pos = pos.wrapping_add(len).wrapping_sub(1);
                (qname, false)
            }
            None => {
                let (qname, end, empty) = self.unknown_tag(view, text, (raw, pos))?;
                pos = end;
                (qname, empty)
            }
        };
        let in_source = number(self.base(view).wrapping_add(at));
        if self.open.len() >= self.limits.depth as usize {
            return Err(self.limit("nested elements", self.limits.depth));
        }
        self.count_nodes(self.attributes.len().saturating_add(1))?;
        self.open.push(Open { raw, mark });
        self.phase = Phase::Content;
        self.pending_end = empty;
        self.pos = pos.wrapping_add(1);
        Ok(Step::Start { qname, at: in_source })
    }

    /// Parses a start tag after its name, which ends at `pos`. Returns the qualified name, the offset of the tag's `>`,
    /// and whether `/` precedes it.
    fn unknown_tag(
        &mut self,
        view: View<'_>,
        text: &str,
        (raw, pos): (Symbol, usize),
    ) -> Result<(u32, usize, bool), OffsetError> {
        let (at, mark) = (self.pos, self.namespaces.mark());
        let (mut end, mut empty) = (pos, false);
        if text.as_bytes().get(pos) != Some(&b'>') {
            self.namespaces.tag();
            (end, empty) = self.attributes(view, text, (raw, pos))?;
        }
        if !view.dtd.attributes.is_empty() {
            if self.raw_attributes.is_empty() {
                self.namespaces.tag();
            }
            self.declared_attributes(view, raw)?;
        }
        if !self.raw_attributes.is_empty() {
            self.declare(view)?;
            self.resolve_attributes()?;
            self.raw_attributes.clear();
        }
        let resolved = self.namespaces.resolve(raw, Use::Element);
        let qname = resolved.map_err(|prefix| self.unbound(at.wrapping_add(1), prefix))?;
        let declares_alone = self.attributes.is_empty() && !self.declared.is_empty();
        if declares_alone
            && !empty
            && view.dtd.attributes.is_empty()
            && let Some(rest) = text.as_bytes().get(pos..=end)
            // The meaning of a reference depends on the document type.
            && !rest.contains(&b'&')
        {
            self.namespaces.seen_tag((raw, qname), rest, mark, &self.declared);
        }
        Ok((qname, end, empty))
    }

    pub(super) fn end_tag(&mut self, view: View<'_>, text: &str) -> Result<Step, OffsetError> {
        let bytes = text.as_bytes();
        let start = self.pos.wrapping_add(2);
        let depth = self.frames.last().map_or(0, |frame| frame.depth);
        let open = match self.open.last() {
            Some(open) if self.open.len() > depth => self.namespaces.names.str(open.raw),
            _ => return Err(self.unbalanced()),
        };
        let rest = bytes.get(start..).unwrap_or(&[]);
        let end = start.wrapping_add(open.len());
        if rest.starts_with(open.as_bytes()) {
            if bytes.get(end) == Some(&b'>') {
                self.pos = end.wrapping_add(1);
                return Ok(self.close());
            }
            let after = skip_space(bytes, end);
            match bytes.get(after) {
                Some(b'>') => {
                    self.pos = after.wrapping_add(1);
                    return Ok(self.close());
                }
                None => return Err(self.short(view, "an end tag")),
                Some(_) if after > end => return Err(self.expected("`>`", text, after)),
                Some(_) => {}
            }
        }
        let found_end = name_end(bytes, start);
        if found_end == bytes.len() {
            return Err(self.short(view, "an end tag"));
        }
        if found_end == start {
            return Err(self.expected("a name", text, start));
        }
        if found_end == end && rest.starts_with(open.as_bytes()) {
            return Err(self.expected("`>`", text, end));
        }
        let kind =
            ErrorKind::WrongEndTag { open: open.to_owned(), found: piece(text, start, found_end) };
        Err(self.error(self.pos, kind))
    }

    fn unbalanced(&self) -> OffsetError {
        let name = self.frames.last().map_or_else(String::new, |frame| frame.name.clone());
        self.error(self.pos, ErrorKind::EntityUnbalanced(name))
    }

    /// The name at `at` and where it ends. The predicted one is tried first.
    #[inline]
    fn name(
        &mut self,
        view: View<'_>,
        text: &str,
        at: usize,
        symbol: Symbol,
    ) -> Result<(Symbol, usize), OffsetError> {
        let bytes = text.as_bytes();
        let predicted = self.namespaces.names.str(symbol).as_bytes();
        let is_usual = !predicted.is_empty() && predicted.len() <= self.limits.name_bytes as usize;
        if is_usual && bytes.get(at..).is_some_and(|rest| rest.starts_with(predicted)) {
            let end = at.wrapping_add(predicted.len());
            if bytes.get(end).is_some_and(|&byte| !chars::has(byte, NAME | COLON)) {
                return Ok((symbol, end));
            }
        }
        self.parsed_name(view, text, at)
    }

    #[inline(never)]
    pub(super) fn parsed_name(
        &mut self,
        view: View<'_>,
        text: &str,
        at: usize,
    ) -> Result<(Symbol, usize), OffsetError> {
        let bytes = text.as_bytes();
        let Written { end, colon, is_qname } = chars::written(text, at);
        let written = text.get(at..end).unwrap_or("");
        if written.len() > self.limits.name_bytes as usize {
            return Err(self.limit("bytes per name", self.limits.name_bytes));
        }
        if end == bytes.len() {
            return Err(self.short(view, "a name"));
        }
        if written.is_empty() {
            return Err(self.expected("a name", text, at));
        }
        if !is_qname {
            return Err(self.error(at, ErrorKind::BadName(piece(text, at, end))));
        }
        Ok((self.namespaces.raw(written, colon), end))
    }

    /// Reads all attributes as written, after the element's name. Returns the offset of the tag's `>`, and whether `/`
    /// precedes it.
    fn attributes(
        &mut self,
        view: View<'_>,
        text: &str,
        (mut name, mut pos): (Symbol, usize),
    ) -> Result<(usize, bool), OffsetError> {
        let bytes = text.as_bytes();
        loop {
            let at = skip_space(bytes, pos);
            match bytes.get(at) {
                Some(b'>') => return Ok((at, false)),
                Some(b'/') => {
                    let end = at.wrapping_add(1);
                    return match bytes.get(end) {
                        Some(b'>') => Ok((end, true)),
                        Some(_) => Err(self.expected("`>`", text, end)),
                        None => Err(self.short(view, "a tag")),
                    };
                }
                None => return Err(self.short(view, "a tag")),
                Some(_) if at == pos => {
                    return Err(self.expected("a space, `/>` or `>`", text, at));
                }
                Some(_) => {}
            }
            (name, pos) = self.attribute(view, text, at, name)?;
        }
    }

    /// One attribute, after the name `before`; returns its name and where it ends.
    fn attribute(
        &mut self,
        view: View<'_>,
        text: &str,
        at: usize,
        before: Symbol,
    ) -> Result<(Symbol, usize), OffsetError> {
        let bytes = text.as_bytes();
        let predicted = self.namespaces.predicted_attribute(before);
        let (name, end) = self.name(view, text, at, predicted)?;
        self.namespaces.seen_attribute(before, name);
        if self.namespaces.repeats_raw(name) {
            let kind = ErrorKind::DuplicateAttribute(piece(text, at, end));
            return Err(self.error(at, kind));
        }
        let equals = skip_space(bytes, end);
        match bytes.get(equals) {
            Some(b'=') => {}
            Some(_) => return Err(self.expected("`=`", text, equals)),
            None => return Err(self.short(view, "a tag")),
        }
        let open = skip_space(bytes, equals.wrapping_add(1));
        let quote = match bytes.get(open) {
            Some(&quote @ (b'"' | b'\'')) => quote,
            Some(_) => return Err(self.expected("a quoted value", text, open)),
            None => return Err(self.short(view, "a tag")),
        };
        let start = open.wrapping_add(1);
        let end = self.value_end(text, start, quote);
        let (value, end) = if bytes.get(end) == Some(&quote) {
            (self.span(view, start, end), end)
        } else {
            self.composed_value(view, text, start, quote)?
        };
        if self.raw_attributes.len() >= self.limits.attributes as usize {
            return Err(self.limit("attributes per element", self.limits.attributes));
        }
        self.raw_attributes.push(RawAttribute { name, at, value, is_id: false });
        Ok((name, end.wrapping_add(1)))
    }

    /// Binds the namespace declarations among the attributes.
    fn declare(&mut self, view: View<'_>) -> Result<(), OffsetError> {
        for index in 0..self.raw_attributes.len() {
            let Some(&raw) = self.raw_attributes.get(index) else { break };
            let (prefix, local) = self.namespaces.parts(raw.name);
            let bound = match (prefix, local) {
                (EMPTY, XMLNS) => EMPTY,
                (XMLNS, local) => local,
                _ => continue,
            };
            let text = address(view, &self.composed, raw.value);
            let uri = self.namespaces.names.symbol(text);
            let reserved = bound == XMLNS || uri == XMLNS_URI || (bound == XML) != (uri == XML_URI);
            let named = |machine: &Self| machine.namespaces.names.str(local).to_owned();
            if reserved {
                return Err(self.error(raw.at, ErrorKind::ReservedPrefix(named(self))));
            }
            if uri == EMPTY && bound != EMPTY {
                return Err(self.error(raw.at, ErrorKind::PrefixUnbound(named(self))));
            }
            self.namespaces.bind(bound, uri);
            self.declared.push((bound, uri));
        }
        Ok(())
    }

    fn resolve_attributes(&mut self) -> Result<(), OffsetError> {
        for index in 0..self.raw_attributes.len() {
            let Some(&raw) = self.raw_attributes.get(index) else { break };
            let (prefix, local) = self.namespaces.parts(raw.name);
            if prefix == XMLNS || (prefix == EMPTY && local == XMLNS) {
                continue;
            }
            let qname = match self.namespaces.resolve(raw.name, Use::Attribute) {
                Ok(qname) => qname,
                Err(prefix) => return Err(self.unbound(raw.at, prefix)),
            };
            let name = self.namespaces.names.get_qname(qname).name;
            if prefix != EMPTY && self.namespaces.repeats(name) {
                let written = self.namespaces.names.str(raw.name).to_owned();
                return Err(self.error(raw.at, ErrorKind::DuplicateAttribute(written)));
            }
            self.attributes.push(ScannedAttribute { qname, value: raw.value, is_id: raw.is_id });
        }
        Ok(())
    }

    fn unbound(&self, at: usize, prefix: Symbol) -> OffsetError {
        let prefix = self.namespaces.names.str(prefix).to_owned();
        let kind = match prefix.as_str() {
            "xmlns" => ErrorKind::ReservedPrefix(prefix),
            _ => ErrorKind::UnboundPrefix(prefix),
        };
        self.error(at, kind)
    }

    /// Applies types and defaults from the document type.
    fn declared_attributes(&mut self, view: View<'_>, element: Symbol) -> Result<(), OffsetError> {
        let name = self.namespaces.names.str(element);
        let Some(definitions) = view.dtd.attributes.get(name) else { return Ok(()) };
        for index in 0..self.raw_attributes.len() {
            let Some(&raw) = self.raw_attributes.get(index) else { break };
            let written = self.namespaces.names.str(raw.name);
            let Some(definition) = definitions.by_name.get(written) else { continue };
            let value =
                if definition.tokenized { self.collapsed(view, raw.value) } else { raw.value };
            if let Some(slot) = self.raw_attributes.get_mut(index) {
                *slot = RawAttribute { value, is_id: definition.is_id, ..raw };
            }
        }
        for name in &definitions.defaults {
            let default = definitions.by_name.get(name).and_then(|found| found.default.clone());
            let Some(default) = default else { continue };
            let grown = default.len().saturating_add(name.len());
            references::grow(&mut self.growth, grown).map_err(|kind| self.error(self.pos, kind))?;
            let symbol = self.namespaces.raw(name, name.find(':'));
            if self.namespaces.repeats_raw(symbol) {
                continue;
            }
            if self.raw_attributes.len() >= self.limits.attributes as usize {
                return Err(self.limit("attributes per element", self.limits.attributes));
            }
            let start = number(view.behind.wrapping_add(default.start));
            let value = Span { start, len: number(default.len()) };
            self.raw_attributes.push(RawAttribute {
                name: symbol,
                at: self.pos,
                value,
                is_id: false,
            });
        }
        Ok(())
    }

    /// The value without leading and trailing spaces, and with single spaces inside (section 3.3.3).
    fn collapsed(&mut self, view: View<'_>, value: Span) -> Span {
        let text = address(view, &self.composed, value);
        let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let collapsed = words.join(" ");
        if collapsed.len() == text.len() {
            return value;
        }
        let start = self.composed_address(view, self.composed.len());
        let origin = if (value.start as usize) < view.behind { value.start } else { u32::MAX };
        if self.keep_origins {
            self.origins.push((start, origin));
        }
        self.composed.push_str(&collapsed);
        Span { start, len: number(collapsed.len()) }
    }
}

/// The text at an address.
#[inline]
pub(crate) fn address<'t>(view: View<'t>, composed: &'t str, span: Span) -> &'t str {
    let start = span.start as usize;
    let end = start.wrapping_add(span.len as usize);
    if end <= view.behind {
        return view.source.get(start..end).unwrap_or("");
    }
    let (start, end) = (start.wrapping_sub(view.behind), end.wrapping_sub(view.behind));
    let declared = view.dtd.text.len();
    if end <= declared {
        return view.dtd.text.get(start..end).unwrap_or("");
    }
    composed.get(start.wrapping_sub(declared)..end.wrapping_sub(declared)).unwrap_or("")
}
