//! Mediators that keep something between messages, in the memory of the program.

pub(crate) mod cache;
pub(crate) mod throttle;
