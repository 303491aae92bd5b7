//! Templates that create a body from a message.
//!
//! [`PayloadTemplate`] is Synapse's payload factory (`$1`, `${...}`), [`FreeMarker`] a subset of FreeMarker. Both are
//! compiled at load and run within a budget.

mod freemarker;
mod payload;
mod xml;

pub use freemarker::FreeMarker;
pub use payload::{Argument, MediaType, PayloadTemplate, Settings};
