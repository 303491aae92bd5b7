//! XPath over a [`Scope`], through the xpath crate's Synapse door.

use std::sync::LazyLock;

use xpath::synapse::{self, Message, SynapseXPath};

use crate::budget::Budget;
use crate::scope::{BodyUse, ParameterKind, PropertyScope, Scope};
use crate::{CompileError, EvalError, Value};

/// Where an expression stands that reads no body.
static NOTHING: LazyLock<xml::Document> = LazyLock::new(xml::Document::new);

/// Compiles `text` with the (prefix, URI) pairs in scope.
pub(crate) fn compile(
    text: &str,
    namespaces: &[(String, String)],
) -> Result<SynapseXPath, CompileError> {
    SynapseXPath::compile(text, namespaces)
        .map_err(|error| CompileError::new(text, error.offset, error.message))
}

pub(crate) fn body_use(expression: &SynapseXPath) -> BodyUse {
    if expression.reads_body() { BodyUse::Read } else { BodyUse::Untouched }
}

/// The answer as the xpath crate has it.
pub(crate) fn evaluate<'s>(
    expression: &SynapseXPath,
    scope: &'s dyn Scope,
) -> Result<xpath::Value<'s>, EvalError> {
    let document = if expression.reads_body() {
        scope.xml()?.ok_or_else(|| EvalError::Body("the body is no XML".to_owned()))?
    } else {
        &NOTHING
    };
    let mut bridge = Bridge { scope, document };
    let budget = xpath::Budget::default();
    expression.evaluate(document.root(), &mut bridge, &budget).map_err(|error| match error {
        xpath::EvalError::Budget(_) => EvalError::Limit("the steps, nodes or text of an XPath"),
        xpath::EvalError::NotANodeSet { .. }
        | xpath::EvalError::NoVariable(_)
        | xpath::EvalError::NoFunction(_)
        | xpath::EvalError::Caller(_) => EvalError::Type(error.to_string()),
    })
}

/// The answer as a value: of nodes their texts, one after the other.
///
/// # Errors
/// [`EvalError::Limit`]: more text, or more nodes to take it from, than `budget` has left.
pub(crate) fn value(found: xpath::Value<'_>, budget: &Budget) -> Result<Value<'static>, EvalError> {
    Ok(match found {
        xpath::Value::NodeSet(nodes) => Value::Text(texts(&nodes, budget)?.into()),
        xpath::Value::String(text) => Value::Text(text.into()),
        xpath::Value::Number(number) => {
            let spelt = xpath::number_to_string(number).to_string();
            let whole = spelt.parse().map(Value::Integer);
            whole.unwrap_or(Value::Double(number))
        }
        xpath::Value::Boolean(truth) => Value::Boolean(truth),
    })
}

/// Nodes that stand inside one another give the same text again and again.
fn texts(nodes: &xpath::NodeSet<'_>, budget: &Budget) -> Result<String, EvalError> {
    let mut texts = String::new();
    let mut push = |text: &str| {
        budget.visit(1)?;
        budget.make(text.len())?;
        texts.push_str(text);
        Ok::<_, EvalError>(())
    };
    for item in nodes.iter() {
        match item.node().filter(|node| node.is_element() || node.kind() == xml::Kind::Root) {
            Some(node) => node.descendants().try_for_each(|inside| match inside.kind() {
                xml::Kind::Text => push(inside.text()),
                xml::Kind::Root | xml::Kind::Element | xml::Kind::Comment => budget.visit(1),
                xml::Kind::ProcessingInstruction => budget.visit(1),
                xml::Kind::Attribute | xml::Kind::Namespace => Ok(()),
            })?,
            None => push(&item.string_value())?,
        }
    }
    Ok(texts)
}

struct Bridge<'s> {
    scope: &'s dyn Scope,
    document: &'s xml::Document,
}

impl<'s> Message<'s> for Bridge<'s> {
    fn property(&mut self, scope: synapse::PropertyScope, name: &str) -> Option<xpath::Value<'s>> {
        let of = |scope| self.scope.property(scope, name);
        let found = match scope {
            synapse::PropertyScope::Synapse => of(PropertyScope::Synapse),
            synapse::PropertyScope::Transport => self.scope.header(name).map(Value::Text),
            synapse::PropertyScope::Axis2 => of(PropertyScope::Axis2),
            synapse::PropertyScope::Axis2Client => of(PropertyScope::Axis2Client),
            synapse::PropertyScope::Operation => of(PropertyScope::Operation),
            synapse::PropertyScope::Url => {
                self.scope.parameter(ParameterKind::Query, name).map(Value::Text)
            }
            synapse::PropertyScope::Function => of(PropertyScope::Function),
            synapse::PropertyScope::System => of(PropertyScope::System),
            synapse::PropertyScope::Environment => of(PropertyScope::Environment),
            synapse::PropertyScope::Variable => self.scope.variable(name),
            synapse::PropertyScope::Registry => of(PropertyScope::Registry),
        };
        found.map(|value| match value.plain() {
            Value::Boolean(truth) => xpath::Value::Boolean(truth),
            Value::Integer(number) => xpath::Value::Number(number as f64),
            Value::Double(number) => xpath::Value::Number(number),
            other @ (Value::Json(_) | Value::Made(_) | Value::Text(_) | Value::Null) => {
                xpath::Value::String(other.text().into_owned())
            }
        })
    }

    fn document(&mut self) -> Option<&'s xml::Document> {
        Some(self.document)
    }
}
