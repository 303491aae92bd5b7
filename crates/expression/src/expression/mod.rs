//! One type for all expression languages of a configuration.

mod json_eval;

use std::fmt;
use std::sync::Arc;

use xpath::Budget;

use crate::context::{BodyUse, EvalContext, PropertyScope, property, scope_of_prefix};
use crate::cursor::Cursor;
use crate::error::{Error, SyntaxError};
use crate::synapse::SynapseExpression;
use crate::value::Value;
use crate::{json, xpath_bridge};
use json_eval::JsonEval;

/// A compiled expression of any language.
#[derive(Clone, Debug)]
pub struct Expression {
    source: Box<str>,
    language: Language,
}

#[derive(Clone, Debug)]
enum Language {
    Literal(Box<str>),
    /// `$ctx:x`, `$trp:x`, `get-property('axis2', 'x')` and the like.
    Property(PropertyScope, Box<str>),
    JsonPath(Box<JsonEval>),
    Synapse(Box<SynapseExpression>),
    Xpath(Arc<xpath::synapse::SynapseXPath>),
}

impl Expression {
    /// A literal text.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { source: text.into(), language: Language::Literal(text.into()) }
    }

    /// Compiles `source`, whose syntax selects the language: `json-eval(...)`, `${...}`, a reference (`$ctx:x`,
    /// `get-property('x')`), else XPath.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the position.
    pub fn compile(source: &str) -> Result<Self, Error> {
        Self::compile_with(source, &[])
    }

    /// The same, XPath with the (prefix, URI) pairs in scope.
    ///
    /// # Errors
    /// As [`Expression::compile`].
    pub fn compile_with(source: &str, namespaces: &[(String, String)]) -> Result<Self, Error> {
        Ok(Self::parse(source, namespaces)?)
    }

    pub(crate) fn parse(
        source: &str,
        namespaces: &[(String, String)],
    ) -> Result<Self, SyntaxError> {
        Ok(Self { source: source.into(), language: language(source, namespaces)? })
    }

    /// Body use of the expression.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        match &self.language {
            Language::Literal(_) | Language::Property(..) => BodyUse::Untouched,
            Language::JsonPath(path) => path.body_use(),
            Language::Xpath(path) => xpath_bridge::body_use(path),
            Language::Synapse(expression) => expression.body_use(),
        }
    }

    /// Whether it is an XPath that selects nodes.
    #[must_use]
    pub fn selects_nodes(&self) -> bool {
        let Language::Xpath(path) = &self.language else { return false };
        path.expression().value_type() == xpath::Type::NodeSet
    }

    /// Whether [`Expression::nodes`] finds nodes, if the named value is XML.
    #[must_use]
    pub fn may_select_nodes(&self) -> bool {
        match &self.language {
            Language::Xpath(path) => {
                let of = path.expression().value_type();
                matches!(of, xpath::Type::NodeSet | xpath::Type::Unknown)
            }
            Language::Property(..) => true,
            Language::Synapse(expression) => expression.is_xpath(),
            Language::Literal(_) | Language::JsonPath(_) => false,
        }
    }

    /// The text that it always is; `None` if it is evaluated.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        if let Language::Literal(text) = &self.language { Some(text) } else { None }
    }

    /// Whether it is a JSONPath.
    #[must_use]
    pub fn is_json_path(&self) -> bool {
        matches!(self.language, Language::JsonPath(_))
    }

    /// Evaluates with [`Budget::default`]. A reference to something that does not exist is [`Value::Null`].
    ///
    /// # Errors
    /// A definite path that selects nothing, a body of another format, or a budget that is used up.
    pub fn evaluate<'c>(&'c self, context: &'c dyn EvalContext) -> Result<Value<'c>, Error> {
        self.evaluate_within(context, &Budget::default())
    }

    /// Evaluates within the host's budget.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn evaluate_within<'c>(
        &'c self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Value<'c>, Error> {
        Ok(match &self.language {
            Language::Literal(text) => Value::Text((&**text).into()),
            Language::Property(scope, name) => {
                match xpath_bridge::property_nodes(context, *scope, name) {
                    Some(nodes) => xpath_bridge::value(xpath::Value::NodeSet(nodes), budget)?,
                    None => property(context, *scope, name).unwrap_or(Value::Null),
                }
            }
            Language::JsonPath(path) => path.evaluate(context, budget)?,
            Language::Synapse(expression) => expression.evaluate_within(context, budget)?,
            Language::Xpath(path) => {
                let owned = |found: xpath::Value<'_>| xpath_bridge::value(found, budget);
                xpath_bridge::evaluate_once(path, context, budget, owned)?
            }
        })
    }

    /// The nodes that an XPath selects, or `${xpath('...')}`, or that a property holds, in document order, without
    /// namespace nodes.
    ///
    /// # Errors
    /// [`Error::Type`] if this does not select nodes; else as [`Expression::evaluate`].
    pub fn nodes<'c>(
        &'c self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Vec<xml::Node<'c>>, Error> {
        let nodes = match &self.language {
            Language::Xpath(path) => {
                match xpath_bridge::evaluate(path, context, (None, None), budget)? {
                    xpath::Value::NodeSet(nodes) => Some(nodes),
                    xpath::Value::String(_)
                    | xpath::Value::Number(_)
                    | xpath::Value::Boolean(_) => None,
                }
            }
            Language::Property(scope, name) => xpath_bridge::property_nodes(context, *scope, name),
            Language::Synapse(expression) => expression.nodes(context, budget)?,
            Language::Literal(_) | Language::JsonPath(_) => None,
        };
        match nodes {
            Some(nodes) => Ok(nodes.iter().filter_map(xpath::Item::node).collect()),
            None => Err(Error::Type(format!("`{}` does not select nodes", self.source))),
        }
    }

    /// The values of the body that a JSONPath or a Synapse expression selects, in the order of evaluation; not those
    /// that it makes.
    ///
    /// # Errors
    /// As [`Expression::evaluate`].
    pub fn json_matches<'c>(
        &'c self,
        context: &'c dyn EvalContext,
        budget: &Budget,
    ) -> Result<Vec<json::Ref<'c>>, Error> {
        let values = match &self.language {
            Language::JsonPath(path) => path.matches(context, budget)?,
            Language::Synapse(_)
            | Language::Literal(_)
            | Language::Property(..)
            | Language::Xpath(_) => vec![self.evaluate_within(context, budget)?],
        };
        let selected = |value| if let Value::Json(value) = value { Some(value) } else { None };
        Ok(values.into_iter().filter_map(selected).collect())
    }

    /// The result as a condition. XPath: `boolean()` of the result, so a node that exists or a text that is not empty
    /// holds, as does a property; else [`Value::truth`].
    ///
    /// # Errors
    /// As [`Expression::evaluate`], except [`Error::Missing`].
    pub fn holds(&self, context: &dyn EvalContext, budget: &Budget) -> Result<bool, Error> {
        match &self.language {
            Language::Xpath(path) => xpath_bridge::holds(path, context, budget),
            Language::Property(scope, name) => {
                if xpath_bridge::property_nodes(context, *scope, name).is_some() {
                    return Ok(true);
                }
                let value = property(context, *scope, name).map(Value::plain);
                Ok(value.is_some_and(|value| match value {
                    Value::Boolean(truth) => truth,
                    Value::Null => false,
                    Value::Text(text) => !text.is_empty(),
                    Value::Json(_) | Value::Made(_) | Value::Integer(_) | Value::Double(_) => true,
                }))
            }
            Language::Literal(_) | Language::JsonPath(_) | Language::Synapse(_) => {
                match self.evaluate_within(context, budget) {
                    Ok(value) => Ok(value.plain().truth()),
                    Err(Error::Missing(_)) => Ok(false),
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// The result as text; empty for absent values.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], except [`Error::Missing`].
    pub fn text(&self, context: &dyn EvalContext) -> Result<String, Error> {
        match self.evaluate(context) {
            Ok(value) => Ok(value.text().into_owned()),
            Err(Error::Missing(_)) => Ok(String::new()),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}

fn language(source: &str, namespaces: &[(String, String)]) -> Result<Language, SyntaxError> {
    let text = source.trim();
    let at = source.len() - source.trim_start().len();
    if text.starts_with("${") {
        let expression = SynapseExpression::parse(source, namespaces)?;
        return Ok(Language::Synapse(Box::new(expression)));
    }
    if let Some(inner) = text.strip_prefix("json-eval(") {
        let Some(path) = inner.strip_suffix(')') else {
            return Err(SyntaxError::new(source, source.len(), "`)` expected after `json-eval(`"));
        };
        let path = JsonEval::parse(path, namespaces)
            .map_err(|error| error.within(source, at + "json-eval(".len()))?;
        return Ok(Language::JsonPath(Box::new(path)));
    }
    if let Some(found) = reference(text) {
        return Ok(found);
    }
    if text.starts_with("get-property(")
        && let Some(found) = get_property(source, at)?
    {
        return Ok(found);
    }
    if text.is_empty() {
        return Err(SyntaxError::new(source, 0, "empty expression"));
    }
    let path = xpath_bridge::compile(text, namespaces).map_err(|error| error.within(source, at))?;
    Ok(Language::Xpath(Arc::new(path)))
}

/// `$ctx:name` and the like, if nothing follows the name.
fn reference(text: &str) -> Option<Language> {
    let (scope, name) = scope_of_prefix(text)?;
    let in_name = |next: char| next.is_alphanumeric() || "._-".contains(next);
    let is_name = !name.is_empty() && name.chars().all(in_name);
    is_name.then(|| Language::Property(scope, name.into()))
}

/// What `get-property()` computes, or reads in the body: left to XPath.
const COMPUTED: [&str; 10] = [
    "FAULT",
    "FaultTo",
    "From",
    "MessageID",
    "OperationName",
    "OperationNamespace",
    "RelatesTo",
    "ReplyTo",
    "SYSTEM_DATE",
    "SYSTEM_TIME",
];

/// `get-property('name')` or `get-property('scope', 'name')`; `None` if it is only a part of an XPath.
fn get_property(source: &str, at: usize) -> Result<Option<Language>, SyntaxError> {
    let mut cursor = Cursor::new(source)?;
    cursor.at = at + "get-property(".len();
    cursor.space();
    let Some(first) = cursor.quoted()? else { return Ok(None) };
    if COMPUTED.contains(&&*first) {
        return Ok(None);
    }
    let second = if cursor.eat_spaced(",") {
        cursor.space();
        match cursor.quoted()? {
            None => return Ok(None),
            some => some,
        }
    } else {
        None
    };
    cursor.expect(")")?;
    if cursor.end().is_err() {
        return Ok(None);
    }
    let Some(name) = second else {
        return Ok(Some(Language::Property(PropertyScope::Synapse, first.into())));
    };
    match PropertyScope::named(&first) {
        Some(scope) => Ok(Some(Language::Property(scope, name.into()))),
        None => Err(SyntaxError::new(source, at, PropertyScope::unknown(&first))),
    }
}
