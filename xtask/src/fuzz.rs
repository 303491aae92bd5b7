//! x
use crate::Outcome;
use std::path::Path;
pub(crate) fn run(_root: &Path, _arguments: &[String]) -> Outcome {
    Ok(())
}
