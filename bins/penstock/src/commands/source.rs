//! Input of the engines' commands, and their error messages: file:line:column and the error, then the line, then a
//! caret below the column.
//!
//! A file is read whole, up to a limit; `-` is stdin. Control characters of an excerpt are replaced, so that a file
//! cannot send escape sequences to the terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use xml::Position;

use crate::failure::Failure;

/// Longest excerpt of a line, in characters; of a longer line, the part around the column.
const SHOWN_CHARS_MAX: usize = 160;

/// The contents of a file or of stdin.
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl Source {
    pub(crate) fn read(file: &Path, bytes_max: u32) -> Result<Self, Failure> {
        let read = if is_stdin(file) {
            bounded(io::stdin().lock(), bytes_max)
        } else {
            File::open(file).and_then(|file| bounded(file, bytes_max))
        };
        let bytes = read.map_err(|error| Failure::file("read", file, &error))?;
        let name = file.display().to_string();
        if bytes.len() > bytes_max as usize {
            return Err(Failure::Error(format!(
                "{name} is larger than the limit of {bytes_max} bytes"
            )));
        }
        Ok(Self { name, bytes })
    }

    pub(crate) fn xml_error(&self, error: &xml::Error) -> Failure {
        let place = error.position().unwrap_or_default();
        report_at(&self.name, &self.xml_text(), place, error.kind())
    }

    pub(crate) fn json_error(&self, error: &expression::Error) -> Failure {
        let (line, column) = error.position().unwrap_or_default();
        let place = Position { line, column };
        report_at(&self.name, &String::from_utf8_lossy(&self.bytes), place, error.message())
    }

    /// The characters of an XML document as the reader counts them, for excerpts.
    pub(crate) fn xml_text(&self) -> Cow<'_, str> {
        xml::lossy_text(&self.bytes)
    }
}

pub(crate) fn bounded(from: impl Read, bytes_max: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(u64::from(bytes_max) + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Rejects a second `-`.
pub(crate) fn stdin_once<'f>(files: impl IntoIterator<Item = &'f Path>) -> Result<(), Failure> {
    if files.into_iter().filter(|file| is_stdin(file)).count() > 1 {
        return Err(Failure::Usage("`-` (stdin) can be given only once".to_owned()));
    }
    Ok(())
}

/// Reports an error in an expression from the command line.
pub(crate) fn report_expression(text: &str, place: Position, what: impl Display) -> Failure {
    report_at("expression", text, place, what)
}

/// Reports an error at `place` in `text`, the contents of the file `name`.
pub(crate) fn report_at(name: &str, text: &str, place: Position, what: impl Display) -> Failure {
    let what: String = what.to_string().chars().map(printable).collect();
    let (line, caret) = excerpt(text, place);
    let mut message = format!("{name}:{place}: {what}\n");
    // The end of a document has no line to show.
    if !line.trim().is_empty() {
        message += &format!("{line}\n{caret}\n");
    }
    super::stderr(&message);
    Failure::Reported
}

/// The line at `place`, and the line with the caret.
fn excerpt(text: &str, place: Position) -> (String, String) {
    let line = text.split('\n').nth((place.line as usize).saturating_sub(1)).unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let before = (place.column as usize).saturating_sub(1);
    let long = line.chars().nth(SHOWN_CHARS_MAX).is_some();
    let cut = if long { before.saturating_sub(SHOWN_CHARS_MAX / 2) } else { 0 };
    let mark = |is_cut: bool| if is_cut { "..." } else { "" };
    let goes_on = line.chars().nth(cut + SHOWN_CHARS_MAX).is_some();
    let part = || line.chars().skip(cut).take(SHOWN_CHARS_MAX).map(printable);
    let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
    let spaces: String =
        part().chain(std::iter::repeat(' ')).take(before - cut).map(blank).collect();
    let excerpt = format!("{}{}{}", mark(cut > 0), part().collect::<String>(), mark(goes_on));
    (excerpt, format!("{}{spaces}^", if cut > 0 { "   " } else { "" }))
}

/// Replaces control characters and those that change the text direction.
pub(crate) fn printable(c: char) -> char {
    let bidi =
        matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    if c != '\t' && (c.is_control() || bidi || c == '\u{FEFF}') { '\u{FFFD}' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, line: u32, column: u32, expect: (&str, &str)) {
        let (shown, caret) = excerpt(text, Position { line, column });
        assert_eq!((shown.as_str(), caret.as_str()), expect);
    }

    #[test]
    fn the_caret_is_below_the_column() {
        check("ab\ncde\n", 2, 3, ("cde", "  ^"));
        check("\tä\tx\r\n", 1, 4, ("\tä\tx", "\t \t^"));
        check("ab", 1, 3, ("ab", "  ^"));
        check("ab\n", 2, 1, ("", "^"));
        check("", 7, 9, ("", "        ^"));
        check("a\u{1b}[31mb\u{202e}", 1, 2, ("a\u{fffd}[31mb\u{fffd}", " ^"));
    }

    #[test]
    fn a_long_line_is_cut_around_the_column() {
        let line = format!("{}!{}", "a".repeat(1_000), "b".repeat(1_000));
        let (shown, caret) = excerpt(&line, Position { line: 1, column: 1_001 });
        assert_eq!(shown, format!("...{}!{}...", "a".repeat(80), "b".repeat(79)));
        assert_eq!(shown.find('!'), caret.find('^'));
        let (shown, caret) = excerpt(&line, Position { line: 1, column: 2_001 });
        assert_eq!(shown, format!("...{}", "b".repeat(81)));
        assert_eq!(caret.len(), shown.len());
    }

    #[test]
    fn stdin_can_be_given_only_once() {
        let two = [Path::new("-"), Path::new("a"), Path::new("-")];
        assert!(matches!(stdin_once(two), Err(Failure::Usage(_))));
        assert_eq!(stdin_once([Path::new("-"), Path::new("./-")]), Ok(()));
    }

    #[test]
    fn an_excerpt_is_decoded_by_the_documents_encoding() {
        let check = |bytes: &[u8], text: &str| {
            let source = Source { name: String::new(), bytes: bytes.to_vec() };
            assert_eq!(source.xml_text(), text);
        };
        check(b"\xEF\xBB\xBF<a/>", "<a/>");
        check(b"\xFF\xFE<\0\xE9\0", "<é");
        check(b"\0<\0?\0x", "<?x");
        check(b"a\rb\r\nc", "a\nb\nc");
        check(
            b"<?xml version='1.0' encoding='windows-1252'?>\x80",
            "<?xml version='1.0' encoding='windows-1252'?>\u{20AC}",
        );
        check(
            b"<?xml version='1.0' encoding='ISO-8859-1'?>\xE9",
            "<?xml version='1.0' encoding='ISO-8859-1'?>é",
        );
        check(b"<a>\xE9", "<a>\u{FFFD}");
        check(b"", "");
    }
}
