//! `call-template`: runs a sequence template with parameters.

use std::sync::Arc;

use expression::{BodyUse, Expression};

use crate::error::{Code, Failure};
use crate::message::{Message, PropertyValue};
use crate::program::{Call, Mediator, Next, Scene, SequenceId, Template};
use crate::syntax::{Compiler, Element};

#[derive(Debug)]
struct CallTemplate {
    sequence: SequenceId,
    parameters: Vec<Parameter>,
    on_error: Option<SequenceId>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    value: Given,
    is_mandatory: bool,
}

#[derive(Clone, Debug)]
enum Given {
    /// Evaluated by the call.
    Now(Expression),
    /// `{{expression}}`: evaluated where the parameter is read. Source: Synapse's `TemplateContext`.
    Late(Arc<Expression>),
}

impl Mediator for CallTemplate {
    fn body_use(&self) -> BodyUse {
        let values = self.parameters.iter().map(|parameter| match &parameter.value {
            Given::Now(value) => value.body_use(),
            Given::Late(value) => value.body_use(),
        });
        values.max().unwrap_or_default()
    }

    fn enters(&self) -> Vec<SequenceId> {
        std::iter::once(self.sequence).chain(self.on_error).collect()
    }

    fn mediate(&self, scene: &Scene<'_>, message: &mut Message) -> Result<Next, Failure> {
        let mut parameters = Vec::with_capacity(self.parameters.len());
        for Parameter { name, value, is_mandatory } in &self.parameters {
            let value = match value {
                Given::Now(value) => scene
                    .with(value, message, |value| PropertyValue::of(value, scene.budget))?
                    .map(|value| value.unwrap_or_else(|| PropertyValue::new(""))),
                Given::Late(value) => Ok(PropertyValue::late(value)),
            }?;
            if *is_mandatory && value.text().is_empty() && value.as_late().is_none() {
                let message = format!("the parameter `{name}` of the template has no value");
                return Err(Failure::new(Code::MEDIATION, message));
            }
            parameters.push((name.clone(), value));
        }
        let (sequence, on_error) = (self.sequence, self.on_error);
        Ok(Next::Call(Call { sequence, parameters, on_error }))
    }
}

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let target = element.required(compiler, "target")?;
    let Template { sequence, parameters } = compiler.template_named(element, target)?;
    let on_error = match element.optional("onError") {
        Some(name) => Some(compiler.sequence_named(element, name)?),
        None => None,
    };
    let mut given = Vec::new();
    for child in element.children() {
        if child.name() != "with-param" {
            element.ignores(compiler, &child, &["with-param"]);
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
            (None, Some(default)) => Given::Now(Expression::literal(&default)),
            (None, None) if parameter.mandatory => {
                let message =
                    format!("the template `{target}` needs the parameter `{}`", parameter.name);
                return compiler.reject(element, message, None);
            }
            (None, None) => Given::Now(Expression::literal("")),
        };
        values.push(Parameter { name: parameter.name, value, is_mandatory: parameter.mandatory });
    }
    Some(Box::new(CallTemplate { sequence, parameters: values, on_error }))
}

/// Reports a parameter whose value would depend on itself.
const OF_PARAMETERS: [&str; 5] = ["$func:", "functionParams", "funcParams", "'func'", "\"func\""];

/// A value: literal, `{expression}`, `{{expression}}`, `${expression}` or `{${expression}}`.
fn with_param(compiler: &mut Compiler, child: &Element<'_>) -> Option<Given> {
    let value = child.optional("value").unwrap_or_default();
    let inner = |text: &str| text.strip_prefix('{')?.strip_suffix('}').map(str::to_owned);
    let Some(once) = inner(value) else {
        let is_expression = value.starts_with("${");
        let literal = || Some(Expression::literal(value));
        let now = if is_expression { child.compiled(compiler, value) } else { literal() };
        return now.map(Given::Now);
    };
    let Some(twice) = inner(&once) else {
        return child.compiled(compiler, &once).map(Given::Now);
    };
    if OF_PARAMETERS.iter().any(|name| twice.contains(name)) {
        let message = "parameters cannot be read inside two pairs of braces";
        let help = "write one pair, which is evaluated when the template is called";
        return compiler.reject(child, message, Some(help));
    }
    let late = child.compiled(compiler, &twice)?;
    Some(Given::Late(Arc::new(late)))
}
