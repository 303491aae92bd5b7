//! The door for callers: what they know when an expression is compiled, and what they give when it is
//! evaluated.

use crate::budget::Budget;
use crate::error::EvalError;
use crate::item::Item;
use crate::name::ExpandedName;
use crate::value::Value;

/// A variable, by a number of the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub u32);

/// An extension function, by a number of the caller's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

/// What is known when an expression is compiled: XPath 1.0 section 1, "the context". The defaults know
/// nothing.
pub trait StaticContext {
    /// The namespace that a prefix is bound to. `xml` needs none; unbound: the expression is refused.
    fn namespace(&self, prefix: &str) -> Option<String> {
        let _ = prefix;
        None
    }

    /// None: the expression is refused.
    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        let _ = name;
        None
    }

    /// Extension functions; the core library's need none. None: the expression is refused.
    fn function(&self, name: &ExpandedName, arguments: usize) -> Option<FunctionId> {
        let _ = (name, arguments);
        None
    }
}

/// Knows no namespaces, variables or functions; gives none either.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBindings;

impl StaticContext for NoBindings {}

impl<'d> Environment<'d> for NoBindings {}

/// What is given when an expression is evaluated.
pub trait Environment<'d> {
    /// The value of a variable. Charge `budget` before copying a large one ([`Value::copy`]).
    ///
    /// # Errors
    /// [`EvalError::NoVariable`] unless the caller knows it.
    fn variable(&mut self, id: VariableId, budget: &Budget) -> Result<Value<'d>, EvalError> {
        let _ = budget;
        Err(EvalError::NoVariable(id.0))
    }

    /// Calls an extension function, which charges its work and what it makes to `budget`.
    ///
    /// # Errors
    /// [`EvalError::NoFunction`] unless the caller knows it.
    fn call(
        &mut self,
        id: FunctionId,
        context: &Context<'d>,
        arguments: Vec<Value<'d>>,
        budget: &Budget,
    ) -> Result<Value<'d>, EvalError> {
        let _ = (context, arguments, budget);
        Err(EvalError::NoFunction(id.0))
    }
}

/// Where an expression is evaluated: the context node, its position (from 1) and the context's size.
#[derive(Debug, Clone, Copy)]
pub struct Context<'d> {
    pub item: Item<'d>,
    pub position: usize,
    pub size: usize,
}

impl<'d> Context<'d> {
    /// The first of one.
    #[must_use]
    pub fn new(item: impl Into<Item<'d>>) -> Self {
        Self { item: item.into(), position: 1, size: 1 }
    }
}
