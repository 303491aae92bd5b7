//! Paragraphs of prose, from the comments of Rust source and from Markdown. Headings and code are left out; each item
//! of a list and each cell of a table is a paragraph.

use super::lexer::Line;

/// One paragraph as a single line of text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paragraph {
    pub(super) text: String,
    /// Where each source line begins in `text`, in bytes, with its number.
    starts: Vec<(usize, usize)>,
}

impl Paragraph {
    /// Number of the source line of the byte `at`.
    pub(super) fn line(&self, at: usize) -> usize {
        let before = self.starts.iter().rev().find(|(start, _)| *start <= at);
        before.map_or(0, |(_, line)| *line)
    }
}

/// Paragraphs of the comments of Rust source. Comments on adjoining lines form one text.
pub(super) fn of_rust(lines: &[Line<'_>]) -> Vec<Paragraph> {
    let mut reader = Reader::default();
    let mut previous = ("", 0);
    for line in lines {
        let (slashes, text) = line.comment.map_or(("", ""), split_slashes);
        if (slashes, line.code_columns) != previous || line.code_columns > 0 {
            reader.end_text();
        }
        previous = (slashes, line.code_columns);
        reader.line(line.number, text);
    }
    reader.end()
}

/// Paragraphs of a Markdown page.
pub(super) fn of_markdown(text: &str) -> Vec<Paragraph> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line);
    }
    reader.end()
}

/// The marks that a comment begins with, and its text.
fn split_slashes(comment: &str) -> (&str, &str) {
    let text = comment.trim_start_matches(['/', '*', '!']);
    comment.split_at(comment.len() - text.len())
}

#[derive(Default)]
struct Reader {
    done: Vec<Paragraph>,
    current: Paragraph,
    in_code: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        let text = line.trim();
        if text.starts_with("```") {
            self.in_code = !self.in_code;
            self.end_paragraph();
        } else if self.in_code {
        } else if text.is_empty() || text.starts_with('#') {
            self.end_paragraph();
        } else if let Some(cells) = text.strip_prefix('|') {
            for cell in cells.split('|') {
                self.end_paragraph();
                self.add(number, cell.trim());
            }
            self.end_paragraph();
        } else if let Some(item) = item(text) {
            self.end_paragraph();
            self.add(number, item);
        } else {
            self.add(number, text);
        }
    }

    fn add(&mut self, number: usize, text: &str) {
        let Paragraph { text: whole, starts } = &mut self.current;
        if !whole.is_empty() {
            whole.push(' ');
        }
        starts.push((whole.len(), number));
        whole.push_str(text);
    }

    fn end_paragraph(&mut self) {
        let paragraph = std::mem::take(&mut self.current);
        if !paragraph.text.is_empty() {
            self.done.push(paragraph);
        }
    }

    /// Ends a comment, and a code block that it did not close.
    fn end_text(&mut self) {
        self.end_paragraph();
        self.in_code = false;
    }

    fn end(mut self) -> Vec<Paragraph> {
        self.end_paragraph();
        self.done
    }
}

/// The text of a list item.
fn item(text: &str) -> Option<&str> {
    let numbered = || text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    text.strip_prefix("- ")
        .or_else(|| text.strip_prefix("* "))
        .or_else(|| numbered().strip_prefix(". ").filter(|rest| rest.len() + 2 < text.len()))
}

#[cfg(test)]
mod tests {
    use super::super::lexer;
    use super::*;

    #[track_caller]
    fn check(found: &[Paragraph], expected: &[(usize, &str)]) {
        let found: Vec<_> =
            found.iter().map(|paragraph| (paragraph.line(0), paragraph.text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_comment_is_one_text_until_code_or_another_kind_of_comment() {
        let source = "//! A\n//! b.\n//!\n//! C.\n/// D.\nlet e = 1; // E.\n// F.\n\n// G.";
        let expected = [(1, "A b."), (4, "C."), (5, "D."), (6, "E."), (7, "F."), (9, "G.")];
        check(&of_rust(&lexer::lines(source)), &expected);
    }

    #[test]
    fn headings_and_code_are_left_out() {
        check(&of_markdown("# What\na\n```\ncode\n```\nb"), &[(2, "a"), (6, "b")]);
        let source = "/// ```\n/// code\nfn a() {}\n/// B.";
        check(&of_rust(&lexer::lines(source)), &[(4, "B.")]);
    }

    #[test]
    fn items_and_cells_are_paragraphs() {
        let text = "- a\n  b\n- c\n1. d\n| e | f |\n|---|---|";
        let found = of_markdown(text);
        let prose: Vec<_> = found
            .iter()
            .map(|it| it.text.as_str())
            .filter(|text| !text.starts_with("--"))
            .collect();
        assert_eq!(prose, ["a b", "c", "d", "e", "f"]);
    }

    #[test]
    fn a_paragraph_knows_the_line_of_each_word() {
        let paragraph = of_markdown("\none two\nthree").remove(0);
        assert_eq!(paragraph.text, "one two three");
        assert_eq!([0, 4, 8].map(|at| paragraph.line(at)), [2, 2, 3]);
    }
}
