//! Subscriptions, quotas and deny policies, as one revision compiles them.
//!
//! The step that applies them is `pipeline::throttle`; the counts are those of [`stages::throttle`].

pub(crate) mod conditions;
mod deny;
pub(crate) mod quotas;
