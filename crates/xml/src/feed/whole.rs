//! How far the text that has come is made of whole pieces of markup. What the reader can't take quickly it is
//! shown only when all of it is there, so that nothing is ever read twice because its end was missing.
//!
//! Only the quotes, brackets and ends that decide where a piece ends are looked at here, each byte once however
//! the text is cut. Where a piece is malformed, it counts as whole from the point on at which the reader refuses it.
//!
//! Architecture invariant: as long as the reader has found nothing wrong with a piece, both agree on where they are
//! in it (inside which quote, comment, section); so the reader never gets to the end of an unfinished text.

use crate::scan::Search;

/// What has come of the piece that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Not all.
    Part,
    Whole,
    /// All of a document type declaration.
    Doctype,
}

/// What the piece is, and what part of it comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Its first bytes aren't there yet.
    Nothing,
    StartTag,
    /// A value of a start tag, up to this quote.
    Value(u8),
    EndTag,
    Comment,
    Instruction,
    /// Text with all references and CDATA sections up to the next markup.
    Text,
    Section,
    Doctype(Declaration),
}

/// A part of a document type declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declaration {
    Outer,
    Subset,
    Literal { quote: u8, in_subset: bool },
    Comment,
    Instruction,
}

const COMMENT: &[u8] = b"<!--";
const SECTION: &[u8] = b"<![CDATA[";
const DOCTYPE: &[u8] = b"<!DOCTYPE";

#[derive(Debug)]
pub(crate) struct Whole {
    /// Up to here all is whole.
    pub(crate) to: usize,
    inside: Inside,
    /// What has been looked at of the piece.
    at: usize,
    reads_doctype: bool,
}

impl Whole {
    /// `reads_doctype`: one that is refused isn't waited for.
    pub(crate) fn new(reads_doctype: bool) -> Self {
        Self { to: 0, inside: Inside::Nothing, at: 0, reads_doctype }
    }

    /// The first `len` bytes of the text were dropped.
    pub(crate) fn forget(&mut self, len: usize) {
        self.to = self.to.saturating_sub(len);
        self.at = self.at.saturating_sub(len);
    }

    /// Whether it is known of a piece that it isn't whole.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside != Inside::Nothing
    }

    /// From where on the next look goes.
    #[cfg(test)]
    pub(crate) fn looked_from(&self, start: usize) -> usize {
        if self.is_inside() { self.at } else { start }
    }

    /// Looks at what has come of the piece that begins at `start`.
    pub(crate) fn look(&mut self, text: &[u8], start: usize, is_outside: bool) -> Found {
        if self.inside == Inside::Nothing {
            self.at = start;
        }
        loop {
            let found = match self.inside {
                Inside::Nothing => self.begin(text, is_outside),
                Inside::StartTag => self.start_tag(text),
                Inside::Value(quote) => self.value(text, quote),
                Inside::EndTag => self.end_tag(text),
                Inside::Comment => self.comment(text),
                Inside::Instruction => self.up_to(text, b"?>"),
                Inside::Text => self.text(text),
                Inside::Section => self.section(text),
                Inside::Doctype(part) => self.doctype(text, part),
            };
            if let Some(found) = found {
                if found != Found::Part {
                    self.inside = Inside::Nothing;
                }
                return found;
            }
        }
    }

    /// Not all of the piece is there; what follows `at` is to be looked at when there is more.
    fn part(&mut self, at: usize) -> Option<Found> {
        self.at = at;
        Some(Found::Part)
    }

    fn whole(&mut self, to: usize) -> Option<Found> {
        self.to = to;
        Some(Found::Whole)
    }

    /// What follows `at` is `inside`.
    fn turn(&mut self, inside: Inside, at: usize) -> Option<Found> {
        self.inside = inside;
        self.at = at;
        None
    }

    /// What kind of piece it is.
    fn begin(&mut self, text: &[u8], is_outside: bool) -> Option<Found> {
        let at = self.at;
        let behind = |len: usize| at.saturating_add(len);
        match text.get(at..).unwrap_or(&[]) {
            [] | [b'<'] | [b'<', b'!'] | [b'<', b'!', b'-'] => self.part(at),
            [b'<', b'/', ..] => self.turn(Inside::EndTag, behind(2)),
            [b'<', b'?', ..] => self.turn(Inside::Instruction, behind(2)),
            [b'<', b'!', b'-', b'-', ..] => self.turn(Inside::Comment, behind(COMMENT.len())),
            [b'<', b'!', b'-', ..] => self.whole(behind(COMMENT.len())),
            rest @ [b'<', b'!', ..] if is_outside => {
                if rest.starts_with(DOCTYPE) && self.reads_doctype {
                    return self.turn(Inside::Doctype(Declaration::Outer), behind(DOCTYPE.len()));
                }
                let is_part = rest.len() < DOCTYPE.len() && DOCTYPE.starts_with(rest);
                if is_part { self.part(at) } else { self.whole(behind(1)) }
            }
            [b'<', b'!', b'[', ..] => self.turn(Inside::Text, at),
            [b'<', b'!', ..] => self.whole(behind(1)),
            [b'<', ..] => self.turn(Inside::StartTag, behind(1)),
            _ if is_outside => self.whole(behind(1)),
            _ => self.turn(Inside::Text, at),
        }
    }

    /// Up to `>`. A `<` is never right in a tag.
    fn start_tag(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b'>' | b'"' | b'\'' | b'<'));
        let Some(stop) = stop else { return self.part(text.len()) };
        let behind = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(&quote @ (b'"' | b'\'')) => self.turn(Inside::Value(quote), behind),
            Some(_) | None => self.whole(behind),
        }
    }

    fn value(&mut self, text: &[u8], quote: u8) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let Some(stop) = memchr::memchr2(quote, b'<', fresh) else { return self.part(text.len()) };
        let behind = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(b'<') => self.whole(behind),
            Some(_) | None => self.turn(Inside::StartTag, behind),
        }
    }

    fn end_tag(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        match memchr::memchr2(b'>', b'<', fresh) {
            Some(stop) => self.whole(self.at.saturating_add(stop).saturating_add(1)),
            None => self.part(text.len()),
        }
    }

    /// Up to `--`, and the byte behind that should be `>`.
    fn comment(&mut self, text: &[u8]) -> Option<Found> {
        match self.find(text, b"--") {
            Ok(end) if end.saturating_add(2) < text.len() => self.whole(end.saturating_add(3)),
            Ok(at) | Err(at) => self.part(at),
        }
    }

    fn up_to(&mut self, text: &[u8], end: &[u8]) -> Option<Found> {
        match self.find(text, end) {
            Ok(at) => self.whole(at.saturating_add(end.len())),
            Err(at) => self.part(at),
        }
    }

    /// Up to markup that isn't a CDATA section.
    fn text(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let Some(stop) = memchr::memchr(b'<', fresh) else { return self.part(text.len()) };
        let at = self.at.saturating_add(stop);
        match fresh.get(stop..).unwrap_or(&[]) {
            [b'<'] | [b'<', b'!'] => self.part(at),
            rest @ [b'<', b'!', b'[', ..] => {
                if rest.starts_with(SECTION) {
                    return self.turn(Inside::Section, at.saturating_add(SECTION.len()));
                }
                if SECTION.starts_with(rest) {
                    self.part(at)
                } else {
                    self.whole(at.saturating_add(1))
                }
            }
            _ => self.whole(at),
        }
    }

    fn section(&mut self, text: &[u8]) -> Option<Found> {
        match self.find(text, b"]]>") {
            Ok(end) => self.turn(Inside::Text, end.saturating_add(3)),
            Err(at) => self.part(at),
        }
    }

    fn doctype(&mut self, text: &[u8], part: Declaration) -> Option<Found> {
        let (end, in_subset): (&[u8], _) = match part {
            Declaration::Outer => return self.outer(text),
            Declaration::Subset => return self.subset(text),
            Declaration::Literal { quote: b'"', in_subset } => (b"\"", in_subset),
            Declaration::Literal { in_subset, .. } => (b"'", in_subset),
            Declaration::Comment => (b"-->", true),
            Declaration::Instruction => (b"?>", true),
        };
        let back = if in_subset { Declaration::Subset } else { Declaration::Outer };
        match self.find(text, end) {
            Ok(at) => self.turn(Inside::Doctype(back), at.saturating_add(end.len())),
            Err(at) => self.part(at),
        }
    }

    /// Before and behind the internal subset.
    fn outer(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b'>' | b'"' | b'\'' | b'['));
        let Some(stop) = stop else { return self.part(text.len()) };
        let behind = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(b'>') | None => {
                self.to = behind;
                Some(Found::Doctype)
            }
            Some(b'[') => self.turn(Inside::Doctype(Declaration::Subset), behind),
            Some(&quote) => self.literal(quote, false, behind),
        }
    }

    fn subset(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b']' | b'"' | b'\'' | b'<'));
        let Some(stop) = stop else { return self.part(text.len()) };
        let at = self.at.saturating_add(stop);
        let behind = |len| at.saturating_add(len);
        let turned = |part| Inside::Doctype(part);
        match fresh.get(stop..).unwrap_or(&[]) {
            [b']', ..] => self.turn(turned(Declaration::Outer), behind(1)),
            [b'<'] | [b'<', b'!'] | [b'<', b'!', b'-'] => self.part(at),
            [b'<', b'?', ..] => self.turn(turned(Declaration::Instruction), behind(2)),
            [b'<', b'!', b'-', b'-', ..] => self.turn(turned(Declaration::Comment), behind(4)),
            [quote @ (b'"' | b'\''), ..] => self.literal(*quote, true, behind(1)),
            _ => self.turn(turned(Declaration::Subset), behind(1)),
        }
    }

    fn literal(&mut self, quote: u8, in_subset: bool, at: usize) -> Option<Found> {
        self.turn(Inside::Doctype(Declaration::Literal { quote, in_subset }), at)
    }

    /// Where `needle` begins, or from where on to look for it when there is more.
    fn find(&mut self, text: &[u8], needle: &[u8]) -> Result<usize, usize> {
        let mut search = Search { from: self.at };
        search.find(text, needle).ok_or(search.from)
    }
}
