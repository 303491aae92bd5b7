//! From source to pieces, from pieces to nodes.

use super::built_ins::BuiltIn;
use super::lines::{Piece, What, strip};
use super::{Expr, Kind, List, Node, Operator, Turn};
use crate::Value;
use crate::cursor::{Compiled, Cursor};
use crate::{CompileError, value};

/// The template's nodes, and whether it names the body.
pub(super) fn template(source: &str) -> Compiled<(Vec<Node>, bool)> {
    let mut pieces = pieces(source)?;
    strip(&mut pieces);
    let mut parser =
        Parser { source, pieces, next: 0, depth: 0, names_body: false, loops: Vec::new() };
    let (nodes, end) = parser.body()?;
    match end {
        End::Source => Ok((nodes, parser.names_body)),
        End::Tag(piece) => Err(parser
            .error(piece.at, format!("`<#{}>` stands where nothing is open", piece.text.trim()))),
    }
}

/// Splits the source at `${`, `<#`, `</#` and `<#--`.
fn pieces(source: &str) -> Compiled<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let (mut plain, mut at) = (0, 0);
    while let Some(rest) = source.get(at..) {
        let Some(found) = memchr::memchr2(b'$', b'<', rest.as_bytes()) else { break };
        at += found;
        let rest = source.get(at..).unwrap_or_default();
        let (open, close, what) = if rest.starts_with("${") {
            ("${", "}", What::Print)
        } else if rest.starts_with("<#--") {
            ("<#--", "-->", What::Comment)
        } else if rest.starts_with("<#") {
            ("<#", ">", What::Tag(false))
        } else if rest.starts_with("</#") {
            ("</#", ">", What::Tag(true))
        } else {
            at += 1;
            continue;
        };
        push_text(&mut pieces, source, plain, at);
        let inside = at + open.len();
        let length = if what == What::Comment {
            rest.get(4..).and_then(|rest| rest.find(close))
        } else {
            inside_length(source, inside, close)
        };
        let length = length.ok_or_else(|| {
            CompileError::new(source, at, format!("`{open}` without its `{close}`"))
        })?;
        let text = source.get(inside..inside + length).unwrap_or_default();
        pieces.push(Piece { at: inside, text, what });
        at = inside + length + close.len();
        if what == What::Tag(false) && text.trim() == "noparse" {
            let rest = source.get(at..).unwrap_or_default();
            let end = rest
                .find("</#noparse>")
                .ok_or_else(|| CompileError::new(source, inside, "`<#noparse>` without its end"))?;
            pieces.pop();
            pieces.push(Piece { at, text: rest.get(..end).unwrap_or_default(), what: What::Text });
            at += end + "</#noparse>".len();
        }
        plain = at;
    }
    push_text(&mut pieces, source, plain, source.len());
    Ok(pieces)
}

fn push_text<'s>(pieces: &mut Vec<Piece<'s>>, source: &'s str, from: usize, to: usize) {
    let mut at = from;
    for line in source.get(from..to).unwrap_or_default().split_inclusive('\n') {
        pieces.push(Piece { at, text: line, what: What::Text });
        at += line.len();
    }
}

/// How far it is to `close` outside of strings and brackets.
fn inside_length(source: &str, from: usize, close: &str) -> Option<usize> {
    let bytes = source.as_bytes();
    let (mut at, mut depth, mut quote) = (from, 0_usize, None);
    while let Some(&byte) = bytes.get(at) {
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if open == byte => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, _) if depth == 0 && close.as_bytes() == [byte] => return Some(at - from),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        at += 1;
    }
    None
}

enum End<'s> {
    Source,
    /// A tag that the caller has to know: one that closes, `else`, `elseif`.
    Tag(Piece<'s>),
}

struct Parser<'s> {
    source: &'s str,
    pieces: Vec<Piece<'s>>,
    next: usize,
    depth: usize,
    names_body: bool,
    loops: Vec<Box<str>>,
}

impl<'s> Parser<'s> {
    fn error(&self, at: usize, message: impl Into<String>) -> CompileError {
        CompileError::new(self.source, at, message)
    }

    fn body(&mut self) -> Compiled<(Vec<Node>, End<'s>)> {
        let mut nodes = Vec::new();
        self.depth += 1;
        while let Some(&piece) = self.pieces.get(self.next) {
            self.next += 1;
            match piece.what {
                What::Comment => {}
                What::Text if piece.text.is_empty() => {}
                What::Text => nodes.push(Node::Text(piece.text.into())),
                What::Print => nodes.push(Node::Print(self.whole(piece, 0)?)),
                What::Tag(true) => return self.ended(nodes, End::Tag(piece)),
                What::Tag(false) => match word(piece) {
                    "else" | "elseif" => return self.ended(nodes, End::Tag(piece)),
                    _ => nodes.extend(self.directive(piece)?),
                },
            }
        }
        self.ended(nodes, End::Source)
    }

    fn ended(&mut self, nodes: Vec<Node>, end: End<'s>) -> Compiled<(Vec<Node>, End<'s>)> {
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn directive(&mut self, piece: Piece<'s>) -> Compiled<Vec<Node>> {
        if self.depth > base::limits::EXPRESSION_DEPTH_MAX {
            return Err(self.error(piece.at, "directives are nested too deeply"));
        }
        match word(piece) {
            "if" => self.choice(piece).map(|node| vec![node]),
            "list" => self.list(piece).map(|node| vec![node]),
            "sep" => {
                let (nodes, end) = self.body()?;
                match end {
                    End::Tag(closing)
                        if closing.what == What::Tag(true) && word(closing) == "sep" => {}
                    // Without its own end it goes to the end of the list's body.
                    End::Tag(_) => self.next -= 1,
                    End::Source => return Err(self.error(piece.at, "`<#sep>` outside of a list")),
                }
                Ok(vec![Node::Separator(nodes)])
            }
            "assign" | "local" | "global" => self.assign(piece),
            "ftl" | "t" | "rt" | "lt" | "nt" => Ok(Vec::new()),
            other => {
                let known = "if, elseif, else, list, sep, assign, noparse";
                Err(self
                    .error(piece.at, format!("`<#{other}>` is not supported; there are {known}")))
            }
        }
    }

    fn choice(&mut self, piece: Piece<'s>) -> Compiled<Node> {
        let mut branches = Vec::new();
        let mut test = Some(self.whole(piece, "if".len())?);
        loop {
            let (nodes, end) = self.body()?;
            let last = test.is_none();
            branches.push((test, nodes));
            match end {
                End::Tag(tag) if tag.what == What::Tag(true) && word(tag) == "if" => {
                    return Ok(Node::If(branches));
                }
                End::Tag(tag) if !last && word(tag) == "elseif" => {
                    test = Some(self.whole(tag, "elseif".len())?)
                }
                End::Tag(tag) if !last && word(tag) == "else" => test = None,
                End::Tag(tag) => return Err(self.error(tag.at, "`</#if>` expected before this")),
                End::Source => return Err(self.error(piece.at, "`<#if>` without its `</#if>`")),
            }
        }
    }

    fn list(&mut self, piece: Piece<'s>) -> Compiled<Node> {
        let mut cursor = self.cursor(piece, "list".len())?;
        let over = self.expression(&mut cursor)?;
        cursor.space();
        if !cursor.eat_word("as") {
            return Err(self.error(cursor.at, "`as` and a name expected"));
        }
        let name = self.name(&mut cursor)?;
        let value = if cursor.eat_spaced(",") { Some(self.name(&mut cursor)?) } else { None };
        self.end(&mut cursor)?;
        let before = self.loops.len();
        self.loops.push(name.clone());
        self.loops.extend(value.clone());
        let (body, mut end) = self.body()?;
        self.loops.truncate(before);
        let mut otherwise = Vec::new();
        if let End::Tag(tag) = &end
            && tag.what == What::Tag(false)
            && word(*tag) == "else"
        {
            (otherwise, end) = self.body()?;
        }
        match end {
            End::Tag(tag) if tag.what == What::Tag(true) && word(tag) == "list" => {
                Ok(Node::List(Box::new(List { over, name, value, body, otherwise })))
            }
            End::Tag(tag) => Err(self.error(tag.at, "`</#list>` expected before this")),
            End::Source => Err(self.error(piece.at, "`<#list>` without its `</#list>`")),
        }
    }

    fn assign(&mut self, piece: Piece<'s>) -> Compiled<Vec<Node>> {
        let mut cursor = self.cursor(piece, word(piece).len())?;
        let mut nodes = Vec::new();
        loop {
            let name = self.name(&mut cursor)?;
            if !cursor.eat_spaced("=") {
                self.end(&mut cursor)?;
                let (body, end) = self.body()?;
                return match end {
                    End::Tag(tag) if tag.what == What::Tag(true) && word(tag) == word(piece) => {
                        Ok(vec![Node::Capture(name, body)])
                    }
                    End::Tag(_) | End::Source => {
                        Err(self.error(piece.at, "`<#assign name>` without its end"))
                    }
                };
            }
            let value = self.expression(&mut cursor)?;
            nodes.push(Node::Assign(name, value));
            cursor.eat_spaced(",");
            cursor.space();
            if matches!(cursor.rest().trim(), "" | "/") {
                return Ok(nodes);
            }
        }
    }

    /// A cursor over the whole source that ends where the piece does, so that places are right.
    fn cursor(&self, piece: Piece<'s>, skip: usize) -> Compiled<Cursor<'s>> {
        let end = piece.at + piece.text.len();
        let lead = piece.text.len() - piece.text.trim_start().len();
        let mut cursor =
            Cursor::over(self.source.get(..end).unwrap_or_default(), piece.text.len())?;
        cursor.at = piece.at + lead + skip;
        Ok(cursor)
    }

    fn whole(&mut self, piece: Piece<'s>, skip: usize) -> Compiled<Expr> {
        let mut cursor = self.cursor(piece, skip)?;
        let expression = self.expression(&mut cursor)?;
        self.end(&mut cursor)?;
        Ok(expression)
    }

    fn end(&self, cursor: &mut Cursor<'_>) -> Compiled<()> {
        cursor.space();
        if cursor.rest().trim() == "/" { Ok(()) } else { cursor.end() }
    }

    fn name(&self, cursor: &mut Cursor<'_>) -> Compiled<Box<str>> {
        cursor.space();
        match cursor.name() {
            "" => Err(cursor.error("a name expected")),
            name => Ok(name.into()),
        }
    }

    fn expression(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.enter()?;
        let found = self.level(cursor, 0);
        cursor.leave();
        found
    }

    /// Binary operators by their tightness, from `||` to `*`.
    fn level(&mut self, cursor: &mut Cursor<'_>, level: usize) -> Compiled<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(cursor) };
        let mut left = self.level(cursor, level + 1)?;
        let mut length = 0;
        loop {
            cursor.space();
            if level == RANGE_LEVEL && cursor.rest().starts_with("..") {
                left = self.range(cursor, left)?;
                continue;
            }
            let fits = |(sign, _): &&(&str, Operator)| {
                if sign.starts_with(char::is_alphabetic) {
                    cursor.name_ahead() == *sign
                } else {
                    cursor.rest().starts_with(sign)
                }
            };
            let Some((sign, operator)) = operators.iter().find(fits) else { return Ok(left) };
            // A `/` before the end closes the tag itself.
            if *sign == "/" && cursor.rest().trim() == "/" {
                return Ok(left);
            }
            cursor.at += sign.len();
            length += 1;
            if length > 8 * base::limits::EXPRESSION_DEPTH_MAX {
                return Err(cursor.error("too many operators in one chain"));
            }
            let at = left.at;
            let right = self.level(cursor, level + 1)?;
            left = expr(at, Kind::Binary(left, *operator, right));
        }
    }

    fn range(&mut self, cursor: &mut Cursor<'_>, from: Expr) -> Compiled<Expr> {
        cursor.eat("..");
        let exclusive = cursor.eat("<") || cursor.eat("!");
        let at = from.at;
        let to = self.level(cursor, RANGE_LEVEL + 1)?;
        Ok(expr(at, Kind::Range { from, to, exclusive }))
    }

    fn unary(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.space();
        let at = cursor.at;
        let negative = match cursor.peek() {
            Some('!') => false,
            Some('-') => true,
            Some('+') => {
                cursor.bump();
                return self.unary_after(cursor);
            }
            Some(_) | None => return self.postfix(cursor),
        };
        cursor.bump();
        let operand = self.unary_after(cursor)?;
        Ok(expr(at, if negative { Kind::Negative(operand) } else { Kind::Not(operand) }))
    }

    fn unary_after(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.enter()?;
        let operand = self.unary(cursor)?;
        cursor.leave();
        Ok(operand)
    }

    fn postfix(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        let mut left = self.primary(cursor)?;
        let mut length = 0;
        loop {
            length += 1;
            if length > base::limits::JSONPATH_STEPS_MAX {
                return Err(cursor.error("too many members and built-ins in one chain"));
            }
            cursor.space();
            let at = cursor.at;
            let rest = cursor.rest();
            if rest.starts_with('.') && !rest.starts_with("..") {
                cursor.bump();
                let name = self.name(cursor)?;
                left = expr(at, Kind::Member(left, name));
            } else if cursor.eat("[") {
                left = self.index(cursor, left, at)?;
            } else if cursor.eat("??") {
                left = expr(at, Kind::Exists(left));
            } else if cursor.eat("?") {
                left = self.built_in(cursor, left, at)?;
            } else if rest.starts_with('!') && !rest.starts_with("!=") {
                cursor.bump();
                let starts = |next: char| next.is_alphanumeric() || "\"'([{_".contains(next);
                let fallback = cursor
                    .rest()
                    .starts_with(starts)
                    .then(|| self.unary_after(cursor))
                    .transpose()?;
                left = expr(at, Kind::Default(left, fallback));
            } else {
                return Ok(left);
            }
        }
    }

    fn index(&mut self, cursor: &mut Cursor<'_>, left: Expr, at: usize) -> Compiled<Expr> {
        let first = {
            cursor.enter()?;
            let first = self.level(cursor, RANGE_LEVEL + 1)?;
            cursor.leave();
            first
        };
        cursor.space();
        let kind = if cursor.eat("..") {
            cursor.space();
            let open = cursor.peek() == Some(']');
            let to = if open { None } else { Some(self.level(cursor, RANGE_LEVEL + 1)?) };
            Kind::Slice(left, first, to)
        } else {
            Kind::Index(left, first)
        };
        cursor.expect("]")?;
        Ok(expr(at, kind))
    }

    fn built_in(&mut self, cursor: &mut Cursor<'_>, left: Expr, at: usize) -> Compiled<Expr> {
        let name = self.name(cursor)?;
        let turn = match &*name {
            "index" => Some(Turn::Index),
            "counter" => Some(Turn::Counter),
            "has_next" => Some(Turn::HasNext),
            "is_first" => Some(Turn::IsFirst),
            "is_last" => Some(Turn::IsLast),
            "is_odd_item" => Some(Turn::IsOdd),
            "is_even_item" => Some(Turn::IsEven),
            _ => None,
        };
        if let (Some(turn), Kind::Name(of)) = (turn, &*left.kind) {
            if !self.loops.contains(of) {
                return Err(self.error(at, format!("`{of}` is no loop variable here")));
            }
            return Ok(expr(at, Kind::Turn(of.clone(), turn)));
        }
        let built_in = BuiltIn::find(&name)
            .ok_or_else(|| self.error(at, format!("built-in `?{name}` is not supported")))?;
        let mut arguments = Vec::new();
        if cursor.eat("(") && !cursor.eat_spaced(")") {
            loop {
                arguments.push(self.expression(cursor)?);
                if cursor.eat_spaced(")") {
                    break;
                }
                cursor.expect(",")?;
            }
        }
        if !built_in.takes(arguments.len()) {
            return Err(
                self.error(at, format!("`?{name}` doesn't take {} arguments", arguments.len()))
            );
        }
        Ok(expr(at, Kind::BuiltIn(left, built_in, arguments)))
    }

    fn primary(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.space();
        let at = cursor.at;
        if cursor.eat("r\"") || cursor.eat("r'") {
            cursor.at -= 1;
            let quote = cursor.bump().unwrap_or('"');
            let text = cursor.while_true(|next| next != quote);
            if cursor.bump().is_none() {
                return Err(self.error(at, "a string that has no end"));
            }
            return Ok(expr(at, Kind::Literal(Value::Text(text.to_owned().into()))));
        }
        if let Some(text) = cursor.quoted()? {
            return self.string(at, &text);
        }
        match cursor.peek() {
            Some('(') => {
                cursor.bump();
                let inner = self.expression(cursor)?;
                cursor.expect(")")?;
                Ok(expr(at, Kind::Group(inner)))
            }
            Some('[') => {
                cursor.bump();
                self.sequence(cursor).map(|elements| expr(at, Kind::Sequence(elements)))
            }
            Some('{') => {
                cursor.bump();
                self.hash(cursor).map(|members| expr(at, Kind::Hash(members)))
            }
            Some('0'..='9') => {
                let number = self.number(cursor);
                Ok(expr(at, Kind::Literal(value::number(number))))
            }
            Some(_) | None => self.variable(cursor, at),
        }
    }

    /// `1..3` is a range and no number with two points.
    fn number<'c>(&self, cursor: &mut Cursor<'c>) -> &'c str {
        let start = cursor.at;
        cursor.while_true(|next| next.is_ascii_digit());
        if cursor.rest().starts_with('.') && !cursor.rest().starts_with("..") {
            let point = cursor.at;
            cursor.bump();
            if cursor.while_true(|next| next.is_ascii_digit()).is_empty() {
                cursor.at = point;
            }
        }
        cursor.source().get(start..cursor.at).unwrap_or_default()
    }

    /// A string with `${...}` in it is a sum of its parts.
    fn string(&mut self, at: usize, text: &str) -> Compiled<Expr> {
        let literal = |text: &str| expr(at, Kind::Literal(Value::Text(text.to_owned().into())));
        let mut sum = literal("");
        let mut rest = text;
        let mut parts = 0;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inside, after)) = after.split_once('}') else { break };
            let mut cursor = Cursor::new(inside)?;
            parts += 1;
            let printed = if parts > 64 {
                Err(cursor.error("too many interpolations"))
            } else {
                self.expression(&mut cursor)
            };
            let printed = printed.and_then(|inner| cursor.end().map(|()| inner));
            let mut printed = printed.map_err(|error| self.error(at, error.message))?;
            printed.at = at;
            let printed = expr(at, Kind::BuiltIn(printed, BuiltIn::String, Vec::new()));
            sum = expr(at, Kind::Binary(sum, Operator::Add, literal(before)));
            sum = expr(at, Kind::Binary(sum, Operator::Add, printed));
            rest = after;
        }
        if parts == 0 {
            return Ok(literal(text));
        }
        Ok(expr(at, Kind::Binary(sum, Operator::Add, literal(rest))))
    }

    fn variable(&mut self, cursor: &mut Cursor<'_>, at: usize) -> Compiled<Expr> {
        let name = cursor.name();
        Ok(match name {
            "" => return Err(cursor.error("a value expected")),
            "true" => expr(at, Kind::Literal(Value::Boolean(true))),
            "false" => expr(at, Kind::Literal(Value::Boolean(false))),
            name => {
                self.names_body |= name == "payload";
                expr(at, Kind::Name(name.into()))
            }
        })
    }

    fn sequence(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Vec<Expr>> {
        let mut elements = Vec::new();
        while !cursor.eat_spaced("]") {
            if !elements.is_empty() {
                cursor.expect(",")?;
            }
            elements.push(self.expression(cursor)?);
        }
        Ok(elements)
    }

    fn hash(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Vec<(Expr, Expr)>> {
        let mut members = Vec::new();
        while !cursor.eat_spaced("}") {
            if !members.is_empty() {
                cursor.expect(",")?;
            }
            let name = self.expression(cursor)?;
            cursor.expect(":")?;
            members.push((name, self.expression(cursor)?));
        }
        Ok(members)
    }
}

/// Between comparison and sum, so that `1..n-1` ends where it seems to.
const RANGE_LEVEL: usize = 4;

const LEVELS: &[&[(&str, Operator)]] = &[
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[("==", Operator::Equal), ("!=", Operator::NotEqual), ("=", Operator::Equal)],
    &[
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("lte", Operator::LessOrEqual),
        ("gte", Operator::GreaterOrEqual),
        ("lt", Operator::Less),
        ("gt", Operator::Greater),
    ],
    &[],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("%", Operator::Modulo)],
];

fn expr(at: usize, kind: Kind) -> Expr {
    Expr { at, kind: Box::new(kind) }
}

/// A tag's first word.
fn word<'s>(piece: Piece<'s>) -> &'s str {
    let text = piece.text.trim_start();
    let end = text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
