//! The access granted to a caller: the result of `authorise`, which `throttle` and `forward` read.

use crate::{KeyType, Limit};

/// The access of a caller to an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The type of the key; `None` for an anonymous request to an open operation.
    pub key_type: Option<KeyType>,
    pub application: Option<PlanUse>,
    pub subscription: Option<PlanUse>,
}

/// A plan, and the user whose requests it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanUse {
    /// The plan's number in the compiled plans.
    pub plan: u32,
    /// Identifies the counted user: an application, a subscription, an API or an operation.
    pub key: u64,
    /// A burst limit that replaces the plan's.
    pub burst: Option<Limit>,
}
