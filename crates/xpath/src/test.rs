//! Node tests, resolved for one document: XPath 1.0 section 2.3.

use xml::{Document, Kind, NameId, Node, NodeFilter};

use crate::item::Item;
use crate::plan::Test;

/// A test whose name is resolved to the document's number for it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ready<'a> {
    /// No node of the document passes.
    Never,
    Node,
    Principal,
    Namespace(&'a str),
    Name(NameId),
    Text,
    Comment,
    Instruction(Option<&'a str>),
}

impl Test {
    pub(crate) fn ready(&self, document: &Document) -> Ready<'_> {
        match self {
            Self::Node => Ready::Node,
            Self::Principal => Ready::Principal,
            Self::Namespace(uri) => Ready::Namespace(uri),
            Self::Name(name) => name.id(document).map_or(Ready::Never, Ready::Name),
            Self::Text => Ready::Text,
            Self::Comment => Ready::Comment,
            Self::Instruction(target) => Ready::Instruction(target.as_deref()),
        }
    }

    /// Whether a namespace node passes on the namespace axis.
    pub(crate) fn passes_namespace(&self, item: Item<'_>) -> bool {
        match self {
            Self::Node | Self::Principal => true,
            Self::Name(name) => {
                name.expanded.namespace.is_empty() && name.expanded.local == item.local_name()
            }
            Self::Namespace(_) | Self::Text | Self::Comment | Self::Instruction(_) => false,
        }
    }
}

impl Ready<'_> {
    /// Whether a node of the tree passes; `principal` is the principal node type of the axis.
    #[inline]
    pub(crate) fn passes(self, node: Node<'_>, principal: Kind) -> bool {
        match self {
            Self::Never => false,
            Self::Node => true,
            Self::Name(name) => node.kind() == principal && node.name() == name,
            Self::Principal => node.kind() == principal,
            Self::Namespace(uri) => node.kind() == principal && node.namespace() == uri,
            Self::Text => node.kind() == Kind::Text,
            Self::Comment => node.kind() == Kind::Comment,
            Self::Instruction(target) => {
                node.kind() == Kind::ProcessingInstruction
                    && target.is_none_or(|target| node.local_name() == target)
            }
        }
    }

    /// Whether only nodes of the principal type can pass.
    pub(crate) fn is_principal(self) -> bool {
        matches!(self, Self::Never | Self::Name(_) | Self::Principal | Self::Namespace(_))
    }

    pub(crate) fn is_never(self) -> bool {
        matches!(self, Self::Never)
    }
}

/// A test for the child and descendant axes: a filter that the tree applies, and the rest of the test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below<'a> {
    pub(crate) filter: NodeFilter,
    rest: Option<Ready<'a>>,
}

impl<'a> Below<'a> {
    pub(crate) fn new(test: Ready<'a>, document: &Document) -> Self {
        let (filter, rest) = match test {
            Ready::Node => (NodeFilter::any(), None),
            Ready::Principal => (NodeFilter::kind(Kind::Element), None),
            Ready::Name(name) => (NodeFilter::name(document, name), None),
            Ready::Text => (NodeFilter::kind(Kind::Text), None),
            Ready::Comment => (NodeFilter::kind(Kind::Comment), None),
            Ready::Instruction(None) => (NodeFilter::kind(Kind::ProcessingInstruction), None),
            Ready::Instruction(Some(_)) => {
                (NodeFilter::kind(Kind::ProcessingInstruction), Some(test))
            }
            Ready::Namespace(_) => (NodeFilter::kind(Kind::Element), Some(test)),
            Ready::Never => (NodeFilter::kind(Kind::Namespace), None),
        };
        Self { filter, rest }
    }

    /// Whether a node that passed the filter passes the test.
    #[inline]
    pub(crate) fn passes(&self, node: Node<'_>) -> bool {
        self.rest.is_none_or(|test| test.passes(node, Kind::Element))
    }
}
