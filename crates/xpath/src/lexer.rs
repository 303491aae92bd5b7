//! Splits the text of an expression into tokens: XPath 1.0 section 3.7, with its rules for `*` and names.

use crate::axis::Axis;
use crate::error::Error;
use crate::number::is_space;

/// A qualified name: prefix (empty for none) and local part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RawName<'t> {
    pub(crate) prefix: &'t str,
    pub(crate) local: &'t str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeType {
    Node,
    Text,
    Comment,
    Instruction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    And,
    Or,
    Mod,
    Div,
    Multiply,
    Slash,
    DoubleSlash,
    Union,
    Plus,
    Minus,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token<'t> {
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Dot,
    DoubleDot,
    At,
    Comma,
    Operator(Operator),
    Number(f64),
    Literal(&'t str),
    Variable(RawName<'t>),
    /// `*`
    AnyName,
    /// `prefix:*`
    AnyOf(&'t str),
    Name(RawName<'t>),
    Function(RawName<'t>),
    NodeType(NodeType),
    /// An axis and its `::`.
    Axis(Axis),
}

/// The tokens and their offsets.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, Error> {
    let mut lexer = Lexer { text, at: 0 };
    let mut found: Vec<(Token<'_>, usize)> = Vec::new();
    loop {
        lexer.skip_space();
        let start = lexer.at;
        if lexer.rest().is_empty() {
            return Ok(found);
        }
        // "If there is a preceding token and it is none of @, ::, (, [, , or an Operator": section 3.7.
        let operand_before = found.last().is_some_and(|(token, _)| ends_operand(token));
        found.push((lexer.next(operand_before)?, start));
    }
}

fn ends_operand(token: &Token<'_>) -> bool {
    match token {
        Token::At
        | Token::Axis(_)
        | Token::Open
        | Token::OpenBracket
        | Token::Comma
        | Token::Operator(_) => false,
        Token::Close
        | Token::CloseBracket
        | Token::Dot
        | Token::DoubleDot
        | Token::Number(_)
        | Token::Literal(_)
        | Token::Variable(_)
        | Token::AnyName
        | Token::AnyOf(_)
        | Token::Name(_)
        | Token::Function(_)
        | Token::NodeType(_) => true,
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

const SYMBOLS: &[(&str, Token<'static>)] = &[
    ("//", Token::Operator(Operator::DoubleSlash)),
    ("/", Token::Operator(Operator::Slash)),
    ("|", Token::Operator(Operator::Union)),
    ("+", Token::Operator(Operator::Plus)),
    ("-", Token::Operator(Operator::Minus)),
    ("!=", Token::Operator(Operator::NotEqual)),
    ("=", Token::Operator(Operator::Equal)),
    ("<=", Token::Operator(Operator::LessOrEqual)),
    ("<", Token::Operator(Operator::Less)),
    (">=", Token::Operator(Operator::GreaterOrEqual)),
    (">", Token::Operator(Operator::Greater)),
    ("(", Token::Open),
    (")", Token::Close),
    ("[", Token::OpenBracket),
    ("]", Token::CloseBracket),
    ("..", Token::DoubleDot),
    ("@", Token::At),
    (",", Token::Comma),
];

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::syntax(self.at, message))
    }

    fn next(&mut self, operand_before: bool) -> Result<Token<'t>, Error> {
        let mut bytes = self.rest().bytes();
        let (first, second) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        match first {
            b'0'..=b'9' => return self.number(),
            b'.' if second.is_ascii_digit() => return self.number(),
            b'"' | b'\'' => return self.literal(char::from(first)),
            b'$' => return self.variable(),
            b'*' => {
                self.at += 1;
                let multiply = Token::Operator(Operator::Multiply);
                return Ok(if operand_before { multiply } else { Token::AnyName });
            }
            _ => {}
        }
        for (symbol, token) in SYMBOLS {
            if self.eat(symbol) {
                return Ok(*token);
            }
        }
        if self.eat(".") {
            return Ok(Token::Dot);
        }
        if operand_before { self.operator_name() } else { self.name() }
    }

    fn number(&mut self) -> Result<Token<'t>, Error> {
        let rest = self.rest();
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let fraction = match rest.as_bytes().get(whole) {
            Some(b'.') => 1 + rest.bytes().skip(whole + 1).take_while(u8::is_ascii_digit).count(),
            Some(_) | None => 0,
        };
        let digits = rest.get(..whole + fraction).unwrap_or("");
        self.at += digits.len();
        Ok(Token::Number(digits.parse().unwrap_or(f64::NAN)))
    }

    fn literal(&mut self, quote: char) -> Result<Token<'t>, Error> {
        let Some((text, _)) = self.rest().get(1..).and_then(|inner| inner.split_once(quote)) else {
            return self.fail(format!("unterminated string literal: add a closing {quote}"));
        };
        self.at += text.len() + 2;
        Ok(Token::Literal(text))
    }

    fn variable(&mut self) -> Result<Token<'t>, Error> {
        self.at += 1;
        let name = self.qname()?;
        if name.local == "*" {
            return self.fail("`$` must be followed by the name of a variable");
        }
        Ok(Token::Variable(name))
    }

    fn operator_name(&mut self) -> Result<Token<'t>, Error> {
        let start = self.at;
        let operator = match self.ncname()? {
            "and" => Operator::And,
            "or" => Operator::Or,
            "mod" => Operator::Mod,
            "div" => Operator::Div,
            other => {
                let message = format!("expected an operator, found `{other}`");
                return Err(Error::syntax(start, message));
            }
        };
        Ok(Token::Operator(operator))
    }

    fn ncname(&mut self) -> Result<&'t str, Error> {
        let rest = self.rest();
        let part =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') || !c.is_ascii();
        let len = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let name = rest.get(..len).unwrap_or("");
        if !xml::is_ncname(name) {
            let shown: String = rest.chars().take(12).collect();
            return self.fail(format!("expected a name or an operand, found `{shown}`"));
        }
        self.at += len;
        Ok(name)
    }

    /// A qualified name, or `prefix:*` with `*` as the local part.
    fn qname(&mut self) -> Result<RawName<'t>, Error> {
        let first = self.ncname()?;
        if !self.rest().starts_with(':') || self.rest().starts_with("::") {
            return Ok(RawName { prefix: "", local: first });
        }
        self.at += 1;
        if self.eat("*") {
            return Ok(RawName { prefix: first, local: "*" });
        }
        Ok(RawName { prefix: first, local: self.ncname()? })
    }

    fn name(&mut self) -> Result<Token<'t>, Error> {
        let start = self.at;
        let name = self.qname()?;
        if name.local == "*" {
            return Ok(Token::AnyOf(name.prefix));
        }
        let end = self.at;
        self.skip_space();
        if self.rest().starts_with('(') {
            return Ok(node_type(name).map_or(Token::Function(name), Token::NodeType));
        }
        if name.prefix.is_empty() && self.eat("::") {
            return match Axis::named(name.local) {
                Some(axis) => Ok(Token::Axis(axis)),
                None => {
                    let message = format!("unknown axis `{}`", name.local);
                    Err(Error::syntax(start, message))
                }
            };
        }
        self.at = end;
        Ok(Token::Name(name))
    }
}

fn node_type(name: RawName<'_>) -> Option<NodeType> {
    match (name.prefix, name.local) {
        ("", "node") => Some(NodeType::Node),
        ("", "text") => Some(NodeType::Text),
        ("", "comment") => Some(NodeType::Comment),
        ("", "processing-instruction") => Some(NodeType::Instruction),
        _ => None,
    }
}
