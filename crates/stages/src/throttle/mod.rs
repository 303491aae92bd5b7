//! Throttling: may this request proceed now, and if not, when?
//!
//! Life of a request: authorise -> **throttle** -> mediate. Reads the plans that a request uses, who sends it, and the
//! time; returns what is left of the tightest limit, or a [`Refused`]. Requests are counted when they are admitted,
//! bytes when an exchange is settled.
//!
//! The limits of the workers of a process are exact: each count is one atomic number that all of them write
//! (docs/decisions/0022-quotas-are-shared.md).
//!
//! Architecture invariant: a refused request is counted by no limit, and a refusal always says when to try again.

mod counter;
mod meters;

use std::sync::Arc;

use model::{Denial, Limit, LimitBy, PlanUse, Quantity};

use crate::hash::mix;
use crate::plans::PlanTable;

pub use counter::Counter;
pub use meters::{Meters, WorkerMeters};

use meters::Key;

/// What a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Api,
    Operation,
    Subscription,
    Application,
}

impl Level {
    /// Its name in the RateLimit fields.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Operation => "operation",
            Self::Subscription => "subscription",
            Self::Application => "application",
        }
    }

    fn denial(self, is_burst: bool) -> Denial {
        match (self, is_burst) {
            (Self::Api, _) => Denial::ApiQuota,
            (Self::Operation, _) => Denial::OperationQuota,
            (Self::Subscription, false) => Denial::SubscriptionQuota,
            (Self::Subscription, true) => Denial::SubscriptionBurst,
            (Self::Application, false) => Denial::ApplicationQuota,
            (Self::Application, true) => Denial::ApplicationBurst,
        }
    }
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub struct Sender<'s> {
    /// The subject of the token, and its issuer. An anonymous sender is known by the address.
    pub user: Option<(usize, &'s str)>,
    /// The address, or the network of an IPv6 address. Called if a limit needs it.
    pub network: &'s dyn Fn() -> u128,
}

/// What a request may still use.
#[derive(Debug, Default)]
pub struct Admitted {
    /// The limit of requests of which least is left.
    pub tightest: Option<Allowance>,
    /// To which the bytes of the exchange are to be added.
    pub bytes: Vec<Arc<Counter>>,
}

/// A limit of requests, and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub level: Level,
    pub amount: u64,
    pub left: u64,
    pub period_ms: u64,
    /// When the window ends, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub denial: Denial,
    pub quantity: Quantity,
    pub limit: Allowance,
}

/// Counts a request that uses these plans, unless a limit is reached.
///
/// # Errors
/// The first limit that is reached, in the order of `uses` and of each plan. Nothing is counted then.
pub fn admit(
    meters: &mut WorkerMeters,
    plans: &PlanTable,
    uses: &[(Level, Option<PlanUse>)],
    sender: Sender<'_>,
    now_ms: u64,
) -> Result<Admitted, Refused> {
    let mut admitted = Admitted::default();
    for (position, step) in steps(plans, uses).enumerate() {
        if let Err(refused) = step.take(meters, sender, now_ms, &mut admitted) {
            for taken in steps(plans, uses).take(position) {
                taken.release(meters, sender, now_ms);
            }
            return Err(refused);
        }
    }
    Ok(admitted)
}

/// Every limit that applies, in order.
fn steps<'p>(
    plans: &'p PlanTable,
    uses: &'p [(Level, Option<PlanUse>)],
) -> impl Iterator<Item = Step> + 'p {
    uses.iter().filter_map(|(level, of)| Some((level, of.as_ref()?))).flat_map(|(level, of)| {
        let plan = plans.get(of.plan);
        let limits = plan.map_or(&[][..], |plan| &plan.limits);
        let burst = of.burst.or(plan.and_then(|plan| plan.burst));
        let step = |limit: Limit, is_burst| Step { level: *level, key: of.key, limit, is_burst };
        limits.iter().map(move |limit| step(*limit, false)).chain(burst.map(|burst| step(burst, true)))
    })
}

/// One limit to pass.
#[derive(Clone, Copy)]
struct Step {
    level: Level,
    key: u64,
    limit: Limit,
    is_burst: bool,
}

impl Step {
    fn take(
        self,
        meters: &mut WorkerMeters,
        sender: Sender<'_>,
        now_ms: u64,
        admitted: &mut Admitted,
    ) -> Result<(), Refused> {
        let Limit { quantity, amount, period_ms, .. } = self.limit;
        let key = self.key(meters, sender);
        let counter = meters.counter(key, now_ms);
        let left = match quantity {
            Quantity::Requests => counter.take(amount, now_ms).ok(),
            Quantity::Bytes => Some(amount.saturating_sub(counter.used(now_ms))).filter(|n| *n > 0),
        };
        let until_ms = || counter.until_ms(now_ms);
        let Some(left) = left else {
            let limit = Allowance { level: self.level, amount, left: 0, period_ms, until_ms: until_ms() };
            return Err(Refused { denial: self.level.denial(self.is_burst), quantity, limit });
        };
        match quantity {
            Quantity::Bytes => admitted.bytes.push(Arc::clone(counter)),
            Quantity::Requests if admitted.tightest.is_none_or(|tightest| left < tightest.left) => {
                let until_ms = until_ms();
                admitted.tightest =
                    Some(Allowance { level: self.level, amount, left, period_ms, until_ms });
            }
            Quantity::Requests => {}
        }
        Ok(())
    }

    fn release(self, meters: &mut WorkerMeters, sender: Sender<'_>, now_ms: u64) {
        if self.limit.quantity == Quantity::Requests {
            let key = self.key(meters, sender);
            meters.counter(key, now_ms).release(now_ms);
        }
    }

    /// Of the limit's amount the key is independent, so that a changed one applies to the window that has begun.
    fn key(self, meters: &WorkerMeters, sender: Sender<'_>) -> Key {
        let Limit { quantity, period_ms, by, .. } = self.limit;
        let kind = (quantity as u64) << 3 | (by as u64) << 1 | u64::from(self.is_burst);
        let of_limit = mix(self.key, mix(period_ms, kind));
        let client = match (by, sender.user) {
            (LimitBy::All, _) => return Key { hash: of_limit, period_ms, crowd: None },
            (LimitBy::User, Some(user)) => meters.hash(user),
            (LimitBy::User, None) | (LimitBy::Address, _) => meters.hash((sender.network)()),
        };
        Key { hash: mix(of_limit, client), period_ms, crowd: Some(of_limit) }
    }
}
