//! Text with `${...}`: log messages, and attributes of Micro Integrator 4.4.

use expression::BodyUse;
use expression::template::{MediaType, PayloadTemplate, Settings};

use crate::compile::{Compiler, Element};
use crate::run::Scene;
use crate::{Failure, Message};

/// A payload template of plain text without arguments.
#[derive(Debug)]
pub(super) struct Text(PayloadTemplate);

impl Text {
    pub(super) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        source: &str,
    ) -> Option<Self> {
        let settings = Settings::new(MediaType::Text);
        match PayloadTemplate::compile(source, Vec::new(), settings) {
            Ok(template) => Some(Self(template)),
            Err(error) => {
                compiler.error(element, error.to_string(), None);
                None
            }
        }
    }

    pub(super) fn body_use(&self) -> BodyUse {
        self.0.body_use()
    }

    pub(super) fn render(&self, scene: &Scene<'_>, message: &Message) -> Result<String, Failure> {
        let mut text = Vec::new();
        self.0.render_within(&scene.view(message), scene.budget, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
