//! A position in a source text, and the tokens that all grammars of this crate share.

use crate::error::SyntaxError;
use crate::limits;

pub(crate) type Compiled<T> = Result<T, SyntaxError>;

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

/// Reads a source; its errors carry line and column.
#[derive(Clone)]
pub(crate) struct Cursor<'s> {
    source: &'s str,
    pub(crate) at: usize,
    depth: usize,
    operators: usize,
}

impl<'s> Cursor<'s> {
    pub(crate) fn new(source: &'s str) -> Compiled<Self> {
        let most = limits::EXPRESSION_BYTES_MAX;
        if source.len() > most {
            return Err(SyntaxError::new(source, most, format!("longer than {most} bytes")));
        }
        Ok(Self { source, at: 0, depth: 0, operators: 0 })
    }

    /// Over text inside what `outer` reads; the limits apply to both together.
    pub(crate) fn inside(source: &'s str, outer: &Cursor<'_>) -> Compiled<Self> {
        let depth = outer.depth + 1;
        Ok(Self { depth, operators: outer.operators, ..Self::new(source)? })
    }

    /// Continues after what `inner` has read.
    pub(crate) fn count_operators_of(&mut self, inner: &Cursor<'_>) {
        self.operators = inner.operators;
    }

    /// Over a part of a longer source whose own length is bounded elsewhere.
    pub(crate) fn over(source: &'s str, length: usize) -> Compiled<Self> {
        let most = limits::EXPRESSION_BYTES_MAX;
        if length > most {
            return Err(SyntaxError::new(
                source,
                source.len(),
                format!("longer than {most} bytes"),
            ));
        }
        Ok(Self { source, at: 0, depth: 0, operators: 0 })
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

    /// Consumes `text` if it is next.
    pub(crate) fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Consumes white space, then `text` if it is next.
    pub(crate) fn eat_spaced(&mut self, text: &str) -> bool {
        self.space();
        self.eat(text)
    }

    /// Consumes the name `word` if it is next, in exactly this spelling.
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

    /// The next name without consuming it: letters, digits and `_`, not beginning with a digit. Empty if there is none.
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

    /// Consumes the characters that `keep` accepts.
    pub(crate) fn while_true(&mut self, keep: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let end = rest.find(|next| !keep(next)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Consumes a number without sign: digits, fraction, exponent. Empty if there is none.
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

    /// Consumes a string in `"` or `'`; `None` if there is none. Escapes: `\b \t \n \f \r`, `\uXXXX` (two of them
    /// for a surrogate pair); any other escaped character is itself.
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
        Err(SyntaxError::new(self.source, start, "unterminated string"))
    }

    fn escaped(&mut self) -> Compiled<char> {
        Ok(match self.bump() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('u') => {
                let high = self.utf16_unit()?;
                match high {
                    0xd800..0xdc00 if self.eat("\\u") => {
                        let low = self.utf16_unit()?;
                        let pair = char::decode_utf16([high, low]).next().and_then(Result::ok);
                        pair.ok_or_else(|| self.error("unpaired surrogate in a string"))?
                    }
                    unit => char::from_u32(unit.into())
                        .ok_or_else(|| self.error("unpaired surrogate in a string"))?,
                }
            }
            Some(other) => other,
            None => return Err(self.error("unterminated string")),
        })
    }

    fn utf16_unit(&mut self) -> Compiled<u16> {
        let digits =
            self.rest().get(..4).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let unit = unit.ok_or_else(|| self.error("four hexadecimal digits expected"))?;
        self.at += 4;
        Ok(unit)
    }

    /// Enters a nested part; [`Cursor::leave`] ends it.
    pub(crate) fn enter(&mut self) -> Compiled<()> {
        self.depth += 1;
        let most = limits::EXPRESSION_DEPTH_MAX;
        if self.depth > most {
            return Err(self.error(format!("nested deeper than {most} levels")));
        }
        Ok(())
    }

    pub(crate) fn is_nested(&self) -> bool {
        self.depth > 0
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Counts an operator, which may add a level to the tree: evaluating it, and dropping it, recurse on its depth.
    pub(crate) fn operator(&mut self) -> Compiled<()> {
        self.operators += 1;
        let most = limits::EXPRESSION_OPERATORS_MAX;
        if self.operators > most {
            return Err(self.error(format!("more than {most} operators; use several variables")));
        }
        Ok(())
    }

    pub(crate) fn error(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.source, self.at, message)
    }

    /// Fails unless only white space is left.
    pub(crate) fn end(&mut self) -> Compiled<()> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(next) => Err(self.error(format!("unexpected `{next}`"))),
        }
    }
}
