#![doc = include_str!("../README.md")]
//!
//! # Architecture
//!
//! Life of a request: authorise -> throttle -> **mediate**. The crate takes compiled expressions or templates and a
//! message, and returns values and bytes. Everything is compiled at load; an XPath or a JSONPath that an expression
//! computes is the one exception, charged to the budget.
//!
//! Architecture invariant: no clock, no files, no sockets; every evaluation draws on one [`Budget`]; nothing recurses
//! on the depth of a document.

pub mod inline;
pub mod json;
pub mod jsonpath;
pub mod limits;
pub mod mapping;
pub mod markup;
pub mod template;

mod context;
mod cursor;
mod error;
mod expression;
mod pattern;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod synapse;
mod value;
mod xpath_bridge;

pub use context::{BodyUse, EvalContext, ParameterKind, PropertyScope};
pub use error::Error;
pub use expression::Expression;
pub use synapse::SynapseExpression;
pub use value::Value;
pub use xpath::{Budget, BudgetExceeded};
