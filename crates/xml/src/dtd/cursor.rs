//! A cursor over the text of declarations, and the tokens that they consist of.

use crate::chars::{self, NAME, SPACE};
use crate::error::{ErrorKind, OffsetError};

pub(super) type Read<T = ()> = Result<T, OffsetError>;

#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// The place at which the document, or the external entity, refers to the internal parameter entity being read, if
    /// any. Errors are reported there.
    pub(super) blame: Option<usize>,
    /// The place at which the document refers to the external entity being read, if any. The rules of section 2.8 for
    /// external text then apply.
    pub(super) external: Option<usize>,
    pub(super) broken: Option<&'t OffsetError>,
    pub(super) name_bytes: u32,
}

impl<'t> Cursor<'t> {
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The place in the document that `at` belongs to.
    pub(super) fn place(&self, at: usize) -> usize {
        self.external.or(self.blame).unwrap_or(at)
    }

    pub(super) fn error(&self, kind: ErrorKind) -> OffsetError {
        OffsetError::new(self.blame.unwrap_or(self.at), kind)
    }

    pub(super) fn bad(&self, why: &'static str) -> OffsetError {
        if self.at >= self.text.len() && self.blame.is_none() && self.external.is_none() {
            return match self.broken {
                Some(broken) => broken.clone(),
                None => self.error(ErrorKind::UnexpectedEnd("the document type declaration")),
            };
        }
        self.error(ErrorKind::BadDoctype(why))
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at = self.at.saturating_add(token.len());
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str, why: &'static str) -> Read {
        if self.eat(token) { Ok(()) } else { Err(self.bad(why)) }
    }

    /// Skips white space; returns whether there was any.
    pub(super) fn skip_space(&mut self) -> bool {
        let start = self.at;
        while self.peek().is_some_and(|byte| chars::has(byte, SPACE)) {
            self.at = self.at.saturating_add(1);
        }
        self.at > start
    }

    pub(super) fn space(&mut self) -> Read {
        if self.skip_space() { Ok(()) } else { Err(self.bad("a space is missing")) }
    }

    fn token(&mut self) -> Read<&'t str> {
        let start = self.at;
        while self.peek().is_some_and(|byte| chars::has(byte, NAME) || byte == b':') {
            self.at = self.at.saturating_add(1);
        }
        let token = self.text.get(start..self.at).unwrap_or("");
        if token.len() > self.name_bytes as usize {
            let limit = self.name_bytes;
            return Err(self.error(ErrorKind::Limit { what: "bytes per name", limit }));
        }
        if token.is_empty() {
            return Err(self.bad("a name is missing"));
        }
        Ok(token)
    }

    fn wrong_name(&self, name: &str) -> OffsetError {
        let start = self.at.saturating_sub(name.len());
        OffsetError::new(self.blame.unwrap_or(start), ErrorKind::BadName(name.to_owned()))
    }

    /// A name without a colon.
    pub(super) fn ncname(&mut self) -> Read<&'t str> {
        let name = self.token()?;
        if chars::is_ncname(name) { Ok(name) } else { Err(self.wrong_name(name)) }
    }

    /// A name with at most one colon.
    pub(super) fn qname(&mut self) -> Read<&'t str> {
        let name = self.token()?;
        let good = match name.split_once(':') {
            Some((prefix, local)) => chars::is_ncname(prefix) && chars::is_ncname(local),
            None => chars::is_ncname(name),
        };
        if good { Ok(name) } else { Err(self.wrong_name(name)) }
    }

    pub(super) fn nmtoken(&mut self) -> Read<&'t str> {
        let token = self.token()?;
        let good = token.chars().all(|c| c == ':' || chars::is_name_char(c));
        if good { Ok(token) } else { Err(self.wrong_name(token)) }
    }

    /// A quoted literal: the range between the quotes, and the quote.
    pub(super) fn quoted(&mut self) -> Read<(std::ops::Range<usize>, u8)> {
        let Some(quote @ (b'"' | b'\'')) = self.peek() else {
            return Err(self.bad("a quoted value is missing"));
        };
        let start = self.at.saturating_add(1);
        let found = memchr::memchr(quote, self.text.as_bytes().get(start..).unwrap_or(&[]));
        let Some(len) = found else {
            self.at = self.text.len();
            return Err(self.bad("unterminated quoted value"));
        };
        let end = start.saturating_add(len);
        self.at = end.saturating_add(1);
        Ok((start..end, quote))
    }

    /// Skips up to and including `end`; returns the text before it.
    pub(super) fn pass(&mut self, end: &str) -> Read<&'t str> {
        let start = self.at;
        match memchr::memmem::find(self.rest().as_bytes(), end.as_bytes()) {
            Some(len) => {
                self.at = start.saturating_add(len).saturating_add(end.len());
                Ok(self.text.get(start..start.saturating_add(len)).unwrap_or(""))
            }
            None => {
                self.at = self.text.len();
                Err(self.bad("it doesn't end"))
            }
        }
    }
}
