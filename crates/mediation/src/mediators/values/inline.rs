//! `source type="inline"` of `enrich` and `call`: a constant, or one with expressions in braces, `{$ctx:name}`. Source:
//! Synapse's `InlineExpressionUtil`.

use std::borrow::Cow;

use expression::template::{Argument, MediaType, PayloadTemplate, Settings};
use expression::{BodyUse, Expression, inline};

use crate::error::Failure;
use crate::message::Message;
use crate::program::Scene;
use crate::syntax::{Compiler, Element, serialise};

#[derive(Debug)]
pub(crate) enum Inline {
    Fixed(String),
    /// The whole text is one expression.
    Whole(Expression),
    /// Values are written as their places need it.
    Template(PayloadTemplate),
}

impl Inline {
    /// The content of `element`: its child element, else its text.
    pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Self> {
        let text = match element.children().next() {
            Some(child) => String::from_utf8_lossy(&serialise(child.node())).into_owned(),
            None => element.node().string_value().trim().to_owned(),
        };
        let media = match text.bytes().next() {
            Some(b'<') => MediaType::Xml,
            Some(b'{' | b'[') => MediaType::Json,
            Some(_) | None => MediaType::Text,
        };
        let help = "write `{$ctx:NAME}` or another XPath in braces, or use `payloadFactory`";
        element.warn_of_expression(compiler, &text, help);
        let mut places = Vec::new();
        for range in inline::expressions(&text) {
            let source = text.get(range.start + 1..range.end - 1).unwrap_or_default();
            let expression = element.compiled(compiler, source)?;
            if range == (0..text.len()) {
                return Some(Self::Whole(expression));
            }
            let markup = media == MediaType::Xml && expression.selects_nodes();
            let argument = Argument { expression, literal: false, markup, deep: true };
            places.push((range, argument));
        }
        if places.is_empty() {
            return Some(Self::Fixed(text));
        }
        let template = PayloadTemplate::with_arguments(&text, places, Settings::new(media));
        Some(Self::Template(template))
    }

    pub(crate) fn body_use(&self) -> BodyUse {
        match self {
            Self::Fixed(_) => BodyUse::Untouched,
            Self::Whole(expression) => expression.body_use(),
            Self::Template(template) => template.body_use(),
        }
    }

    /// Charged, unless it is fixed.
    ///
    /// # Errors
    /// An expression fails; the budget.
    pub(crate) fn text(
        &self,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<Cow<'_, str>, Failure> {
        match self {
            Self::Fixed(text) => Ok(Cow::Borrowed(text)),
            Self::Whole(expression) => scene.text(expression, message).map(Cow::Owned),
            Self::Template(template) => {
                let mut bytes = Vec::new();
                template.render_within(&scene.view(message), scene.budget, &mut bytes)?;
                Ok(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }
}
