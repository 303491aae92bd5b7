//! Selections: the short ones at once, all others by XPath.

use std::borrow::Cow;

use xml::{NameId, Node};
use xpath::{Context, Item};

use super::machine::Machine;
use super::{Ran, World};
use crate::program::{Quick, Select};

/// A name of the program in the source.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    NotYet,
    Absent,
    Known(NameId),
}

impl<'d> World<'d> {
    /// The id of a name in the source; none when no node has that name.
    fn name_id(&mut self, place: u32) -> Option<NameId> {
        let asked = self.names.get_mut(place as usize)?;
        if matches!(asked, Asked::NotYet) {
            let name = self.program.names.get(place as usize)?;
            let found = self.source.document().name_id(&name.namespace, &name.local);
            *asked = found.map_or(Asked::Absent, Asked::Known);
        }
        match asked {
            Asked::Known(id) => Some(*id),
            Asked::NotYet | Asked::Absent => None,
        }
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
                let id = self.world.name_id(name);
                let found = id.and_then(|id| node.attributes().find(|found| found.name() == id));
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
        let Some(id) = self.world.name_id(name) else { return Ok(Cow::Borrowed("")) };
        let mut looked_at = 0u64;
        let found = node.children().find(|child| {
            looked_at = looked_at.wrapping_add(1);
            child.name() == id && child.is_element()
        });
        self.spend_many(looked_at)?;
        Ok(found.map_or(Cow::Borrowed(""), Node::string_value))
    }

    /// The nodes, in document order, in a list that is given back when it is done with.
    pub(super) fn selected(&mut self, select: &'d Select) -> Ran<Vec<Item<'d>>> {
        let mut items = self.spare.pop().unwrap_or_default();
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
                let id = self.world.name_id(name);
                items.extend(attributes.filter(|found| Some(found.name()) == id).map(Item::from));
            }
            Quick::Child(name) => {
                self.world.at_source(context)?;
                let Some(id) = self.world.name_id(name) else { return Some(0) };
                let mut looked_at = 0u64;
                for child in children {
                    looked_at = looked_at.wrapping_add(1);
                    if child.name() == id && child.is_element() {
                        items.push(child.into());
                    }
                }
                return Some(looked_at);
            }
        }
        Some(items.len() as u64)
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
