//! Mediators that choose the sequence in which a message continues, or end it.

pub(crate) mod call_template;
pub(crate) mod conditional_router;
pub(crate) mod filter;
pub(crate) mod respond;
pub(crate) mod sequence;
pub(crate) mod switch;
pub(crate) mod throw_error;
