//! The limits of compiling and evaluating an expression.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Longest XPath expression, in bytes. Longer: refused at load.
pub const XPATH_BYTES_MAX: usize = 64 * KIB as usize;
/// Deepest nesting of parentheses, predicates and arguments in an XPath expression, and most
/// comparisons chained without them. Deeper: refused at load. Proven against a 2 MiB stack by a test.
pub const XPATH_DEPTH_MAX: usize = 64;

/// Steps of one evaluation unless its host chooses: about one per node that is looked at, and per 4 to 64
/// bytes of text. More: the evaluation fails. 10 to 30 ns each, so tens of milliseconds of a worker thread.
pub const BUDGET_STEPS: u64 = 2_000_000;
/// Bytes of text, node-sets and trees that one evaluation may make unless its host chooses. More: the
/// evaluation fails. Several times the largest body that a gateway holds (10 MiB).
pub const BUDGET_BYTES: u64 = 64 * MIB as u64;
/// Steps of one evaluation on the command line. More: it fails. A few seconds of a process of its own.
pub const BUDGET_LARGE_STEPS: u64 = 200_000_000;
/// Bytes that one evaluation on the command line may make. More: it fails.
pub const BUDGET_LARGE_BYTES: u64 = 1024 * MIB as u64;
