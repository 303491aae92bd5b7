//! `condition` of `rewrite` and `conditionalRouter`. Source: Synapse's package `org.apache.synapse.commons.evaluators`.

use super::rewrite::{Address, PARTS, Part};
use crate::error::Failure;
use crate::limits;
use crate::mediators::values::pattern;
use crate::message::{Message, PropertyScope};
use crate::program::{Pattern, Scene};
use crate::syntax::{Compiler, Element};

/// Condition on a message.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Test { of: Of, pattern: Pattern },
}

/// Source of the text that a condition compares.
#[derive(Debug)]
pub(crate) enum Of {
    Url(Part),
    Header(Box<str>),
    Parameter(Box<str>),
    Property(Box<str>),
}

impl Condition {
    /// The child of an element `condition`.
    pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Self> {
        let Some(test) = element.children().next() else {
            return compiler.reject(element, "`condition` is empty", None);
        };
        condition(compiler, &test, 0)
    }

    /// `address`: that of the message.
    ///
    /// # Errors
    /// A text is too long for the rest of the budget.
    pub(crate) fn holds(
        &self,
        address: &Address,
        scene: &Scene<'_>,
        message: &Message,
    ) -> Result<bool, Failure> {
        match self {
            Self::All(all) => {
                for condition in all {
                    if !condition.holds(address, scene, message)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(any) => {
                for condition in any {
                    if condition.holds(address, scene, message)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(condition) => Ok(!condition.holds(address, scene, message)?),
            Self::Test { of, pattern } => {
                let text = match of {
                    Of::Url(part) => address.part(*part),
                    Of::Header(name) => message.head.field(name).map(Into::into),
                    Of::Parameter(name) => {
                        let kind = expression::ParameterKind::Query;
                        message.head.parameter(kind, name).map(Into::into)
                    }
                    Of::Property(name) => {
                        let value = message.properties.get(PropertyScope::Synapse, name);
                        value.map(|value| value.text().into_owned())
                    }
                };
                match text {
                    Some(text) => Ok(pattern.matches(&text, scene.budget)?),
                    None => Ok(false),
                }
            }
        }
    }
}

fn condition(compiler: &mut Compiler, element: &Element<'_>, depth: usize) -> Option<Condition> {
    if depth > limits::ELEMENT_DEPTH_MAX {
        return compiler.reject(element, "conditions are nested too deeply", None);
    }
    let mut inner = || {
        element
            .children()
            .map(|child| condition(compiler, &child, depth + 1))
            .collect::<Option<Vec<_>>>()
    };
    let condition = match element.name() {
        "and" => Condition::All(inner()?),
        "or" => Condition::Any(inner()?),
        "not" => {
            let all = Condition::All(inner()?);
            Condition::Not(Box::new(all))
        }
        "equal" => {
            let of = of(compiler, element)?;
            let value = element.required(compiler, "value")?;
            Condition::Test { of, pattern: pattern::literal(compiler, element, value)? }
        }
        "match" => {
            let of = of(compiler, element)?;
            let source = element.required(compiler, "regex")?;
            Condition::Test { of, pattern: pattern::compile(compiler, element, source)? }
        }
        other => {
            let help = "write `and`, `or`, `not`, `equal` or `match`";
            let message = format!("`condition` has no child `{other}`");
            return compiler.reject(element, message, Some(help));
        }
    };
    element.finish(compiler);
    Some(condition)
}

fn of(compiler: &mut Compiler, element: &Element<'_>) -> Option<Of> {
    let source = element.optional("source").unwrap_or_default();
    match element.required(compiler, "type")? {
        "url" => Some(Of::Url(element.choice(compiler, "source", PARTS)?)),
        "header" => Some(Of::Header(source.into())),
        "param" => Some(Of::Parameter(source.into())),
        "property" => Some(Of::Property(source.into())),
        other => {
            let help = "write `url`, `header`, `param` or `property`";
            compiler.error(element, format!("unknown value `{other}` of `type`"), Some(help));
            None
        }
    }
}
