//! Collects the diagnostics of one file and of the files that it refers to.

use std::path::{Path, PathBuf};

use base::limits;
pub(crate) use base::names::one_of;
use base::names::{SUGGESTIONS_MAX, nearest};
use model::{Diagnostic, Place, Severity};

/// In a tree made of two documents, the lines of the second one begin after this number, which no document reaches:
/// `limits::DOCUMENT_BYTES_MAX`.
pub(crate) const OTHER_LINES: u32 = 1 << 31;

/// The diagnostics so far. At most `limits::DIAGNOSTICS_MAX` are kept; the rest is counted.
#[derive(Debug)]
pub(crate) struct Report {
    file: PathBuf,
    /// The file of the lines from [`OTHER_LINES`] on.
    other: Option<PathBuf>,
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Report {
    pub(crate) fn new(file: &Path) -> Self {
        let file = file.to_owned();
        Self { file, other: None, diagnostics: Vec::new(), errors: 0, left_out: 0 }
    }

    /// Sets the file of further diagnostics. Returns the previous one.
    pub(crate) fn enter(&mut self, file: PathBuf) -> PathBuf {
        std::mem::replace(&mut self.file, file)
    }

    /// As [`Self::enter`]. The previous file is the one of the lines after [`OTHER_LINES`].
    pub(crate) fn enter_beside(&mut self, file: PathBuf) {
        self.other = Some(self.enter(file));
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether the next diagnostic may suggest one of the names that the files have.
    pub(crate) fn may_suggest(&self) -> bool {
        self.diagnostics.len() < SUGGESTIONS_MAX
    }

    /// Adds an error: the file is rejected. `help` has the replacement.
    pub(crate) fn error(
        &mut self,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, place.into(), message.into(), help.into());
    }

    /// As [`Self::error`], for a caller that then returns nothing.
    pub(crate) fn reject<T>(
        &mut self,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.error(place, message, help);
        None
    }

    /// Adds a warning: the file is accepted.
    pub(crate) fn warning(
        &mut self,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, place.into(), message.into(), help.into());
    }

    fn add(&mut self, severity: Severity, place: Option<Place>, message: String, help: String) {
        if severity == Severity::Error {
            self.errors = self.errors.saturating_add(1);
        }
        if self.diagnostics.len() >= limits::DIAGNOSTICS_MAX.saturating_sub(1) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let help = Some(help).filter(|text| !text.is_empty());
        let of_other = |place: Place| {
            let line = place.line.checked_sub(OTHER_LINES)?;
            Some((self.other.clone()?, Some(Place { line, ..place })))
        };
        let (file, place) = place.and_then(of_other).unwrap_or_else(|| (self.file.clone(), place));
        self.diagnostics.push(Diagnostic { severity, file, place, message, help });
    }

    /// The diagnostics in the order of the file, `main` before the files that it refers to.
    pub(crate) fn finish(mut self, main: &Path) -> Vec<Diagnostic> {
        self.diagnostics.sort_by(|a, b| {
            let other = |d: &Diagnostic| d.file != main;
            let (one, two) = ((&a.file, a.place, &a.message), (&b.file, b.place, &b.message));
            other(a).cmp(&other(b)).then_with(|| one.cmp(&two))
        });
        self.diagnostics.dedup(); // One value may be read for two purposes.
        if self.left_out > 0 {
            let severity = if self.errors > 0 { Severity::Error } else { Severity::Warning };
            self.diagnostics.push(Diagnostic {
                severity,
                file: main.to_owned(),
                place: None,
                message: format!("{} more diagnostics are not shown", self.left_out),
                help: None,
            });
        }
        self.diagnostics
    }
}

/// "did you mean `x`?", or `otherwise` if no name is similar.
pub(crate) fn suggest<'n>(
    written: &str,
    valid: impl IntoIterator<Item = &'n str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(written, valid).map_or_else(otherwise, |name| format!("did you mean `{name}`?"))
}

/// A string of the file, shortened and without control characters, for a message.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut out: String = text.chars().take(CHARS_MAX).map(printable).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push_str("...");
    }
    out
}

/// For tests: compares lines with `expect`, which are separated by `; `. A diagnostic (`3:7: error:
/// message`) needs the same position and severity, and a message that contains the expected phrase;
/// any other line must be equal.
#[cfg(test)]
#[track_caller]
pub(crate) fn assert_lines(lines: &[String], expect: &str) {
    let parts = |line: &str| {
        let severity = ["error: ", "warning: "].into_iter().find(|one| line.contains(one))?;
        let (place, message) = line.split_once(severity)?;
        Some((place.to_owned(), severity, message.to_owned()))
    };
    let matches = |line: &String, expect: &&str| match (parts(line), parts(expect)) {
        (Some((place, severity, message)), Some((at, wanted, phrase))) => {
            (place, severity) == (at, wanted) && message.contains(&phrase)
        }
        (_, _) => line == expect,
    };
    let expected: Vec<&str> = expect.split("; ").filter(|line| !line.is_empty()).collect();
    let all = lines.iter().zip(&expected).all(|(line, expect)| matches(line, expect));
    assert!(all && lines.len() == expected.len(), "found: {lines:#?}\nexpected: {expected:#?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagnostics_beyond_the_limit_are_counted() {
        let file = Path::new("a.yaml");
        let mut report = Report::new(file);
        for n in 0..limits::DIAGNOSTICS_MAX + 5 {
            report.warning(None, format!("w{n}"), "");
        }
        report.error(None, "e", "");
        assert!(report.has_errors());
        let diagnostics = report.finish(file);
        assert_eq!(diagnostics.len(), limits::DIAGNOSTICS_MAX);
        let last = diagnostics.last().expect("there are some");
        assert_eq!((last.severity, last.place), (Severity::Error, None));
        assert!(last.message.starts_with("7 more"), "{last}");
    }
}
