//! What `enrich` copies from the body and from properties, and puts there as a whole.

use std::sync::Arc;

use expression::{Budget, Error, Expression, Value, json, markup};
use xml::Node;

use super::nodes::insert;
use super::{Action, fail};
use crate::error::Failure;
use crate::mediators::content::json_target;
use crate::mediators::content::piece::Piece;
use crate::message::{Format, Message, PropertyScope, PropertyValue};
use crate::program::{LogLevel, Scene};

/// The selection or value of an expression; `None` if it is empty.
pub(super) fn custom(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<Option<Piece>, Failure> {
    let view = scene.view(message);
    let nodes = match expression.nodes(&view, scene.budget) {
        Ok(nodes) => nodes.into_iter().map(of_root).collect::<Vec<_>>(),
        Err(Error::Type(_)) if !expression.selects_nodes() => {
            let own = |value: Value<'_>| PropertyValue::of(value, scene.budget);
            return Ok(scene.with(expression, message, own)??.map(|value| {
                if let PropertyValue::Json(document) = value {
                    return Piece::Json(document);
                }
                Piece::Text((&*value.text()).into())
            }));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(match &*nodes {
        [] => None,
        [node] if !node.is_element() => Some(Piece::Text((&*node.string_value()).into())),
        nodes => {
            let copies = nodes.iter().map(|node| copy(*node, scene.budget));
            Some(Piece::Xml(copies.collect::<Result<_, _>>()?))
        }
    })
}

/// The root of a document without SOAP, such as `$body`, stands for its element.
fn of_root(node: Node<'_>) -> Node<'_> {
    let is_root = node.kind() == xml::Kind::Root;
    node.document().element().filter(|_| is_root).unwrap_or(node)
}

/// The whole body.
pub(super) fn whole(message: &Message, budget: &Budget) -> Result<Piece, Failure> {
    if message.body.format() == Format::Json
        && let Some(document) = message.body.json(budget)?
    {
        Value::Json(document.root()).charge_copy(budget)?;
        return Ok(Piece::Json(Arc::new(document.clone())));
    }
    match message.body.xml(budget)?.and_then(xml::Document::element) {
        Some(root) => Ok(Piece::Xml(vec![copy(root, budget)?])),
        None => {
            let text = message.body.text(budget)?;
            budget.charge_memory(text.len())?;
            Ok(Piece::Text((&*text).into()))
        }
    }
}

pub(super) fn replace_all(
    piece: Piece,
    message: &mut Message,
    budget: &Budget,
) -> Result<(), Failure> {
    match piece {
        Piece::Json(document) => set_json(message, &document, budget),
        Piece::Text(text) => message.body.replace(Format::Text, text.as_bytes().to_vec(), budget),
        Piece::Xml(documents) => {
            let root = documents.first().and_then(|document| document.element());
            let format = root.map_or(Format::Xml, Format::of_element);
            message.body.replace_root(format, all_written(&documents, budget)?, budget)
        }
    }
}

pub(super) fn set_json(
    message: &mut Message,
    document: &json::Document<'static>,
    budget: &Budget,
) -> Result<(), Failure> {
    Value::Json(document.root()).charge_copy(budget)?;
    let copy = document.clone();
    // The body is charged for it.
    budget.release_memory(copy.heap_bytes());
    message.body.replace_json(copy, budget)
}

pub(super) fn property(piece: Piece, budget: &Budget) -> Result<PropertyValue, Failure> {
    Ok(match piece {
        Piece::Json(document) => PropertyValue::Json(document),
        Piece::Text(text) => PropertyValue::new(&*text),
        Piece::Xml(mut documents) if documents.len() == 1 => {
            documents.pop().map_or_else(|| PropertyValue::new(""), PropertyValue::Xml)
        }
        Piece::Xml(documents) => {
            PropertyValue::new(String::from_utf8_lossy(&all_written(&documents, budget)?))
        }
    })
}

pub(super) fn of_property(value: &PropertyValue, budget: &Budget) -> Result<Piece, Failure> {
    Ok(match value {
        PropertyValue::Xml(document) => Piece::Xml(vec![Arc::clone(document)]),
        PropertyValue::Json(document) => Piece::Json(Arc::clone(document)),
        PropertyValue::Text(_)
        | PropertyValue::Integer(_)
        | PropertyValue::Double(_)
        | PropertyValue::Boolean(_)
        | PropertyValue::Held(_) => Piece::read(&value.text(), budget)?,
    })
}

/// The JSON in a property; `None` without such a property.
pub(super) fn json_property(
    name: &str,
    message: &Message,
    budget: &Budget,
) -> Result<Option<Arc<json::Document<'static>>>, Failure> {
    let value = message.properties.get(PropertyScope::Synapse, name);
    let Some(value) = value else { return Ok(None) };
    match of_property(value, budget)? {
        Piece::Json(document) => Ok(Some(document)),
        Piece::Xml(_) | Piece::Text(_) => Err(fail(format!("the property `{name}` is not JSON"))),
    }
}

/// The property with `piece` as another child: of its element, of its array, or as members of its object. XML replaces
/// other values; `None`: nothing is added, which is logged. Source: Synapse's `Target.insert` and `Target.insertJson`.
pub(super) fn with_child(
    old: Option<&PropertyValue>,
    piece: Piece,
    message: &Message,
    scene: &Scene<'_>,
) -> Result<Option<PropertyValue>, Failure> {
    let budget = scene.budget;
    let old = old.map(|value| of_property(value, budget)).transpose()?;
    match (old, piece) {
        (Some(Piece::Xml(documents)), piece) => {
            let Some(document) = documents.first() else { return Ok(None) };
            budget.charge_memory(document.heap_bytes())?;
            let mut document = xml::Document::clone(document);
            if let Some(root) = document.element().map(Node::id) {
                insert(&mut document, root, &piece, Action::Child, budget)?;
            }
            Ok(Some(PropertyValue::Xml(Arc::new(document))))
        }
        (Some(Piece::Json(document)), piece) => {
            let child = piece.to_json(message.body.mapping(), budget)?;
            let text = json_target::with_child(document.root(), &child, scene)?;
            property(Piece::read(&text, budget)?, budget).map(Some)
        }
        (Some(Piece::Text(_)) | None, piece @ Piece::Xml(_)) => property(piece, budget).map(Some),
        (Some(Piece::Text(_)) | None, _) => {
            let line = "enrich: no child is added, since the property does not exist or is a text";
            scene.environment.log(LogLevel::Error, line);
            Ok(None)
        }
    }
}

/// The documents, one after another.
pub(super) fn all_written(
    documents: &[Arc<xml::Document>],
    budget: &Budget,
) -> Result<Vec<u8>, Failure> {
    let mut all = Vec::new();
    for root in documents.iter().filter_map(|document| document.element()) {
        all.append(&mut markup::write(root, budget)?);
    }
    Ok(all)
}

/// A copy of `node` as a document of its own.
pub(super) fn copy(node: Node<'_>, budget: &Budget) -> Result<Arc<xml::Document>, Failure> {
    Ok(Arc::new(markup::copy(node, budget)?))
}
