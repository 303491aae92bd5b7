//! The limits of reading JSON, and of compiling and evaluating expressions and templates.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Largest JSON document that is read unless [`crate::json::Limits`] says otherwise, in bytes. Larger: rejected.
pub const JSON_BYTES_MAX: u32 = 10 * MIB;
/// Deepest nesting of JSON in a message body. Deeper: refused. Reading it uses no recursion; jackson's default is 1,000.
pub const JSON_TREE_DEPTH_MAX: usize = 1_000;
/// Most values and member names in one JSON body, 16 bytes each. More: refused.
pub const JSON_NODES_MAX: usize = 2_000_000;
/// Most steps in one JSONPath. More: refused at load.
pub const JSONPATH_STEPS_MAX: usize = 64;
/// Most values that one evaluation of a JSONPath or an expression may look at or make. More: the evaluation fails.
pub const EXPRESSION_VISITS_MAX: u64 = 4_000_000;
/// Deepest nesting of parentheses, filters and calls in an expression or a template. Deeper: refused at load.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Longest expression or JSONPath, in bytes. Longer: refused at load.
pub const EXPRESSION_BYTES_MAX: usize = 64 * KIB as usize;
/// Memory that one compiled pattern (`=~ /re/`) may take, in bytes. More: refused at load.
pub const PATTERN_BYTES_MAX: usize = MIB as usize;
/// Longest template, in bytes. Longer: refused at load.
pub const PAYLOAD_TEMPLATE_BYTES_MAX: usize = MIB as usize;
/// Largest text that a template or an expression may make, in bytes. More: the evaluation fails.
pub const MADE_BYTES_MAX: usize = 40 * MIB as usize;
/// Most instructions that one run of a template may take, loops counted. More: the run fails.
pub const TEMPLATE_INSTRUCTIONS_MAX: u64 = 1_000_000;
