//! Evaluates XPath on an [`EvalContext`] through the Synapse extensions of the xpath crate.

use std::borrow::Cow;
use std::sync::LazyLock;

use xpath::synapse::{Message, PropertyScope, SynapseXPath};
use xpath::{Budget, Pool};

use crate::context::{self, BodyUse, EvalContext};
use crate::error::{Error, SyntaxError};
use crate::value::Value;

/// The document of expressions that read no body.
static EMPTY: LazyLock<xml::Document> = LazyLock::new(xml::Document::new);

/// Compiles `text` with the (prefix, URI) pairs in scope.
pub(crate) fn compile(
    text: &str,
    namespaces: &[(String, String)],
) -> Result<SynapseXPath, SyntaxError> {
    SynapseXPath::compile(text, namespaces).map_err(|error| {
        SyntaxError::new(text, error.offset().unwrap_or_default(), error.message())
    })
}

pub(crate) fn body_use(expression: &SynapseXPath) -> BodyUse {
    if expression.reads_body() { BodyUse::Read } else { BodyUse::Untouched }
}

/// Evaluates `expression` on the body, and takes the result, whose nodes may be of a part of the body, or of a document
/// that the expression made.
pub(crate) fn evaluate_once<T>(
    expression: &SynapseXPath,
    context: &dyn EvalContext,
    budget: &Budget,
    take: impl FnOnce(xpath::Value<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let is_header = expression.reads_header_alone();
    let header = if is_header { context.xml_header()? } else { None };
    let pool = Pool::default();
    take(evaluate(expression, context, (header, Some(&pool)), budget)?)
}

/// Evaluates `expression` as a condition: on the beginning of the body if that decides it, else on the body.
pub(crate) fn holds(
    expression: &SynapseXPath,
    context: &dyn EvalContext,
    budget: &Budget,
) -> Result<bool, Error> {
    if expression.may_end_early()
        && let Some(beginning) = context.xml_beginning()?
    {
        match evaluate(expression, context, (Some(beginning), None), budget) {
            Ok(found) if found.boolean() => return Ok(true),
            Err(error @ Error::Budget(_)) => return Err(error),
            // For the whole document it may be true, or not an error.
            Ok(_) | Err(_) => {}
        }
    }
    evaluate_once(expression, context, budget, |found| Ok(found.boolean()))
}

/// Evaluates `expression` on the body, or on `document` if there is one. Without a `pool` it can make no documents.
pub(crate) fn evaluate<'c>(
    expression: &SynapseXPath,
    context: &'c dyn EvalContext,
    (document, pool): (Option<&'c xml::Document>, Option<&'c Pool>),
    budget: &Budget,
) -> Result<xpath::Value<'c>, Error> {
    let document = match document {
        Some(document) => document,
        // Without a body nothing is selected.
        None if expression.reads_body() => context.xml()?.unwrap_or(&EMPTY),
        None => &EMPTY,
    };
    let mut bridge = Bridge { context, document, pool };
    expression.evaluate(document, &mut bridge, budget).map_err(error)
}

pub(crate) fn error(error: xpath::Error) -> Error {
    if let xpath::Error::Budget(exceeded) = error {
        return exceeded.into();
    }
    Error::Type(error.to_string())
}

/// Converts a result; a node-set becomes text as in [`texts`].
///
/// # Errors
/// [`Error::Budget`] if the text does not fit the rest of the budget.
pub(crate) fn value(found: xpath::Value<'_>, budget: &Budget) -> Result<Value<'static>, Error> {
    Ok(match found {
        xpath::Value::NodeSet(nodes) => Value::Text(texts(&nodes, budget)?.into()),
        xpath::Value::String(text) => Value::Text(text.into()),
        // The text is `2.0`, as in Synapse, which prints Java's `Double`.
        xpath::Value::Number(number) => Value::Double(number),
        xpath::Value::Boolean(truth) => Value::Boolean(truth),
    })
}

/// The text of a node-set: of one element its own text, without white space around it; of an element without text of
/// its own, and of each of several elements, its markup; of other nodes their text. Source: Synapse's
/// `SynapseXPath.stringValueOf`.
fn texts(nodes: &xpath::NodeSet<'_>, budget: &Budget) -> Result<String, Error> {
    let mut texts = String::new();
    for item in nodes.iter() {
        let node = item.node().map(|node| {
            let is_root = node.kind() == xml::Kind::Root;
            node.document().element().filter(|_| is_root).unwrap_or(node)
        });
        match node.filter(|node| node.is_element()) {
            Some(element) => push_text(element, nodes.len() == 1, budget, &mut texts)?,
            None => {
                let text = item.charged_string_value(budget)?;
                budget.charge_memory(text.len())?;
                texts.push_str(&text);
            }
        }
    }
    Ok(texts)
}

fn push_text(
    element: xml::Node<'_>,
    is_only: bool,
    budget: &Budget,
    texts: &mut String,
) -> Result<(), Error> {
    let own = own_text(element, budget)?;
    let spaced = match own.is_ascii() {
        true => Cow::Borrowed(&*own),
        false => Cow::Owned(own.replace('\u{a0}', " ")),
    };
    let trimmed = spaced.trim_matches(|next| next <= ' ');
    if is_only && !trimmed.is_empty() {
        texts.push_str(trimmed);
        return Ok(());
    }
    let written = crate::markup::write(element, budget)?;
    let written = String::from_utf8(written).map_err(|error| Error::Body(error.to_string()))?;
    if trimmed.is_empty() || trimmed == own {
        texts.push_str(&written);
        return Ok(());
    }
    budget.charge_reading(written.len())?;
    texts.push_str(&written.replace(&*own, trimmed));
    Ok(())
}

/// The text that is directly in an element.
pub(crate) fn own_text<'d>(element: xml::Node<'d>, budget: &Budget) -> Result<Cow<'d, str>, Error> {
    let mut own = Cow::Borrowed("");
    for child in element.children() {
        budget.charge_steps(1)?;
        if child.kind() == xml::Kind::Text {
            budget.charge_reading(child.text().len())?;
            budget.charge_memory(child.text().len())?;
            own += child.text();
        }
    }
    Ok(own)
}

/// The nodes of a property or a variable that holds XML.
pub(crate) fn property_nodes<'c>(
    context: &'c dyn EvalContext,
    scope: PropertyScope,
    name: &str,
) -> Option<xpath::NodeSet<'c>> {
    if scope == PropertyScope::Variable {
        return context.variable_xml(name).map(|document| document.root().into());
    }
    let nodes = context.property_nodes(scope, name)?;
    Some(xpath::NodeSet::from_unordered(nodes.into_iter().map(xpath::Item::from).collect()))
}

struct Bridge<'c> {
    context: &'c dyn EvalContext,
    document: &'c xml::Document,
    pool: Option<&'c Pool>,
}

impl<'c> Message<'c> for Bridge<'c> {
    fn property(&mut self, scope: PropertyScope, name: &str) -> Option<xpath::Value<'c>> {
        if let Some(nodes) = property_nodes(self.context, scope, name) {
            return Some(xpath::Value::NodeSet(nodes));
        }
        let value = context::property(self.context, scope, name)?;
        Some(match value.plain() {
            Value::Boolean(truth) => xpath::Value::Boolean(truth),
            Value::Integer(number) => xpath::Value::Number(number as f64),
            Value::Double(number) => xpath::Value::Number(number),
            other @ (Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Null) => {
                xpath::Value::String(other.text().into_owned())
            }
        })
    }

    fn keep(&mut self, document: xml::Document) -> Option<&'c xml::Document> {
        self.pool?.add(document)
    }

    fn unix_ms(&self) -> Option<i64> {
        Some(self.context.unix_ms())
    }

    fn document(&mut self) -> Option<&'c xml::Document> {
        Some(self.document)
    }
}
