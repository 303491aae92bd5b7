//! What the internal subset of a document type declares.

mod cursor;
mod subset;

use std::collections::HashMap;
use std::ops::Range;

use crate::entities::EntityResolver;
use crate::error::Fault;
use crate::options::{Doctype, Options};

/// An entity that content or an attribute's value may name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entity {
    /// Where its replacement text lies in [`Dtd::text`].
    Internal(Range<usize>),
    External,
    /// Its system identifier.
    Unparsed(String),
}

/// One attribute of an ATTLIST.
#[derive(Debug, Clone)]
pub(crate) struct AttributeDefinition {
    /// Any type but CDATA: spaces are collapsed.
    pub(crate) tokenized: bool,
    pub(crate) is_id: bool,
    /// Where the default value lies in [`Dtd::text`].
    pub(crate) default: Option<Range<usize>>,
}

/// The attributes declared for one element, by name as written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Definitions {
    pub(crate) by_name: HashMap<String, AttributeDefinition>,
    /// Those with a default, in the order of their declaration.
    pub(crate) defaults: Vec<String>,
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
    pub(crate) attributes: HashMap<String, Definitions>,
}

/// Looks for a document type in front of the root element and reads it as the options say. What else is in
/// front is passed over; reading tells later what is wrong with it.
pub(crate) fn find(
    text: &str,
    start: usize,
    options: &Options,
    resolver: Option<&dyn EntityResolver>,
    broken: Option<&Fault>,
) -> Dtd {
    if options.doctype == Doctype::Refuse {
        return Dtd::default();
    }
    place(text, start).map(|at| read(text, at, options, resolver, broken)).unwrap_or_default()
}

/// Reads the document type at `at`, unless the options refuse it.
pub(crate) fn read(
    text: &str,
    at: usize,
    options: &Options,
    resolver: Option<&dyn EntityResolver>,
    broken: Option<&Fault>,
) -> Dtd {
    let mut dtd = Dtd::default();
    if options.doctype == Doctype::ReadInternal
        && let Err(fault) = subset::read(text, at, (options, resolver), broken, &mut dtd)
    {
        dtd.fault = Some(fault);
    }
    dtd
}

/// Where `<!DOCTYPE` stands.
fn place(text: &str, mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        let trimmed = rest.trim_start_matches([' ', '\t', '\n']);
        at = at.checked_add(rest.len().checked_sub(trimmed.len())?)?;
        let (end, from) = match trimmed {
            _ if trimmed.starts_with("<!DOCTYPE") => return Some(at),
            _ if trimmed.starts_with("<!--") => ("-->", 4),
            _ if trimmed.starts_with("<?") => ("?>", 2),
            _ => return None,
        };
        let len = memchr::memmem::find(trimmed.as_bytes().get(from..)?, end.as_bytes())?;
        at = at.checked_add(from)?.checked_add(len)?.checked_add(end.len())?;
    }
}
