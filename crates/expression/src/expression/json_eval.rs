//! The argument of `json-eval(...)`: a JSONPath on the body, or on a property (`$ctx:name.path`). Parts in braces,
//! `$.items.{$ctx:name}`, are computed. Source: Synapse's `SynapseJsonPath` and `InlineExpressionUtil`.

use xpath::Budget;

use super::Expression;
use crate::context::{BodyUse, EvalContext, PropertyScope, property, scope_of_prefix};
use crate::error::{Error, SyntaxError};
use crate::json::Document;
use crate::jsonpath::{Path, Selection};
use crate::value::Value;
use crate::{inline, limits};

/// Beginning of a computed part.
const COMPUTED: [&str; 3] = ["$", "get-property(", "json-eval("];

#[derive(Clone, Debug)]
pub(crate) enum JsonEval {
    Fixed(Located),
    Computed(Vec<Part>),
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(Box<str>),
    Computed(Box<Expression>),
}

/// A path, and where it is evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    /// `None`: on the body.
    property: Option<(PropertyScope, Box<str>)>,
    path: Path,
}

impl JsonEval {
    pub(crate) fn parse(
        source: &str,
        namespaces: &[(String, String)],
    ) -> Result<Self, SyntaxError> {
        let mut parts = Vec::new();
        let mut at = 0;
        for range in inline::expressions(source) {
            let inner = source.get(range.start + 1..range.end - 1).unwrap_or_default();
            // Others are of a pattern.
            if !COMPUTED.iter().any(|begin| inner.starts_with(begin)) {
                continue;
            }
            let text = source.get(at..range.start).unwrap_or_default();
            let computed = Expression::parse(inner, namespaces);
            let computed = computed.map_err(|error| error.within(source, range.start + 1))?;
            parts.extend([Part::Text(text.into()), Part::Computed(Box::new(computed))]);
            at = range.end;
        }
        if parts.is_empty() {
            return Located::parse(source).map(Self::Fixed);
        }
        parts.push(Part::Text(source.get(at..).unwrap_or_default().into()));
        Ok(Self::Computed(parts))
    }

    pub(crate) fn body_use(&self) -> BodyUse {
        match self {
            Self::Fixed(Located { property: Some(_), .. }) => BodyUse::Untouched,
            Self::Fixed(_) | Self::Computed(_) => BodyUse::Read,
        }
    }

    pub(crate) fn evaluate<'c>(
        &self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Value<'c>, Error> {
        self.with(context, budget, |located| located.evaluate(context, budget))
    }

    /// Its selection in the body.
    pub(crate) fn matches<'c>(
        &self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Vec<Value<'c>>, Error> {
        self.with(context, budget, |located| match located.on_body(context, budget)? {
            Some(Selection::One(value)) => Ok(vec![value]),
            Some(Selection::Many(values)) => Ok(values),
            None => Ok(Vec::new()),
        })
    }

    fn with<T>(
        &self,
        context: &dyn EvalContext,
        budget: &Budget,
        take: impl FnOnce(&Located) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self {
            Self::Fixed(located) => take(located),
            Self::Computed(parts) => take(&computed(parts, context, budget)?),
        }
    }
}

fn computed(parts: &[Part], context: &dyn EvalContext, budget: &Budget) -> Result<Located, Error> {
    let mut source = String::new();
    for part in parts {
        match part {
            Part::Text(text) => source.push_str(text),
            Part::Computed(expression) => match expression.evaluate_within(context, budget) {
                Ok(value) => source.push_str(&value.text()),
                Err(Error::Missing(_)) => {}
                Err(error) => return Err(error),
            },
        }
        if source.len() > limits::COMPUTED_PATH_BYTES_MAX {
            let most = limits::COMPUTED_PATH_BYTES_MAX;
            return Err(Error::Type(format!("computed JSONPath longer than {most} bytes")));
        }
    }
    // Compiling costs about as much as 20 steps for each byte.
    budget.charge_steps(20 * source.len() as u64)?;
    Located::parse(&source)
        .map_err(|error| Error::Type(format!("invalid JSONPath `{source}`: {}", error.message)))
}

impl Located {
    fn parse(source: &str) -> Result<Self, SyntaxError> {
        let trimmed = source.trim_start();
        let Some((scope, rest)) = scope_of_prefix(trimmed) else {
            return Ok(Self { property: None, path: Path::parse(source)? });
        };
        let name = rest.split(['.', '[']).next().unwrap_or_default();
        let steps = rest.get(name.len()..).unwrap_or_default();
        let at = source.len() - steps.len();
        if name.trim().is_empty() {
            return Err(SyntaxError::new(source, at, "the name of a property expected"));
        }
        // `$` stands for the value of the property.
        let path = Path::parse(&format!("${steps}"));
        let path = path.map_err(|error| error.within(source, at.saturating_sub(1)))?;
        Ok(Self { property: Some((scope, name.into())), path })
    }

    fn on_body<'c>(
        &self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Option<Selection<'c>>, Error> {
        let body = if self.property.is_none() { context.json()? } else { None };
        body.map(|json| self.path.evaluate_within(json, budget)).transpose()
    }

    fn evaluate<'c>(
        &self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Value<'c>, Error> {
        let Some((scope, name)) = &self.property else {
            let found = self.on_body(context, budget)?;
            return found.map_or(Ok(Value::Null), |found| found.into_value_within(budget));
        };
        match property(context, *scope, name) {
            Some(Value::Json(json)) => {
                self.path.evaluate_within(json, budget)?.into_value_within(budget)
            }
            Some(value) => self.on_text(&value.text(), name, budget),
            None => Ok(Value::Null),
        }
    }

    /// On JSON in a property that is a text.
    fn on_text<'c>(&self, text: &str, name: &str, budget: &Budget) -> Result<Value<'c>, Error> {
        let before = budget.bytes_used();
        let found = Document::parse_within(text.as_bytes(), budget).and_then(|document| {
            let found = self.path.evaluate_within(document.root(), budget)?;
            Ok(found.into_value_within(budget)?.into_owned())
        });
        let used = budget.bytes_used().saturating_sub(before);
        budget.release_memory(usize::try_from(used).unwrap_or(usize::MAX));
        match found {
            Ok(found) => {
                found.charge_copy(budget)?;
                Ok(found)
            }
            // As Synapse does, which parses nothing for `$`.
            Err(Error::Json { .. }) if self.path.is_root() => {
                budget.charge_memory(text.len())?;
                Ok(Value::Text(text.to_owned().into()))
            }
            Err(Error::Json { .. }) => Err(Error::Missing(format!("`{name}` holds no JSON"))),
            Err(error) => Err(error),
        }
    }
}
