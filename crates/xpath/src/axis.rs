//! The thirteen axes: XPath 1.0 section 2.2.

use xml::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

const NAMES: &[(&str, Axis)] = &[
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("namespace", Axis::Namespace),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::SelfNode),
];

impl Axis {
    pub(crate) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, axis)| *axis)
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, axis)| *axis == self).map_or("", |(name, _)| name)
    }

    /// The principal node type, which names and `*` select: section 2.3.
    pub(crate) fn principal(self) -> Kind {
        match self {
            Self::Attribute => Kind::Attribute,
            Self::Namespace => Kind::Namespace,
            Self::Ancestor
            | Self::AncestorOrSelf
            | Self::Child
            | Self::Descendant
            | Self::DescendantOrSelf
            | Self::Following
            | Self::FollowingSibling
            | Self::Parent
            | Self::Preceding
            | Self::PrecedingSibling
            | Self::SelfNode => Kind::Element,
        }
    }
}
