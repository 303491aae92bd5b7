//! JSONPath in the dialect of Jayway's library, which is what Synapse's `json-eval` means.
//!
//! A path is definite when it can name one value only: then the answer is that value, or an error that says
//! where it ends. `..`, `*`, filters, slices and several indices make it indefinite: then the answer is a list.
//! docs/expressions.md lists the operators, the functions and where we differ.

mod compare;
mod compile;
mod evaluate;
mod filter;
mod function;
mod places;

pub(crate) use compile::{Bound, Externals, Outer};

use std::fmt;

use crate::budget::{Budget, MADE, fits};
use crate::json::Ref;
use crate::{CompileError, EvalError, Value};
use filter::Test;
use function::Call;

/// Jayway's options, by its names. All off is its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `DEFAULT_PATH_LEAF_TO_NULL`: a missing last member is `null`.
    pub default_path_leaf_to_null: bool,
    /// `ALWAYS_RETURN_LIST`: a definite path, too, answers a list.
    pub always_return_list: bool,
    /// `AS_PATH_LIST`: the places of what is found (`$['a'][0]`) instead of the values.
    pub as_path_list: bool,
    /// `SUPPRESS_EXCEPTIONS`: what is missing is `null`, or nothing in a list.
    pub suppress_exceptions: bool,
    /// `REQUIRE_PROPERTIES`: an indefinite path, too, fails where a member is missing.
    pub require_properties: bool,
}

/// A compiled path.
#[derive(Clone)]
pub struct Path {
    source: Box<str>,
    steps: Vec<Step>,
    options: Options,
    definite: bool,
    /// The first function that takes all that the steps before it find as one list.
    gather: Option<usize>,
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
    /// `..`: the next step at this value and at all below it.
    Descend,
    Filter(Test),
    Call(Call),
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

/// What a path found.
#[derive(Clone, Debug)]
pub enum Selection<'d> {
    /// The value of a definite path, or of a function over a list.
    One(Value<'d>),
    /// All that an indefinite path found, in the document's order of discovery.
    Many(Vec<Value<'d>>),
}

impl<'d> Selection<'d> {
    /// One value: a list becomes a JSON array.
    ///
    /// # Errors
    /// [`EvalError::Limit`]: that array would have more than `MADE_BYTES_MAX`, or more values than
    /// `EXPRESSION_VISITS_MAX`. What is found inside one another is in it as often as it was found.
    pub fn into_value(self) -> Result<Value<'d>, EvalError> {
        self.paid(&Budget::new())
    }

    /// As [`Selection::into_value`], out of what the evaluation has left.
    pub(crate) fn paid(self, budget: &Budget) -> Result<Value<'d>, EvalError> {
        match self {
            Self::One(value) => Ok(value),
            Self::Many(values) => Value::array(&values, budget),
        }
    }

    /// One value that goes as soon as it was looked at: copying it costs visits, and no bytes.
    fn looked_at(self, budget: &Budget) -> Result<Value<'d>, EvalError> {
        match self {
            Self::One(value) => Ok(value),
            Self::Many(values) => {
                for value in &values {
                    let size = value.size();
                    budget.visit((size.bytes / 8 + size.values) as u64)?;
                }
                Ok(Value::array_of(&values))
            }
        }
    }

    /// Writes the answer as JSON, value by value: what is found inside one another is written as often as it was
    /// found, and not held. No limit but `to`'s.
    ///
    /// # Errors
    /// Those of `to`.
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

    /// The answer as JSON text.
    ///
    /// # Errors
    /// [`EvalError::Limit`] past `MADE_BYTES_MAX`; [`Selection::write_json`] has no such limit.
    pub fn to_json(&self) -> Result<String, EvalError> {
        let bytes = match self {
            Self::One(value) => value.size().bytes,
            Self::Many(values) => {
                values.iter().fold(2, |sum: usize, value| sum.saturating_add(value.size().bytes))
            }
        };
        fits(0, bytes)?;
        let mut made = Vec::with_capacity(bytes);
        self.write_json(&mut made).map_err(|_| MADE)?;
        Ok(String::from_utf8(made).unwrap_or_default())
    }
}

impl Path {
    /// Compiles `source` with no option set.
    ///
    /// # Errors
    /// What is no path of the dialect, with its place.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        Self::compile_with(source, Options::default())
    }

    /// Compiles `source`.
    ///
    /// # Errors
    /// As [`Path::compile`].
    pub fn compile_with(source: &str, options: Options) -> Result<Self, CompileError> {
        let steps = compile::path(source)?;
        Ok(Self::of(source, steps, options))
    }

    /// Whether the path can name one value only.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        self.definite
    }

    /// Evaluates the path over `root`.
    ///
    /// # Errors
    /// [`EvalError::Missing`] for a definite path that leads nowhere, unless an option says otherwise;
    /// [`EvalError::Type`] for a function over the wrong values; [`EvalError::Limit`] past
    /// `EXPRESSION_VISITS_MAX`.
    pub fn evaluate<'d>(&self, root: Ref<'d>) -> Result<Selection<'d>, EvalError> {
        self.evaluate_with(root, &[], &Budget::new())
    }

    /// As [`Path::evaluate`], with the values of what the path's host language put into it.
    pub(crate) fn evaluate_with<'d>(
        &self,
        root: Ref<'d>,
        slots: &[Value<'d>],
        budget: &Budget,
    ) -> Result<Selection<'d>, EvalError> {
        let found = evaluate::run(self, root, slots, budget);
        if !self.options.suppress_exceptions {
            return found;
        }
        Ok(match found {
            Ok(found) => found,
            Err(EvalError::Limit(what)) => return Err(EvalError::Limit(what)),
            Err(_) if self.definite && !self.options.always_return_list => {
                Selection::One(Value::Null)
            }
            Err(_) => Selection::Many(Vec::new()),
        })
    }

    fn of(source: &str, steps: Vec<Step>, options: Options) -> Self {
        let last = steps.iter().rposition(|step| !matches!(step, Step::Call(_)));
        let definite =
            steps.iter().enumerate().all(|(at, step)| step.is_definite(Some(at) == last));
        let gather = evaluate::gathering(&steps);
        Self { source: source.into(), steps, options, definite, gather }
    }

    /// The steps that stand at the cursor, after a root that the caller read.
    pub(crate) fn suffix<'s>(
        cursor: &mut crate::cursor::Cursor<'s>,
        externals: &mut dyn Externals<'s>,
    ) -> Result<Self, CompileError> {
        let start = cursor.at;
        let steps = compile::steps(cursor, &mut Outer::Host(externals))?;
        let source = cursor.source().get(start..cursor.at).unwrap_or_default();
        Ok(Self::of(source, steps, Options::default()))
    }

    /// No step at all: the root itself.
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
