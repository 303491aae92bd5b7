//! Iterates over the nodes of an axis in the order of the axis: XPath 1.0 section 2.2.

use xml::{Ancestors, Attributes, Children, Descendants, Kind, Node};

use crate::axis::Axis;
use crate::item::Item;

pub(crate) enum Walk<'d> {
    One(Option<Item<'d>>),
    Children(Children<'d>),
    Descendants(Option<Node<'d>>, Descendants<'d>),
    Ancestors(Option<Item<'d>>, Option<Item<'d>>, Ancestors<'d>),
    Forward(Option<Node<'d>>),
    Backward(Option<Node<'d>>),
    Following { next: Option<Node<'d>>, passed: u64 },
    Preceding { at: Node<'d>, above: Option<Node<'d>>, passed: u64 },
    Attributes(Attributes<'d>),
    Namespaces { element: Node<'d>, index: u32, count: u32 },
    Empty,
}

impl<'d> Walk<'d> {
    pub(crate) fn new(axis: Axis, item: Item<'d>) -> Self {
        let Some(node) = item.node() else { return Self::of_namespace_node(axis, item) };
        match axis {
            Axis::SelfNode => Self::One(Some(item)),
            Axis::Parent => Self::One(item.parent()),
            Axis::Child => Self::Children(node.children()),
            Axis::Attribute => Self::Attributes(node.attributes()),
            Axis::Descendant => Self::Descendants(None, node.descendants()),
            Axis::DescendantOrSelf => Self::Descendants(Some(node), node.descendants()),
            Axis::Ancestor => Self::Ancestors(None, None, node.ancestors()),
            Axis::AncestorOrSelf => Self::Ancestors(None, Some(item), node.ancestors()),
            Axis::FollowingSibling => Self::Forward(node.next_sibling()),
            Axis::PrecedingSibling => Self::Backward(node.previous_sibling()),
            Axis::Following => Self::following(|passed| first_following(node, passed)),
            Axis::Preceding => {
                let at = if node.kind() == Kind::Attribute { node.parent() } else { Some(node) };
                at.map_or(Self::Empty, |at| Self::Preceding { at, above: at.parent(), passed: 0 })
            }
            Axis::Namespace => {
                if !node.is_element() {
                    return Self::Empty;
                }
                let count = node.namespaces_in_scope().count();
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                Self::Namespaces { element: node, index: 0, count }
            }
        }
    }

    fn following(start: impl FnOnce(&mut u64) -> Option<Node<'d>>) -> Self {
        let mut passed = 0;
        Self::Following { next: start(&mut passed), passed }
    }

    /// The nodes that were passed on the way to the last one, since the last call.
    pub(crate) fn passed(&mut self) -> u64 {
        let (Self::Following { passed, .. } | Self::Preceding { passed, .. }) = self else {
            return 0;
        };
        std::mem::take(passed)
    }

    /// A namespace node has a parent and no descendants. In document order it is between its element and the
    /// first child of the element.
    fn of_namespace_node(axis: Axis, item: Item<'d>) -> Self {
        let element = item.holder();
        match axis {
            Axis::SelfNode | Axis::DescendantOrSelf => Self::One(Some(item)),
            Axis::Parent => Self::One(item.parent()),
            Axis::Ancestor => Self::Ancestors(None, item.parent(), element.ancestors()),
            Axis::AncestorOrSelf => Self::Ancestors(Some(item), item.parent(), element.ancestors()),
            Axis::Following => Self::following(|passed| inside_or_after(element, passed)),
            Axis::Preceding => Self::Preceding { at: element, above: element.parent(), passed: 0 },
            Axis::Child
            | Axis::Attribute
            | Axis::Descendant
            | Axis::FollowingSibling
            | Axis::PrecedingSibling
            | Axis::Namespace => Self::Empty,
        }
    }
}

impl<'d> Iterator for Walk<'d> {
    type Item = Item<'d>;

    fn next(&mut self) -> Option<Item<'d>> {
        match self {
            Self::One(item) => item.take(),
            Self::Children(children) => children.next().map(Item::from),
            Self::Descendants(top, below) => top.take().or_else(|| below.next()).map(Item::from),
            Self::Ancestors(first, second, above) => {
                first.take().or_else(|| second.take()).or_else(|| above.next().map(Item::from))
            }
            Self::Forward(next) => {
                let node = (*next)?;
                *next = node.next_sibling();
                Some(node.into())
            }
            Self::Backward(next) => {
                let node = (*next)?;
                *next = node.previous_sibling();
                Some(node.into())
            }
            Self::Following { next, passed } => {
                let node = (*next)?;
                *next = inside_or_after(node, passed);
                Some(node.into())
            }
            Self::Preceding { at, above, passed } => preceding(at, above, passed).map(Item::from),
            Self::Attributes(attributes) => attributes.next().map(Item::from),
            Self::Namespaces { element, index, count } => {
                let this = (*index < *count).then_some(*index)?;
                *index += 1;
                Some(Item::namespace_node(*element, this))
            }
            Self::Empty => None,
        }
    }
}

/// The first node after the descendants of `node`. The children of its element follow an attribute.
fn first_following<'d>(node: Node<'d>, passed: &mut u64) -> Option<Node<'d>> {
    if node.kind() == Kind::Attribute {
        inside_or_after(node.parent()?, passed)
    } else {
        after(node, passed)
    }
}

/// The next node in document order.
fn inside_or_after<'d>(node: Node<'d>, passed: &mut u64) -> Option<Node<'d>> {
    node.first_child().or_else(|| after(node, passed))
}

/// The next sibling of the node, or of its nearest ancestor that has one.
fn after<'d>(mut node: Node<'d>, passed: &mut u64) -> Option<Node<'d>> {
    loop {
        if let Some(next) = node.next_sibling() {
            return Some(next);
        }
        *passed += 1;
        node = node.parent()?;
    }
}

/// The previous node in document order that isn't an ancestor; `above` is the nearest ancestor to skip.
fn preceding<'d>(
    at: &mut Node<'d>,
    above: &mut Option<Node<'d>>,
    passed: &mut u64,
) -> Option<Node<'d>> {
    loop {
        if let Some(mut before) = at.previous_sibling() {
            while let Some(last) = before.last_child() {
                *passed += 1;
                before = last;
            }
            *at = before;
            return Some(before);
        }
        *passed += 1;
        *at = at.parent()?;
        if Some(*at) != *above {
            return Some(*at);
        }
        *above = at.parent();
    }
}
