//! Mediators that make several messages of one, and those that join them again.

pub(crate) mod aggregate;
pub(crate) mod clone;
pub(crate) mod for_each;
pub(crate) mod iterate;
pub(crate) mod scatter_gather;
