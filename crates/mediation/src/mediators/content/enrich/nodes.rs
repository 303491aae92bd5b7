//! The nodes that a target of `enrich` selects, in the body or in a property, and their new contents.

use expression::{Budget, Expression};
use xml::{Node, NodeId};

use super::{Action, fail};
use crate::error::Failure;
use crate::mediators::content::piece::Piece;
use crate::message::{Message, PropertyScope};
use crate::program::Scene;

/// Where the nodes are that an expression selects.
pub(super) enum Holder {
    Body,
    Property(PropertyScope, String),
}

impl Holder {
    pub(super) fn edit<'m>(
        &self,
        message: &'m mut Message,
        budget: &Budget,
    ) -> Result<Option<&'m mut xml::Document>, Failure> {
        match self {
            Self::Body => message.body.edit_xml(budget),
            Self::Property(scope, name) => message.properties.edit_xml(*scope, name, budget),
        }
    }
}

/// The nodes that `expression` selects in the body, or else in the property of the first, which [`Holder::edit`] edits.
pub(super) fn selected(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(Holder, Vec<NodeId>), Failure> {
    let (holder, nodes) = select(expression, scene, message)?;
    if let (Holder::Property(..), Some(first)) = (&holder, nodes.first())
        && let Some(document) = holder.edit(message, scene.budget)?
        && document.node(*first).is_none()
    {
        // Other messages have the property too; the copy has node ids of its own.
        return select(expression, scene, message);
    }
    Ok((holder, nodes))
}

fn select(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &Message,
) -> Result<(Holder, Vec<NodeId>), Failure> {
    let view = scene.view(message);
    let body = message.body.xml(scene.budget)?;
    let nodes = expression.nodes(&view, scene.budget)?;
    let is_in = |node: &Node<'_>, document| std::ptr::eq(node.document(), document);
    let in_body = body.filter(|body| nodes.iter().any(|node| is_in(node, *body)));
    let (holder, document) = match (in_body, nodes.first()) {
        (Some(body), _) => (Holder::Body, body),
        (None, None) => return Ok((Holder::Body, Vec::new())),
        (None, Some(first)) => {
            let found = message.properties.holder(first.document());
            let (scope, name) = found.ok_or_else(|| {
                fail(format!("`{expression}` selects nothing that can be changed"))
            })?;
            (Holder::Property(scope, name.to_owned()), first.document())
        }
    };
    let ids = nodes.iter().filter(|node| is_in(node, document)).map(|node| node.id()).collect();
    Ok((holder, ids))
}

pub(super) fn detach(
    expression: &Expression,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(), Failure> {
    let (holder, nodes) = selected(expression, scene, message)?;
    if nodes.is_empty() {
        return Ok(());
    }
    if let Some(document) = holder.edit(message, scene.budget)? {
        for node in nodes {
            document.detach(node)?;
        }
    }
    Ok(())
}

/// Puts `piece` in the place of `at`, below it, or behind it. Source: Synapse's `Target.insert`.
pub(super) fn insert(
    document: &mut xml::Document,
    at: NodeId,
    piece: &Piece,
    action: Action,
    budget: &Budget,
) -> Result<(), Failure> {
    let text = document.node(at).filter(|node| node.kind() == xml::Kind::Text);
    let around = text.and_then(Node::parent).map(Node::id);
    if let (Some(parent), Piece::Xml(_)) = (around, piece) {
        insert(document, parent, piece, Action::Child, budget)?;
        return Ok(document.detach(at)?);
    }
    match piece {
        Piece::Xml(pieces) => {
            budget.charge_memory(pieces.iter().map(|piece| piece.heap_bytes()).sum())?;
        }
        Piece::Text(text) => budget.charge_memory(text.len())?,
        Piece::Json(_) => {}
    }
    let is_element = document.node(at).is_some_and(Node::is_element);
    let new = match piece {
        Piece::Xml(pieces) if is_element => {
            let roots = pieces.iter().filter_map(|piece| piece.element());
            roots.map(|root| document.import(root)).collect::<Result<Vec<_>, _>>()?
        }
        Piece::Text(text) if action == Action::Replace && is_element => {
            let text = document.create_text(text)?;
            document.replace_children(at, &[text])?;
            return Ok(());
        }
        Piece::Text(text) if is_element => vec![document.create_text(text)?],
        Piece::Text(text) if action == Action::Replace => {
            document.set_text(at, text)?;
            return Ok(());
        }
        Piece::Xml(_) | Piece::Json(_) | Piece::Text(_) => {
            return Err(fail("this source cannot be put into the target"));
        }
    };
    for node in new {
        match action {
            Action::Child => document.append(at, node)?,
            Action::Replace => document.insert_before(at, node)?,
            // If there are several, the last one comes first.
            Action::Sibling => document.insert_after(at, node)?,
            Action::Remove => {}
        }
    }
    if action == Action::Replace {
        document.detach(at)?;
    }
    Ok(())
}
