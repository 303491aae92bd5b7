//! Tables and buffers that a thread keeps from one run for the next one of the same stylesheet, since the messages of a
//! service have the same names.

use std::cell::Cell;

use xml::{Document, NamesKey, Writer};

use super::select::SourceName;
use crate::limits::{XSLT_KEPT_BYTES_MAX, XSLT_KEPT_RUNS_MAX};
use crate::program::Program;
use crate::rules::Known;

#[derive(Default)]
pub(crate) struct Kept {
    /// The [`Program::serial`] of the stylesheet.
    program: u64,
    /// The name table of the source.
    key: NamesKey,
    /// The names in [`Program::names`] as names of the source.
    pub(super) names: Vec<SourceName>,
    /// The rules for each name of the source, by mode, where they were looked up before.
    pub(super) candidates: Vec<Vec<Known>>,
    /// A writer that has finished its output.
    pub(crate) writer: Option<Box<Writer>>,
}

thread_local! {
    /// In order of use; the most recently used one is last.
    static KEPT: Cell<Vec<Kept>> = const { Cell::new(Vec::new()) };
}

impl Kept {
    /// Takes the tables and buffers for a run of `program`.
    pub(super) fn take(program: &Program) -> Self {
        let found = KEPT.try_with(|kept| {
            let mut all = kept.take();
            let at = all.iter().rposition(|kept| kept.program == program.serial);
            let found = at.map(|at| all.remove(at));
            kept.set(all);
            found
        });
        let new = || Self { program: program.serial, ..Self::default() };
        found.ok().flatten().unwrap_or_else(new)
    }

    pub(super) fn read(&mut self, program: &Program, source: &Document) {
        if !source.has_names(&self.key) {
            self.key = source.names_key();
            self.names.clear();
            self.names.resize(program.names.len(), SourceName::Unknown);
            self.candidates.clear();
        }
    }

    /// Keeps the tables and buffers for the next run of the same program.
    pub(super) fn keep(mut self) {
        let candidates: usize = self.candidates.iter().map(|all| size_of_val(all.as_slice())).sum();
        if size_of_val(self.names.as_slice()).saturating_add(candidates) > XSLT_KEPT_BYTES_MAX {
            self = Self { program: self.program, writer: self.writer, ..Self::default() };
        }
        self.writer.take_if(|writer| writer.heap_bytes() > XSLT_KEPT_BYTES_MAX);
        // A thread that is ending can't keep anything.
        let _ = KEPT.try_with(|kept| {
            let mut all = kept.take();
            if all.len() >= XSLT_KEPT_RUNS_MAX {
                all.remove(0);
            }
            all.push(self);
            kept.set(all);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies everything.
    const SHEET: &str = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'>\
        <xsl:output method='xml'/><xsl:template match='/'><xsl:copy-of select='.'/></xsl:template></xsl:stylesheet>";

    #[test]
    fn a_writer_whose_buffers_became_large_is_not_kept() {
        let sheet = crate::Stylesheet::compile(SHEET.as_bytes(), &crate::NoResolver).unwrap();
        let keeps_writer = |source: &str| {
            let source = Document::parse(source.as_bytes()).unwrap();
            sheet.transform(&source, &crate::Params::default(), &mut Vec::new()).unwrap();
            let kept = KEPT.take();
            KEPT.set(Vec::new());
            kept.last().is_some_and(|kept| kept.writer.is_some())
        };
        let long = "x".repeat(XSLT_KEPT_BYTES_MAX);
        let many = (0..250).map(|number| format!(" a{number}=''")).collect::<String>();
        let declared = (0..250).map(|number| format!(" xmlns:p{number}='u'")).collect::<String>();
        let kept = [
            "<a b='c'>d</a>",
            &format!("<a b='{long}'/>"),
            &format!("<a{many}/>"),
            &format!("<a{declared}/>"),
            &format!("<a>{long}</a>"),
        ]
        .map(keeps_writer);
        assert_eq!(kept, [true, false, false, false, true]);
    }
}
