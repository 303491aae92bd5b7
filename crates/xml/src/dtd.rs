//! The declarations of a document type.

mod cursor;
mod subset;

use std::collections::HashMap;
use std::ops::Range;

use crate::entities::EntityResolver;
use crate::error::OffsetError;
use crate::options::{Doctype, Options};

/// A general entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entity {
    /// The range of its replacement text in [`Dtd::text`].
    Internal(Range<usize>),
    External,
    /// An unparsed entity, with its system identifier.
    Unparsed(String),
}

/// One attribute of an ATTLIST.
#[derive(Debug, Clone)]
pub(crate) struct AttributeDefinition {
    /// The attribute has another type than CDATA, so that spaces are collapsed.
    pub(crate) tokenized: bool,
    pub(crate) is_id: bool,
    /// The range of the default value in [`Dtd::text`].
    pub(crate) default: Option<Range<usize>>,
}

/// The attributes declared for one element, by name as written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Definitions {
    pub(crate) by_name: HashMap<String, AttributeDefinition>,
    /// Names of the attributes that have a default, in the order of declaration.
    pub(crate) defaults: Vec<String>,
}

/// The declarations, and the texts that they define.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dtd {
    /// The range of the document type declaration in the source; none if it wasn't read.
    pub(crate) range: Option<Range<usize>>,
    /// An error in the document type, reported when parsing gets there.
    pub(crate) error: Option<OffsetError>,
    pub(crate) text: String,
    /// The places of the texts: (start in `text`, offset in the source), ascending.
    pub(crate) origins: Vec<(usize, usize)>,
    pub(crate) entities: HashMap<String, Entity>,
    /// Declared attributes by the element's name as written.
    pub(crate) attributes: HashMap<String, Definitions>,
}

/// Finds the document type before the root element and reads it if the options permit. Comments and
/// processing instructions before it are skipped; parsing checks them later.
pub(crate) fn find(
    text: &str,
    start: usize,
    options: &Options,
    resolver: Option<&dyn EntityResolver>,
    broken: Option<&OffsetError>,
) -> Dtd {
    if options.doctype == Doctype::Reject {
        return Dtd::default();
    }
    place(text, start).map(|at| read(text, at, options, resolver, broken)).unwrap_or_default()
}

/// Reads the document type at `at` if the options permit.
pub(crate) fn read(
    text: &str,
    at: usize,
    options: &Options,
    resolver: Option<&dyn EntityResolver>,
    broken: Option<&OffsetError>,
) -> Dtd {
    let mut dtd = Dtd::default();
    if options.doctype == Doctype::Read
        && let Err(error) = subset::read(text, at, (options, resolver), broken, &mut dtd)
    {
        dtd.error = Some(error);
    }
    dtd
}

/// The offset of `<!DOCTYPE`.
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
