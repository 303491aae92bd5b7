//! The functions that XSLT adds to XPath: section 12, and EXSLT's common module.

use xpath::{ExpandedName, FunctionId};

use crate::exslt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Current,
    Document,
    CanInstruct,
    FormatNumber,
    CanCall,
    GenerateId,
    Key,
    SystemProperty,
    UnparsedEntityUri,
    NodeSet,
    ObjectType,
}

struct Row {
    namespace: &'static str,
    name: &'static str,
    function: Function,
    least: usize,
    most: usize,
    /// Whether it reads names, or references to other documents, that mean what they mean where it stands.
    scoped: bool,
}

const EXSLT: &str = "http://exslt.org/common";

const fn row(
    namespace: &'static str,
    name: &'static str,
    function: Function,
    least: usize,
    most: usize,
) -> Row {
    Row { namespace, name, function, least, most, scoped: false }
}

const fn scoped(name: &'static str, function: Function, least: usize, most: usize) -> Row {
    Row { namespace: "", name, function, least, most, scoped: true }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("",    "current",            Function::Current,           0, 0),
    scoped("document",           Function::Document,       1, 2),
    scoped("element-available",  Function::CanInstruct,    1, 1),
    scoped("format-number",      Function::FormatNumber,   2, 3),
    scoped("function-available", Function::CanCall,        1, 1),
    row("",    "generate-id",        Function::GenerateId,        0, 1),
    scoped("key",                Function::Key,            2, 2),
    scoped("system-property",    Function::SystemProperty, 1, 1),
    row("",    "unparsed-entity-uri", Function::UnparsedEntityUri, 1, 1),
    row(EXSLT, "node-set",           Function::NodeSet,           1, 1),
    row(EXSLT, "object-type",        Function::ObjectType,        1, 1),
    row("urn:schemas-microsoft-com:xslt",    "node-set", Function::NodeSet, 1, 1),
    row("http://xml.apache.org/xalan",       "nodeset",  Function::NodeSet, 1, 1),
];

/// What the number of a function is made of: its row in the table, one more than its scope, and the mark of
/// those that aren't known. Numbers between are those of EXSLT's modules.
const ROW: u32 = 0xFF;
const SCOPE: u32 = 17;
const SCOPES: u32 = 1 << 14;
const MISSING: u32 = 1 << 31;

/// Namespaces whose functions are of later versions of XPath.
const LATER: &[&str] = &[
    "http://www.w3.org/2001/XMLSchema",
    "http://www.w3.org/2005/xpath-functions",
    "http://www.w3.org/2005/xpath-functions/array",
    "http://www.w3.org/2005/xpath-functions/map",
    "http://www.w3.org/2005/xpath-functions/math",
];

/// `scope` numbers the place that a function stands in; it is asked when the function wants to know.
/// Section 14: a function of another namespace that isn't known is an error only when it is called.
pub(crate) fn find(
    name: &ExpandedName,
    arguments: usize,
    scope: impl FnOnce() -> u32,
    missing: impl FnOnce() -> u32,
) -> Option<FunctionId> {
    let named = |row: &Row| row.name == name.local && row.namespace == name.namespace;
    let fits = |row: &Row| named(row) && (row.least..=row.most).contains(&arguments);
    if let Some((at, row)) = TABLE.iter().enumerate().find(|(_, row)| fits(row)) {
        let id = u32::try_from(at).ok()?;
        if !row.scoped {
            return Some(FunctionId(id));
        }
        let scope = scope().checked_add(1).filter(|scope| *scope < SCOPES)?;
        return Some(FunctionId(id | scope << SCOPE));
    }
    let known = exslt::find(name, arguments);
    let refused = name.namespace.is_empty()
        || LATER.contains(&name.namespace.as_str())
        || exists(&name.namespace, &name.local);
    if known.is_some() || refused {
        return known;
    }
    Some(FunctionId(MISSING | missing() & !MISSING))
}

/// The place that a function stands in.
pub(crate) fn scope_of(FunctionId(id): FunctionId) -> Option<usize> {
    usize::try_from((id >> SCOPE).checked_sub(1)?).ok()
}

/// Of a function that isn't known, the number of its name.
pub(crate) fn missing(FunctionId(id): FunctionId) -> Option<usize> {
    if id & MISSING == 0 { None } else { usize::try_from(id & !MISSING).ok() }
}

pub(crate) fn function(FunctionId(id): FunctionId) -> Option<Function> {
    TABLE.get(usize::try_from(id & ROW).ok()?).map(|row| row.function)
}

/// Namespace and name of each function of this crate.
#[cfg(feature = "knock-out")]
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|row| (row.namespace, row.name)).chain(exslt::names())
}

/// Whether there is such a function, with any arguments.
pub(crate) fn exists(namespace: &str, local: &str) -> bool {
    let extension = TABLE.iter().any(|row| row.name == local && row.namespace == namespace);
    let extension = extension || exslt::exists(namespace, local);
    extension || (namespace.is_empty() && xpath::core_function_names().any(|name| name == local))
}
