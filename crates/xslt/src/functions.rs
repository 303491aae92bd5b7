//! The functions that XSLT adds to XPath: section 12, and EXSLT's common module.

use xpath::{ExpandedName, FunctionId};

use crate::exslt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Builtin {
    Current,
    Document,
    ElementAvailable,
    FormatNumber,
    FunctionAvailable,
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
    function: Builtin,
    least: usize,
    most: usize,
    /// Whether it depends on the static context: it expands QNames, or resolves URI references.
    scoped: bool,
}

const EXSLT: &str = "http://exslt.org/common";

const fn row(
    namespace: &'static str,
    name: &'static str,
    function: Builtin,
    least: usize,
    most: usize,
) -> Row {
    Row { namespace, name, function, least, most, scoped: false }
}

const fn scoped(name: &'static str, function: Builtin, least: usize, most: usize) -> Row {
    Row { namespace: "", name, function, least, most, scoped: true }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("",    "current",            Builtin::Current,           0, 0),
    scoped("document",           Builtin::Document,       1, 2),
    scoped("element-available",  Builtin::ElementAvailable,    1, 1),
    scoped("format-number",      Builtin::FormatNumber,   2, 3),
    scoped("function-available", Builtin::FunctionAvailable,        1, 1),
    row("",    "generate-id",        Builtin::GenerateId,        0, 1),
    scoped("key",                Builtin::Key,            2, 2),
    scoped("system-property",    Builtin::SystemProperty, 1, 1),
    row("",    "unparsed-entity-uri", Builtin::UnparsedEntityUri, 1, 1),
    row(EXSLT, "node-set",           Builtin::NodeSet,           1, 1),
    row(EXSLT, "object-type",        Builtin::ObjectType,        1, 1),
    row("urn:schemas-microsoft-com:xslt",    "node-set", Builtin::NodeSet, 1, 1),
    row("http://xml.apache.org/xalan",       "nodeset",  Builtin::NodeSet, 1, 1),
];

/// The parts of a function's number: its row in the table, its scope plus one, and a mark for unknown functions.
/// Numbers in between are those of EXSLT functions.
const ROW: u32 = 0xFF;
const SCOPE: u32 = 17;
const SCOPES: u32 = 1 << 14;
const UNKNOWN: u32 = 1 << 31;

/// Namespaces of functions of later XPath versions.
const LATER: &[&str] = &[
    "http://www.w3.org/2001/XMLSchema",
    "http://www.w3.org/2005/xpath-functions",
    "http://www.w3.org/2005/xpath-functions/array",
    "http://www.w3.org/2005/xpath-functions/map",
    "http://www.w3.org/2005/xpath-functions/math",
];

/// `scope` numbers the static context of the call, if the function depends on it. An unknown function in another
/// namespace is an error only when it is called: section 14.
pub(crate) fn find(
    name: &ExpandedName,
    arguments: usize,
    scope: impl FnOnce() -> u32,
    unknown: impl FnOnce() -> u32,
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
    let rejected = name.namespace.is_empty()
        || LATER.contains(&name.namespace.as_str())
        || exists(&name.namespace, &name.local);
    if known.is_some() || rejected {
        return known;
    }
    Some(FunctionId(UNKNOWN | unknown() & !UNKNOWN))
}

/// The index of the static context of a call.
pub(crate) fn scope_of(FunctionId(id): FunctionId) -> Option<usize> {
    usize::try_from((id >> SCOPE).checked_sub(1)?).ok()
}

/// The index of the name of an unknown function.
pub(crate) fn unknown(FunctionId(id): FunctionId) -> Option<usize> {
    if id & UNKNOWN == 0 { None } else { usize::try_from(id & !UNKNOWN).ok() }
}

pub(crate) fn function(FunctionId(id): FunctionId) -> Option<Builtin> {
    TABLE.get(usize::try_from(id & ROW).ok()?).map(|row| row.function)
}

/// Namespace and name of all functions of this crate.
#[cfg(feature = "knock-out")]
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLE.iter().map(|row| (row.namespace, row.name)).chain(exslt::names())
}

/// Whether the function exists, with any number of arguments.
pub(crate) fn exists(namespace: &str, local: &str) -> bool {
    let extension = TABLE.iter().any(|row| row.name == local && row.namespace == namespace);
    let extension = extension || exslt::exists(namespace, local);
    extension || (namespace.is_empty() && xpath::core_function_names().any(|name| name == local))
}
