//! `fn:replace()`. Source: XPath and XQuery Functions and Operators 3.1, section 5.6.4.

use crate::regex::Regex;
use crate::{Budget, Error};

/// A part of a replacement.
enum Piece<'r> {
    Text(&'r str),
    Group(usize),
}

/// `text` with `replacement` for each match of `regex`; `$1` there is the text of a group.
///
/// # Errors
/// The pattern matches an empty text, or the replacement has another `$` or `\`; the budget.
pub(crate) fn replace(
    text: &str,
    regex: &Regex,
    replacement: &str,
    budget: &Budget,
) -> Result<String, Error> {
    if regex.is_match("", budget)? {
        return Err(Error::Host("fn:replace(): the pattern matches an empty text".to_owned()));
    }
    let pieces = pieces(replacement)?;
    let (mut made, mut from) = (String::new(), 0);
    let push = |made: &mut String, part: &str| {
        budget.charge_memory(part.len())?;
        made.push_str(part);
        Ok::<_, Error>(())
    };
    for found in regex.matches(text, budget) {
        let found = found?;
        push(&mut made, text.get(from..found.start).unwrap_or_default())?;
        let groups = regex.groups(text, &found, budget)?;
        for piece in &pieces {
            budget.charge_steps(1)?;
            match piece {
                Piece::Text(part) => push(&mut made, part)?,
                Piece::Group(number) => {
                    let group = groups.get_group(*number).map(|span| span.range());
                    push(&mut made, group.and_then(|at| text.get(at)).unwrap_or_default())?;
                }
            }
        }
        from = found.end;
    }
    push(&mut made, text.get(from..).unwrap_or_default())?;
    Ok(made)
}

fn pieces(replacement: &str) -> Result<Vec<Piece<'_>>, Error> {
    let (mut pieces, mut rest) = (Vec::new(), replacement);
    while let Some(at) = rest.find(['$', '\\']) {
        pieces.push(Piece::Text(rest.get(..at).unwrap_or_default()));
        let mark = rest.get(at..).unwrap_or_default();
        let behind = mark.get(1..).unwrap_or_default();
        let next = behind.chars().next();
        match next {
            Some('$' | '\\') if mark.starts_with('\\') => {
                pieces.push(Piece::Text(behind.get(..1).unwrap_or_default()));
            }
            Some(digit @ '0'..='9') if mark.starts_with('$') => {
                pieces.push(Piece::Group(digit as usize - '0' as usize));
            }
            Some(_) | None => {
                let message =
                    "fn:replace(): `$` and `\\` in a replacement are written `\\$` and `\\\\`";
                return Err(Error::Host(message.to_owned()));
            }
        }
        rest = behind.get(1..).unwrap_or_default();
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}
