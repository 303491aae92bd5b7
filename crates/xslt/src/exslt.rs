//! The modules of EXSLT, a file each; common is in `functions`. Not supported are `math:random`, which needs entropy,
//! and `dyn:evaluate`, which compiles at run time.

mod arguments;
mod dates;
mod math;
mod regular;
mod sets;
mod strings;

use xpath::{ExpandedName, FunctionId, Value};

pub(crate) use arguments::{Arguments, Host};
pub(crate) use regular::Patterns;

type Evaluated<T> = Result<T, xpath::Error>;

/// A function of a module.
pub(crate) struct Row {
    name: &'static str,
    arguments_min: usize,
    arguments_max: usize,
    pub(crate) run: for<'d> fn(&mut Arguments<'_, 'd>) -> Evaluated<Value<'d>>,
}

const fn row(
    name: &'static str,
    arguments_min: usize,
    arguments_max: usize,
    run: for<'d> fn(&mut Arguments<'_, 'd>) -> Evaluated<Value<'d>>,
) -> Row {
    Row { name, arguments_min, arguments_max, run }
}

const MODULES: &[(&str, &[Row])] = &[
    ("http://exslt.org/dates-and-times", dates::ROWS),
    ("http://exslt.org/math", math::ROWS),
    ("http://exslt.org/regular-expressions", regular::ROWS),
    ("http://exslt.org/sets", sets::ROWS),
    ("http://exslt.org/strings", strings::ROWS),
];

/// EXSLT functions are numbered from here on: module and row, a byte each.
const FIRST: u32 = 1 << 16;

pub(crate) fn find(name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
    let module = MODULES.iter().position(|(namespace, _)| *namespace == name.namespace)?;
    let (_, rows) = MODULES.get(module)?;
    let row = rows.iter().position(|row| {
        row.name == name.local && (row.arguments_min..=row.arguments_max).contains(&arguments)
    })?;
    let id = u32::try_from(module.checked_mul(256)?.checked_add(row)?).ok()?;
    Some(FunctionId(FIRST.checked_add(id)?))
}

pub(crate) fn row_of(FunctionId(id): FunctionId) -> Option<&'static Row> {
    let id = id.checked_sub(FIRST)?;
    let (_, rows) = MODULES.get(usize::try_from(id >> 8).ok()?)?;
    rows.get(usize::try_from(id & 0xFF).ok()?)
}

/// Namespace and name of each function.
#[cfg(feature = "knock-out")]
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODULES.iter().flat_map(|(module, rows)| rows.iter().map(move |row| (*module, row.name)))
}

/// Whether the function exists, with any number of arguments.
pub(crate) fn exists(namespace: &str, local: &str) -> bool {
    let module = MODULES.iter().find(|(known, _)| *known == namespace);
    module.is_some_and(|(_, rows)| rows.iter().any(|row| row.name == local))
}
