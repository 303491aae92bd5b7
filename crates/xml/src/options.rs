//! Options of parsing.

use crate::limits;

/// How a document is parsed. The default has the limits of [`limits`](crate::limits) and rejects document
/// types.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub limits: Limits,
    pub doctype: Doctype,
    /// The URI of the document, for [`crate::Document::base_uri`] and [`crate::ExternalEntity::base_uri`].
    pub base_uri: Option<String>,
}

/// How to treat `<!DOCTYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Doctype {
    /// Reject the document.
    #[default]
    Reject,
    /// Read the internal subset: entities, default attributes, attribute types. Without an
    /// [`EntityResolver`](crate::EntityResolver) the external subset is skipped, and a reference to an
    /// external entity is an error.
    Read,
}

/// A document that exceeds one of these is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the document, as read and as UTF-8; at most `XML_BYTES_CEILING`.
    pub bytes: u32,
    /// Nesting of elements.
    pub depth: u32,
    /// Attributes and namespace declarations of one element.
    pub attributes: u32,
    /// Bytes of one name, prefix included.
    pub name_bytes: u32,
    /// Nodes of the document, attributes included.
    pub nodes: u32,
    /// Bytes that entity references and default attributes add to the document.
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
