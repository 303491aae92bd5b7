//! Mediators that the program was built without.

use crate::program::Mediator;
use crate::syntax::{Compiler, Element};

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let name = element.name();
    let message = format!("this build of Penstock does not include `{name}`");
    let help = "build it with all cargo features, as `make release` does";
    compiler.error(element, message, Some(help));
    None
}
