//! The limits of loading and running a stylesheet.

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;

/// Most sheets that one stylesheet includes and imports, itself counted. More: refused at load.
pub const XSLT_SHEETS_MAX: usize = 256;
/// Deepest chain of sheets that include and import one another. Deeper: refused at load.
pub const XSLT_SHEETS_DEPTH_MAX: usize = 32;
/// Deepest nesting of elements in a template. Deeper: refused at load. Proven against a 2 MiB stack by a test.
pub const XSLT_NESTING_MAX: usize = 128;
/// Most templates and loops inside one another in a run. Deeper: the run fails. They live on the heap; libxslt's default is 3,000.
pub const XSLT_DEPTH_MAX: usize = 10_000;
/// Most steps of one run: operations, and steps of its expressions. More: the run fails. About a second's work.
pub const XSLT_STEPS_MAX: u64 = 100_000_000;
/// Most bytes that one run may make: output, result-tree fragments, values of variables, indexes of keys, and the keys of a sort while it lasts. More: the run fails.
pub const XSLT_MADE_BYTES_MAX: usize = 64 * MIB as usize;
/// Most global variables that wait for one another through templates, and most keys through their values. More: the run fails. Each takes stack; proven against 2 MiB by a test.
pub const XSLT_GLOBALS_DEPTH_MAX: usize = 4;
/// Most compiled patterns of EXSLT's regular expressions that one run keeps, each up to `PATTERN_BYTES_MAX`. More: they are forgotten and compiled again.
pub const XSLT_PATTERNS_MAX: usize = 16;
/// Memory that one compiled pattern of EXSLT's regular expressions may take, in bytes. More: refused at load.
pub const PATTERN_BYTES_MAX: usize = MIB as usize;
