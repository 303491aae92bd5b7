//! `script` in a program that was built without it.

use crate::Mediator;
use crate::compile::{Compiler, Element};

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    element.ignore(&["language", "key", "function"]);
    let _ = element.children();
    let message = "this build of Penstock has no `script`".to_owned();
    let help = "build it with the cargo feature `script`, as releases are".to_owned();
    compiler.error(element, message, Some(help));
    None
}
