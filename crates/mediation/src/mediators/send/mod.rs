//! Mediators that send messages to endpoints.

pub(crate) mod call;
pub(crate) mod callout;
