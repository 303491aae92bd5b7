//! Nodes of the XPath data model, namespace nodes included, and sets of them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use xml::{Kind, Node, NodeFilter};

use crate::budget::{Budget, BudgetExceeded};

/// A node of the tree, or a namespace node of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Item<'d> {
    node: Node<'d>,
    /// 0: the node itself. Otherwise 1 + the index among the element's namespaces in scope.
    namespace: u32,
}

impl<'d> From<Node<'d>> for Item<'d> {
    fn from(node: Node<'d>) -> Self {
        Self { node, namespace: 0 }
    }
}

impl<'d> Item<'d> {
    pub(crate) fn namespace_node(element: Node<'d>, index: u32) -> Self {
        Self { node: element, namespace: index.saturating_add(1) }
    }

    /// The node of the tree; none if it is a namespace node.
    #[inline]
    #[must_use]
    pub fn node(self) -> Option<Node<'d>> {
        (self.namespace == 0).then_some(self.node)
    }

    /// The node itself, or the element of a namespace node.
    #[must_use]
    pub fn holder(self) -> Node<'d> {
        self.node
    }

    #[must_use]
    pub fn kind(self) -> Kind {
        if self.namespace == 0 { self.node.kind() } else { Kind::Namespace }
    }

    /// The prefix and the URI of a namespace node.
    #[must_use]
    pub fn binding(self) -> Option<(&'d str, &'d str)> {
        let index = usize::try_from(self.namespace.checked_sub(1)?).ok()?;
        self.node.namespaces_in_scope().nth(index)
    }

    #[inline]
    #[must_use]
    pub fn parent(self) -> Option<Self> {
        if self.namespace == 0 {
            self.node.parent().map(Self::from)
        } else {
            Some(self.node.into())
        }
    }

    /// The string-value: section 5. Not charged to a budget.
    #[must_use]
    pub fn string_value(self) -> Cow<'d, str> {
        match self.binding() {
            Some((_, uri)) => Cow::Borrowed(uri),
            None => self.node.string_value(),
        }
    }

    /// The string-value, with the nodes and the text charged before they are read. Text that is in one
    /// piece in the document is borrowed.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    #[inline]
    pub fn charged_string_value(self, budget: &Budget) -> Result<Cow<'d, str>, BudgetExceeded> {
        match self.node().and_then(Node::sole_text) {
            Some(text) => {
                budget.charge_reading(text.len())?;
                Ok(Cow::Borrowed(text))
            }
            None => self.joined_string_value(budget),
        }
    }

    /// The string-value of any node other than an element with a single text.
    fn joined_string_value(self, budget: &Budget) -> Result<Cow<'d, str>, BudgetExceeded> {
        let Some(node) = self.node() else {
            self.charge_scope(budget)?;
            let uri = self.binding().map_or("", |(_, uri)| uri);
            budget.charge_reading(uri.len())?;
            return Ok(Cow::Borrowed(uri));
        };
        if !node.is_element() && node.kind() != Kind::Root {
            let text = node.text();
            budget.charge_reading(text.len())?;
            return Ok(Cow::Borrowed(text));
        }
        let mut all = Cow::Borrowed("");
        let mut texts = node.filtered_descendants(NodeFilter::kind(Kind::Text));
        while let Some(inside) = texts.next() {
            let text = inside.text();
            budget.charge_steps(texts.take_visited())?;
            budget.charge_reading(text.len())?;
            if all.is_empty() {
                all = Cow::Borrowed(text);
            } else {
                append(all.to_mut(), text, budget)?;
            }
        }
        budget.charge_steps(texts.take_visited())?;
        Ok(all)
    }

    /// Charges the cost of reading the prefix and the URI of a namespace node; other nodes are free.
    pub(crate) fn charge_scope(self, budget: &Budget) -> Result<(), BudgetExceeded> {
        if self.namespace == 0 { Ok(()) } else { budget.charge_scope(self.node) }
    }

    /// The local part of the expanded name; empty for a node without a name.
    #[must_use]
    pub fn local_name(self) -> &'d str {
        self.binding().map_or_else(|| self.node.local_name(), |(prefix, _)| prefix)
    }

    /// The namespace of the expanded name; empty if there is none.
    #[must_use]
    pub fn namespace_uri(self) -> &'d str {
        if self.namespace == 0 { self.node.namespace() } else { "" }
    }

    /// The name with its prefix.
    #[must_use]
    pub fn qualified_name(self) -> Cow<'d, str> {
        let local = self.local_name();
        let prefix = if self.namespace == 0 { self.node.prefix() } else { "" };
        if prefix.is_empty() {
            Cow::Borrowed(local)
        } else {
            Cow::Owned([prefix, ":", local].concat())
        }
    }

    /// Document order: a node comes before its namespace nodes, these before its attributes, and these
    /// before its children: section 5.
    #[inline]
    #[must_use]
    pub fn document_order(self, other: Self) -> Ordering {
        if (self.namespace, other.namespace) == (0, 0) {
            return self.node.document_order(other.node);
        }
        self.order_of_namespaces(other)
    }

    fn order_of_namespaces(self, other: Self) -> Ordering {
        match (self.namespace, other.namespace) {
            (mine, theirs) if self.node == other.node => mine.cmp(&theirs),
            (0, _) if self.is_attribute_of(other) => Ordering::Greater,
            (_, 0) if other.is_attribute_of(self) => Ordering::Less,
            _ => self.node.document_order(other.node),
        }
    }

    fn is_attribute_of(self, other: Self) -> bool {
        self.kind() == Kind::Attribute && self.node.parent() == Some(other.node)
    }
}

/// Nodes in document order, without duplicates.
#[derive(Debug, Clone)]
pub struct NodeSet<'d>(Nodes<'d>);

#[derive(Debug, Clone)]
enum Nodes<'d> {
    Own(Vec<Item<'d>>),
    Shared(Arc<Vec<Item<'d>>>),
}

impl Default for NodeSet<'_> {
    fn default() -> Self {
        Self(Nodes::Own(Vec::new()))
    }
}

impl PartialEq for NodeSet<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.items() == other.items()
    }
}

impl<'d> NodeSet<'d> {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sorts the nodes and removes duplicates.
    #[must_use]
    pub fn from_unordered(mut items: Vec<Item<'d>>) -> Self {
        put_in_order(&mut items);
        Self(Nodes::Own(items))
    }

    pub(crate) fn from_ordered(items: Vec<Item<'d>>) -> Self {
        Self(Nodes::Own(items))
    }

    /// Returns a set whose clones share its nodes, so that cloning costs nothing.
    #[must_use]
    pub fn into_shared(self) -> Self {
        Self(match self.0 {
            Nodes::Own(items) => Nodes::Shared(Arc::new(items)),
            shared @ Nodes::Shared(_) => shared,
        })
    }

    /// The nodes; a copy of shared ones is charged before it is made.
    pub(crate) fn charged_items(self, budget: &Budget) -> Result<Vec<Item<'d>>, BudgetExceeded> {
        budget.charge_reading(self.copied_bytes())?;
        budget.charge_memory(self.copied_bytes())?;
        Ok(self.into_items())
    }

    /// The bytes that [`NodeSet::into_items`] copies.
    fn copied_bytes(&self) -> usize {
        match &self.0 {
            Nodes::Own(_) => 0,
            Nodes::Shared(items) => size_of_val(items.as_slice()),
        }
    }

    /// The bytes that a clone takes.
    pub(crate) fn clone_bytes(&self) -> usize {
        match &self.0 {
            Nodes::Own(items) => size_of_val(items.as_slice()),
            Nodes::Shared(_) => 0,
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.items().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items().is_empty()
    }

    #[must_use]
    pub fn first(&self) -> Option<Item<'d>> {
        self.items().first().copied()
    }

    #[must_use]
    pub fn get(&self, index: usize) -> Option<Item<'d>> {
        self.items().get(index).copied()
    }

    #[must_use]
    pub fn contains(&self, item: Item<'d>) -> bool {
        self.items().binary_search_by(|known| known.document_order(item)).is_ok()
    }

    pub fn iter(&self) -> std::iter::Copied<std::slice::Iter<'_, Item<'d>>> {
        self.items().iter().copied()
    }

    /// Copies nodes that are shared.
    #[must_use]
    pub fn into_items(self) -> Vec<Item<'d>> {
        match self.0 {
            Nodes::Own(items) => items,
            Nodes::Shared(items) => Arc::unwrap_or_clone(items),
        }
    }

    #[must_use]
    pub fn items(&self) -> &[Item<'d>] {
        match &self.0 {
            Nodes::Own(items) => items,
            Nodes::Shared(items) => items,
        }
    }
}

impl<'d> From<Node<'d>> for NodeSet<'d> {
    fn from(node: Node<'d>) -> Self {
        Self(Nodes::Own(vec![node.into()]))
    }
}

impl<'d> From<Item<'d>> for NodeSet<'d> {
    fn from(item: Item<'d>) -> Self {
        Self(Nodes::Own(vec![item]))
    }
}

impl<'d> IntoIterator for NodeSet<'d> {
    type Item = Item<'d>;
    type IntoIter = std::vec::IntoIter<Item<'d>>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_items().into_iter()
    }
}

impl<'s, 'd> IntoIterator for &'s NodeSet<'d> {
    type Item = Item<'d>;
    type IntoIter = std::iter::Copied<std::slice::Iter<'s, Item<'d>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Whether each node comes before the next one in document order.
pub(crate) fn is_in_order(items: &[Item<'_>]) -> bool {
    items.is_sorted_by(|one, other| one.document_order(*other) == Ordering::Less)
}

/// Sorts by document order and removes duplicates, in linear time if the nodes consist of a few runs that
/// are sorted one way or the other.
pub(crate) fn put_in_order(items: &mut Vec<Item<'_>>) {
    items.sort_by(|one, other| one.document_order(*other));
    items.dedup();
}

/// Appends text; the memory for it is charged first.
pub(crate) fn append(all: &mut String, text: &str, budget: &Budget) -> Result<(), BudgetExceeded> {
    budget.charge_memory(text.len())?;
    all.push_str(text);
    Ok(())
}
