//! XPath 1.0: an expression's text in, values and nodes of an [`xml::Document`] out.
//!
//! The second of the engines: stands on `xml`, and xslt, Synapse's expressions and the mediators stand
//! on it. Reads the text of an expression once ([`Expression::compile`]), then trees, as often as one
//! likes; answers node-sets in document order, strings, numbers and booleans as the recommendation
//! defines them. Variables, extension functions and namespaces are the caller's ([`StaticContext`],
//! [`Environment`]); [`synapse`] comes in by that door.
//!
//! ```
//! use xpath::{Budget, Context, Expression, NoBindings};
//!
//! let document = xml::Document::parse(b"<orders><order><symbol>IBM</symbol></order></orders>")?;
//! let symbol = Expression::compile("//order[1]/symbol", &NoBindings)?;
//! let budget = Budget::default();
//! assert_eq!(symbol.evaluate_string(Context::new(document.root()), &mut NoBindings, &budget)?, "IBM");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: an evaluation is bounded in steps, in nodes and in depth
//! (`crate::limits::XPATH_*`), and never recurses on the depth of a document.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod axis;
mod budget;
mod compare;
mod context;
mod core;
pub mod dates;
mod down;
pub mod encoding;
mod error;
mod evaluate;
mod expression;
mod functions;
mod item;
#[cfg(feature = "knock-out")]
pub mod knock_out;
#[cfg(not(feature = "knock-out"))]
mod knock_out;
mod lexer;
pub mod limits;
mod name;
mod number;
mod parser;
mod path;
mod pattern;
mod plan;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod scan;
mod sink;
pub mod synapse;
mod test;
mod value;
mod walk;

pub use budget::{Budget, BudgetExceeded};
pub use context::{Context, Environment, FunctionId, NoBindings, StaticContext, VariableId};
pub use error::{CompileError, EvalError};
pub use expression::Expression;
pub use functions::core_function_names;
pub use item::{Item, NodeSet};
pub use name::ExpandedName;
pub use number::{number_to_string, round, string_to_number};
pub use pattern::{Alternative, Matched, Pattern};
pub use plan::Type;
pub use value::Value;
