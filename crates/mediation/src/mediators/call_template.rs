//! `call-template`: runs a sequence template with parameters.

use expression::{BodyUse, Expression};

use crate::compile::{Compiler, Element};
use crate::program::{SequenceId, Template};
use crate::run::Scene;
use crate::{Call, Code, Failure, Mediator, Message, Next, PropertyValue};

#[derive(Debug)]
struct CallTemplate {
    sequence: SequenceId,
    /// Name, value, and whether it must have one.
    parameters: Vec<(String, Expression, bool)>,
    on_error: Option<SequenceId>,
}

impl Mediator for CallTemplate {
    fn body_use(&self) -> BodyUse {
        let values = self.parameters.iter().map(|(_, value, _)| value.body_use());
        values.max().unwrap_or_default()
    }

    fn enters(&self) -> Vec<SequenceId> {
        std::iter::once(self.sequence).chain(self.on_error).collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut parameters = Vec::with_capacity(self.parameters.len());
        for (name, value, mandatory) in &self.parameters {
            let value = scene.with(value, message, |value| PropertyValue::from(value))?;
            if *mandatory && value.text().is_empty() {
                let message = format!("the parameter `{name}` of the template has no value");
                return Err(Failure::new(Code::MEDIATION, message));
            }
            parameters.push((name.clone(), value));
        }
        let (sequence, on_error) = (self.sequence, self.on_error);
        Ok(Next::Call(Call { sequence, parameters, on_error }))
    }
}

pub(super) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let target = element.required(compiler, "target")?;
    let Template { sequence, parameters } = compiler.template_named(element, target)?;
    let on_error = match element.optional("onError") {
        Some(name) => Some(compiler.sequence_named(element, name)?),
        None => None,
    };
    let mut given = Vec::new();
    for child in element.children() {
        if child.name() != "with-param" {
            let message = format!("`call-template` has no child `{}`", child.name());
            compiler.error(&child, message, None);
            continue;
        }
        let name = child.required(compiler, "name")?;
        if !parameters.iter().any(|parameter| parameter.name == name) {
            let message = format!("the template `{target}` has no parameter `{name}`");
            compiler.warning(&child, message, None);
        }
        given.push((name, with_param(compiler, &child)?));
        child.finish(compiler);
    }
    let mut values = Vec::new();
    for parameter in parameters {
        let found = given.iter().find(|(name, _)| *name == parameter.name);
        let value = match (found, parameter.default) {
            (Some((_, value)), _) => value.clone(),
            (None, Some(default)) => Expression::literal(&default),
            (None, None) if parameter.mandatory => {
                let message =
                    format!("the template `{target}` needs the parameter `{}`", parameter.name);
                compiler.error(element, message, None);
                return None;
            }
            (None, None) => Expression::literal(""),
        };
        values.push((parameter.name, value, parameter.mandatory));
    }
    Some(Box::new(CallTemplate { sequence, parameters: values, on_error }))
}

/// A value: literal, `{expression}`, `{{expression}}`, `${expression}` or `{${expression}}`.
fn with_param(compiler: &mut Compiler, child: &Element<'_>) -> Option<Expression> {
    let value = child.optional("value").unwrap_or_default();
    let inner = |text: &str| text.strip_prefix('{')?.strip_suffix('}').map(str::to_owned);
    match inner(value) {
        Some(once) => {
            let source = inner(&once).unwrap_or(once);
            child.compiled(compiler, &source)
        }
        None if value.starts_with("${") => child.compiled(compiler, value),
        None => Some(Expression::literal(value)),
    }
}
