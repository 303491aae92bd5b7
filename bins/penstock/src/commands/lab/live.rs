//! A line on stderr that is replaced again and again, if stderr is a terminal.

use std::io::IsTerminal;

use crate::commands::stderr;

/// A longer line would wrap, and then only its last row is replaced. Narrower terminals are rare, and asking for the
/// width needs unsafe code.
const COLUMNS: usize = 80;

/// Leaves no line behind only if [`Self::clear`] comes last.
#[derive(Default)]
pub(super) struct Live {
    shown: bool,
}

impl Live {
    /// Replaces the line. `false`: stderr is not a terminal, and nothing was written.
    pub(super) fn show(&mut self, text: &str) -> bool {
        let is_terminal = std::io::stderr().is_terminal();
        if is_terminal {
            stderr(&format!("\r\x1b[K{}", cut(text)));
            self.shown = true;
        }
        is_terminal
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            stderr("\r\x1b[K");
        }
    }
}

/// As many parts, separated by commas, as fit into a row; the last column stays free.
fn cut(text: &str) -> &str {
    let Some((end, _)) = text.char_indices().nth(COLUMNS - 1) else { return text };
    let row = text.get(..end).unwrap_or_default();
    row.rfind(", ").map_or(row, |comma| row.get(..comma).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_after_the_last_part_that_fits() {
        let (short, long) = ("é".repeat(79), "é".repeat(80));
        assert_eq!((cut(&short), cut(&long)), (short.as_str(), short.as_str()));
        assert_eq!(cut(&format!("a, b, {long}")), "a, b");
        assert_eq!(cut(""), "");
    }
}
