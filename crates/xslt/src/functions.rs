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
    NodeSet,
    ObjectType,
}

struct Row {
    namespace: &'static str,
    name: &'static str,
    function: Function,
    least: usize,
    most: usize,
}

const EXSLT: &str = "http://exslt.org/common";

const fn row(
    namespace: &'static str,
    name: &'static str,
    function: Function,
    least: usize,
    most: usize,
) -> Row {
    Row { namespace, name, function, least, most }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("",    "current",            Function::Current,           0, 0),
    row("",    "document",           Function::Document,          1, 2),
    row("",    "element-available",  Function::CanInstruct,  1, 1),
    row("",    "format-number",      Function::FormatNumber,      2, 3),
    row("",    "function-available", Function::CanCall, 1, 1),
    row("",    "generate-id",        Function::GenerateId,        0, 1),
    row("",    "key",                Function::Key,               2, 2),
    row("",    "system-property",    Function::SystemProperty,    1, 1),
    row(EXSLT, "node-set",           Function::NodeSet,           1, 1),
    row(EXSLT, "object-type",        Function::ObjectType,        1, 1),
    row("urn:schemas-microsoft-com:xslt",    "node-set", Function::NodeSet, 1, 1),
    row("http://xml.apache.org/xalan",       "nodeset",  Function::NodeSet, 1, 1),
];

/// The number of a function is its place in the table; those of EXSLT's modules come behind.
pub(crate) fn find(name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
    let at = TABLE.iter().position(|row| {
        row.name == name.local
            && row.namespace == name.namespace
            && (row.least..=row.most).contains(&arguments)
    });
    match at {
        Some(at) => u32::try_from(at).ok().map(FunctionId),
        None => exslt::find(name, arguments),
    }
}

pub(crate) fn function(FunctionId(id): FunctionId) -> Option<Function> {
    TABLE.get(id as usize).map(|row| row.function)
}

/// Whether there is such a function, with any arguments.
pub(crate) fn exists(namespace: &str, local: &str) -> bool {
    let extension = TABLE.iter().any(|row| row.name == local && row.namespace == namespace);
    let extension = extension || exslt::exists(namespace, local);
    extension || (namespace.is_empty() && xpath::core_functions().any(|name| name == local))
}
