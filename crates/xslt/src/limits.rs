//! The limits of loading and running a stylesheet. Work and memory of a run are limited by [`Budget`](crate::Budget).

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Most modules of a stylesheet, the main one included. More: rejected at load.
pub const XSLT_SHEETS_MAX: usize = 256;
/// Deepest chain of modules that include and import one another. Deeper: rejected at load.
pub const XSLT_SHEETS_DEPTH_MAX: usize = 32;
/// Deepest nesting of elements in a template. Deeper: rejected at load. A test checks it on a 2 MiB stack.
pub const XSLT_NESTING_MAX: usize = 128;
/// Most bytes of namespaces that elements and function calls of a stylesheet keep, each for all those in its scope. More: rejected at load.
pub const XSLT_NAMESPACE_BYTES_MAX: usize = 64 * MIB as usize;
/// Most templates and loops that are active at once. More: the run fails. They are on the heap; libxslt's default is 3,000.
pub const XSLT_DEPTH_MAX: usize = 10_000;
/// Longest chain of global variables that depend on one another through templates, and of keys that depend on one another. Longer: the run fails. Each takes stack; a test checks it on 2 MiB.
pub const XSLT_GLOBALS_DEPTH_MAX: usize = 4;
/// Most compiled patterns of EXSLT's regular expressions that one run caches, each up to `PATTERN_BYTES_MAX`. More: the cache is cleared.
pub const XSLT_PATTERNS_MAX: usize = 16;
/// Memory of one compiled pattern of EXSLT's regular expressions, in bytes. More: the function call fails.
pub const PATTERN_BYTES_MAX: usize = MIB as usize;
/// Most entries of a run's table of rules by node name, for all modes together. More: rules are looked up by their names each time.
pub const XSLT_RULE_TABLE_MAX: usize = 4 * MIB as usize;
