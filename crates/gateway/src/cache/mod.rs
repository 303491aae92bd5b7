//! The response cache (`x-wso2-response-cache`, `responseCache`): a shared cache as RFC 9111 has it, one per worker.

pub(crate) mod rules;
mod store;

pub(crate) use rules::{Directives, Freshness};
pub(crate) use store::{Key, ResponseCache, Stored};
