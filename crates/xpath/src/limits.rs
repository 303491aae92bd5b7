//! The limits of compiling and evaluating an expression.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Maximum length of an expression or pattern, in bytes. Longer: rejected when it is compiled.
pub const XPATH_BYTES_MAX: usize = 64 * KIB as usize;
/// Maximum nesting of parentheses, predicates and arguments in an expression, and maximum number of comparisons
/// in a row. More: rejected when it is compiled. A test evaluates this depth on a 2 MiB stack.
pub const XPATH_DEPTH_MAX: usize = 64;

/// Default maximum number of steps of one evaluation: about one per node visited and per 4 to 64 bytes of text. More:
/// the evaluation fails. A step takes 5 to 80 ns, usually about 20, so this is some 40 ms of a worker thread.
pub const BUDGET_STEPS: u64 = 2_000_000;
/// Default maximum size of the text, node-sets and trees that one evaluation creates, in bytes. More: the evaluation
/// fails. Six times the largest message body that a gateway usually holds (10 MiB).
pub const BUDGET_BYTES: u64 = 64 * MIB as u64;
/// Maximum number of steps of one evaluation in a process of its own, such as a command-line tool. More: the evaluation
/// fails. About four seconds.
pub const BUDGET_LARGE_STEPS: u64 = 200_000_000;
/// Maximum size of the text, node-sets and trees that one evaluation in a process of its own creates, in bytes. More:
/// the evaluation fails.
pub const BUDGET_LARGE_BYTES: u64 = 1024 * MIB as u64;
