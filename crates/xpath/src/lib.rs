//! XPath 1.0 on documents of the `xml` crate.
//!
//! An [`Expression`] is compiled once and evaluated any number of times; its value is a node-set in document
//! order, a string, a number or a boolean. [`Pattern`]s are the match patterns of XSLT 1.0. The host provides
//! namespaces, variables and extension functions ([`StaticContext`], [`Environment`]), and limits the cost of
//! each evaluation by a [`Budget`]. [`synapse`] adds the variables and functions of WSO2's Synapse.
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
//! Architecture invariant: an evaluation is bounded in steps and memory by its budget, and in depth by
//! [`limits`]; it never recurses on the depth of a document. No input, neither of expressions nor of documents,
//! makes it panic.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
mod pool;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
pub mod regex;
mod replace;
mod scan;
mod sink;
mod steady;
pub mod synapse;
mod test;
mod value;
mod walk;

pub use budget::{Budget, BudgetExceeded};
pub use context::{Context, Environment, FunctionId, NoBindings, StaticContext, VariableId};
pub use error::Error;
pub use expression::Expression;
pub use functions::core_function_names;
pub use item::{Item, NodeSet};
pub use name::ExpandedName;
pub use number::{number_to_string, round, string_to_number};
pub use pattern::{Alternative, Matched, Pattern};
pub use plan::Type;
pub use pool::Pool;
pub use value::Value;
