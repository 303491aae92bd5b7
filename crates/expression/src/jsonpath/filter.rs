//! Filters, `[?(...)]`: grammar and evaluation.

use super::compile::{self, Outer};
use super::evaluate::{Outcome, Run};
use super::{Path, compare};
use crate::cursor::{Compiled, Cursor};
use crate::error::Error;
use crate::json::{Document, Kind, Ref};
use crate::pattern;
use crate::value::Value;
use xpath::regex::Regex;

/// A condition.
#[derive(Clone)]
pub(super) enum Test {
    Any(Vec<Self>),
    All(Vec<Self>),
    Not(Box<Self>),
    /// A path holds if it selects anything, even `null`; any other operand if it is true.
    Holds(Operand),
    Compare(Operand, Operator, Operand),
    /// Whether an array, object or string is empty, or with `false` not empty.
    Empty(Operand, bool),
}

/// An operand of a comparison.
#[derive(Clone)]
pub(super) enum Operand {
    Path {
        path: Path,
        from_root: bool,
    },
    Literal(Value<'static>),
    Regex(Regex),
    /// The host's n-th expression.
    Slot(usize),
}

/// Jayway's relational operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    SameTypeEqual,
    SameTypeNotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Matches,
    In,
    NotIn,
    Contains,
    All,
    Size,
    SubsetOf,
    AnyOf,
    NoneOf,
}

const SYMBOLS: &[(&str, Operator)] = &[
    ("===", Operator::SameTypeEqual),
    ("!==", Operator::SameTypeNotEqual),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("=~", Operator::Matches),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

const WORDS: &[(&str, Operator)] = &[
    ("in", Operator::In),
    ("nin", Operator::NotIn),
    ("contains", Operator::Contains),
    ("all", Operator::All),
    ("size", Operator::Size),
    ("subsetof", Operator::SubsetOf),
    ("anyof", Operator::AnyOf),
    ("noneof", Operator::NoneOf),
];

/// Alternatives joined by `||`.
pub(super) fn test<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Test> {
    cursor.enter()?;
    let mut any = vec![all(cursor, outer)?];
    while cursor.eat_spaced("||") || matches!(outer, Outer::Host(_)) && cursor.eat_word("or") {
        any.push(all(cursor, outer)?);
    }
    cursor.leave();
    Ok(single(any, Test::Any))
}

fn all<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Test> {
    let mut all = vec![unary(cursor, outer)?];
    while cursor.eat_spaced("&&") || matches!(outer, Outer::Host(_)) && cursor.eat_word("and") {
        all.push(unary(cursor, outer)?);
    }
    Ok(single(all, Test::All))
}

fn single(mut tests: Vec<Test>, wrap: fn(Vec<Test>) -> Test) -> Test {
    match (tests.pop(), tests.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            tests.extend(last);
            wrap(tests)
        }
    }
}

fn unary<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Test> {
    cursor.space();
    if cursor.rest().starts_with('!') && !cursor.rest().starts_with("!=") {
        cursor.bump();
        cursor.enter()?;
        let inner = unary(cursor, outer)?;
        cursor.leave();
        return Ok(Test::Not(Box::new(inner)));
    }
    if cursor.eat("(") {
        let inner = test(cursor, outer)?;
        cursor.expect(")")?;
        return Ok(inner);
    }
    let left = operand(cursor, outer)?;
    cursor.space();
    if let Some((symbol, operator)) =
        SYMBOLS.iter().find(|(symbol, _)| cursor.rest().starts_with(symbol))
    {
        cursor.at += symbol.len();
        return Ok(Test::Compare(left, *operator, operand(cursor, outer)?));
    }
    let word = cursor.name_ahead().to_ascii_lowercase();
    if word == "empty" {
        cursor.name();
        cursor.space();
        let wanted = match cursor.name() {
            "true" => true,
            "false" => false,
            _ => return Err(cursor.error("`true` or `false` expected after `empty`")),
        };
        return Ok(Test::Empty(left, wanted));
    }
    let hosted = matches!(outer, Outer::Host(_)) && matches!(word.as_str(), "and" | "or");
    match WORDS.iter().find(|(known, _)| *known == word) {
        Some((_, operator)) => {
            cursor.name();
            Ok(Test::Compare(left, *operator, operand(cursor, outer)?))
        }
        None if word.is_empty() || hosted => Ok(Test::Holds(left)),
        None => Err(cursor.error(format!("unknown operator `{word}`"))),
    }
}

/// A path, a literal, a pattern, or an expression of the host.
pub(super) fn operand<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Operand> {
    cursor.space();
    if let Some((path, from_root)) = compile::inner(cursor, outer)? {
        return Ok(Operand::Path { path, from_root });
    }
    if let Some(text) = cursor.quoted()? {
        return Ok(Operand::Literal(Value::Text(text.into())));
    }
    match cursor.peek() {
        Some('/') => return regex(cursor).map(Operand::Regex),
        Some('[' | '{') => return json(cursor),
        Some('-' | '0'..='9') => return number(cursor),
        Some(_) | None => {}
    }
    let word = cursor.name_ahead();
    let literal = match word {
        "true" => Value::Boolean(true),
        "false" => Value::Boolean(false),
        "null" => Value::Null,
        _ => {
            let slot = outer.operand(cursor)?;
            return slot.map(Operand::Slot).ok_or_else(|| {
                cursor.error("operand expected: a path (`@` or `$`), a string, a number, a list, `true`, `false` or `null`")
            });
        }
    };
    cursor.name();
    Ok(Operand::Literal(literal))
}

fn number(cursor: &mut Cursor<'_>) -> Compiled<Operand> {
    let start = cursor.at;
    cursor.eat("-");
    if cursor.unsigned_number().is_empty() {
        return Err(cursor.error("a number expected"));
    }
    let text = cursor.source().get(start..cursor.at).unwrap_or_default();
    Ok(Operand::Literal(crate::value::number(text)))
}

/// A list or an object as JSON; strings may be in single quotes.
fn json(cursor: &mut Cursor<'_>) -> Compiled<Operand> {
    let start = cursor.clone();
    let mut text = Vec::new();
    let mut depth = 0_usize;
    loop {
        if let Some(string) = cursor.quoted()? {
            crate::json::push_quoted(&mut text, &string);
            continue;
        }
        let next = cursor.bump().ok_or_else(|| start.error("unterminated list"))?;
        text.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
        match next {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    let read = Document::parse(&text).map_err(|error| start.error(error.message()))?;
    Ok(Operand::Literal(Value::Made(Box::new(read.into_owned()))))
}

/// `/pattern/flags`; a slash inside is escaped as `\/`.
fn regex(cursor: &mut Cursor<'_>) -> Compiled<Regex> {
    let start = cursor.clone();
    cursor.bump();
    let mut source = String::new();
    loop {
        match cursor.bump() {
            Some('/') => break,
            Some('\\') if cursor.eat("/") => source.push('/'),
            Some('\\') => {
                source.push('\\');
                source.extend(cursor.bump());
            }
            Some(next) => source.push(next),
            None => return Err(start.error("unterminated pattern")),
        }
    }
    let flags = cursor.name();
    let compiled =
        Regex::compile(&pattern::whole(&source), flags, crate::limits::PATTERN_BYTES_MAX);
    compiled.map_err(|message| start.error(message))
}

impl Test {
    /// Whether the condition holds for `current`.
    pub(super) fn holds<'d>(&self, run: &mut Run<'_, 'd>, current: Ref<'d>) -> Outcome<bool> {
        run.budget.charge_steps(1)?;
        match self {
            Self::Any(tests) => {
                for test in tests {
                    if test.holds(run, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::All(tests) => {
                for test in tests {
                    if !test.holds(run, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Not(test) => Ok(!test.holds(run, current)?),
            Self::Holds(operand) => {
                let found = operand.value(run, current)?;
                Ok(match operand {
                    Operand::Path { .. } => found.is_some(),
                    Operand::Literal(_) | Operand::Regex(_) | Operand::Slot(_) => {
                        found.is_some_and(|value| value.truth())
                    }
                })
            }
            Self::Compare(left, Operator::Matches, right) => matches(run, left, right, current),
            Self::Compare(left, operator, right) => {
                let left = left.value(run, current)?;
                let right = right.value(run, current)?;
                compare::holds(run, left.as_ref(), *operator, right.as_ref())
            }
            Self::Empty(operand, wanted) => {
                let value = operand.value(run, current)?;
                let size = value.map_or(Ok(None), |value| compare::size(run, &value))?;
                Ok(size.is_some_and(|size| (size == 0) == *wanted))
            }
        }
    }
}

impl Operand {
    /// The operand's value; `None` if its path selects nothing.
    pub(super) fn value<'d>(
        &self,
        run: &mut Run<'_, 'd>,
        current: Ref<'d>,
    ) -> Outcome<Option<Value<'d>>> {
        match self {
            Self::Path { path, from_root } => {
                let from = if *from_root { run.root } else { current };
                match run.path(path, from) {
                    Ok(found) => {
                        let value = found.into_value_within(run.budget)?;
                        Ok(Some(value.plain_within(run.budget)?))
                    }
                    Err(Error::Budget(exceeded)) => Err(exceeded.into()),
                    Err(_) => Ok(None),
                }
            }
            Self::Literal(value) => {
                let size = value.size();
                run.budget.charge_reading(size.bytes + size.values * crate::json::NODE_BYTES)?;
                Ok(Some(value.clone()))
            }
            Self::Regex(pattern) => Ok(Some(Value::Text(pattern.source().to_owned().into()))),
            Self::Slot(slot) => run.slot(*slot),
        }
    }
}

/// `=~`: the pattern must match the whole text, of an array at least one element.
fn matches<'d>(
    run: &mut Run<'_, 'd>,
    left: &Operand,
    right: &Operand,
    current: Ref<'d>,
) -> Outcome<bool> {
    let computed;
    let (subject, pattern) = match (left, right) {
        (subject, Operand::Regex(pattern)) | (Operand::Regex(pattern), subject) => {
            (subject, pattern)
        }
        (subject, source) => {
            let Some(source) = source.value(run, current)? else { return Ok(false) };
            let Some(pattern) = compiled(run, &source.text())? else { return Ok(false) };
            computed = pattern;
            (subject, &computed)
        }
    };
    let Some(subject) = subject.value(run, current)? else { return Ok(false) };
    let is_match = |value: &Value<'_>| -> Outcome<bool> {
        run.budget.charge_scanning(value.json().map_or(0, |json| json.raw().len()))?;
        Ok(pattern.is_match(&value.text(), run.budget)?)
    };
    match subject.json() {
        Some(json) if json.kind() == Kind::Array => {
            for element in json.elements() {
                if is_match(&Value::Json(element))? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Some(_) | None if subject.is_null() => Ok(false),
        Some(_) | None => is_match(&subject),
    }
}

/// A pattern that the message supplies, `/pattern/flags` or plain; `None` if it is not one.
fn compiled(run: &Run<'_, '_>, text: &str) -> Outcome<Option<Regex>> {
    let (source, flags) =
        text.strip_prefix('/').and_then(|text| text.rsplit_once('/')).unwrap_or((text, ""));
    run.budget.charge_reading(source.len())?;
    Ok(run.patterns.get(&pattern::whole(source), flags, run.budget)?.ok())
}
