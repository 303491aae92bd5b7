//! The limits of reading JSON, and of compiling and evaluating expressions and templates.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Maximum size of a JSON document, in bytes, unless [`crate::json::Limits`] sets another limit. Larger: rejected.
pub const JSON_BYTES_MAX: u32 = 10 * MIB;
/// Maximum nesting of a JSON document; reading it does not recurse. Deeper: rejected. Source: Jackson's default, 1,000.
pub const JSON_TREE_DEPTH_MAX: usize = 1_000;
/// Maximum number of values and member names in a JSON document, 16 bytes each. More: rejected.
pub const JSON_NODES_MAX: usize = 2_000_000;
/// Maximum number of steps in a JSONPath. More: rejected at load.
pub const JSONPATH_STEPS_MAX: usize = 64;
/// Maximum nesting of parentheses, filters and function calls in an expression or a template. Deeper: rejected at load.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Maximum number of operators in an expression; in templates members, indices and built-ins count as well. More:
/// rejected at load. With the nesting they bound the depth of the recursion: a test evaluates this depth on a 2 MiB
/// stack.
pub const EXPRESSION_OPERATORS_MAX: usize = 256;
/// Maximum length of an expression or JSONPath, in bytes. Longer: rejected at load.
pub const EXPRESSION_BYTES_MAX: usize = 64 * KIB as usize;
/// Maximum length of an XPath that an expression computes and passes to `xpath()`, or of a JSONPath with computed
/// parts, in bytes. Longer: the evaluation fails.
pub const COMPUTED_PATH_BYTES_MAX: usize = KIB as usize;
/// Maximum memory of a regular expression that is known at load (`=~ /re/`), in bytes. More: rejected at load.
pub const PATTERN_BYTES_MAX: usize = MIB as usize;
/// Maximum memory of a regular expression that is computed, as those of FreeMarker and of `=~ @.re` are, in bytes.
/// More: the evaluation fails.
pub const COMPUTED_PATTERN_BYTES_MAX: usize = 256 * KIB as usize;
/// Maximum length of a template, in bytes. Longer: rejected at load.
pub const PAYLOAD_TEMPLATE_BYTES_MAX: usize = MIB as usize;
