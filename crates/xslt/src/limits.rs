//! The limits of loading and running a stylesheet. Work and memory of a run are limited by [`Budget`](crate::Budget).

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Maximum number of modules of a stylesheet, the main one included. More: rejected at load.
pub const XSLT_SHEETS_MAX: usize = 256;
/// Maximum length of a chain of modules that include and import one another. Deeper: rejected at load.
pub const XSLT_SHEETS_DEPTH_MAX: usize = 32;
/// Maximum nesting of elements in a template. Deeper: rejected at load. A test checks it on a 2 MiB stack.
pub const XSLT_NESTING_MAX: usize = 128;
/// Maximum size of the namespaces that elements and function calls of a stylesheet keep, in bytes. Each keeps all
/// namespaces in its scope. More: rejected at load.
pub const XSLT_NAMESPACE_BYTES_MAX: usize = 64 * MIB as usize;
/// Maximum number of templates and loops that are active at once. More: the run fails. They are on the heap; libxslt's
/// default is 3,000.
pub const XSLT_DEPTH_MAX: usize = 10_000;
/// Maximum length of a chain of global variables that depend on one another through templates, and of keys that depend
/// on one another. Longer: the run fails. Each takes stack; a test checks it on 2 MiB.
pub const XSLT_GLOBALS_DEPTH_MAX: usize = 4;
/// Maximum number of compiled patterns of EXSLT's regular expressions that a run caches, each of up to
/// `PATTERN_BYTES_MAX`. More: the cache is cleared.
pub const XSLT_PATTERNS_MAX: usize = 16;
/// Maximum memory of a compiled pattern of EXSLT's regular expressions, in bytes. More: the function call fails.
pub const PATTERN_BYTES_MAX: usize = 256 * KIB as usize;
/// Maximum number of entries in a run's table of rules by node name, for all modes together. More: rules are looked up
/// by their names each time.
pub const XSLT_RULE_TABLE_MAX: usize = 4 * MIB as usize;
/// Maximum number of stylesheets for which a thread keeps tables and buffers from the last run. More: those of the
/// least recently used stylesheet are dropped.
pub const XSLT_KEPT_RUNS_MAX: usize = 16;
/// Maximum memory of the tables of names and rules, and of the writer's buffers, that a thread keeps for a stylesheet,
/// in bytes each. More: the next run looks the names up, or allocates the buffers, again.
pub const XSLT_KEPT_BYTES_MAX: usize = 16 * KIB as usize;
