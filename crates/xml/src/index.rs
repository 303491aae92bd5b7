//! Look-up tables of a document, each computed when it is first needed and dropped by the edits that
//! it doesn't survive.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::document::{ATTRIBUTE, Document, NO_PARENT, NONE, NodeId};
use crate::error::{Position, PositionIndex};
use crate::names::{EMPTY, Symbol, XML, XML_URI, number};
use crate::node::Node;

#[derive(Debug, Default)]
pub(crate) struct Indexes {
    /// The rank of each node in document order, for documents edited out of order.
    ranks: OnceLock<Box<[u32]>>,
    /// Nodes visited since the last edit to compare places without `ranks`.
    visited: AtomicU32,
    positions: OnceLock<PositionIndex>,
    /// Attributes of type ID by their value. A candidate counts only while it still has that value.
    ids: OnceLock<HashMap<Box<str>, Vec<u32>>>,
    shortcuts: OnceLock<Box<[Shortcut]>>,
    /// Levels climbed since the last edit without `shortcuts`.
    climbed: AtomicU32,
    /// The scope that was looked up last.
    scope: Mutex<Option<Arc<NamespaceScope>>>,
}

/// Facts about a node that would otherwise require climbing to an ancestor. As soon as climbing has cost as much as
/// computing all shortcuts, they are computed, once until the next edit, so that steps take amortised constant time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shortcut {
    /// The previous sibling, the last child, and [`Document::end`], for documents in order.
    pub(crate) previous: u32,
    pub(crate) last: u32,
    pub(crate) end: u32,
    /// The node itself or its nearest ancestor that declares namespaces, or the top of its tree.
    holder: u32,
}

/// Up to this many namespaces in scope are searched rather than hashed.
const FEW: usize = 8;

/// Levels that are climbed without a look at the shortcuts.
const LEVELS: u32 = 16;

/// The levels climbed on the way to an ancestor.
#[derive(Debug, Default)]
pub(crate) struct Climb {
    levels: u32,
}

impl Climb {
    /// Counts a level; true if the rest of the way is a shortcut.
    #[inline]
    pub(crate) fn ends(&mut self, document: &Document) -> bool {
        self.levels = self.levels.wrapping_add(1);
        self.levels.is_multiple_of(LEVELS) && self.is_long(document)
    }

    #[cold]
    fn is_long(&self, document: &Document) -> bool {
        let Indexes { shortcuts, climbed, .. } = &document.indexes;
        shortcuts.get().is_some()
            || climbed.fetch_add(LEVELS, Relaxed) as usize >= document.nodes.len()
    }
}

/// The namespaces in scope of an element, and of those below it that declare none.
#[derive(Debug)]
pub(crate) struct NamespaceScope {
    holder: u32,
    /// The number of elements and declarations that were read to find it.
    visited: usize,
    /// (prefix, URI): `xml` first, then nearest declarations first.
    bindings: Vec<(Symbol, Symbol)>,
}

impl NamespaceScope {
    pub(crate) fn bindings(&self) -> &[(Symbol, Symbol)] {
        &self.bindings
    }
}

impl Indexes {
    /// Drops the tables that depend on structure, after a node was moved, inserted or detached.
    pub(crate) fn structure_changed(&mut self) {
        self.ranks.take();
        *self.visited.get_mut() = 0;
        self.declarations_changed();
    }

    pub(crate) fn declarations_changed(&mut self) {
        self.shortcuts.take();
        *self.climbed.get_mut() = 0;
        *self.scope.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Updates the table of IDs after an attribute of type ID was given another value.
    pub(crate) fn id_changed(&mut self, value: &str, attribute: u32) {
        if let Some(ids) = self.ids.get_mut() {
            let known = ids.entry(value.into()).or_default();
            if !known.contains(&attribute) {
                known.push(attribute);
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let ids = self.ids.get().map_or(0, |ids| {
            let slots = ids.capacity() * size_of::<(Box<str>, Vec<u32>)>();
            let names: usize = ids.keys().map(|id| id.len()).sum();
            slots + names + ids.values().map(|all| size_of::<u32>() * all.capacity()).sum::<usize>()
        });
        let scope = self.scope.lock().unwrap_or_else(PoisonError::into_inner);
        ids + self.ranks.get().map_or(0, |ranks| size_of_val(&**ranks))
            + self.shortcuts.get().map_or(0, |shortcuts| size_of_val(&**shortcuts))
            + self.positions.get().map_or(0, PositionIndex::heap_bytes)
            + scope.as_ref().map_or(0, |scope| scope.bindings.capacity() * size_of::<(u32, u32)>())
    }
}

impl Document {
    /// The element with an attribute of type ID that has this value: the first in document order. The
    /// type is declared in the document type; an attribute that is added or renamed later has none.
    #[must_use]
    pub fn element_by_id(&self, id: &str) -> Option<Node<'_>> {
        let declared = self.declared.as_ref()?;
        let found = self.indexes.ids.get_or_init(|| self.index_ids(&declared.ids)).get(id)?;
        let mut owners = found.iter().filter_map(|&index| {
            let attribute = self.attribute(index)?;
            let holds = attribute.owner != NO_PARENT
                && declared.ids.contains(&index)
                && self.slice(attribute.start, attribute.len) == id;
            holds.then(|| Node::new(self, attribute.owner))
        });
        // In a document in order, so are the candidates, and no node is detached.
        if self.is_in_order() {
            return owners.next();
        }
        let attached = owners.filter(|owner| {
            let top = owner.ancestors().last();
            top.is_some_and(|top| top.index() == 0)
        });
        attached.min_by(|one, other| one.document_order(*other))
    }

    fn index_ids(&self, all: &HashSet<u32>) -> HashMap<Box<str>, Vec<u32>> {
        let mut ids: HashMap<Box<str>, Vec<u32>> = HashMap::new();
        for &index in all {
            if let Some(attribute) = self.attribute(index) {
                let value = self.slice(attribute.start, attribute.len);
                ids.entry(value.into()).or_default().push(index);
            }
        }
        ids.values_mut().for_each(|candidates| candidates.sort_unstable());
        ids
    }

    /// The place of byte `at` of the source.
    pub(crate) fn source_position(&self, at: u32) -> Position {
        let source = self.text.source();
        let index = self.indexes.positions.get_or_init(|| PositionIndex::new(source));
        index.position(source, at as usize)
    }

    /// The order of two nodes, neither an attribute, in a document edited out of order. Few comparisons
    /// look along ancestors and siblings; as soon as that has cost as much as ranking all nodes, they
    /// are ranked, once until the next edit.
    pub(crate) fn order_of(&self, one: u32, other: u32) -> Ordering {
        let visited = self.indexes.visited.load(Relaxed) as usize;
        if visited < self.nodes.len() && self.indexes.ranks.get().is_none() {
            let mut visited = 0;
            let order = order_by_path(Node::new(self, one), Node::new(self, other), &mut visited);
            self.indexes.visited.fetch_add(visited, Relaxed);
            return order;
        }
        let ranks = self.indexes.ranks.get_or_init(|| self.rank());
        // Nodes created since then are detached and rank behind all others.
        let rank = |index: u32| (ranks.get(index as usize).copied().unwrap_or(u32::MAX), index);
        rank(one).cmp(&rank(other))
    }

    fn rank(&self) -> Box<[u32]> {
        let mut ranks = vec![0; self.nodes.len()];
        for (rank, index) in (0..).zip(self.in_order()) {
            if let Some(slot) = ranks.get_mut(index as usize) {
                *slot = rank;
            }
        }
        ranks.into_boxed_slice()
    }

    /// The indexes of all nodes in document order, tree by tree.
    fn in_order(&self) -> impl Iterator<Item = u32> {
        let tops = (0..).zip(&self.nodes).filter(|(_, record)| record.parent == NO_PARENT);
        tops.flat_map(|(index, _)| {
            let below = Node::new(self, index).descendants().map(Node::index);
            std::iter::once(index).chain(below)
        })
    }

    #[cold]
    pub(crate) fn shortcut(&self, index: u32) -> Shortcut {
        let shortcuts = self.indexes.shortcuts.get_or_init(|| self.shortcuts());
        shortcuts.get(index as usize).copied().unwrap_or(self.no_shortcut(index))
    }

    fn no_shortcut(&self, index: u32) -> Shortcut {
        Shortcut { previous: NONE, last: NONE, end: number(self.nodes.len()), holder: index }
    }

    fn shortcuts(&self) -> Box<[Shortcut]> {
        let all = (0..).zip(&self.nodes);
        let mut all: Box<[Shortcut]> = all.map(|(index, _)| self.no_shortcut(index)).collect();
        for index in self.in_order() {
            let record = self.record(index);
            let mut own = self.no_shortcut(index);
            if let Some(parent) = all.get_mut(record.parent as usize) {
                own.previous = std::mem::replace(&mut parent.last, index);
                own.end = parent.end;
                if !self.declares(index) {
                    own.holder = parent.holder;
                }
            }
            if record.next != NONE {
                own.end = record.next;
            }
            if let Some(slot) = all.get_mut(index as usize) {
                *slot = own;
            }
        }
        all
    }

    fn declares(&self, index: u32) -> bool {
        self.tag(self.record(index)).is_some_and(|tag| tag.declaration != NONE)
    }

    /// The scope of an element, or of the element or root that another node is in.
    pub(crate) fn scope(&self, node: Node<'_>) -> Arc<NamespaceScope> {
        let holder = self.scope_holder(node);
        let mut last = self.indexes.scope.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = last.as_ref().filter(|scope| scope.holder == holder) {
            return Arc::clone(scope);
        }
        let mut bindings = Vec::with_capacity(FEW);
        bindings.push((XML, XML_URI));
        let (mut seen, mut visited) = (HashSet::new(), 0_usize);
        let mut next = Some(Node::new(self, holder));
        while let Some(declaring) = next {
            let declared = self.declarations_of(declaring.record());
            for (prefix, uri) in declared {
                visited = visited.saturating_add(1);
                let is_new = if bindings.len() < FEW {
                    bindings.iter().all(|(known, _)| *known != prefix)
                } else {
                    if seen.is_empty() {
                        seen.extend(bindings.iter().map(|(known, _)| *known));
                    }
                    seen.insert(prefix)
                };
                if is_new {
                    bindings.push((prefix, uri));
                }
            }
            visited = visited.saturating_add(1);
            next = declaring.parent().map(|above| Node::new(self, self.scope_holder(above)));
        }
        bindings.retain(|(_, uri)| *uri != EMPTY);
        let scope = Arc::new(NamespaceScope { holder, visited, bindings });
        *last = Some(Arc::clone(&scope));
        scope
    }

    /// The nearest element that declares namespaces, or the top of the tree.
    fn scope_holder(&self, node: Node<'_>) -> u32 {
        let mut holder = node.index();
        if holder & ATTRIBUTE != 0 {
            holder = self.attribute(holder).map_or(0, |attribute| attribute.owner);
        }
        let mut climb = Climb::default();
        loop {
            let parent = self.record(holder).parent;
            if parent == NO_PARENT || self.declares(holder) {
                return holder;
            }
            holder = parent;
            if climb.ends(self) {
                return self.shortcut(holder).holder;
            }
        }
    }
}

/// The namespaces in scope of a node, as (prefix, URI).
#[derive(Debug, Clone)]
pub struct NamespacesInScope<'d> {
    document: &'d Document,
    scope: Arc<NamespaceScope>,
    next: usize,
}

impl<'d> NamespacesInScope<'d> {
    pub(crate) fn new(node: Node<'d>) -> Self {
        let document = node.document();
        Self { document, scope: document.scope(node), next: 0 }
    }

    /// The number of elements and declarations that are read to find the namespaces, unless the document looked up
    /// those of the same [`holder`](Self::holder) before.
    #[must_use]
    pub fn visited(&self) -> usize {
        self.scope.visited
    }

    /// The nearest element that declares namespaces, or the top of the tree.
    #[must_use]
    pub fn holder(&self) -> NodeId {
        self.document.id_of(self.scope.holder)
    }
}

impl<'d> Iterator for NamespacesInScope<'d> {
    type Item = (&'d str, &'d str);

    fn next(&mut self) -> Option<Self::Item> {
        let &(prefix, uri) = self.scope.bindings.get(self.next)?;
        self.next = self.next.saturating_add(1);
        let names = &self.document.names;
        Some((names.str(prefix), names.str(uri)))
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.next = self.next.saturating_add(n);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.scope.bindings.len().saturating_sub(self.next);
        (left, Some(left))
    }

    fn count(self) -> usize {
        self.len()
    }
}

impl ExactSizeIterator for NamespacesInScope<'_> {}

/// Adds to `visited` how many nodes it visited.
fn order_by_path(one: Node<'_>, other: Node<'_>, visited: &mut u32) -> Ordering {
    let path = |node: Node<'_>| {
        let mut path: Vec<u32> = node.ancestors().map(Node::index).collect();
        path.reverse();
        path.push(node.index());
        path
    };
    let (ours, theirs) = (path(one), path(other));
    *visited = visited.saturating_add(number(ours.len())).saturating_add(number(theirs.len()));
    let fork = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    let Some(fork) = fork else { return ours.len().cmp(&theirs.len()) };
    let (Some(&a), Some(&b)) = (ours.get(fork), theirs.get(fork)) else { return Ordering::Equal };
    if fork == 0 {
        return a.cmp(&b);
    }
    // Searches in both directions at once, so that near siblings are found soon.
    let document = one.document();
    let (mut onward, mut back) = (Node::new(document, a), Node::new(document, a));
    loop {
        *visited = visited.saturating_add(2);
        match (onward.next_sibling(), back.previous_sibling()) {
            (Some(next), _) if next.index() == b => return Ordering::Less,
            (_, Some(previous)) if previous.index() == b => return Ordering::Greater,
            (None, None) => return a.cmp(&b),
            (next, previous) => {
                onward = next.unwrap_or(onward);
                back = previous.unwrap_or(back);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use crate::{Document, NodeId, QNameRef};

    /// A document of `count` children of the root element, appended last to first.
    fn reversed(count: usize) -> (Document, Vec<NodeId>) {
        let mut document = Document::parse(b"<a/>").unwrap();
        let root = document.element().unwrap().id();
        let mut ids: Vec<NodeId> =
            (0..count).map(|_| document.create_element(QNameRef::local("b")).unwrap()).collect();
        ids.reverse();
        for &id in &ids {
            document.append(root, id).unwrap();
        }
        (document, ids)
    }

    #[test]
    fn ordering_an_edited_document_visits_each_node_a_few_times() {
        const COUNT: usize = 5_000;
        let (mut document, mut ids) = reversed(COUNT);
        for round in 0..2 {
            let mut sorted = ids.clone();
            sorted.sort_by_key(|id| id.index);
            let node = |id: NodeId| document.node(id).unwrap();
            sorted.sort_by(|one, other| node(*one).document_order(node(*other)));
            assert_eq!(sorted, ids, "round {round}");
            let visited = document.indexes.visited.load(Relaxed) as usize;
            assert!(visited < 4 * COUNT, "{visited} nodes visited");
            // An edit moves the last child to the front.
            let last = ids.pop().unwrap();
            document.insert_before(*ids.first().unwrap(), last).unwrap();
            ids.insert(0, last);
        }
    }

    #[test]
    fn ranks_and_paths_agree() {
        let (mut document, ids) = reversed(20);
        let inner = document.create_text("t").unwrap();
        document.append(*ids.get(3).unwrap(), inner).unwrap();
        let detached = document.create_comment("c").unwrap();
        let all = [ids, vec![inner, detached, document.root().id()]].concat();
        document.indexes.visited.store(0, Relaxed);
        for &one in &all {
            for &other in &all {
                document.indexes.ranks.take();
                document.indexes.visited.store(0, Relaxed);
                let by_path = document.order_of(one.index, other.index);
                document.indexes.visited.store(u32::MAX, Relaxed);
                assert_eq!(document.order_of(one.index, other.index), by_path);
            }
        }
    }

    #[test]
    fn steps_back_take_constant_time_in_deep_documents() {
        const DEPTH: usize = 200;
        let chain =
            |text: &str| ["<a>".repeat(DEPTH), text.to_owned(), "</a>".repeat(DEPTH)].concat();
        let text =
            format!("<r xmlns='u'>{}<b/>{}<!--c--></r>", chain("x"), chain("<d xmlns='v'/>"));
        let deep = Document::parse(text.as_bytes()).unwrap();
        let before = deep.heap_bytes();
        // A copy out of order has links.
        let mut linked = deep.clone();
        linked.create_text("detached").unwrap();
        let all = 0..u32::try_from(deep.nodes.len()).unwrap();
        assert!(deep.indexes.shortcuts.get().is_none());
        for index in all.clone().chain(all) {
            assert_eq!(deep.previous(index), linked.previous(index), "{index}");
            assert_eq!(deep.last(index), linked.last(index), "{index}");
            let node = crate::Node::new(&deep, index);
            let end = index as usize + 1 + node.descendants().count();
            assert_eq!(deep.end(index) as usize, end, "{index}");
            let declares = |node: &crate::Node<'_>| node.declarations().next().is_some();
            let holder = std::iter::once(node).chain(node.ancestors()).find(declares);
            let holder = holder.map_or(0, crate::Node::index);
            assert_eq!(deep.scope_holder(node), holder, "{index}");
            assert_eq!(linked.scope_holder(crate::Node::new(&linked, index)), holder, "{index}");
        }
        let shortcuts = deep.nodes.len() * size_of::<super::Shortcut>();
        assert!(deep.heap_bytes() >= before + shortcuts);
        // As many levels as nodes, and those of the last climb before the shortcuts.
        let climbed = deep.indexes.climbed.load(Relaxed) as usize;
        assert!(climbed <= deep.nodes.len() + DEPTH, "{climbed}");
        let flat =
            Document::parse(format!("<r>{}</r>", "<a><b/></a>".repeat(DEPTH)).as_bytes()).unwrap();
        for index in 0..u32::try_from(flat.nodes.len()).unwrap() {
            let _ = (flat.previous(index), flat.last(index), flat.end(index));
        }
        assert!(flat.indexes.shortcuts.get().is_none(), "shallow documents need none");
    }

    #[test]
    fn a_scope_is_computed_once_for_all_that_share_it() {
        let mut document =
            Document::parse(b"<a xmlns:p='1'><b/><c xmlns:p='2' xmlns='3'><d/></c></a>").unwrap();
        let find = |document: &Document, name: &str| {
            document.root().descendants().find(|node| node.local_name() == name).unwrap().id()
        };
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| find(&document, name));
        let scope = |document: &Document, id| document.scope(document.node(id).unwrap());
        let shared = |one, other| Arc::ptr_eq(&scope(&document, one), &scope(&document, other));
        assert!(shared(a, b) && shared(c, d) && !shared(a, c));
        let in_scope = |document: &Document, id: NodeId| {
            let all = document.node(id).unwrap().namespaces_in_scope();
            all.map(|(prefix, uri)| format!("{prefix}={uri}")).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(in_scope(&document, d), ["p=2", "=3"]);
        assert_eq!(document.node(d).unwrap().namespaces_in_scope().nth(2), Some(("", "3")));
        assert_eq!(document.node(d).unwrap().namespaces_in_scope().count(), 3);
        document.declare_namespace(c, "p", "4").unwrap();
        assert_eq!(in_scope(&document, d), ["p=4", "=3"]);
        document.append(a, d).unwrap();
        assert_eq!(in_scope(&document, d), ["p=1"]);
    }
}
