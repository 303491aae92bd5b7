//! What a thread keeps of a run for the next one of the same stylesheet: the messages of a service have the same names.

use std::cell::Cell;

use xml::{Document, NamesKey, Writer};

use super::select::SourceName;
use crate::limits::{XSLT_KEPT_BYTES_MAX, XSLT_KEPT_RUNS_MAX};
use crate::program::Program;
use crate::rules::Known;

#[derive(Default)]
pub(crate) struct Kept {
    /// Its [`Program::serial`].
    program: u64,
    /// Of the source.
    key: NamesKey,
    /// The names in [`Program::names`] as names of the source.
    pub(super) names: Vec<SourceName>,
    /// The rules for each name of the source, by mode, where they were looked up before.
    pub(super) candidates: Vec<Vec<Known>>,
    /// It has finished.
    pub(crate) writer: Option<Box<Writer>>,
}

thread_local! {
    /// The one used last is the last one.
    static KEPT: Cell<Vec<Kept>> = const { Cell::new(Vec::new()) };
}

impl Kept {
    /// For a run of `program`.
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

    /// For the next run of the same program.
    pub(super) fn keep(mut self) {
        let candidates: usize = self.candidates.iter().map(|all| size_of_val(all.as_slice())).sum();
        if size_of_val(self.names.as_slice()).saturating_add(candidates) > XSLT_KEPT_BYTES_MAX {
            self = Self { program: self.program, writer: self.writer, ..Self::default() };
        }
        // A thread that ends keeps nothing.
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
