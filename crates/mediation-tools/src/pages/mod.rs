//! Pages of the manual that are generated from the tables of mediators, properties and policies.

mod policies;
mod synapse;

pub use policies::{policies_examples, policies_page};
pub use synapse::synapse_page;
