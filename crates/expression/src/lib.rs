//! Expressions and templates over a message: JSONPath, Synapse expressions, references, payload templates.
//!
//! Life of a request: authorise -> throttle -> **mediate**. Reads a compiled [`jsonpath::Path`] or template and
//! the message; answers values and bytes. Everything is parsed and compiled at load.
//!
//! ```
//! use penstock_expression::{json::Document, jsonpath::Path};
//!
//! let order = Document::parse(br#"{"items":[{"sku":"a","price":1.50},{"sku":"b","price":20}]}"#)?;
//! let cheap = Path::compile("$.items[?(@.price < 10)]")?;
//! assert_eq!(cheap.evaluate(order.root())?.to_json()?, r#"[{"sku":"a","price":1.50}]"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Architecture invariant: no clock, no files, no sockets; every evaluation is bounded by [`limits`](crate::limits),
//! whatever the document; nothing recurses on the depth of a document.

pub mod json;
pub mod jsonpath;
pub mod limits;
pub mod synapse;
pub mod template;

mod budget;
mod cursor;
mod encode;
mod error;
mod expression;
mod pattern;
#[cfg(any(test, feature = "fuzzing"))]
pub mod properties;
mod scope;
mod value;
mod xpath_on;

pub use error::{CompileError, EvalError};
pub use expression::Expression;
pub use scope::{BodyUse, ParameterKind, PropertyScope, Scope};
pub use synapse::SynapseExpression;
pub use value::Value;
