//! Splits the source into pieces and parses them into nodes.

mod expressions;

use super::whitespace::{Piece, What, strip};
use super::{Expr, Kind, List, Node};
use crate::cursor::{Compiled, Cursor};
use crate::error::SyntaxError;
use crate::value::Value;

/// A template, the namespaces that it declares, and whether it reads the body.
pub(super) struct Parsed {
    pub(super) nodes: Vec<Node>,
    pub(super) namespaces: Vec<(Box<str>, Box<str>)>,
    pub(super) names_body: bool,
}

pub(super) fn template(source: &str) -> Compiled<Parsed> {
    let mut pieces = pieces(source)?;
    strip(&mut pieces);
    let mut parser = Parser {
        source,
        pieces,
        next: 0,
        depth: 0,
        names_body: false,
        loops: Vec::new(),
        namespaces: Vec::new(),
    };
    let (nodes, end) = parser.body()?;
    match end {
        End::Source => {
            let Parser { namespaces, names_body, .. } = parser;
            Ok(Parsed { nodes, namespaces, names_body })
        }
        End::Tag(piece) => {
            let message = format!("`{}` without an open directive; remove it", tag(piece));
            Err(parser.error(piece.at, message))
        }
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
        } else if rest.starts_with("<@") || rest.starts_with("</@") {
            let message = "macros are not supported; write their content here, or in a `<#list>`";
            return Err(SyntaxError::new(source, at, message));
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
            SyntaxError::new(source, at, format!("unclosed `{open}`: add `{close}`"))
        })?;
        let text = source.get(inside..inside + length).unwrap_or_default();
        pieces.push(Piece { at: inside, text, what });
        at = inside + length + close.len();
        if what == What::Tag(false) && text.trim() == "noparse" {
            let rest = source.get(at..).unwrap_or_default();
            let end = rest.find("</#noparse>").ok_or_else(|| {
                SyntaxError::new(source, inside, "unclosed `<#noparse>`: add `</#noparse>`")
            })?;
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

/// The distance to `close`, outside of strings and brackets.
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
    /// A tag that ends the body: a closing one, `else`, or `elseif`.
    Tag(Piece<'s>),
}

struct Parser<'s> {
    source: &'s str,
    pieces: Vec<Piece<'s>>,
    next: usize,
    depth: usize,
    names_body: bool,
    loops: Vec<Box<str>>,
    namespaces: Vec<(Box<str>, Box<str>)>,
}

impl<'s> Parser<'s> {
    fn error(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.source, at, message)
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
        if self.depth > crate::limits::EXPRESSION_DEPTH_MAX {
            return Err(self.error(piece.at, "directives nested too deeply; use several templates"));
        }
        match word(piece) {
            "if" => self.choice(piece).map(|node| vec![node]),
            "list" => self.list(piece).map(|node| vec![node]),
            "sep" => {
                let (nodes, end) = self.body()?;
                match end {
                    End::Tag(closing)
                        if closing.what == What::Tag(true) && word(closing) == "sep" => {}
                    // Without a closing tag it extends to the end of the list's body.
                    End::Tag(_) => self.next -= 1,
                    End::Source => {
                        return Err(self.error(
                            piece.at,
                            "`<#sep>` outside of a list; add `</#list>` behind it",
                        ));
                    }
                }
                Ok(vec![Node::Separator(nodes)])
            }
            "assign" | "local" | "global" => self.assign(piece),
            "ftl" => self.header(piece).map(|()| Vec::new()),
            // Read by `strip`.
            "t" | "rt" | "lt" | "nt" => Ok(Vec::new()),
            other => {
                let instead = match other {
                    "macro" | "function" | "nested" | "return" | "include" | "import" => {
                        "write the content in place, `<#list>` repeats it"
                    }
                    "switch" | "case" | "default" => "use `<#if>` and `<#elseif>`",
                    "items" | "break" | "continue" => "use `<#list x as y>` and `?filter`",
                    "setting" => "remove it; numbers print as by `?c`",
                    "escape" | "autoesc" | "outputformat" => "use `?xml` or `?json_string`",
                    "attempt" | "recover" => "use `!` and `??`",
                    _ => {
                        "supported are `if`, `elseif`, `else`, `list`, `sep`, `assign`, `noparse` and `ftl`"
                    }
                };
                let message = format!("unsupported directive `<#{other}>`; {instead}");
                Err(self.error(piece.at, message))
            }
        }
    }

    /// `<#ftl ns_prefixes={"p": "urn:x"}>`. A template is text, so `encoding` means nothing.
    fn header(&mut self, piece: Piece<'s>) -> Compiled<()> {
        let mut cursor = self.cursor(piece, "ftl".len())?;
        loop {
            cursor.space();
            if matches!(cursor.rest().trim(), "" | "/") {
                return Ok(());
            }
            let name = self.name(&mut cursor)?;
            cursor.expect("=")?;
            let value = self.expression(&mut cursor)?;
            let members = match (&*name, *value.kind) {
                ("encoding", _) => continue,
                ("ns_prefixes", Kind::Hash(members)) => members,
                (name, _) => {
                    let known = "supported is `ns_prefixes={\"p\": \"urn:x\"}`";
                    let message = format!("unsupported `{name}` of `<#ftl>`; {known}");
                    return Err(self.error(piece.at, message));
                }
            };
            for (prefix, namespace) in members {
                match (*prefix.kind, *namespace.kind) {
                    (Kind::Literal(Value::Text(prefix)), Kind::Literal(Value::Text(namespace))) => {
                        self.namespaces.push((prefix.into(), namespace.into()))
                    }
                    _ => return Err(self.error(piece.at, "`ns_prefixes` requires strings")),
                }
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
                End::Source => return Err(self.error(piece.at, "unclosed `<#if>`: add `</#if>`")),
            }
        }
    }

    fn list(&mut self, piece: Piece<'s>) -> Compiled<Node> {
        let mut cursor = self.cursor(piece, "list".len())?;
        let over = self.expression(&mut cursor)?;
        cursor.space();
        if !cursor.eat_word("as") {
            return Err(self.error(cursor.at, "`as` and a name expected, as in `<#list x as y>`"));
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
            End::Source => Err(self.error(piece.at, "unclosed `<#list>`: add `</#list>`")),
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
                        Err(self.error(piece.at, "unclosed `<#assign name>`: add `</#assign>`"))
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

    /// A cursor over the source up to the end of the piece, so that errors have the right position.
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
            "" => Err(cursor.error("name expected: letters, digits and `_`")),
            name => Ok(name.into()),
        }
    }
}

/// The tag as written.
fn tag(piece: Piece<'_>) -> String {
    let close = if piece.what == What::Tag(true) { "/" } else { "" };
    format!("<{close}#{}>", piece.text.trim())
}

/// A tag's first word.
pub(super) fn word<'s>(piece: Piece<'s>) -> &'s str {
    let text = piece.text.trim_start();
    let end = text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}
