//! Lines of Rust source, divided into code, literals and comments. Other than `crate::source`, which parses with syn,
//! it keeps ordinary comments and needs no valid syntax tree.

/// One line of source.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Number of the line, from 1.
    pub(super) number: usize,
    pub(super) text: &'a str,
    /// Length of the code before any comment, in characters, without the spaces between.
    pub(super) code_columns: usize,
    /// The comment that the line ends with, or consists of, its slashes included.
    pub(super) comment: Option<&'a str>,
    /// Kind of each byte.
    kinds: Vec<Kind>,
}

impl Line<'_> {
    /// The last of `columns` and one beside it belong to a literal, which therefore ends at the edge or crosses it.
    pub(super) fn literal_reaches(&self, columns: usize) -> bool {
        let is_literal = |column: usize| {
            let letter = self.text.char_indices().nth(column);
            letter.is_some_and(|(at, _)| self.kinds.get(at) == Some(&Kind::Literal))
        };
        let Some(last) = columns.checked_sub(1) else { return false };
        is_literal(last) && (is_literal(last + 1) || last.checked_sub(1).is_some_and(is_literal))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Literal,
    Comment,
}

/// The lines of `source`.
pub(super) fn lines(source: &str) -> Vec<Line<'_>> {
    let kinds = kinds(source);
    let mut start = 0;
    let mut lines = Vec::new();
    for (index, with_end) in source.split_inclusive('\n').enumerate() {
        let text = with_end.trim_end_matches(['\n', '\r']);
        let kinds = kinds.get(start..start + text.len()).unwrap_or_default();
        lines.push(line(index + 1, text, kinds));
        start += with_end.len();
    }
    lines
}

fn line<'a>(number: usize, text: &'a str, kinds: &[Kind]) -> Line<'a> {
    let comment_at = kinds.iter().position(|kind| *kind == Kind::Comment);
    let (code, comment) = text.split_at(comment_at.unwrap_or(text.len()));
    Line {
        number,
        text,
        code_columns: code.trim_end().chars().count(),
        comment: comment_at.is_some().then_some(comment),
        kinds: kinds.to_vec(),
    }
}

/// The kind of each byte of `source`.
fn kinds(source: &str) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(source.len());
    while let Some(rest) = source.get(kinds.len()..).filter(|rest| !rest.is_empty()) {
        let (length, kind) = token(rest);
        kinds.resize(kinds.len() + length.max(1), kind);
    }
    kinds
}

/// Length and kind of the comment, literal, word or character that `rest` begins with.
fn token(rest: &str) -> (usize, Kind) {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let word = rest.len() - rest.trim_start_matches(is_word).len();
    if word > 0 {
        raw_string(rest).map_or((word, Kind::Code), |length| (length, Kind::Literal))
    } else if rest.starts_with("//") {
        (rest.find('\n').unwrap_or(rest.len()), Kind::Comment)
    } else if rest.starts_with("/*") {
        (block_comment(rest), Kind::Comment)
    } else if rest.starts_with('"') {
        (quoted(rest, '"'), Kind::Literal)
    } else if is_character(rest) {
        (quoted(rest, '\''), Kind::Literal)
    } else {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        (spaces.max(rest.chars().next().map_or(0, char::len_utf8)), Kind::Code)
    }
}

/// Length of a block comment, nested ones included.
fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let Some(tail) = rest.get(at..) else { return rest.len() };
        let Some(next) = tail.find(['/', '*']) else { return rest.len() };
        let (step, change) = match tail.get(next..next + 2) {
            Some("/*") => (2, 1),
            Some("*/") => (2, -1),
            _ => (1, 0),
        };
        at += next + step;
        depth += change;
    }
    at
}

/// Length of a raw string, if `rest` begins with one.
fn raw_string(rest: &str) -> Option<usize> {
    let tail = rest.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    let opening = rest.len() - tail.len() + hashes + 1;
    let text = tail.get(hashes..)?.strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    Some(text.find(&closing).map_or(rest.len(), |end| opening + end + closing.len()))
}

/// Length of a literal between two `quote`s.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        if letter == quote && !escaped {
            return at + 1;
        }
        escaped = letter == '\\' && !escaped;
    }
    rest.len()
}

/// `rest` begins with a character literal, not with a lifetime.
fn is_character(rest: &str) -> bool {
    let mut letters = rest.chars();
    letters.next() == Some('\'') && (letters.next() == Some('\\') || letters.next() == Some('\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(usize, Option<&str>)]) {
        let found: Vec<_> =
            lines(source).iter().map(|line| (line.code_columns, line.comment)).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn comments_are_told_from_code() {
        check(
            "/// Doc.\nlet a = 1; // One.\nb();\n",
            &[(0, Some("/// Doc.")), (10, Some("// One.")), (4, None)],
        );
        check("/* a\n/* b */ c */ d", &[(0, Some("/* a")), (0, Some("/* b */ c */ d"))]);
    }

    #[test]
    fn slashes_in_literals_are_not_comments() {
        check(r#"f("http://a", '"', "\"//") // b"#, &[(26, Some("// b"))]);
        check("r#\"// \" //\"# // b", &[(12, Some("// b"))]);
        check("\"a\n// b\"", &[(2, None), (5, None)]);
        check("fn f<'a>(a: &'a u8) {} // 'b'", &[(22, Some("// 'b'"))]);
        check("bar\"//\"", &[(7, None)]);
    }

    #[test]
    fn a_literal_reaches_an_edge_that_it_ends_at_or_crosses() {
        let source = "f(\"abc\")";
        let reaches =
            |columns| lines(source).first().is_some_and(|line| line.literal_reaches(columns));
        assert_eq!([0, 2, 3, 7, 8].map(reaches), [false, false, true, true, false]);
    }
}
