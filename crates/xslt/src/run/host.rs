//! What a run provides to EXSLT functions.

use xml::Document;
use xpath::Budget;

use super::State;
use crate::exslt::Host;
use crate::pattern::Pattern;

impl<'d> Host<'d> for State<'d> {
    fn keep(&mut self, document: Document) -> Result<&'d Document, xpath::Error> {
        let kept = State::keep(self, document);
        kept.map_err(|error| self.raise(error))
    }

    fn budget(&self) -> &'d Budget {
        self.budget
    }

    fn now_ms(&self) -> Option<i64> {
        self.now_ms
    }

    fn pattern(&mut self, pattern: &str, flags: &str) -> Result<Pattern, xpath::Error> {
        self.patterns.get(pattern, flags, self.budget)
    }
}
