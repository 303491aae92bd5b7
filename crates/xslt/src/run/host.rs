//! The services of a run for EXSLT functions.

use xml::Document;
use xpath::Budget;
use xpath::regex::Regex;

use super::State;
use crate::exslt::Host;

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

    fn pattern(&mut self, pattern: &str, flags: &str) -> Result<Regex, xpath::Error> {
        self.patterns.get(pattern, flags, self.budget)
    }
}
