//! Character and entity references, in content and in the values of attributes.

use std::ops::Range;

use super::{Frame, Machine, Span, View, name_end, piece};
use crate::chars;
use crate::dtd::{Dtd, Entity};
use crate::error::{ErrorKind, OffsetError};
use crate::limits::XML_ENTITY_DEPTH_MAX;
use crate::names::number;
use crate::scan;

/// A parsed reference.
pub(crate) enum Reference {
    Character(char),
    /// The range of the entity's name in the text.
    Entity(Range<usize>),
}

/// Why a reference is malformed.
pub(crate) enum Wrong {
    /// The text ends inside it.
    Short,
    Kind(ErrorKind),
}

/// Reads the reference at `at`; returns it and where it ends.
pub(crate) fn read(text: &str, at: usize) -> Result<(Reference, usize), Wrong> {
    let bytes = text.as_bytes();
    let start = at.wrapping_add(1);
    if bytes.get(start) == Some(&b'#') {
        return character(text, start.wrapping_add(1));
    }
    let end = name_end(bytes, start);
    let name = text.get(start..end).unwrap_or("");
    match bytes.get(end) {
        None => return Err(Wrong::Short),
        Some(b';') if chars::is_ncname(name) => {}
        Some(_) => return Err(Wrong::Kind(ErrorKind::BadReference)),
    }
    let reference = match name {
        "lt" => Reference::Character('<'),
        "gt" => Reference::Character('>'),
        "amp" => Reference::Character('&'),
        "quot" => Reference::Character('"'),
        "apos" => Reference::Character('\''),
        _ => Reference::Entity(start..end),
    };
    Ok((reference, end.wrapping_add(1)))
}

fn character(text: &str, start: usize) -> Result<(Reference, usize), Wrong> {
    let rest = text.get(start..).unwrap_or("");
    let Some(len) = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric()) else {
        return Err(Wrong::Short);
    };
    let written = rest.get(..len).unwrap_or("");
    if rest.as_bytes().get(len) != Some(&b';') || written.is_empty() {
        return Err(Wrong::Kind(ErrorKind::BadReference));
    }
    let (digits, radix) = match written.strip_prefix('x') {
        Some(hex) => (hex, 16),
        None => (written, 10),
    };
    let found = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    match found.filter(|&c| chars::is_char(c)) {
        Some(c) => Ok((Reference::Character(c), start.wrapping_add(len).wrapping_add(1))),
        None => {
            let shown = piece(text, start, start.wrapping_add(len));
            Err(Wrong::Kind(ErrorKind::IllegalReference(shown)))
        }
    }
}

impl Machine {
    fn wrong(&self, view: View<'_>, at: usize, wrong: Wrong) -> OffsetError {
        match wrong {
            Wrong::Short => self.short(view, "a reference"),
            Wrong::Kind(kind) => self.error(at, kind),
        }
    }

    /// The reference at `pos` in content: a character is added to `composed`, an entity is entered.
    pub(super) fn reference(&mut self, view: View<'_>, text: &str) -> Result<(), OffsetError> {
        let at = self.pos;
        let (reference, end) = read(text, at).map_err(|wrong| self.wrong(view, at, wrong))?;
        match reference {
            Reference::Character(c) => {
                self.composed.push(c);
                self.pos = end;
                Ok(())
            }
            Reference::Entity(name) => {
                let name = text.get(name).unwrap_or("");
                let range = self.entity(view, at, name)?;
                if self.frames.iter().any(|frame| frame.name == name) {
                    return Err(self.error(at, ErrorKind::EntityLoop(name.to_owned())));
                }
                if self.frames.len() >= XML_ENTITY_DEPTH_MAX as usize {
                    return Err(self.limit("nested entities", XML_ENTITY_DEPTH_MAX));
                }
                if self.frames.is_empty() {
                    self.reference_at = at;
                }
                self.frames.push(Frame {
                    resume: end,
                    start: range.start,
                    end: range.end,
                    depth: self.open.len(),
                    name: name.to_owned(),
                });
                self.pos = 0;
                Ok(())
            }
        }
    }

    /// Continues after the reference.
    pub(super) fn leave_frame(&mut self) -> Result<(), OffsetError> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        if frame.depth != self.open.len() {
            let name = frame.name.clone();
            return Err(self.error(self.pos, ErrorKind::EntityUnbalanced(name)));
        }
        self.pos = frame.resume;
        self.frames.pop();
        Ok(())
    }

    fn entity(
        &mut self,
        view: View<'_>,
        at: usize,
        name: &str,
    ) -> Result<Range<usize>, OffsetError> {
        let found = lookup(view.dtd, name, &mut self.growth);
        found.map_err(|kind| self.error(at, kind))
    }

    /// An attribute's value with references or white space other than spaces, normalised (section
    /// 3.3.3); also where its closing quote is.
    pub(super) fn composed_value(
        &mut self,
        view: View<'_>,
        text: &str,
        start: usize,
        quote: u8,
    ) -> Result<(Span, usize), OffsetError> {
        let begin = self.composed.len();
        let mut at = start;
        loop {
            let stop = self.value_end(text, at, quote);
            self.composed.push_str(text.get(at..stop).unwrap_or(""));
            at = match text.as_bytes().get(stop) {
                None => return Err(self.short(view, "an attribute's value")),
                Some(b'\n' | b'\t' | b'\r') => {
                    self.composed.push(' ');
                    stop.wrapping_add(1)
                }
                Some(b'&') => self.reference_in_value(view, text, stop)?,
                Some(b'<') => return Err(self.error(stop, ErrorKind::LessThanInAttribute)),
                Some(_) => {
                    let start_address = self.composed_address(view, begin);
                    if self.keep_origins {
                        let origin = if self.frames.is_empty() { start } else { self.reference_at };
                        self.origins.push((start_address, number(origin)));
                    }
                    let len = number(self.composed.len().wrapping_sub(begin));
                    return Ok((Span { start: start_address, len }, stop));
                }
            };
        }
    }

    /// Where the plain part of a value that continues at `at` ends.
    #[inline]
    pub(super) fn value_end(&self, text: &str, at: usize, quote: u8) -> usize {
        match self.frames.is_empty() {
            true => scan::value(text.as_bytes(), at, quote),
            false => scan::value_in_entity(text.as_bytes(), at, quote),
        }
    }

    /// Appends the replacement of the reference at `at`; returns where it ends.
    fn reference_in_value(
        &mut self,
        view: View<'_>,
        text: &str,
        at: usize,
    ) -> Result<usize, OffsetError> {
        let (reference, end) = read(text, at).map_err(|wrong| self.wrong(view, at, wrong))?;
        match reference {
            Reference::Character(c) => self.composed.push(c),
            Reference::Entity(name) => {
                let name = text.get(name).unwrap_or("");
                let expanded = expand(view.dtd, name, &mut self.growth, &mut self.composed);
                expanded.map_err(|kind| self.error(at, kind))?;
            }
        }
        Ok(end)
    }
}

/// The bytes that entities have added so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth {
    pub(crate) bytes: u32,
    pub(crate) limit: u32,
}

/// Counts the bytes that a reference or a default attribute adds to the document.
pub(crate) fn grow(growth: &mut Growth, bytes: usize) -> Result<(), ErrorKind> {
    growth.bytes = growth.bytes.saturating_add(number(bytes));
    if growth.bytes <= growth.limit { Ok(()) } else { Err(too_much_text(*growth)) }
}

pub(crate) fn too_much_text(growth: Growth) -> ErrorKind {
    let what = "bytes of expanded entities and defaults";
    ErrorKind::Limit { what, limit: growth.limit }
}

/// The range of an internal entity's text, counted towards the limit of growth.
pub(crate) fn lookup(
    dtd: &Dtd,
    name: &str,
    growth: &mut Growth,
) -> Result<Range<usize>, ErrorKind> {
    match dtd.entities.get(name) {
        Some(Entity::Internal(range)) => {
            // A reference counts for its own bytes too, so that empty entities aren't free.
            grow(growth, range.len().saturating_add(name.len()).saturating_add(2))?;
            Ok(range.clone())
        }
        Some(Entity::External) => Err(ErrorKind::ExternalEntity(name.to_owned())),
        Some(Entity::Unparsed(_)) => Err(ErrorKind::UnparsedEntity(name.to_owned())),
        None => Err(ErrorKind::UnknownEntity(name.to_owned())),
    }
}

/// Appends the text of the entity `name` as part of an attribute's value (section 3.3.3): entities in it
/// are expanded, white space becomes spaces.
pub(crate) fn expand(
    dtd: &Dtd,
    name: &str,
    growth: &mut Growth,
    out: &mut String,
) -> Result<(), ErrorKind> {
    // Open entities: (name, the rest of the text).
    let mut inside = vec![(name, lookup(dtd, name, growth)?)];
    while let Some((name, left)) = inside.last_mut() {
        let text = dtd.text.get(..left.end).unwrap_or("");
        let stop = scan::value_in_entity(text.as_bytes(), left.start, b'&');
        out.push_str(text.get(left.start..stop).unwrap_or(""));
        left.start = stop.wrapping_add(1);
        match text.as_bytes().get(stop) {
            None => {
                inside.pop();
            }
            Some(b'<') => return Err(ErrorKind::LessThanInAttribute),
            Some(b'&') => {
                let (reference, end) = read(text, stop).map_err(|wrong| match wrong {
                    Wrong::Short => ErrorKind::EntityUnbalanced((*name).to_owned()),
                    Wrong::Kind(kind) => kind,
                })?;
                left.start = end;
                match reference {
                    Reference::Character(c) => out.push(c),
                    Reference::Entity(inner) => {
                        let inner = text.get(inner).unwrap_or("");
                        if inside.iter().any(|(open, _)| *open == inner) {
                            return Err(ErrorKind::EntityLoop(inner.to_owned()));
                        }
                        if inside.len() >= XML_ENTITY_DEPTH_MAX as usize {
                            let what = "nested entities";
                            return Err(ErrorKind::Limit { what, limit: XML_ENTITY_DEPTH_MAX });
                        }
                        inside.push((inner, lookup(dtd, inner, growth)?));
                    }
                }
            }
            Some(_) => out.push(' '),
        }
    }
    Ok(())
}
