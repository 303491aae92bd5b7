//! One type over all languages that a configuration may write.

use std::fmt;
use std::sync::Arc;

use crate::budget::Budget;
use crate::cursor::Cursor;
use crate::jsonpath::Path;
use crate::scope::{BodyUse, ParameterKind, PropertyScope, Scope};
use crate::synapse::{Mode, SynapseExpression};
use crate::{CompileError, EvalError, Value, xpath_on};

/// An expression of any of the languages, compiled once.
#[derive(Clone, Debug)]
pub struct Expression {
    source: Box<str>,
    language: Language,
}

#[derive(Clone, Debug)]
enum Language {
    Literal(Box<str>),
    /// `$ctx:x`, `get-property('axis2', 'x')` and their like.
    Property(PropertyScope, Box<str>),
    /// `$trp:x`, `get-property('transport', 'x')`.
    Header(Box<str>),
    /// `$url:x` and `$var:x`.
    Parameter(ParameterKind, Box<str>),
    Variable(Box<str>),
    JsonPath(Box<Path>),
    Synapse(Box<SynapseExpression>),
    Xpath(Arc<xpath::synapse::SynapseXPath>),
}

const SCOPES: &[(&str, PropertyScope)] = &[
    ("$ctx", PropertyScope::Synapse),
    ("$axis2-client", PropertyScope::Axis2Client),
    ("$axis2", PropertyScope::Axis2),
    ("$operation", PropertyScope::Operation),
    ("$func", PropertyScope::Function),
    ("$sys", PropertyScope::System),
    ("$env", PropertyScope::Environment),
];

const SCOPE_NAMES: &[(&str, PropertyScope)] = &[
    ("default", PropertyScope::Synapse),
    ("synapse", PropertyScope::Synapse),
    ("axis2", PropertyScope::Axis2),
    ("axis2-client", PropertyScope::Axis2Client),
    ("operation", PropertyScope::Operation),
    ("func", PropertyScope::Function),
    ("system", PropertyScope::System),
    ("env", PropertyScope::Environment),
    ("registry", PropertyScope::Registry),
];

impl Expression {
    /// A text that stands for itself.
    #[must_use]
    pub fn literal(text: &str) -> Self {
        Self { source: text.into(), language: Language::Literal(text.into()) }
    }

    /// Compiles `source` in the language that it shows: `json-eval(...)`, `${...}`, a reference (`$ctx:x`,
    /// `get-property('x')`), else XPath.
    ///
    /// # Errors
    /// What that language doesn't allow, with its place.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        Self::compile_with(source, Mode::Compatible, &[])
    }

    /// As [`Expression::compile`], Synapse expressions in `mode`, XPath with the (prefix, URI) pairs in scope.
    ///
    /// # Errors
    /// As [`Expression::compile`].
    pub fn compile_with(
        source: &str,
        mode: Mode,
        namespaces: &[(String, String)],
    ) -> Result<Self, CompileError> {
        Ok(Self { source: source.into(), language: language(source, mode, namespaces)? })
    }

    /// What it needs of the body.
    #[must_use]
    pub fn body_use(&self) -> BodyUse {
        match &self.language {
            Language::Literal(_) | Language::Property(..) | Language::Header(_) => {
                BodyUse::Untouched
            }
            Language::Parameter(..) | Language::Variable(_) => BodyUse::Untouched,
            Language::JsonPath(_) => BodyUse::Read,
            Language::Xpath(path) => xpath_on::body_use(path),
            Language::Synapse(expression) => expression.body_use(),
        }
    }

    /// Evaluates against `scope`. A reference to what isn't there is [`Value::Null`], whose text is empty.
    ///
    /// # Errors
    /// A definite path that leads nowhere, a body of another kind, a limit.
    pub fn evaluate<'s>(&'s self, scope: &'s dyn Scope) -> Result<Value<'s>, EvalError> {
        Ok(match &self.language {
            Language::Literal(text) => Value::Text((&**text).into()),
            Language::Property(of, name) => scope.property(*of, name).unwrap_or(Value::Null),
            Language::Header(name) => scope.header(name).map_or(Value::Null, Value::Text),
            Language::Parameter(kind, name) => {
                scope.parameter(*kind, name).map_or(Value::Null, Value::Text)
            }
            Language::Variable(name) => scope.variable(name).unwrap_or(Value::Null),
            Language::JsonPath(path) => {
                let json = scope.json()?;
                let json = json.ok_or_else(|| EvalError::Body("the body is no JSON".to_owned()))?;
                path.evaluate(json)?.into_value()?
            }
            Language::Synapse(expression) => expression.evaluate(scope)?,
            Language::Xpath(path) => {
                xpath_on::value(xpath_on::evaluate(path, scope)?, &Budget::new())?
            }
        })
    }

    /// The nodes that an XPath selects, in document order; namespace nodes are left out.
    ///
    /// # Errors
    /// [`EvalError::Type`] when it is no XPath or selects no nodes; else as [`Expression::evaluate`].
    pub fn nodes<'s>(&'s self, scope: &'s dyn Scope) -> Result<Vec<xml::Node<'s>>, EvalError> {
        if let Language::Xpath(path) = &self.language
            && let xpath::Value::NodeSet(nodes) = xpath_on::evaluate(path, scope)?
        {
            return Ok(nodes.iter().filter_map(xpath::Item::node).collect());
        }
        Err(EvalError::Type(format!("`{}` selects no nodes", self.source)))
    }

    /// The expression's text; what is missing is empty.
    ///
    /// # Errors
    /// As [`Expression::evaluate`], but for what is missing.
    pub fn text(&self, scope: &dyn Scope) -> Result<String, EvalError> {
        match self.evaluate(scope) {
            Ok(value) => Ok(value.text().into_owned()),
            Err(EvalError::Missing(_)) => Ok(String::new()),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}

fn language(
    source: &str,
    mode: Mode,
    namespaces: &[(String, String)],
) -> Result<Language, CompileError> {
    let text = source.trim();
    let at = source.len() - source.trim_start().len();
    if text.starts_with("${") {
        return Ok(Language::Synapse(Box::new(SynapseExpression::compile(source, mode)?)));
    }
    if let Some(inner) = text.strip_prefix("json-eval(") {
        let Some(path) = inner.strip_suffix(')') else {
            return Err(CompileError::new(source, source.len(), "`)` expected after `json-eval(`"));
        };
        let path =
            Path::compile(path).map_err(|error| error.within(source, at + "json-eval(".len()))?;
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
        return Err(CompileError::new(source, 0, "an expression is empty"));
    }
    let path = xpath_on::compile(text, namespaces).map_err(|error| error.within(source, at))?;
    Ok(Language::Xpath(Arc::new(path)))
}

/// `$ctx:name` and its like, when nothing else follows the name.
fn reference(text: &str) -> Option<Language> {
    let (prefix, name) = text.split_once(':')?;
    let plain = |next: char| next.is_alphanumeric() || "._-".contains(next);
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    match prefix {
        "$trp" => return Some(Language::Header(name.into())),
        "$url" => return Some(Language::Parameter(ParameterKind::Query, name.into())),
        "$var" => return Some(Language::Variable(name.into())),
        _ => {}
    }
    let (_, scope) = SCOPES.iter().find(|(known, _)| *known == prefix)?;
    Some(Language::Property(*scope, name.into()))
}

/// `get-property('name')` or `get-property('scope', 'name')` with nothing around it; `None`: it is part of an XPath.
fn get_property(source: &str, at: usize) -> Result<Option<Language>, CompileError> {
    let mut cursor = Cursor::new(source)?;
    cursor.at = at + "get-property(".len();
    cursor.space();
    let Some(first) = cursor.quoted()? else { return Ok(None) };
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
    if first == "transport" {
        return Ok(Some(Language::Header(name.into())));
    }
    match SCOPE_NAMES.iter().find(|(known, _)| *known == first) {
        Some((_, scope)) => Ok(Some(Language::Property(*scope, name.into()))),
        None => Err(CompileError::new(source, at, format!("`{first}` is no scope of properties"))),
    }
}
