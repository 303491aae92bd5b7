//! What a caller is granted: the result of `authorise` that `throttle` and `forward` read.

use crate::{KeyType, Limit};

/// The access of a caller to an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// `None`: an anonymous request to an open operation.
    pub key_type: Option<KeyType>,
    pub application: Option<PlanUse>,
    pub subscription: Option<PlanUse>,
}

/// A plan, and who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanUse {
    /// Its number in the compiled plans.
    pub plan: u32,
    /// Identifies the user: an application, a subscription, an API or an operation.
    pub key: u64,
    /// Replaces that of the plan.
    pub burst: Option<Limit>,
}
