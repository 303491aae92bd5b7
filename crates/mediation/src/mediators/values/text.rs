//! Text with `${...}`: log messages, and attributes of Micro Integrator 4.4.

use expression::BodyUse;
use expression::template::{MediaType, PayloadTemplate, Settings};

use crate::error::Failure;
use crate::message::Message;
use crate::program::Scene;
use crate::syntax::{Compiler, Element};

/// A payload template of plain text without arguments.
#[derive(Debug)]
pub(crate) struct Text(PayloadTemplate);

impl Text {
    pub(crate) fn compile(
        compiler: &mut Compiler,
        element: &Element<'_>,
        source: &str,
    ) -> Option<Self> {
        compiler.note_names(source);
        match Self::new(source) {
            Ok(text) => Some(text),
            Err(error) => compiler.reject(element, error.to_string(), None),
        }
    }

    pub(crate) fn new(source: &str) -> Result<Self, expression::Error> {
        let settings = Settings::new(MediaType::Text);
        PayloadTemplate::compile(source, Vec::new(), settings).map(Self)
    }

    pub(crate) fn body_use(&self) -> BodyUse {
        self.0.body_use()
    }

    pub(crate) fn render(&self, scene: &Scene<'_>, message: &Message) -> Result<String, Failure> {
        let mut text = Vec::new();
        self.0.render_within(&scene.view(message), scene.budget, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
