//! What a caller may choose when a document is read.

use crate::limits;

/// How a document is read. The default has the limits of [`limits`](crate::limits) and refuses document types.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub limits: Limits,
    pub doctype: Doctype,
    /// Kept for [`crate::Document::base_uri`]; nothing is resolved here.
    pub base_uri: Option<String>,
}

/// What to do about `<!DOCTYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doctype {
    /// The document is refused.
    #[default]
    Refuse,
    /// The internal subset is read: entities, default attributes, attribute types. An external subset is
    /// passed over; a reference to an external entity is an error.
    ReadInternal,
}

/// Where reading stops; each is refused when exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the document, and of it as UTF-8; never above `XML_BYTES_CEILING`.
    pub bytes: u32,
    /// Elements open at once.
    pub depth: u32,
    /// Attributes and namespace declarations of one element.
    pub attributes: u32,
    /// Bytes of one name, prefix included.
    pub name_bytes: u32,
    /// Nodes of the document, attributes included.
    pub nodes: u32,
    /// Bytes that all entity references together may grow to.
    pub entity_bytes: u32,
    /// Declarations of the document type; each attribute counts as one.
    pub declarations: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: limits::XML_BYTES_MAX,
            depth: limits::XML_DEPTH_MAX,
            attributes: limits::XML_ATTRIBUTES_MAX,
            name_bytes: limits::XML_NAME_BYTES_MAX,
            nodes: limits::XML_NODES_MAX,
            entity_bytes: limits::XML_ENTITY_BYTES_MAX,
            declarations: limits::XML_DECLARATIONS_MAX,
        }
    }
}
