//! The modules of EXSLT: common is in `functions`, the others are here, a file each. Left out are those that
//! need what this crate doesn't have: `math:random` (no entropy), and `dyn:evaluate` (nothing is compiled in
//! a run).

mod call;
mod dates;
mod math;
mod regular;
mod sets;
mod strings;

use xpath::{EvalError, ExpandedName, FunctionId, Value};

pub(crate) use call::{Call, Host};
pub(crate) use regular::Patterns;

type Answer<T> = Result<T, EvalError>;

/// A function of a module.
pub(crate) struct Row {
    name: &'static str,
    least: usize,
    most: usize,
    pub(crate) run: for<'d> fn(&mut Call<'_, 'd>) -> Answer<Value<'d>>,
}

const fn row(
    name: &'static str,
    least: usize,
    most: usize,
    run: for<'d> fn(&mut Call<'_, 'd>) -> Answer<Value<'d>>,
) -> Row {
    Row { name, least, most, run }
}

const MODULES: &[(&str, &[Row])] = &[
    ("http://exslt.org/dates-and-times", dates::ROWS),
    ("http://exslt.org/math", math::ROWS),
    ("http://exslt.org/regular-expressions", regular::ROWS),
    ("http://exslt.org/sets", sets::ROWS),
    ("http://exslt.org/strings", strings::ROWS),
];

/// Numbers of functions from here on are of EXSLT: module and row, a byte each.
const FIRST: u32 = 1 << 16;

pub(crate) fn find(name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
    let module = MODULES.iter().position(|(namespace, _)| *namespace == name.namespace)?;
    let (_, rows) = MODULES.get(module)?;
    let row = rows
        .iter()
        .position(|row| row.name == name.local && (row.least..=row.most).contains(&arguments))?;
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

/// Whether there is such a function, with any arguments.
pub(crate) fn exists(namespace: &str, local: &str) -> bool {
    let module = MODULES.iter().find(|(known, _)| *known == namespace);
    module.is_some_and(|(_, rows)| rows.iter().any(|row| row.name == local))
}
