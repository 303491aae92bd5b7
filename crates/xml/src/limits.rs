//! The default limits of reading a document. [`crate::Limits`] changes them for one document.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Largest XML document that is read unless the caller says otherwise, in bytes. Larger: refused.
pub const XML_BYTES_MAX: u32 = 64 * MIB;
/// Largest XML document that any option can allow, in bytes of UTF-8. Larger: refused. Source: a length has 28 bits in a tree.
pub const XML_BYTES_CEILING: u32 = 255 * MIB;
/// Most elements open at once in an XML document. More: refused. Source: libxml2 allows 256, or 2,048 when told "huge".
pub const XML_DEPTH_MAX: u32 = 1_024;
/// Most attributes and namespace declarations of one XML element. More: refused.
pub const XML_ATTRIBUTES_MAX: u32 = 1_024;
/// Longest name in an XML document, prefix included, in bytes. Longer: refused. Source: libxml2 allows 50,000.
pub const XML_NAME_BYTES_MAX: u32 = 8 * KIB;
/// Most nodes of an XML document, attributes included. More: refused.
pub const XML_NODES_MAX: u32 = 16_777_216;
/// Most bytes that entity references and default attributes may add to one XML document. More: refused ("billion laughs").
pub const XML_ENTITY_BYTES_MAX: u32 = MIB;
/// Most entity references inside one another. More: refused.
pub const XML_ENTITY_DEPTH_MAX: u32 = 20;
/// Most declarations, attributes counted each, in the internal subset of an XML document. More: refused.
pub const XML_DECLARATIONS_MAX: u32 = 4_096;

const _: () = assert!(XML_BYTES_CEILING < 1 << 28, "a length has to fit in 28 bits");
const _: () = assert!(XML_BYTES_MAX <= XML_BYTES_CEILING, "the default has to be allowed");
