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
        self.steps = self.steps.saturating_sub(steps as u64);
        if self.steps == 0 {
            return Err(EvalError::Caller("the run was stopped: too many steps".to_owned()));
        }
        Ok(())
    }

    fn now_ms(&self) -> Option<i64> {
        self.now_ms
    }

    fn pattern(&mut self, pattern: &str, flags: &str) -> Result<regex::Regex, EvalError> {
        self.patterns.get(pattern, flags)
    }
}
