//! Compiles the text of a path into steps.

use super::filter::{self, Operand};
use super::function::FunctionCall;
use super::{Path, Step};
use crate::cursor::{Compiled, Cursor};
use crate::limits;

/// An index: a literal, or the value of the host's n-th expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Fixed(i64),
    Slot(usize),
}

/// The expressions that a host language allows inside a path, as indices and as operands of filters.
pub(crate) trait Externals<'s> {
    /// Compiles the host's expression at the cursor, if there is one, and returns its slot.
    fn operand(&mut self, cursor: &mut Cursor<'s>) -> Compiled<Option<usize>>;
}

/// The host language, if the path is part of another expression.
pub(crate) enum Outer<'a, 's> {
    None,
    Host(&'a mut dyn Externals<'s>),
}

impl<'s> Outer<'_, 's> {
    pub(super) fn operand(&mut self, cursor: &mut Cursor<'s>) -> Compiled<Option<usize>> {
        match self {
            Self::None => Ok(None),
            Self::Host(host) => host.operand(cursor),
        }
    }
}

/// A whole path. `$.` at the start is optional, and `@` may replace `$`. A dot at the end is dropped, as Synapse's
/// `SynapseJsonPath` does: `$.` is the whole document.
pub(super) fn path(source: &str) -> Compiled<Vec<Step>> {
    let source = source.trim_end();
    let mut cursor = Cursor::new(source.strip_suffix('.').unwrap_or(source))?;
    cursor.space();
    let rooted = cursor.eat("$") || cursor.eat("@");
    if cursor.rest().trim().is_empty() && !rooted {
        return Err(cursor.error("empty path; `$` selects the whole document"));
    }
    let mut found = Vec::new();
    if !rooted && !cursor.rest().starts_with(['[', '.']) {
        found.push(member(&mut cursor, &mut Outer::None)?);
    }
    found.extend(steps(&mut cursor, &mut Outer::None)?);
    cursor.end()?;
    Ok(found)
}

/// Compiles the steps at the cursor up to the first character that is not part of one.
pub(super) fn steps<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Vec<Step>> {
    let mut steps = Vec::new();
    loop {
        if cursor.eat("..") {
            steps.push(Step::Descend);
            if cursor.peek() == Some('[') {
                steps.push(brackets(cursor, outer)?);
            } else {
                steps.push(member(cursor, outer)?);
            }
        } else if cursor.peek() == Some('.') {
            cursor.bump();
            if cursor.peek() == Some('[') {
                steps.push(brackets(cursor, outer)?);
            } else {
                steps.push(member(cursor, outer)?);
            }
        } else if cursor.peek() == Some('[') {
            steps.push(brackets(cursor, outer)?);
        } else {
            return Ok(steps);
        }
        if steps.len() > limits::JSONPATH_STEPS_MAX {
            let most = limits::JSONPATH_STEPS_MAX;
            return Err(cursor.error(format!("more than {most} steps in a path")));
        }
    }
}

/// Whether `next` is part of a name after a dot: inside a host expression it ends at any operator, and inside a filter
/// or a call at one of those.
fn is_name(next: char, hosted: bool, nested: bool) -> bool {
    if hosted {
        return next.is_alphanumeric() || next == '_';
    }
    let ends = if nested { ".[]()=<>!,&|'\"~" } else { ".[]()" };
    !next.is_whitespace() && !ends.contains(next)
}

/// After a dot: `*`, a name, or a function call.
fn member<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Step> {
    if cursor.eat("*") {
        return Ok(Step::Wildcard);
    }
    let start = cursor.at;
    let hosted = matches!(outer, Outer::Host(_));
    let nested = cursor.is_nested();
    let name = cursor.while_true(|next| is_name(next, hosted, nested));
    if name.is_empty() {
        return Err(cursor.error("member name, `*` or `[` expected"));
    }
    if !cursor.eat("(") {
        return Ok(Step::Member(name.into()));
    }
    let mut arguments = Vec::new();
    cursor.enter()?;
    cursor.space();
    if !cursor.eat(")") {
        loop {
            arguments.push(argument(cursor, outer)?);
            if cursor.eat_spaced(")") {
                break;
            }
            cursor.expect(",")?;
        }
    }
    cursor.leave();
    FunctionCall::new(name, arguments)
        .map(Step::Call)
        .map_err(|message| crate::error::SyntaxError::new(cursor.source(), start, message))
}

fn argument<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Operand> {
    cursor.space();
    filter::operand(cursor, outer)
}

fn brackets<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Step> {
    cursor.enter()?;
    cursor.expect("[")?;
    cursor.space();
    let step = if cursor.peek() == Some('?') {
        cursor.bump();
        Step::Filter(filter::test(cursor, outer)?)
    } else if cursor.eat("*") {
        Step::Wildcard
    } else if let Some(first) = cursor.quoted()? {
        names(cursor, first)?
    } else {
        indices(cursor, outer)?
    };
    cursor.expect("]")?;
    cursor.leave();
    Ok(step)
}

fn names(cursor: &mut Cursor<'_>, first: String) -> Compiled<Step> {
    let mut names = vec![first.into_boxed_str()];
    while cursor.eat_spaced(",") {
        cursor.space();
        let name = cursor.quoted()?;
        names.push(name.ok_or_else(|| cursor.error("name in quotes expected"))?.into_boxed_str());
    }
    Ok(match <[Box<str>; 1]>::try_from(names) {
        Ok([one]) => Step::Member(one),
        Err(names) => Step::Members(names),
    })
}

fn indices<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Step> {
    let first = bound(cursor, outer)?;
    if cursor.eat_spaced(":") {
        let to = bound(cursor, outer)?;
        let step = if cursor.eat_spaced(":") { bound(cursor, outer)? } else { None };
        if step == Some(Bound::Fixed(0)) {
            return Err(cursor.error("the step of a slice must not be 0"));
        }
        return Ok(Step::Slice { from: first, to, step });
    }
    let expected = "an index, a slice, a name in quotes, `*` or `?(...)` expected";
    let first = first.ok_or_else(|| cursor.error(expected))?;
    let mut all = vec![first];
    while cursor.eat_spaced(",") {
        all.push(bound(cursor, outer)?.ok_or_else(|| cursor.error("an index expected"))?);
    }
    Ok(if all.len() == 1 { Step::Index(first) } else { Step::Indices(all) })
}

fn bound<'s>(cursor: &mut Cursor<'s>, outer: &mut Outer<'_, 's>) -> Compiled<Option<Bound>> {
    cursor.space();
    let start = cursor.clone();
    let negative = cursor.eat("-");
    let digits = cursor.while_true(|next| next.is_ascii_digit());
    cursor.space();
    let over = cursor.rest().starts_with([']', ':', ',']);
    if !digits.is_empty() && over {
        let size: i64 = digits.parse().map_err(|_| start.error("index out of range"))?;
        return Ok(Some(Bound::Fixed(if negative { -size } else { size })));
    }
    *cursor = start;
    Ok(outer.operand(cursor)?.map(Bound::Slot))
}

/// A path inside a filter or a function call; `None` if neither `@` nor `$` is next.
pub(super) fn inner<'s>(
    cursor: &mut Cursor<'s>,
    outer: &mut Outer<'_, 's>,
) -> Compiled<Option<(Path, bool)>> {
    let start = cursor.at;
    let from_root = match cursor.peek() {
        Some('$') => true,
        Some('@') => false,
        Some(_) | None => return Ok(None),
    };
    cursor.bump();
    cursor.enter()?;
    let steps = steps(cursor, outer)?;
    cursor.leave();
    let source = cursor.source().get(start..cursor.at).unwrap_or_default();
    Ok(Some((Path::of(source, steps, super::Options::default()), from_root)))
}
