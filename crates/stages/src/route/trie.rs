//! The templates of an API as a trie with one level per segment, stored in a few flat slices.
//!
//! Precedence, segment by segment from the left: a literal, then mixed segments (more text first), then a
//! parameter, then `/*`. The search backtracks from a branch without a template for the method, so it finds the
//! best template that has the method.
//!
//! A search visits each node at most once, so the number of nodes bounds its cost for any path.
//!
//! `/pets` and `/pets/` are two templates; if only one of them has the method, it serves both, as in WSO2 (whose
//! `URITemplate` drops a trailing slash, and treats an empty path as `/`).

use std::collections::BTreeMap;

use base::{Method, limits};
use model::{MethodSet, Operation};

use super::template::{self, End, Pattern, Segment, Template};

#[derive(Debug)]
pub(super) struct Trie {
    /// The root is the first.
    nodes: Box<[Node]>,
    /// A node's edges are contiguous: literal ones sorted by text, mixed ones by specificity.
    edges: Box<[Edge]>,
    /// Operation indices. The ones of a leaf are contiguous, in the order of its methods.
    operations: Box<[u32]>,
    text: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    literals: Run,
    mixed: Run,
    /// Index of a node, or [`NO_NODE`].
    parameter: u32,
    bare: Leaf,
    slash: Leaf,
    rest: Leaf,
}

/// A range of another slice.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    start: u32,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    text: Run,
    node: u32,
}

/// The methods of one template, and the index of their first operation.
#[derive(Clone, Copy, Debug, Default)]
struct Leaf {
    start: u32,
    methods: MethodSet,
}

const NO_NODE: u32 = u32::MAX;

impl Run {
    fn of<T>(self, slice: &[T]) -> &[T] {
        let start = self.start as usize;
        slice.get(start..start + self.len as usize).unwrap_or_default()
    }
}

impl Trie {
    /// The operation whose template wins for `path`, the path below the base path.
    ///
    /// # Errors
    /// The methods of all matching templates, if none of them has `method`.
    pub(super) fn find(&self, method: Method, path: &[u8]) -> Result<usize, MethodSet> {
        let (path, slash) = match path.strip_suffix(b"/") {
            Some(path) => (path, true),
            None => (path, false),
        };
        let mut search = Search { trie: self, method, slash, offered: MethodSet::EMPTY };
        search.below(0, path).ok_or(search.offered)
    }

    fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(index as usize)
    }

    fn text(&self, edge: &Edge) -> &[u8] {
        edge.text.of(&self.text)
    }

    /// The child for the literal `segment`.
    fn literal(&self, node: &Node, segment: &[u8]) -> Option<u32> {
        let edges = node.literals.of(&self.edges);
        let at = edges.binary_search_by(|edge| self.text(edge).cmp(segment)).ok()?;
        edges.get(at).map(|edge| edge.node)
    }
}

struct Search<'a> {
    trie: &'a Trie,
    method: Method,
    /// Whether the path ends with a slash, which is already removed.
    slash: bool,
    /// Methods of the matching templates that lack `method`.
    offered: MethodSet,
}

impl Search<'_> {
    /// `path`: empty, or starts with a slash. No deeper than `limits::TEMPLATE_SEGMENTS_MAX`.
    fn below(&mut self, index: u32, path: &[u8]) -> Option<usize> {
        let node = self.trie.node(index)?;
        let found = match path.split_first() {
            None => self.at_end(node),
            Some(_) if node.is_last() => None,
            Some((_, path)) => self.descend(node, path),
        };
        found.or_else(|| self.leaf(node.rest))
    }

    /// The operation at the end of the path.
    fn at_end(&mut self, node: &Node) -> Option<usize> {
        let (same, other) =
            if self.slash { (node.slash, node.bare) } else { (node.bare, node.slash) };
        self.leaf(same).or_else(|| self.leaf(other))
    }

    /// `path`: without its leading slash.
    fn descend(&mut self, node: &Node, path: &[u8]) -> Option<usize> {
        let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
        let (segment, path) = path.split_at_checked(end)?;
        let segment = &*template::canonical(segment);
        self.by_literal(node, segment, path)
            .or_else(|| self.by_pattern(node, segment, path))
            .or_else(|| if segment.is_empty() { None } else { self.below(node.parameter, path) })
    }

    fn by_literal(&mut self, node: &Node, segment: &[u8], path: &[u8]) -> Option<usize> {
        let next = self.trie.literal(node, segment)?;
        self.below(next, path)
    }

    fn by_pattern(&mut self, node: &Node, segment: &[u8], path: &[u8]) -> Option<usize> {
        let trie = self.trie;
        let edges = node.mixed.of(&trie.edges).iter();
        edges
            .filter(|edge| template::matches(trie.text(edge), segment))
            .find_map(|edge| self.below(edge.node, path))
    }

    fn leaf(&mut self, leaf: Leaf) -> Option<usize> {
        if !leaf.methods.contains(self.method) {
            self.offered = self.offered.union(leaf.methods);
            return None;
        }
        let at = leaf.start as usize + leaf.methods.rank(self.method);
        self.trie.operations.get(at).map(|operation| *operation as usize)
    }
}

impl Node {
    fn is_last(&self) -> bool {
        self.literals.len == 0 && self.mixed.len == 0 && self.parameter == NO_NODE
    }
}

/// A node while the trie is built.
#[derive(Default)]
struct NodeBuilder {
    literals: BTreeMap<Vec<u8>, Self>,
    mixed: Vec<(Pattern, Self)>,
    parameter: Option<Box<Self>>,
    bare: BTreeMap<Method, u32>,
    slash: BTreeMap<Method, u32>,
    rest: BTreeMap<Method, u32>,
}

impl Trie {
    /// If two operations have the same method and, except for parameter names, the same template, the first is used.
    /// Templates with more than `limits::TEMPLATE_SEGMENTS_MAX` segments, which `formats` rejects, are ignored.
    pub(super) fn build(operations: &[Operation]) -> Self {
        let mut root = NodeBuilder::default();
        for (index, operation) in (0..).zip(operations) {
            let template = Template::read(&operation.template);
            if template.segments.len() <= limits::TEMPLATE_SEGMENTS_MAX {
                let node = template.segments.into_iter().fold(&mut root, NodeBuilder::child);
                node.leaf(template.end).entry(operation.method).or_insert(index);
            }
        }
        let mut builder = TrieBuilder::default();
        builder.node(root);
        builder.finish()
    }
}

impl NodeBuilder {
    fn child(&mut self, segment: Segment) -> &mut Self {
        match segment {
            Segment::Literal(text) => self.literals.entry(text).or_default(),
            Segment::Parameter => self.parameter.get_or_insert_default(),
            Segment::Mixed(pattern) => {
                let at = self
                    .mixed
                    .binary_search_by(|(other, _)| other.specificity().cmp(&pattern.specificity()))
                    .unwrap_or_else(|at| {
                        self.mixed.insert(at, (pattern, Self::default()));
                        at
                    });
                &mut self.mixed[at].1
            }
        }
    }

    fn leaf(&mut self, end: End) -> &mut BTreeMap<Method, u32> {
        match end {
            End::Bare => &mut self.bare,
            End::Slash => &mut self.slash,
            End::Rest => &mut self.rest,
        }
    }
}

/// The slices of a [`Trie`] while it is built.
#[derive(Default)]
struct TrieBuilder {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    operations: Vec<u32>,
    text: Vec<u8>,
}

impl TrieBuilder {
    fn node(&mut self, source: NodeBuilder) -> u32 {
        let node = Node {
            literals: Run::default(),
            mixed: Run::default(),
            parameter: NO_NODE,
            bare: self.leaf(&source.bare),
            slash: self.leaf(&source.slash),
            rest: self.leaf(&source.rest),
        };
        let index = self.nodes.len();
        self.nodes.push(node);
        let literals = self.run(source.literals.into_iter());
        let mixed = source.mixed.into_iter().map(|(Pattern(text), child)| (text, child));
        let mixed = self.run(mixed);
        let parameter = source.parameter.map_or(NO_NODE, |child| self.node(*child));
        self.nodes[index] = Node { literals, mixed, parameter, ..node };
        count(index)
    }

    /// Children first, so that the edges of a node are contiguous.
    fn run(&mut self, children: impl Iterator<Item = (Vec<u8>, NodeBuilder)>) -> Run {
        let edges: Vec<Edge> = children
            .map(|(text, child)| {
                let start = count(self.text.len());
                self.text.extend_from_slice(&text);
                let text = Run { start, len: count(text.len()) };
                Edge { text, node: self.node(child) }
            })
            .collect();
        let run = Run { start: count(self.edges.len()), len: count(edges.len()) };
        self.edges.extend(edges);
        run
    }

    fn leaf(&mut self, operations: &BTreeMap<Method, u32>) -> Leaf {
        let start = count(self.operations.len());
        self.operations.extend(operations.values());
        Leaf { start, methods: operations.keys().copied().collect() }
    }

    fn finish(self) -> Trie {
        Trie {
            nodes: self.nodes.into(),
            edges: self.edges.into(),
            operations: self.operations.into(),
            text: self.text.into(),
        }
    }
}

/// # Panics
/// Beyond 2^32, which `limits::DOCUMENT_BYTES_MAX` excludes.
fn count(number: usize) -> u32 {
    u32::try_from(number).expect("documents are smaller than 4 GiB")
}
