//! Evaluates selections: common ones directly, all others by XPath.

use std::borrow::Cow;

use xml::{NameId, Node, NodeFilter, Row};
use xpath::{Context, Item};

use super::machine::Machine;
use super::{RunResult, State};
use crate::program::{Select, Shortcut};

/// A name of the program as a name of the source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum SourceName {
    #[default]
    Unknown,
    Absent,
    Known(NameId, NodeFilter),
}

impl<'d> State<'d> {
    /// The name in the source; none if no node has it.
    #[inline]
    fn source_name(&mut self, index: u32) -> Option<(NameId, NodeFilter)> {
        self.find_source_name(index);
        match self.names.get(index as usize)? {
            SourceName::Known(id, filter) => Some((*id, *filter)),
            SourceName::Absent | SourceName::Unknown => None,
        }
    }

    /// Looks up the name in the source and remembers it.
    #[inline]
    fn find_source_name(&mut self, index: u32) {
        if let Some(SourceName::Unknown) = self.names.get(index as usize) {
            self.look_up(index);
        }
    }

    #[cold]
    fn look_up(&mut self, index: u32) {
        let Some(name) = self.program.names.get(index as usize) else { return };
        let document = self.source.document();
        let found = document.name_id(&name.namespace, &name.local);
        if let Some(name) = self.names.get_mut(index as usize) {
            let known = |id| SourceName::Known(id, NodeFilter::name(document, id));
            *name = found.map_or(SourceName::Absent, known);
        }
    }

    /// The context node, if it belongs to the source.
    #[inline]
    pub(super) fn in_source(&self, context: Context<'d>) -> Option<Node<'d>> {
        let node = context.item.node()?;
        std::ptr::eq(node.document(), self.source.document()).then_some(node)
    }

    /// The text of the first child of that name, if the child contains only a text. `None` if [`Machine::string`] has
    /// to evaluate it, or report the error. `row` has the remaining children, none of the earlier ones having that
    /// name; its owner charges the nodes that it visits.
    #[inline(always)]
    pub(super) fn text_in(
        &mut self,
        node: Node<'d>,
        name: u32,
        row: Option<&mut Row<'d>>,
    ) -> Option<&'d str> {
        self.find_source_name(name);
        let Some(SourceName::Known(_, filter)) = self.names.get(name as usize) else {
            return Some("");
        };
        let (filter, budget) = (*filter, self.budget);
        let found = match row.and_then(|row| row.next_if(filter)) {
            None => {
                let mut children = node.filtered_children(filter);
                let found = children.next();
                budget.charge_steps(children.take_visited()).ok()?;
                found
            }
            next => next,
        };
        let text = found.map_or(Some(""), Node::sole_text)?;
        budget.charge_reading(text.len()).ok()?;
        Some(text)
    }
}

impl<'d> Machine<'_, 'd> {
    /// The value as a string.
    pub(super) fn string(&mut self, select: &'d Select) -> RunResult<Cow<'d, str>> {
        let context = self.registers.context;
        match (select.shortcut, self.state.in_source(context)) {
            (Shortcut::Context, _) => Ok(context.item.charged_string_value(self.state.budget)?),
            (Shortcut::Child(name), Some(node)) => self.child(node, name),
            (Shortcut::Attribute(name), Some(node)) => {
                let id = self.state.source_name(name);
                let found =
                    id.and_then(|(id, _)| node.attributes().find(|found| found.name() == id));
                Ok(Cow::Borrowed(found.map_or("", Node::text)))
            }
            (
                Shortcut::None
                | Shortcut::Child(_)
                | Shortcut::Attribute(_)
                | Shortcut::Children
                | Shortcut::Attributes
                | Shortcut::Everything,
                _,
            ) => self.string_of(&select.expression),
        }
    }

    /// The string-value of the first child of that name.
    fn child(&mut self, node: Node<'d>, name: u32) -> RunResult<Cow<'d, str>> {
        let Some((_, filter)) = self.state.source_name(name) else { return Ok(Cow::Borrowed("")) };
        let mut children = node.filtered_children(filter);
        let found = children.next();
        self.state.budget.charge_steps(children.take_visited())?;
        let Some(found) = found else { return Ok(Cow::Borrowed("")) };
        Ok(Item::from(found).charged_string_value(self.state.budget)?)
    }

    /// The nodes in document order, in a list to be recycled.
    pub(super) fn selected(&mut self, select: &'d Select) -> RunResult<Vec<Item<'d>>> {
        let mut items = self.list();
        if let Some(visited) = self.collect(select.shortcut, &mut items) {
            self.state.budget.charge_steps(visited)?;
            return Ok(items);
        }
        self.recycle(items);
        self.nodes(&select.expression)
    }

    /// Returns the number of nodes visited; `None` without a shortcut.
    fn collect(&mut self, shortcut: Shortcut, items: &mut Vec<Item<'d>>) -> Option<u64> {
        let context = self.registers.context;
        if shortcut == Shortcut::Context {
            items.push(context.item);
            return Some(1);
        }
        let node = context.item.node()?;
        let (children, attributes) = (node.children(), node.attributes());
        match shortcut {
            Shortcut::None | Shortcut::Context => return None,
            Shortcut::Children => items.extend(children.map(Item::from)),
            Shortcut::Attributes => items.extend(attributes.map(Item::from)),
            Shortcut::Everything => {
                items.extend(attributes.map(Item::from));
                items.extend(children.map(Item::from));
            }
            Shortcut::Attribute(name) => {
                self.state.in_source(context)?;
                let Some((id, _)) = self.state.source_name(name) else { return Some(0) };
                items.extend(attributes.filter(|found| found.name() == id).map(Item::from));
            }
            Shortcut::Child(name) => {
                self.state.in_source(context)?;
                let Some((_, filter)) = self.state.source_name(name) else { return Some(0) };
                let mut found = node.filtered_children(filter);
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

    /// Keeps a list for reuse.
    pub(super) fn recycle(&mut self, mut items: Vec<Item<'d>>) {
        if self.spare.len() < SPARE_MAX {
            items.clear();
            self.spare.push(items);
        }
    }
}

/// Maximum number of lists that are kept for reuse.
const SPARE_MAX: usize = 64;
/// Initial capacity of a list: the children of most elements.
const LIST_NODES: usize = 16;
