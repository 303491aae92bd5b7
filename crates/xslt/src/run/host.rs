//! What a run lends to the functions of EXSLT.

use xml::Document;
use xpath::EvalError;

use super::World;
use crate::exslt::Host;

impl<'d> Host<'d> for World<'d> {
    fn keep(&mut self, document: Document) -> Result<&'d Document, EvalError> {
        Ok(World::keep(self, document)?)
    }

    fn made(&mut self, bytes: usize) -> Result<(), EvalError> {
        Ok(World::made(self, bytes)?)
    }

    fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        Ok(self.budget.charge_steps(steps as u64)?)
    }

    fn now_ms(&self) -> Option<i64> {
        self.now_ms
    }

    fn pattern(&mut self, pattern: &str, flags: &str) -> Result<regex::Regex, EvalError> {
        self.patterns.get(pattern, flags)
    }
}
