//! FreeMarker's white-space stripping: a line of directives only produces no output, and `<#t>`, `<#lt>`, `<#rt>` and
//! `<#nt>` say for a line that its ends are removed, or that it stays as it is.

use super::parse::word;

/// A lexical piece of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'s> {
    pub(super) at: usize,
    pub(super) text: &'s str,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Text,
    /// The inside of `${...}`.
    Print,
    /// The inside of `<#...>`, or with `true` of `</#...>`.
    Tag(bool),
    Comment,
}

/// Removes the white space of lines that hold directives only, and of those that ask for it. A text piece never spans
/// lines.
pub(super) fn strip(pieces: &mut [Piece<'_>]) {
    let mut start = 0;
    while start < pieces.len() {
        let rest = pieces.get(start..).unwrap_or_default();
        let ends = |piece: &Piece<'_>| piece.what == What::Text && piece.text.ends_with('\n');
        let end = rest.iter().position(ends).map_or(pieces.len(), |found| start + found + 1);
        strip_line(pieces.get_mut(start..end).unwrap_or_default());
        start = end;
    }
}

fn strip_line(line: &mut [Piece<'_>]) {
    let has = |words: &[&str]| {
        line.iter().any(|piece| piece.what == What::Tag(false) && words.contains(&word(*piece)))
    };
    let tagged = line.iter().any(|piece| matches!(piece.what, What::Tag(_) | What::Comment));
    let blank = line.iter().all(|piece| match piece.what {
        What::Text => piece.text.trim().is_empty(),
        What::Print => false,
        What::Tag(_) | What::Comment => true,
    });
    let alone = tagged && blank;
    let (left, right) = (alone || has(&["t", "lt"]), alone || has(&["t", "rt"]));
    if has(&["nt"]) {
        return;
    }
    if left {
        trim(line.iter_mut(), str::trim_start);
    }
    if right {
        trim(line.iter_mut().rev(), str::trim_end);
    }
}

/// Trims the texts up to the first that is more than white space.
fn trim<'p, 's: 'p>(
    pieces: impl Iterator<Item = &'p mut Piece<'s>>,
    end: impl Fn(&'s str) -> &'s str,
) {
    for piece in pieces {
        match piece.what {
            What::Text => piece.text = end(piece.text),
            What::Print => return,
            What::Tag(_) | What::Comment => continue,
        }
        if !piece.text.is_empty() {
            return;
        }
    }
}
