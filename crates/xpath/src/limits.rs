//! The limits of compiling and evaluating an expression.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Longest XPath expression, in bytes. Longer: refused at load.
pub const XPATH_BYTES_MAX: usize = 64 * KIB as usize;
/// Deepest nesting of parentheses, predicates and arguments in an XPath expression, and most
/// comparisons chained without them. Deeper: refused at load. Proven against a 2 MiB stack by a test.
pub const XPATH_DEPTH_MAX: usize = 64;
/// Most steps of one evaluation of an XPath expression, about one per node that it looks at and per 4 to
/// 64 bytes of text, unless the caller says otherwise. More: the evaluation fails. About a second's work.
pub const XPATH_STEPS_MAX: u64 = 100_000_000;
/// Most nodes in one node-set, 24 bytes each. More: the evaluation fails.
pub const XPATH_NODES_MAX: usize = 4_000_000;
/// Longest text that `concat` makes in an XPath expression, in bytes. Longer: the evaluation fails.
pub const XPATH_TEXT_BYTES_MAX: usize = 64 * MIB as usize;
