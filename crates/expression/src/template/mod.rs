//! Templates: a new body from a format and what the message holds.
//!
//! [`PayloadTemplate`] is Synapse's payload factory (`$1`, `${...}`), [`FreeMarker`] the subset of FreeMarker
//! that its users write. Both are compiled at load and bounded at run time.

mod freemarker;
mod payload;
mod xml_text;

pub use freemarker::FreeMarker;
pub use payload::{Argument, MediaType, PayloadTemplate, Settings};
