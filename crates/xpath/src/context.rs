//! The interface to the host, which provides names when an expression is compiled and values when it is evaluated.

use crate::budget::Budget;
use crate::error::Error;
use crate::item::Item;
use crate::name::ExpandedName;
use crate::value::Value;

/// A variable, by a number that the host chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// An extension function, by a number that the host chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// The namespaces, variables and functions that an expression may name when it is compiled: the static part
/// of the context of XPath 1.0, section 1. By default there are none.
///
/// ```
/// use xpath::{
///     Budget, Context, Environment, Error, ExpandedName, Expression, FunctionId, StaticContext, Value,
/// };
///
/// /// Adds the function `upper-case()`.
/// struct UpperCase;
///
/// impl StaticContext for UpperCase {
///     fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
///         (name.namespace.is_empty() && name.local == "upper-case" && arguments == 1)
///             .then_some(FunctionId(0))
///     }
/// }
///
/// impl<'d> Environment<'d> for UpperCase {
///     fn call(
///         &mut self,
///         _: FunctionId,
///         _: &Context<'d>,
///         arguments: Vec<Value<'d>>,
///         budget: &Budget,
///     ) -> Result<Value<'d>, Error> {
///         let text = match arguments.first() {
///             Some(value) => value.charged_string(budget)?,
///             None => "".into(),
///         };
///         budget.charge_scanning(text.len())?;
///         // A character's upper case may take three times its bytes.
///         budget.charge_memory(text.len() * 3)?;
///         Ok(Value::String(text.to_uppercase()))
///     }
/// }
///
/// let document = xml::Document::parse(b"<symbol>ibm</symbol>")?;
/// let expression = Expression::compile("upper-case(/symbol)", &UpperCase)?;
/// let context = Context::new(document.root());
/// let text = expression.evaluate_string(context, &mut UpperCase, &Budget::default())?;
/// assert_eq!(text, "IBM");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StaticContext {
    /// The namespace that a prefix is bound to; if none, the expression is rejected. `xml` is always bound.
    fn namespace(&self, prefix: &str) -> Option<String> {
        let _ = prefix;
        None
    }

    /// A second namespace in which the functions of the core library can be called.
    fn core_namespace(&self) -> Option<&str> {
        None
    }

    /// Elements that enclose the host's documents in principle but are absent from them, outermost first. Paths from
    /// the root may begin with the steps to these elements, and paths from the context node with the steps below the
    /// first one. The root, or the context node, stands for the innermost element.
    fn outer(&self) -> &[ExpandedName] {
        &[]
    }

    /// Whether the variable stands for the first element of [`StaticContext::outer`].
    fn is_outermost(&self, variable: VariableId) -> bool {
        let _ = variable;
        false
    }

    /// The number of a variable; if none, the expression is rejected.
    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        let _ = name;
        None
    }

    /// The number of an extension function that takes this many arguments; if none, the expression is rejected. The
    /// functions of the core library are always available.
    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        let _ = (name, arguments);
        None
    }
}

/// No namespaces, no variables, no extension functions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBindings;

impl StaticContext for NoBindings {}

impl<'d> Environment<'d> for NoBindings {}

/// The values of variables and the extension functions, when an expression is evaluated.
pub trait Environment<'d> {
    /// The value of a variable. Charges `budget` for the copy of a large one, as [`Value::copy`] does.
    ///
    /// # Errors
    /// [`Error::NoVariable`] by default.
    fn variable(&mut self, id: VariableId, budget: &Budget) -> Result<Value<'d>, Error> {
        let _ = budget;
        Err(Error::NoVariable(id.0))
    }

    /// Calls an extension function, which charges its work and its result to `budget`.
    ///
    /// # Errors
    /// [`Error::NoFunction`] by default.
    fn call(
        &mut self,
        id: FunctionId,
        context: &Context<'d>,
        arguments: Vec<Value<'d>>,
        budget: &Budget,
    ) -> Result<Value<'d>, Error> {
        let _ = (context, arguments, budget);
        Err(Error::NoFunction(id.0))
    }
}

/// The context node, its position (from 1) and the size of the context.
#[derive(Debug, Clone, Copy)]
pub struct Context<'d> {
    pub item: Item<'d>,
    pub position: usize,
    pub size: usize,
}

impl<'d> Context<'d> {
    /// The node alone: position 1 of 1.
    #[must_use]
    pub fn new(item: impl Into<Item<'d>>) -> Self {
        Self { item: item.into(), position: 1, size: 1 }
    }
}
