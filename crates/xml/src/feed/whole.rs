//! Finds how far the text consists of complete pieces of markup. The general path of the machine gets a piece
//! only when it is complete, so that nothing is parsed twice because its end was missing.
//!
//! This scanner visits each byte once, however the text is cut, and only recognises the quotes, brackets and
//! ends that decide where a piece ends. A malformed piece counts as complete from the point on at which the
//! machine rejects it.
//!
//! Architecture invariant: as long as the machine has found no error in a piece, both agree on where they are
//! in it (inside which quote, comment, section), so the machine never reaches the end of an incomplete text.

use crate::scan::Search;

/// How much of a piece has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A part.
    Part,
    Whole,
    /// A complete document type declaration.
    Doctype,
}

/// The kind of piece, and which part of it is next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// Unknown: its first bytes haven't arrived.
    Nothing,
    StartTag,
    /// A value in a start tag, up to this quote.
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
    /// Offset up to which all pieces are complete.
    pub(crate) to: usize,
    inside: Inside,
    /// How far the piece has been scanned.
    at: usize,
    reads_doctype: bool,
}

impl Whole {
    /// `reads_doctype`: a document type that is going to be rejected isn't awaited.
    pub(crate) fn new(reads_doctype: bool) -> Self {
        Self { to: 0, inside: Inside::Nothing, at: 0, reads_doctype }
    }

    /// The first `len` bytes of the text were dropped.
    pub(crate) fn drop_front(&mut self, len: usize) {
        self.to = self.to.saturating_sub(len);
        self.at = self.at.saturating_sub(len);
    }

    /// Whether the current piece is known to be incomplete.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside != Inside::Nothing
    }

    /// Where the next scan starts.
    #[cfg(test)]
    pub(crate) fn scanned_to(&self, start: usize) -> usize {
        if self.is_inside() { self.at } else { start }
    }

    /// Scans the piece that begins at `start`.
    pub(crate) fn scan(&mut self, text: &[u8], start: usize, is_outside: bool) -> Found {
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

    /// The piece is incomplete; the next scan starts at `at`.
    fn part(&mut self, at: usize) -> Option<Found> {
        self.at = at;
        Some(Found::Part)
    }

    fn whole(&mut self, to: usize) -> Option<Found> {
        self.to = to;
        Some(Found::Whole)
    }

    /// Continues at `at` in another state.
    fn enter(&mut self, inside: Inside, at: usize) -> Option<Found> {
        self.inside = inside;
        self.at = at;
        None
    }

    /// Determines the kind of piece.
    fn begin(&mut self, text: &[u8], is_outside: bool) -> Option<Found> {
        let at = self.at;
        let after = |len: usize| at.saturating_add(len);
        match text.get(at..).unwrap_or(&[]) {
            [] | [b'<'] | [b'<', b'!'] | [b'<', b'!', b'-'] => self.part(at),
            [b'<', b'/', ..] => self.enter(Inside::EndTag, after(2)),
            [b'<', b'?', ..] => self.enter(Inside::Instruction, after(2)),
            [b'<', b'!', b'-', b'-', ..] => self.enter(Inside::Comment, after(COMMENT.len())),
            [b'<', b'!', b'-', ..] => self.whole(after(COMMENT.len())),
            rest @ [b'<', b'!', ..] if is_outside => {
                if rest.starts_with(DOCTYPE) && self.reads_doctype {
                    return self.enter(Inside::Doctype(Declaration::Outer), after(DOCTYPE.len()));
                }
                let is_part = rest.len() < DOCTYPE.len() && DOCTYPE.starts_with(rest);
                if is_part { self.part(at) } else { self.whole(after(1)) }
            }
            [b'<', b'!', b'[', ..] => self.enter(Inside::Text, at),
            [b'<', b'!', ..] => self.whole(after(1)),
            [b'<', ..] => self.enter(Inside::StartTag, after(1)),
            _ if is_outside => self.whole(after(1)),
            _ => self.enter(Inside::Text, at),
        }
    }

    /// Scans a start tag, up to `>`. A `<` in a tag is an error.
    fn start_tag(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b'>' | b'"' | b'\'' | b'<'));
        let Some(stop) = stop else { return self.part(text.len()) };
        let after = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(&quote @ (b'"' | b'\'')) => self.enter(Inside::Value(quote), after),
            Some(_) | None => self.whole(after),
        }
    }

    fn value(&mut self, text: &[u8], quote: u8) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let Some(stop) = memchr::memchr2(quote, b'<', fresh) else { return self.part(text.len()) };
        let after = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(b'<') => self.whole(after),
            Some(_) | None => self.enter(Inside::StartTag, after),
        }
    }

    fn end_tag(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        match memchr::memchr2(b'>', b'<', fresh) {
            Some(stop) => self.whole(self.at.saturating_add(stop).saturating_add(1)),
            None => self.part(text.len()),
        }
    }

    /// Scans a comment, up to `--` and the byte after it, which should be `>`.
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

    /// Scans text, up to markup that isn't a CDATA section.
    fn text(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let Some(stop) = memchr::memchr(b'<', fresh) else { return self.part(text.len()) };
        let at = self.at.saturating_add(stop);
        match fresh.get(stop..).unwrap_or(&[]) {
            [b'<'] | [b'<', b'!'] => self.part(at),
            rest @ [b'<', b'!', b'[', ..] => {
                if rest.starts_with(SECTION) {
                    return self.enter(Inside::Section, at.saturating_add(SECTION.len()));
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
            Ok(end) => self.enter(Inside::Text, end.saturating_add(3)),
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
            Ok(at) => self.enter(Inside::Doctype(back), at.saturating_add(end.len())),
            Err(at) => self.part(at),
        }
    }

    /// Scans a document type declaration before and after the internal subset.
    fn outer(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b'>' | b'"' | b'\'' | b'['));
        let Some(stop) = stop else { return self.part(text.len()) };
        let after = self.at.saturating_add(stop).saturating_add(1);
        match fresh.get(stop) {
            Some(b'>') | None => {
                self.to = after;
                Some(Found::Doctype)
            }
            Some(b'[') => self.enter(Inside::Doctype(Declaration::Subset), after),
            Some(&quote) => self.literal(quote, false, after),
        }
    }

    fn subset(&mut self, text: &[u8]) -> Option<Found> {
        let fresh = text.get(self.at..).unwrap_or(&[]);
        let stop = fresh.iter().position(|byte| matches!(byte, b']' | b'"' | b'\'' | b'<'));
        let Some(stop) = stop else { return self.part(text.len()) };
        let at = self.at.saturating_add(stop);
        let after = |len| at.saturating_add(len);
        let doctype = |part| Inside::Doctype(part);
        match fresh.get(stop..).unwrap_or(&[]) {
            [b']', ..] => self.enter(doctype(Declaration::Outer), after(1)),
            [b'<'] | [b'<', b'!'] | [b'<', b'!', b'-'] => self.part(at),
            [b'<', b'?', ..] => self.enter(doctype(Declaration::Instruction), after(2)),
            [b'<', b'!', b'-', b'-', ..] => self.enter(doctype(Declaration::Comment), after(4)),
            [quote @ (b'"' | b'\''), ..] => self.literal(*quote, true, after(1)),
            _ => self.enter(doctype(Declaration::Subset), after(1)),
        }
    }

    fn literal(&mut self, quote: u8, in_subset: bool, at: usize) -> Option<Found> {
        self.enter(Inside::Doctype(Declaration::Literal { quote, in_subset }), at)
    }

    /// Where `needle` begins, or where to continue the search when more has arrived.
    fn find(&mut self, text: &[u8], needle: &[u8]) -> Result<usize, usize> {
        let mut search = Search { from: self.at };
        search.find(text, needle).ok_or(search.from)
    }
}
