//! Plans: limits on requests, bytes or reported amounts within a time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A named set of limits, for an API, an operation, an application or a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub name: String,
    /// Limits, all of which apply. Unlimited if empty.
    pub limits: Vec<Limit>,
    /// A limit on short peaks, with its own error code.
    pub burst: Option<Limit>,
}

/// An amount per window. Windows are multiples of the period since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub quantity: Quantity,
    /// The amount: requests, bytes, or the numbers that responses report.
    pub amount: u64,
    pub period_ms: u64,
    pub by: LimitBy,
}

/// The quantity that a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    Requests,
    /// Bodies of requests, and responses with their heads.
    Bytes,
    /// The number that responses have in the header field under this number in [`Plans::reported`].
    Reported(u64),
}

/// The users that a limit counts separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LimitBy {
    /// All users share one count.
    #[default]
    All,
    /// Each subject of a token.
    User,
    /// Each IPv4 address, and each /64 of IPv6.
    Address,
    /// Each combination of values that requests have for the parts under this number in [`Plans::keys`].
    Values(u64),
}

/// A part of the key by which a limit counts requests: those with equal keys count together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    User,
    Address,
    /// The base path of the API.
    Api,
    /// A header field, by its name.
    Header(String),
    /// A query parameter, by its name.
    Query(String),
    /// A claim of the token, by its name.
    Claim(String),
}

/// A plan for requests to all APIs (WSO2's custom policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRule {
    /// The name of the plan.
    pub plan: String,
    /// The base path of the only API to which the rule applies.
    pub api: Option<String>,
}

/// Plans by name. Names that differ only in case are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plans {
    by_name: BTreeMap<String, Arc<Plan>>,
    /// Condition groups by the plan's name in lower case: the first group whose conditions a request meets replaces the
    /// limits of the plan.
    pub conditions: BTreeMap<String, Vec<ConditionGroup>>,
    /// Callers that are denied, independent of plans.
    pub deny: Vec<Deny>,
    pub custom: Vec<CustomRule>,
    /// Keys of [`LimitBy::Values`], by number. Equal keys have the same number everywhere.
    pub keys: BTreeMap<u64, Vec<KeyPart>>,
    /// Header field names of [`Quantity::Reported`], by number. Equal names have the same number everywhere.
    pub reported: BTreeMap<u64, String>,
}

/// Limits for some of the requests under a plan (WSO2's conditional groups).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionGroup {
    /// Conditions, all of which must be met.
    pub when: Vec<Condition>,
    /// Name of the plan with the limits.
    pub plan: String,
}

/// A condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub subject: Subject,
    pub is_inverted: bool,
}

/// The part of a request that a condition tests. In values, `*` matches anything except spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// CIDR blocks, one of which must contain the client's address.
    Addresses(Vec<(IpAddr, u8)>),
    Header {
        name: String,
        value: String,
    },
    Query {
        name: String,
        value: String,
    },
    /// A claim of the token.
    Claim {
        name: String,
        value: String,
    },
}

/// A rule that denies callers (WSO2's deny policies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deny {
    /// Denies everyone the API with this base path.
    Api(String),
    /// Denies the application with this name.
    Application(String),
    /// Denies tokens with this subject.
    User(String),
    /// Denies the addresses in these CIDR blocks, or all others.
    Addresses { blocks: Vec<(IpAddr, u8)>, is_inverted: bool },
}

impl Plans {
    /// Adds a plan. Returns the plan of the same name that it replaces.
    pub fn insert(&mut self, plan: Plan) -> Option<Arc<Plan>> {
        self.by_name.insert(plan.name.to_ascii_lowercase(), Arc::new(plan))
    }

    /// Adds the plans of `other`, with their conditions, keys and field names, replacing plans of the same names.
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

    /// The names of plans that APIs, applications and subscriptions can use. Names of condition groups contain a line
    /// break and are left out.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.iter().map(|plan| &plan.name).filter(|name| !name.contains('\n'))
    }
}
