//! JSONPath in the dialect of Jayway's library, which Synapse uses for `json-eval`.
//!
//! A path that can select one value only is definite: its result is that value, or an error. `..`, `*`, filters,
//! slices and several indices make a path indefinite: its result is a list. docs/expressions.md lists the operators and
//! functions, docs/conformance.md the differences to Jayway and RFC 9535.

mod compare;
mod compile;
mod evaluate;
mod filter;
mod function;
mod normalized_path;

pub(crate) use compile::{Bound, Externals, Outer};
use xpath::Budget;

use std::fmt;

use crate::error::{Error, SyntaxError};
use crate::json::Ref;
use crate::value::Value;
use filter::Test;
use function::FunctionCall;

/// Jayway's options. By default all are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// `DEFAULT_PATH_LEAF_TO_NULL`: a missing last member is `null`.
    pub default_path_leaf_to_null: bool,
    /// `ALWAYS_RETURN_LIST`: the result of a definite path is a list, too.
    pub always_return_list: bool,
    /// `AS_PATH_LIST`: the result is the normalized paths (`$['a'][0]`) of the selected values.
    pub as_path_list: bool,
    /// `SUPPRESS_EXCEPTIONS`: instead of an error, `null` or an empty list.
    pub suppress_exceptions: bool,
    /// `REQUIRE_PROPERTIES`: an indefinite path fails where a member is missing, too.
    pub require_properties: bool,
}

/// A compiled path.
#[derive(Clone)]
pub struct Path {
    source: Box<str>,
    steps: Vec<Step>,
    options: Options,
    definite: bool,
    /// The first function that takes everything that the steps before it select as one list.
    list_function: Option<usize>,
}

#[derive(Clone)]
enum Step {
    Member(Box<str>),
    Members(Vec<Box<str>>),
    Index(Bound),
    Indices(Vec<Bound>),
    Slice {
        from: Option<Bound>,
        to: Option<Bound>,
        step: Option<Bound>,
    },
    Wildcard,
    /// `..`: the next step applies to this value and all its descendants.
    Descend,
    Filter(Test),
    Call(FunctionCall),
}

impl Step {
    fn is_definite(&self, last: bool) -> bool {
        match self {
            Self::Member(_) | Self::Index(_) | Self::Call(_) => true,
            Self::Members(_) => last,
            Self::Indices(_) | Self::Slice { .. } => false,
            Self::Wildcard | Self::Descend | Self::Filter(_) => false,
        }
    }
}

/// The result of a path.
#[derive(Clone, Debug)]
pub enum Selection<'d> {
    /// The value of a definite path, or of a function of a list.
    One(Value<'d>),
    /// Everything that an indefinite path selected, in the order of evaluation.
    Many(Vec<Value<'d>>),
}

impl<'d> Selection<'d> {
    /// Converts the result to one value; a list becomes a JSON array. Nested results are in it as often as they were
    /// selected.
    ///
    /// # Errors
    /// [`Error::Budget`] if the array does not fit [`Budget::default`].
    pub fn into_value(self) -> Result<Value<'d>, Error> {
        self.into_value_within(&Budget::default())
    }

    /// As [`Selection::into_value`], within the host's budget.
    ///
    /// # Errors
    /// [`Error::Budget`] if the array does not fit.
    pub fn into_value_within(self, budget: &Budget) -> Result<Value<'d>, Error> {
        match self {
            Self::One(value) => Ok(value),
            Self::Many(values) => Value::array(&values, budget),
        }
    }

    /// Writes the result as JSON, value by value, without holding it in memory. Nested results are written as often as
    /// they were selected.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn write_json(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        let one = |value: &Value<'_>, to: &mut dyn std::io::Write| match value.json() {
            Some(json) => to.write_all(json.raw().as_bytes()),
            None => to.write_all(value.to_json().as_bytes()),
        };
        let values = match self {
            Self::One(value) => return one(value, to),
            Self::Many(values) => values,
        };
        to.write_all(b"[")?;
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                to.write_all(b",")?;
            }
            one(value, to)?;
        }
        to.write_all(b"]")
    }

    /// The result as JSON text.
    ///
    /// # Errors
    /// [`Error::Budget`] if it does not fit [`Budget::default`]; [`Selection::write_json`] has no such limit.
    pub fn to_json(&self) -> Result<String, Error> {
        let budget = Budget::default();
        let values = match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        };
        values.iter().try_for_each(|value| value.charge_copy(&budget))?;
        let mut json = Vec::new();
        self.write_json(&mut json).map_err(|error| Error::Body(error.to_string()))?;
        Ok(String::from_utf8(json).unwrap_or_default())
    }
}

impl Path {
    /// Compiles `source` with all options off.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the position.
    pub fn compile(source: &str) -> Result<Self, Error> {
        Self::compile_with(source, Options::default())
    }

    /// Compiles `source`.
    ///
    /// # Errors
    /// As [`Path::compile`].
    pub fn compile_with(source: &str, options: Options) -> Result<Self, Error> {
        let steps = compile::path(source)?;
        Ok(Self::of(source, steps, options))
    }

    pub(crate) fn parse(source: &str) -> Result<Self, SyntaxError> {
        Ok(Self::of(source, compile::path(source)?, Options::default()))
    }

    /// Whether the path can select one value only.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        self.definite
    }

    /// Evaluates the path on `root` with [`Budget::default`].
    ///
    /// # Errors
    /// [`Error::Missing`] if a definite path selects nothing, unless an option changes that; [`Error::Type`] for a
    /// function of the wrong values; [`Error::Budget`].
    pub fn evaluate<'d>(&self, root: Ref<'d>) -> Result<Selection<'d>, Error> {
        self.evaluate_within(root, &Budget::default())
    }

    /// Evaluates the path within the host's budget.
    ///
    /// # Errors
    /// As [`Path::evaluate`].
    pub fn evaluate_within<'d>(
        &self,
        root: Ref<'d>,
        budget: &Budget,
    ) -> Result<Selection<'d>, Error> {
        self.evaluate_with(root, &[], budget)
    }

    /// As [`Path::evaluate_within`], with the values of the host's expressions inside the path.
    pub(crate) fn evaluate_with<'d>(
        &self,
        root: Ref<'d>,
        slots: &[Value<'d>],
        budget: &Budget,
    ) -> Result<Selection<'d>, Error> {
        let found = evaluate::run(self, root, slots, budget);
        if !self.options.suppress_exceptions {
            return found;
        }
        Ok(match found {
            Ok(found) => found,
            Err(Error::Budget(exceeded)) => return Err(exceeded.into()),
            Err(_) if self.definite && !self.options.always_return_list => {
                Selection::One(Value::Null)
            }
            Err(_) => Selection::Many(Vec::new()),
        })
    }

    fn of(source: &str, steps: Vec<Step>, options: Options) -> Self {
        let definite =
            steps.iter().enumerate().all(|(at, step)| step.is_definite(at + 1 == steps.len()));
        let list_function = evaluate::list_function(&steps);
        Self { source: source.into(), steps, options, definite, list_function }
    }

    /// Compiles the steps at the cursor, after a root that the host has read.
    pub(crate) fn suffix<'s>(
        cursor: &mut crate::cursor::Cursor<'s>,
        externals: &mut dyn Externals<'s>,
    ) -> Result<Self, SyntaxError> {
        let start = cursor.at;
        let steps = compile::steps(cursor, &mut Outer::Host(externals))?;
        let source = cursor.source().get(start..cursor.at).unwrap_or_default();
        Ok(Self::of(source, steps, Options::default()))
    }

    /// Whether the path has no steps and selects the root.
    pub(crate) fn is_root(&self) -> bool {
        self.steps.is_empty()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.source)
    }
}
