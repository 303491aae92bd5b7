//! Default limits of parsing. [`crate::Limits`] changes them per document.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Default maximum size of an XML document, in bytes. Larger: rejected.
pub const XML_BYTES_MAX: u32 = 64 * MIB;
/// Upper bound of that limit, in bytes of UTF-8. Larger: rejected. Source: the tree stores a length in 28 bits.
pub const XML_BYTES_CEILING: u32 = 255 * MIB;
/// Maximum nesting of elements in an XML document. Deeper: rejected. Source: libxml2 allows 256, or 2,048 with
/// `XML_PARSE_HUGE`.
pub const XML_DEPTH_MAX: u32 = 1_024;
/// Maximum number of attributes and namespace declarations of one XML element. More: rejected.
pub const XML_ATTRIBUTES_MAX: u32 = 1_024;
/// Maximum length of a name in an XML document, prefix included, in bytes. Longer: rejected. Source: libxml2 allows
/// 50,000.
pub const XML_NAME_BYTES_MAX: u32 = 8 * KIB;
/// Maximum number of nodes in an XML document, attributes included. More: rejected.
pub const XML_NODES_MAX: u32 = 16_777_216;
/// Maximum growth of an XML document by entity references and default attributes, in bytes. More: rejected ("billion
/// laughs").
pub const XML_ENTITY_BYTES_MAX: u32 = MIB;
/// Maximum nesting of entity references. Deeper: rejected.
pub const XML_ENTITY_DEPTH_MAX: u32 = 20;
/// Maximum number of declarations in the document type of an XML document; each attribute counts as one. More:
/// rejected.
pub const XML_DECLARATIONS_MAX: u32 = 4_096;
/// Maximum number of names that a thread keeps for the next XML document. More: the next one begins without names.
pub const XML_KEPT_NAMES_MAX: u32 = 128;
/// Maximum length of all names that a thread keeps for the next XML document, in bytes. More: the next one begins
/// without names.
pub const XML_KEPT_NAME_BYTES_MAX: u32 = 4 * KIB;
/// Maximum number of start tags with namespace declarations that a thread keeps for the next XML document. More: the
/// next one begins without them.
pub const XML_KEPT_TAGS_MAX: u32 = 32;
/// Maximum length of such a start tag after its name, in bytes. Longer: the tag is parsed each time.
pub const XML_KEPT_TAG_BYTES_MAX: u32 = 512;

const _: () = assert!(XML_BYTES_CEILING < 1 << 28, "a length must fit in 28 bits");
const _: () = assert!(XML_BYTES_MAX <= XML_BYTES_CEILING, "the default must be allowed");
