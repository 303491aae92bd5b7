//! Collects the findings about one file, and the files that it refers to.

use std::path::{Path, PathBuf};

use base::limits;
use model::{Diagnostic, Place, Severity};

/// The findings so far. At most `limits::DIAGNOSTICS_MAX` are kept; the rest is counted.
#[derive(Debug)]
pub(crate) struct Report {
    file: PathBuf,
    findings: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Report {
    pub(crate) fn new(file: &Path) -> Self {
        Self { file: file.to_owned(), findings: Vec::new(), errors: 0, left_out: 0 }
    }

    /// The file that findings are about from now on; answers the one before, for going back.
    pub(crate) fn enter(&mut self, file: PathBuf) -> PathBuf {
        std::mem::replace(&mut self.file, file)
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// The file is refused. `help` says what to write instead.
    pub(crate) fn error(
        &mut self,
        place: impl Into<Option<Place>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, place.into(), message.into(), help.into());
    }

    /// The file is served; this part has no effect.
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
        if self.findings.len() >= limits::DIAGNOSTICS_MAX.saturating_sub(1) {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let help = Some(help).filter(|text| !text.is_empty());
        self.findings.push(Diagnostic { severity, file: self.file.clone(), place, message, help });
    }

    /// The findings in the order of the file, `main` before the files that it refers to.
    pub(crate) fn finish(mut self, main: &Path) -> Vec<Diagnostic> {
        self.findings.sort_by(|a, b| {
            let key = |d: &Diagnostic| (d.file != main, d.place);
            key(a).cmp(&key(b)).then_with(|| (&a.file, &a.message).cmp(&(&b.file, &b.message)))
        });
        self.findings.dedup(); // One place may be read for two purposes.
        if self.left_out > 0 {
            let severity = if self.errors > 0 { Severity::Error } else { Severity::Warning };
            self.findings.push(Diagnostic {
                severity,
                file: main.to_owned(),
                place: None,
                message: format!("{} more findings are not listed", self.left_out),
                help: None,
            });
        }
        self.findings
    }
}

/// The name among `valid` that `written` most likely means: at most a third of it differs.
pub(crate) fn nearest<'n>(
    written: &str,
    valid: impl IntoIterator<Item = &'n str>,
) -> Option<&'n str> {
    let allowed = (written.chars().count() / 3).max(1);
    valid
        .into_iter()
        .map(|name| (distance(written, name, allowed), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// "did you mean `x`?" or, without a near name, `otherwise`.
pub(crate) fn suggest<'n>(
    written: &str,
    valid: impl IntoIterator<Item = &'n str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(written, valid).map_or_else(otherwise, |name| format!("did you mean `{name}`?"))
}

/// `a`, `b` or `c`: for "write one of".
pub(crate) fn one_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// A text of a file, shortened so that a message stays readable.
pub(crate) fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut out: String = text.chars().take(CHARS_MAX).map(printable).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push_str("...");
    }
    out
}

/// Levenshtein's distance in characters; anything above `enough` when the lengths alone exceed it.
fn distance(a: &str, b: &str, enough: usize) -> usize {
    let b: Vec<char> = b.chars().collect();
    let length = a.chars().count();
    if length.abs_diff(b.len()) > enough {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut left = i.saturating_add(1);
        let mut diagonal = i;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            let changed = diagonal.saturating_add(usize::from(from != *to));
            left = changed.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        check("x-wso2-basepath", Some("x-wso2-basePath"));
        check("x-wso2-cros", Some("x-wso2-cors"));
        check("x-wso2-auth-headers", Some("x-wso2-auth-header"));
        check("entirely-different", None);
        check("", None);
    }

    #[track_caller]
    fn check(written: &str, expect: Option<&str>) {
        let valid = ["x-wso2-basePath", "x-wso2-cors", "x-wso2-auth-header", "x-wso2-owner"];
        assert_eq!(nearest(written, valid), expect);
    }

    #[test]
    fn findings_beyond_the_limit_are_counted_not_listed() {
        let file = Path::new("a.yaml");
        let mut report = Report::new(file);
        for n in 0..limits::DIAGNOSTICS_MAX + 5 {
            report.warning(None, format!("w{n}"), "");
        }
        report.error(None, "e", "");
        assert!(report.has_errors());
        let findings = report.finish(file);
        assert_eq!(findings.len(), limits::DIAGNOSTICS_MAX);
        let last = findings.last().map(ToString::to_string);
        assert_eq!(last.as_deref(), Some("a.yaml: error: 7 more findings are not listed"));
    }
}
