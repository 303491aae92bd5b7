//! Selections: the short ones at once, all others by XPath.

use std::borrow::Cow;

use xml::{NameId, Node, NodeFilter};
use xpath::{Context, Item};

use super::machine::Machine;
use super::{Ran, World};
use crate::program::{Quick, Select};

/// A name of the program in the source.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    NotYet,
    Absent,
    Known(NameId, NodeFilter),
}

impl<'d> World<'d> {
    /// The id of a name in the source, and how its elements look; none when no node has that name.
    #[inline]
    fn asked(&mut self, place: u32) -> Option<(NameId, NodeFilter)> {
        match self.names.get(place as usize)? {
            Asked::Known(id, sought) => Some((*id, *sought)),
            Asked::Absent => None,
            Asked::NotYet => self.ask(place),
        }
    }

    fn ask(&mut self, place: u32) -> Option<(NameId, NodeFilter)> {
        let name = self.program.names.get(place as usize)?;
        let document = self.source.document();
        let id = document.name_id(&name.namespace, &name.local);
        let found = id.map(|id| (id, NodeFilter::name(document, id)));
        if let Some(asked) = self.names.get_mut(place as usize) {
            *asked = found.map_or(Asked::Absent, |(id, sought)| Asked::Known(id, sought));
        }
        found
    }

    /// The context node, when it is one of the source's tree.
    fn at_source(&self, context: Context<'d>) -> Option<Node<'d>> {
        let node = context.item.node()?;
        std::ptr::eq(node.document(), self.source.document()).then_some(node)
    }
}

impl<'d> Machine<'_, 'd> {
    /// The value as a string.
    pub(super) fn string(&mut self, select: &'d Select) -> Ran<Cow<'d, str>> {
        let (context, node) = (self.now.context, self.world.at_source(self.now.context));
        let found = match (select.quick, node) {
            (Quick::Itself, _) => Some(context.item.string_value()),
            (Quick::Child(name), Some(node)) => Some(self.child(node, name)?),
            (Quick::Attribute(name), Some(node)) => {
                let id = self.world.asked(name);
                let found =
                    id.and_then(|(id, _)| node.attributes().find(|found| found.name() == id));
                Some(Cow::Borrowed(found.map_or("", Node::text)))
            }
            (
                Quick::No
                | Quick::Child(_)
                | Quick::Attribute(_)
                | Quick::Children
                | Quick::Attributes
                | Quick::Everything,
                _,
            ) => None,
        };
        match found {
            Some(text) => Ok(text),
            None => self.string_of(&select.expression),
        }
    }

    /// The text of the first child of that name.
    fn child(&mut self, node: Node<'d>, name: u32) -> Ran<Cow<'d, str>> {
        let Some((_, sought)) = self.world.asked(name) else { return Ok(Cow::Borrowed("")) };
        let mut children = node.filtered_children(sought);
        let found = children.next();
        self.spend_many(children.take_visited())?;
        Ok(found.map_or(Cow::Borrowed(""), Node::string_value))
    }

    /// The nodes, in document order, in a list that is given back when it is done with.
    pub(super) fn selected(&mut self, select: &'d Select) -> Ran<Vec<Item<'d>>> {
        let mut items = self.list();
        if let Some(looked_at) = self.collect(select.quick, &mut items) {
            self.spend_many(looked_at)?;
            return Ok(items);
        }
        self.spare(items);
        self.nodes(&select.expression)
    }

    /// Answers how many nodes it looked at; nothing, when XPath has to do it.
    fn collect(&mut self, quick: Quick, items: &mut Vec<Item<'d>>) -> Option<u64> {
        let context = self.now.context;
        if quick == Quick::Itself {
            items.push(context.item);
            return Some(1);
        }
        let node = context.item.node()?;
        let (children, attributes) = (node.children(), node.attributes());
        match quick {
            Quick::No | Quick::Itself => return None,
            Quick::Children => items.extend(children.map(Item::from)),
            Quick::Attributes => items.extend(attributes.map(Item::from)),
            Quick::Everything => {
                items.extend(attributes.map(Item::from));
                items.extend(children.map(Item::from));
            }
            Quick::Attribute(name) => {
                self.world.at_source(context)?;
                let Some((id, _)) = self.world.asked(name) else { return Some(0) };
                items.extend(attributes.filter(|found| found.name() == id).map(Item::from));
            }
            Quick::Child(name) => {
                self.world.at_source(context)?;
                let Some((_, sought)) = self.world.asked(name) else { return Some(0) };
                let mut found = node.filtered_children(sought);
                items.extend(found.by_ref().map(Item::from));
                return Some(found.take_visited());
            }
        }
        Some(items.len() as u64)
    }

    /// An empty list.
    pub(super) fn list(&mut self) -> Vec<Item<'d>> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(LIST_NODES))
    }

    /// Gives a list back.
    pub(super) fn spare(&mut self, mut items: Vec<Item<'d>>) {
        if self.spare.len() < SPARE_MAX {
            items.clear();
            self.spare.push(items);
        }
    }
}

/// Lists that are kept to be used again.
const SPARE_MAX: usize = 64;
/// What a new list has room for: the children of most elements.
const LIST_NODES: usize = 16;
