//! The expressions of a template: operators by precedence, postfix operators, and primary values.

use super::super::built_ins::BuiltIn;
use super::super::{Expr, Kind, LoopProperty, Operator};
use super::Parser;
use crate::cursor::{Compiled, Cursor};
use crate::value::{self, Value};

impl Parser<'_> {
    pub(super) fn expression(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.enter()?;
        let found = self.level(cursor, 0);
        cursor.leave();
        found
    }

    /// Binary operators by precedence, from `||` to `*`.
    fn level(&mut self, cursor: &mut Cursor<'_>, level: usize) -> Compiled<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(cursor) };
        let mut left = self.level(cursor, level + 1)?;
        loop {
            cursor.space();
            if level == RANGE_LEVEL && cursor.rest().starts_with("..") {
                cursor.operator()?;
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
            // A `/` at the end closes the tag.
            if *sign == "/" && cursor.rest().trim() == "/" {
                return Ok(left);
            }
            cursor.at += sign.len();
            cursor.operator()?;
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
            if length > crate::limits::JSONPATH_STEPS_MAX {
                return Err(
                    cursor.error("too many members and built-ins in a row; use `<#assign>`")
                );
            }
            if length > 1 {
                cursor.operator()?;
            }
            cursor.space();
            let at = cursor.at;
            let rest = cursor.rest();
            if rest.starts_with('.') && !rest.starts_with("..") {
                cursor.bump();
                let name = member_name(cursor)?;
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
        let property = match &*name {
            "index" => Some(LoopProperty::Index),
            "counter" => Some(LoopProperty::Counter),
            "has_next" => Some(LoopProperty::HasNext),
            "is_first" => Some(LoopProperty::IsFirst),
            "is_last" => Some(LoopProperty::IsLast),
            "is_odd_item" => Some(LoopProperty::IsOdd),
            "is_even_item" => Some(LoopProperty::IsEven),
            _ => None,
        };
        if let (Some(property), Kind::Name(of)) = (property, &*left.kind) {
            if !self.loops.contains(of) {
                return Err(self.error(
                    at,
                    format!("`{of}` is not a loop variable here; use it inside of its `<#list>`"),
                ));
            }
            return Ok(expr(at, Kind::Loop(of.clone(), property)));
        }
        if matches!(&*name, "filter" | "map") {
            let (of, is_filter) = (left, &*name == "filter");
            let (name, body) = self.lambda(cursor)?;
            return Ok(expr(at, Kind::Each { of, is_filter, name, body }));
        }
        let built_in = BuiltIn::find(&name).ok_or_else(|| {
            let instead = match &*name {
                "date" | "datetime" | "time" | "iso_utc" | "iso_local" => {
                    "pass the date as an argument, made by `formatDateTime` of an expression"
                        .to_owned()
                }
                "eval" | "interpret" => "use `?eval_json`".to_owned(),
                "no_esc" | "esc" => "remove it; nothing is escaped automatically".to_owned(),
                _ => format!("supported are {}, filter, map", BuiltIn::names()),
            };
            self.error(at, format!("unsupported built-in `?{name}`; {instead}"))
        })?;
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
        let takes = built_in.arguments();
        if !takes.contains(&arguments.len()) {
            let message = format!("`?{name}` does not take {} arguments", arguments.len());
            let (fewest, most) = (takes.start(), takes.end());
            return Err(self.error(at, format!("{message}; give {fewest} to {most}")));
        }
        Ok(expr(at, Kind::BuiltIn(left, built_in, arguments)))
    }

    /// `(name -> body)`
    fn lambda(&mut self, cursor: &mut Cursor<'_>) -> Compiled<(Box<str>, Expr)> {
        cursor.expect("(")?;
        let in_parentheses = cursor.eat_spaced("(");
        let name = self.name(cursor)?;
        if in_parentheses {
            cursor.expect(")")?;
        }
        if !cursor.eat_spaced("->") {
            return Err(cursor.error("`->` expected, as in `?filter(x -> x.price > 10)`"));
        }
        let body = self.expression(cursor)?;
        cursor.expect(")")?;
        Ok((name, body))
    }

    fn primary(&mut self, cursor: &mut Cursor<'_>) -> Compiled<Expr> {
        cursor.space();
        let at = cursor.at;
        if cursor.eat("r\"") || cursor.eat("r'") {
            cursor.at -= 1;
            let quote = cursor.bump().unwrap_or('"');
            let text = cursor.while_true(|next| next != quote);
            if cursor.bump().is_none() {
                return Err(self.error(at, "unterminated string"));
            }
            return Ok(expr(at, Kind::Literal(Value::Text(text.to_owned().into()))));
        }
        if let Some(text) = cursor.quoted()? {
            return self.string(cursor, at, &text);
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

    /// A number; `1..3` is a range.
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

    /// A string; with `${...}` inside, the sum of its parts.
    fn string(&mut self, outer: &mut Cursor<'_>, at: usize, text: &str) -> Compiled<Expr> {
        let literal = |text: &str| expr(at, Kind::Literal(Value::Text(text.to_owned().into())));
        let mut sum = literal("");
        let mut rest = text;
        let mut parts = 0;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inside, after)) = after.split_once('}') else { break };
            let mut cursor = Cursor::inside(inside, outer)?;
            parts += 1;
            let printed = if parts > 64 {
                Err(cursor.error("too many interpolations; use several strings"))
            } else {
                cursor.operator().and_then(|()| self.expression(&mut cursor))
            };
            let printed = printed.and_then(|inner| cursor.end().map(|()| inner));
            outer.count_operators_of(&cursor);
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
            "" if cursor.peek() == Some('.') => {
                let message = "special variables are not supported; pass the value as an argument";
                return Err(cursor.error(message));
            }
            "" => {
                let message =
                    "value expected, such as `payload.name`, `args.arg1`, `\"text\"` or `1`";
                return Err(cursor.error(message));
            }
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

/// Between comparison and sum, so that `1..n-1` is `1..(n-1)`.
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

/// The name of a member; of XML also `*`, `**`, `@name` and `@@name`. In a name `\-`, `\.` and `\:` are `-`, `.` and
/// `:`.
fn member_name(cursor: &mut Cursor<'_>) -> Compiled<Box<str>> {
    cursor.space();
    for all in ["**", "*"] {
        if cursor.eat(all) {
            return Ok(all.into());
        }
    }
    let mut name = cursor.while_true(|next| next == '@').to_owned();
    let is_all = name == "@@";
    name.push_str(cursor.name());
    while let Some(escaped) = cursor.rest().strip_prefix('\\').and_then(|rest| rest.chars().next())
        && "-.:".contains(escaped)
    {
        cursor.at += 2;
        name.push(escaped);
        name.push_str(cursor.while_true(|next| next.is_alphanumeric() || next == '_'));
    }
    if name.trim_start_matches('@').is_empty() && !is_all {
        return Err(cursor.error("name expected; write other names as `[\"name\"]`"));
    }
    Ok(name.into())
}

fn expr(at: usize, kind: Kind) -> Expr {
    Expr { at, kind: Box::new(kind) }
}
