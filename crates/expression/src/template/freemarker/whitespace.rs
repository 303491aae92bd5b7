//! FreeMarker's white-space stripping: a line of directives only produces no output.

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

/// Removes the white space of lines that hold directives only. A text piece never spans lines.
pub(super) fn strip(pieces: &mut [Piece<'_>]) {
    let mut start = 0;
    while start < pieces.len() {
        let rest = pieces.get(start..).unwrap_or_default();
        let ends = |piece: &Piece<'_>| piece.what == What::Text && piece.text.ends_with('\n');
        let end = rest.iter().position(ends).map_or(pieces.len(), |found| start + found + 1);
        let line = pieces.get_mut(start..end).unwrap_or_default();
        let tagged = line.iter().any(|piece| matches!(piece.what, What::Tag(_) | What::Comment));
        let blank = line.iter().all(|piece| match piece.what {
            What::Text => piece.text.trim().is_empty(),
            What::Print => false,
            What::Tag(_) | What::Comment => true,
        });
        if tagged && blank {
            for piece in line.iter_mut().filter(|piece| piece.what == What::Text) {
                piece.text = "";
            }
        }
        start = end;
    }
}
