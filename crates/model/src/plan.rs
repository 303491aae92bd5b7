//! Plans: how much may be used within which time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A named set of limits, for an API, an operation, an application or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub name: String,
    /// All of them apply. Empty: unlimited.
    pub limits: Vec<Limit>,
    /// A limit of short peaks, with a code of its own.
    pub burst: Option<Limit>,
}

/// So much within each window. Windows are multiples of the period since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub quantity: Quantity,
    /// Requests, or bytes.
    pub amount: u64,
    pub period_ms: u64,
    pub by: LimitBy,
}

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    Requests,
    /// Bodies of requests, and responses with their heads.
    Bytes,
}

/// Whom a limit counts separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LimitBy {
    /// Nobody: one count.
    #[default]
    All,
    /// Each subject of a token.
    User,
    /// Each IPv4 address, and each /64 of IPv6.
    Address,
}

/// Plans by name. Names that differ only in case are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans {
    by_name: BTreeMap<String, Arc<Plan>>,
    /// Who may not call, whatever the plans.
    pub deny: Vec<Deny>,
}

/// Who may not call (WSO2's deny policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deny {
    /// Anybody the API with this base path.
    Api(String),
    /// The application of this name.
    Application(String),
    /// The subject of tokens.
    User(String),
    /// The addresses in these CIDR blocks, or all others.
    Addresses { blocks: Vec<(IpAddr, u8)>, is_inverted: bool },
}

impl Plans {
    /// Adds a plan. Returns the one of the same name that it replaces.
    pub fn insert(&mut self, plan: Plan) -> Option<Arc<Plan>> {
        self.by_name.insert(plan.name.to_ascii_lowercase(), Arc::new(plan))
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Plan>> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.by_name.values()
    }
}
