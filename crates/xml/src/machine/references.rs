//! Character and entity references, in content and in the values of attributes.

use super::{Frame, Machine, Span, Stop, View, name_end, piece};
use crate::chars;
use crate::dtd::Entity;
use crate::error::XmlErrorKind;
use crate::names::number;
use crate::scan;
use base::limits::XML_ENTITY_DEPTH_MAX;

/// What stands for what.
pub(crate) enum Reference {
    Character(char),
    /// The entity's name lies here in the text.
    Entity(std::ops::Range<usize>),
}

/// What can be wrong about a reference.
pub(crate) enum Wrong {
    /// The text ends inside it.
    Short,
    Kind(XmlErrorKind),
}

/// Reads the reference that starts at `at` with `&`; also where it ends.
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
        Some(_) => return Err(Wrong::Kind(XmlErrorKind::BadReference)),
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
        return Err(Wrong::Kind(XmlErrorKind::BadReference));
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
            Err(Wrong::Kind(XmlErrorKind::IllegalReference(shown)))
        }
    }
}

impl Machine {
    fn wrong(&self, view: View<'_>, at: usize, wrong: Wrong) -> Stop {
        match wrong {
            Wrong::Short => self.short(view, "a reference"),
            Wrong::Kind(kind) => self.fault(at, kind),
        }
    }

    /// The reference at `pos` in content: its character goes to `spill`, an entity is entered.
    pub(super) fn reference(&mut self, view: View<'_>, text: &str) -> Result<(), Stop> {
        let at = self.pos;
        let (reference, end) = read(text, at).map_err(|wrong| self.wrong(view, at, wrong))?;
        match reference {
            Reference::Character(c) => {
                self.spill.push(c);
                self.pos = end;
                Ok(())
            }
            Reference::Entity(name) => {
                let name = text.get(name).unwrap_or("");
                let range = self.entity(view, at, name)?;
                if self.frames.iter().any(|frame| frame.name == name) {
                    return Err(self.fault(at, XmlErrorKind::EntityLoop(name.to_owned())));
                }
                if self.frames.len() >= XML_ENTITY_DEPTH_MAX as usize {
                    return Err(self.limit("entities inside one another", XML_ENTITY_DEPTH_MAX));
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

    /// Back to behind the reference.
    pub(super) fn leave_frame(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        if frame.depth != self.open.len() {
            let name = frame.name.clone();
            return Err(self.fault(self.pos, XmlErrorKind::EntityUnbalanced(name)));
        }
        self.pos = frame.resume;
        self.frames.pop();
        Ok(())
    }

    /// Where an internal entity's text lies; it counts towards the limit of growth.
    fn entity(
        &mut self,
        view: View<'_>,
        at: usize,
        name: &str,
    ) -> Result<std::ops::Range<usize>, Stop> {
        let kind = match view.dtd.entities.get(name) {
            Some(Entity::Internal(range)) => {
                // Each reference counts for its own bytes too, so that empty entities can't go on for ever.
                let grown = range.len().saturating_add(name.len()).saturating_add(2);
                self.expanded = self.expanded.saturating_add(number(grown));
                if self.expanded <= self.limits.entity_bytes {
                    return Ok(range.clone());
                }
                return Err(self.limit("bytes of expanded entities", self.limits.entity_bytes));
            }
            Some(Entity::External) => XmlErrorKind::ExternalEntity(name.to_owned()),
            Some(Entity::Unparsed) => XmlErrorKind::UnparsedEntity(name.to_owned()),
            None => XmlErrorKind::UnknownEntity(name.to_owned()),
        };
        Err(self.fault(at, kind))
    }

    /// An attribute's value that holds references or other white space than spaces, normalised
    /// (section 3.3.3); also where its closing quote stands.
    pub(super) fn composed_value(
        &mut self,
        view: View<'_>,
        text: &str,
        start: usize,
        quote: u8,
    ) -> Result<(Span, usize), Stop> {
        let begin = self.spill.len();
        let mut at = start;
        loop {
            let stop = scan::value(text.as_bytes(), at, quote);
            self.spill.push_str(text.get(at..stop).unwrap_or(""));
            at = match text.as_bytes().get(stop) {
                None => return Err(self.short(view, "an attribute's value")),
                Some(b'\n' | b'\t') => {
                    self.spill.push(' ');
                    stop.wrapping_add(1)
                }
                Some(b'&') => self.reference_in_value(view, text, stop)?,
                Some(b'<') => return Err(self.fault(stop, XmlErrorKind::LessThanInAttribute)),
                Some(_) => {
                    let start_address = self.spill_address(view, begin);
                    if self.keep_origins {
                        let origin = if self.frames.is_empty() { start } else { self.reference_at };
                        self.origins.push((start_address, number(origin)));
                    }
                    let len = number(self.spill.len().wrapping_sub(begin));
                    return Ok((Span { start: start_address, len }, stop));
                }
            };
        }
    }

    /// Appends what the reference at `at` stands for, entities in entities included; where it ends.
    fn reference_in_value(&mut self, view: View<'_>, text: &str, at: usize) -> Result<usize, Stop> {
        let (reference, end) = read(text, at).map_err(|wrong| self.wrong(view, at, wrong))?;
        let name = match reference {
            Reference::Character(c) => {
                self.spill.push(c);
                return Ok(end);
            }
            Reference::Entity(name) => text.get(name).unwrap_or(""),
        };
        // Entities under way: (name, text left, place).
        let mut inside: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        let range = self.entity(view, at, name)?;
        inside.push((name, range));
        while let Some((name, range)) = inside.last_mut() {
            let declared = view.dtd.text.get(..range.end).unwrap_or("");
            let stop = scan::value(declared.as_bytes(), range.start, b'&');
            self.spill.push_str(declared.get(range.start..stop).unwrap_or(""));
            range.start = stop.wrapping_add(1);
            match declared.as_bytes().get(stop) {
                None => {
                    inside.pop();
                }
                Some(b'<') => return Err(self.fault(at, XmlErrorKind::LessThanInAttribute)),
                Some(b'&') => {
                    let (reference, end) = read(declared, stop).map_err(|wrong| match wrong {
                        Wrong::Short => {
                            self.fault(at, XmlErrorKind::EntityUnbalanced((*name).to_owned()))
                        }
                        Wrong::Kind(kind) => self.fault(at, kind),
                    })?;
                    range.start = end;
                    match reference {
                        Reference::Character(c) => self.spill.push(c),
                        Reference::Entity(inner) => {
                            let inner = declared.get(inner).unwrap_or("");
                            let range = self.entity(view, at, inner)?;
                            if inside.iter().any(|(open, _)| *open == inner) {
                                let kind = XmlErrorKind::EntityLoop(inner.to_owned());
                                return Err(self.fault(at, kind));
                            }
                            if inside.len() >= XML_ENTITY_DEPTH_MAX as usize {
                                let limit = XML_ENTITY_DEPTH_MAX;
                                return Err(self.limit("entities inside one another", limit));
                            }
                            inside.push((inner, range));
                        }
                    }
                }
                Some(_) => self.spill.push(' '),
            }
        }
        Ok(end)
    }
}
