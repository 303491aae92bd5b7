//! A place in a source text, and what every grammar here reads from it.

use crate::limits;

use crate::CompileError;

pub(crate) type Compiled<T> = Result<T, CompileError>;

/// Walks a source; every error it makes knows its line and column.
#[derive(Clone)]
pub(crate) struct Cursor<'s> {
    source: &'s str,
    pub(crate) at: usize,
    depth: usize,
}

impl<'s> Cursor<'s> {
    pub(crate) fn new(source: &'s str) -> Compiled<Self> {
        let most = limits::EXPRESSION_BYTES_MAX;
        if source.len() > most {
            return Err(CompileError::new(source, most, format!("longer than {most} bytes")));
        }
        Ok(Self { source, at: 0, depth: 0 })
    }

    /// Over a part of a longer source, whose own length is bounded elsewhere.
    pub(crate) fn over(source: &'s str, length: usize) -> Compiled<Self> {
        let most = limits::EXPRESSION_BYTES_MAX;
        if length > most {
            return Err(CompileError::new(
                source,
                source.len(),
                format!("longer than {most} bytes"),
            ));
        }
        Ok(Self { source, at: 0, depth: 0 })
    }

    pub(crate) fn source(&self) -> &'s str {
        self.source
    }

    pub(crate) fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(crate) fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    pub(crate) fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Passes `text` if it stands here.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Passes white space, then `text` if it stands there.
    pub(crate) fn eat_spaced(&mut self, text: &str) -> bool {
        self.space();
        self.eat(text)
    }

    /// Passes the word `word` if it stands here and no longer name does; letter case is told apart.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.name_ahead() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, text: &str) -> Compiled<()> {
        self.space();
        if self.eat(text) { Ok(()) } else { Err(self.error(format!("`{text}` expected"))) }
    }

    /// Letters, digits and `_`, not beginning with a digit; empty when none stands here.
    pub(crate) fn name_ahead(&self) -> &'s str {
        let rest = self.rest();
        if rest.starts_with(|first: char| first.is_ascii_digit()) {
            return "";
        }
        let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_');
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    }

    pub(crate) fn name(&mut self) -> &'s str {
        let name = self.name_ahead();
        self.at += name.len();
        name
    }

    /// Passes what `keep` accepts.
    pub(crate) fn while_true(&mut self, keep: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|next| !keep(next)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// A number without sign: digits, a fraction, an exponent; empty when none stands here.
    pub(crate) fn unsigned_number(&mut self) -> &'s str {
        let start = self.at;
        let digit = |next: char| next.is_ascii_digit();
        if self.while_true(digit).is_empty() {
            return "";
        }
        let mut after = self.clone();
        if after.eat(".") && !after.while_true(digit).is_empty() {
            self.at = after.at;
        }
        let mut after = self.clone();
        if after.eat("e") || after.eat("E") {
            let _ = after.eat("+") || after.eat("-");
            if !after.while_true(digit).is_empty() {
                self.at = after.at;
            }
        }
        self.source.get(start..self.at).unwrap_or_default()
    }

    /// The text of a string in `"` or `'`; `None` when none begins here. Escapes: `\b \t \n \f \r`,
    /// `\uXXXX`; any other escaped character stands for itself.
    pub(crate) fn quoted(&mut self) -> Compiled<Option<String>> {
        let Some(quote) = self.peek().filter(|first| matches!(first, '"' | '\'')) else {
            return Ok(None);
        };
        let start = self.at;
        self.bump();
        let mut text = String::new();
        while let Some(next) = self.bump() {
            match next {
                _ if next == quote => return Ok(Some(text)),
                '\\' => text.push(self.escaped()?),
                _ => text.push(next),
            }
        }
        Err(CompileError::new(self.source, start, "a string that has no end"))
    }

    fn escaped(&mut self) -> Compiled<char> {
        Ok(match self.bump() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => {
                let digits = self.rest().get(..4).unwrap_or_default();
                let read = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                let read = read.ok_or_else(|| self.error("four hexadecimal digits expected"))?;
                self.at += 4;
                read
            }
            Some(other) => other,
            None => return Err(self.error("a string that has no end")),
        })
    }

    /// Counts a nesting; every call has its [`Cursor::leave`].
    pub(crate) fn enter(&mut self) -> Compiled<()> {
        self.depth += 1;
        let most = limits::EXPRESSION_DEPTH_MAX;
        if self.depth > most {
            return Err(self.error(format!("nested deeper than {most}")));
        }
        Ok(())
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> CompileError {
        CompileError::new(self.source, self.at, message)
    }

    /// Nothing but white space may be left.
    pub(crate) fn end(&mut self) -> Compiled<()> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(next) => Err(self.error(format!("`{next}` is unexpected here"))),
        }
    }
}
