//! What the internal subset of a document type declares.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::Fault;
use crate::options::Options;

/// An entity that content or an attribute's value may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entity {
    /// Where its replacement text lies in [`Dtd::text`].
    Internal(Range<usize>),
    External,
    Unparsed,
}

/// One attribute of an ATTLIST.
#[derive(Debug, Clone)]
pub(crate) struct AttributeDefinition {
    pub(crate) name: String,
    /// Any type but CDATA: spaces are collapsed.
    pub(crate) tokenized: bool,
    pub(crate) is_id: bool,
    /// Where the default value lies in [`Dtd::text`].
    pub(crate) default: Option<Range<usize>>,
}

/// The declarations, and the texts that they bring along.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dtd {
    /// Where the declaration stands in the source; none if it wasn't read.
    pub(crate) range: Option<Range<usize>>,
    /// What is wrong with it, told when reading gets there.
    pub(crate) fault: Option<Fault>,
    pub(crate) text: String,
    /// Where the texts come from: (start in `text`, place in the source), ascending.
    pub(crate) origins: Vec<(usize, usize)>,
    pub(crate) entities: HashMap<String, Entity>,
    /// By the element's name as written.
    pub(crate) attributes: HashMap<String, Vec<AttributeDefinition>>,
}

/// Looks for a document type in front of the root element and reads it as the options say.
pub(crate) fn find(_text: &str, _start: usize, _options: &Options, _broken: Option<&Fault>) -> Dtd {
    Dtd::default()
}
