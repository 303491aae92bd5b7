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
    /// Requests, bytes, or what responses report.
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
    /// The number that responses have in the header field under this number in [`Plans::reported`].
    Reported(u64),
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
    /// Each combination of values that requests have for the parts under this number in [`Plans::keys`].
    Values(u64),
}

/// What the requests that a limit counts together have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    User,
    Address,
    /// The base path of the API.
    Api,
    /// A header field, by its name.
    Header(String),
    /// A parameter of the query.
    Query(String),
    /// A claim of the token.
    Claim(String),
}

/// A plan for requests to all APIs (WSO2's custom policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRule {
    /// Its name.
    pub plan: String,
    /// The base path of the only API that it is for.
    pub api: Option<String>,
}

/// Plans by name. Names that differ only in case are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans {
    by_name: BTreeMap<String, Arc<Plan>>,
    /// By the name of a plan in lower case: the first whose conditions a request meets replaces the limits of the plan.
    pub conditions: BTreeMap<String, Vec<ConditionGroup>>,
    /// Who may not call, whatever the plans.
    pub deny: Vec<Deny>,
    pub custom: Vec<CustomRule>,
    /// Of [`LimitBy::Values`]. A number is the same wherever the parts are.
    pub keys: BTreeMap<u64, Vec<KeyPart>>,
    /// Of [`Quantity::Reported`]: names of header fields. A number is the same wherever the name is.
    pub reported: BTreeMap<u64, String>,
}

/// Limits for some of the requests under a plan (WSO2's conditional groups).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionGroup {
    /// All must be met.
    pub when: Vec<Condition>,
    /// Name of the plan with the limits.
    pub plan: String,
}

/// What a request must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub subject: Subject,
    pub is_inverted: bool,
}

/// What a condition looks at. In values, `*` stands for anything but spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// CIDR blocks, of which one has the client.
    Addresses(Vec<(IpAddr, u8)>),
    Header {
        name: String,
        value: String,
    },
    Query {
        name: String,
        value: String,
    },
    /// Of the token.
    Claim {
        name: String,
        value: String,
    },
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

    /// Adds the plans of `other`, with their conditions, keys and names of fields, in place of those of the same names.
    pub fn extend(&mut self, other: &Self) {
        for name in other.by_name.keys() {
            self.conditions.remove(name);
        }
        self.by_name.extend(other.by_name.clone());
        self.conditions.extend(other.conditions.clone());
        self.keys.extend(other.keys.clone());
        self.reported.extend(other.reported.clone());
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Plan>> {
        self.by_name.get(&name.to_ascii_lowercase())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Plan>> {
        self.by_name.values()
    }

    /// The names that others use. Those of conditions have a line break.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|plan| &plan.name).filter(|name| !name.contains('\n'))
    }
}
