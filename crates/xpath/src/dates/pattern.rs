//! Splits a date pattern into fields and literal text.

use crate::error::Error;

pub(super) enum Part<'p> {
    Literal(&'p str),
    /// A letter and how often it is repeated.
    Field(char, usize),
}

/// The parts of a pattern, in order.
pub(super) fn parts(pattern: &str) -> impl Iterator<Item = Result<Part<'_>, Error>> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let part = if first == '\'' { quoted(&mut rest) } else { Ok(run(first, &mut rest)) };
        if part.is_err() {
            rest = "";
        }
        Some(part)
    })
}

/// Quoted text, or a quote: `''` means one, within quoted text too.
pub(super) fn unterminated() -> Error {
    Error::Date("unterminated quote in a date pattern".to_owned())
}

fn quoted<'p>(rest: &mut &'p str) -> Result<Part<'p>, Error> {
    let body = rest.get(1..).unwrap_or("");
    if body.starts_with('\'') {
        let (quote, after) = body.split_at(1);
        *rest = after;
        return Ok(Part::Literal(quote));
    }
    let end = body.find('\'').ok_or_else(unterminated)?;
    // A doubled quote: the first one belongs to this literal, the second begins the next one.
    let doubled = body.get(end + 1..).is_some_and(|after| after.starts_with('\''));
    let (text, after) = body.split_at(if doubled { end + 1 } else { end });
    *rest = after.get(usize::from(!doubled)..).unwrap_or("");
    Ok(Part::Literal(text))
}

fn run<'p>(first: char, rest: &mut &'p str) -> Part<'p> {
    let same = |next: char| {
        if first.is_ascii_alphabetic() {
            next == first
        } else {
            !next.is_ascii_alphabetic() && next != '\''
        }
    };
    let (run, after) = rest.split_at(rest.find(|next| !same(next)).unwrap_or(rest.len()));
    *rest = after;
    if first.is_ascii_alphabetic() { Part::Field(first, run.len()) } else { Part::Literal(run) }
}
