//! `datamapper`: transforms the payload by the stylesheet of a mapping.

use expression::BodyUse;

use super::xslt;
use crate::error::Failure;
use crate::message::{Format, Message};
use crate::program::{Mediator, Next, Scene};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct DataMapper<T> {
    stylesheet: T,
    output: Format,
}

impl<T: Mediator> Mediator for DataMapper<T> {
    fn body_use(&self) -> BodyUse {
        BodyUse::Rewritten
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let next = self.stylesheet.mediate(scene, message)?;
        message.set_message_type(self.output, scene.budget)?;
        Ok(next)
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    // The mapping itself is JavaScript of Micro Integrator's studio; its schemas describe it to the studio.
    element.ignore(&["config", "inputSchema", "outputSchema"]);
    let types = [("XML", Format::Xml), ("JSON", Format::Json)];
    element.choice(compiler, "inputType", &types)?;
    let output = element.choice(compiler, "outputType", &types)?;
    let Some(key) = element.optional("xsltStyleSheet") else {
        let message = "a `datamapper` without `xsltStyleSheet` is not supported";
        let help = "add xsltStyleSheet=\"gov:/...\" with the stylesheet that the mapping editor exports, or write the \
                    mapping as `xslt` or `payloadFactory`";
        return compiler.reject(element, message, Some(help));
    };
    let stylesheet = xslt::of_payload(compiler, element, key)?;
    Some(Box::new(DataMapper { stylesheet, output }))
}
