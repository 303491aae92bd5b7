//! Code ends at 100 columns and comments at 120.
//!
//! Exempt: a literal that ends at the edge or crosses it, lines below `#[rustfmt::skip]` (tables), and comment lines
//! with a URL or with a row of a table.

use std::ops::RangeInclusive;

use super::Hit;
use super::lexer::Line;
use crate::source;

/// Longest line of code, in characters.
const CODE_COLUMNS: usize = 100;

/// Longest line with a comment, in characters.
const COMMENT_COLUMNS: usize = 120;

/// The lines of `text` that are too long.
pub(super) fn long_lines(text: &str, lines: &[Line<'_>]) -> Vec<Hit> {
    let has_table = text.contains("rustfmt::skip");
    let tables = if has_table { source::unformatted(text).unwrap_or_default() } else { Vec::new() };
    lines.iter().filter_map(|line| long(line, &tables)).collect()
}

fn long(line: &Line<'_>, tables: &[RangeInclusive<usize>]) -> Option<Hit> {
    let columns = line.text.chars().count();
    if columns <= CODE_COLUMNS {
        return None;
    }
    let in_table = || tables.iter().any(|table| table.contains(&line.number));
    if line.code_columns > CODE_COLUMNS && !line.literal_reaches(CODE_COLUMNS) && !in_table() {
        return Some(hit(line.number, "code", line.code_columns, CODE_COLUMNS));
    }
    let comment = line.comment.filter(|comment| !is_exempt(comment))?;
    (columns > COMMENT_COLUMNS && !comment.is_empty() && !in_table())
        .then(|| hit(line.number, "comment", columns, COMMENT_COLUMNS))
}

fn is_exempt(comment: &str) -> bool {
    comment.contains("://") || comment.trim_start_matches(['/', '!', ' ']).starts_with('|')
}

fn hit(line: usize, kind: &str, columns: usize, most: usize) -> Hit {
    let what = format!("{kind} of {columns} columns, {most} at most");
    Hit { line, what, instead: "wrap it" }
}

#[cfg(test)]
mod tests {
    use super::super::lexer;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[usize]) {
        let found: Vec<_> =
            long_lines(text, &lexer::lines(text)).iter().map(|hit| hit.line).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn code_and_comments_have_their_own_ends() {
        let (name, word) = ("a".repeat(101), "a ".repeat(60));
        check(&format!("{name}\n{}\n", "a".repeat(100)), &[1]);
        check(&format!("// {word}\n// {}\n", "a".repeat(117)), &[1]);
        check(&format!("let b = 1; // {word}\n{name} // b"), &[1, 2]);
    }

    #[test]
    fn literals_tables_and_urls_are_exempt() {
        let long = "a".repeat(120);
        check(&format!("f(\"{long}\");\n\"\n{long}\n\""), &[]);
        check(&format!("// https://{long}\n/// | {long} |"), &[]);
        check(&format!("#[rustfmt::skip]\nconst A: u8 = {long};\nconst B: u8 = {long};"), &[3]);
    }
}
