//! Mediators that the program was built without.

use crate::Mediator;
use crate::compile::{Compiler, Element};

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let name = element.name();
    let message = format!("this build of Penstock has no `{name}`");
    compiler.reject(element, message, Some("build it with all its cargo features, as releases are"))
}
