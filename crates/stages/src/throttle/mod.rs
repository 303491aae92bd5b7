//! Throttling: decides whether a request may proceed now, and if not, when.
//!
//! Life of a request: authorise -> **throttle** -> admit. Reads the plans that a request uses, its sender and the time;
//! returns the allowance of the tightest limit, or a [`Refused`]. Requests are counted when they are admitted, other
//! quantities when they are known; their counters are returned too.
//!
//! The limits of the workers of a process are exact: each count is one atomic number that all of them write
//! (docs/decisions/0022-quotas-are-shared.md). Gateways reconcile their counts with each other, and no request waits
//! for that (docs/decisions/0023-quotas-across-gateways.md).
//!
//! Architecture invariant: a refused request is counted by no limit, and a refusal always has the time to try again.

mod counter;
mod link;
mod meters;
mod reconcile;
#[cfg(test)]
mod simulation;

use std::sync::Arc;

use model::{Denial, KeyPart, Limit, LimitBy, PlanUse, Quantity};

use crate::hash::mix;
use crate::plans::PlanTable;

pub use counter::Counter;
pub use link::Link;
pub use meters::{Meters, WorkerMeters};
pub use reconcile::{Reconciler, Reply, Report};

use base::limits::{QUOTA_DOWN_MS, QUOTA_MAX};
use link::Mode;
use meters::{Client, Key};

/// The level at which a limit applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Api,
    Operation,
    Subscription,
    Application,
    Custom,
    /// The limit of the endpoints.
    Backend,
}

impl Level {
    /// The name of the level in the RateLimit fields.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Operation => "operation",
            Self::Subscription => "subscription",
            Self::Application => "application",
            Self::Custom => "custom",
            Self::Backend => "backend",
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
            (Self::Custom, _) => Denial::CustomQuota,
            (Self::Backend, _) => Denial::BackendQuota,
        }
    }
}

/// The sender of a request.
#[derive(Clone, Copy)]
pub struct Sender<'s> {
    /// The `iss` and the subject of the token. An anonymous sender is identified by the address.
    pub user: Option<(&'s str, &'s str)>,
    /// The address, or the network of an IPv6 address. Called if a limit needs it.
    pub network: &'s dyn Fn() -> u128,
    /// Appends the request's values for the parts of a key, in an unambiguous form. Called if a limit needs it.
    pub values: &'s dyn Fn(&[KeyPart], &mut Vec<u8>),
}

/// The result for an admitted request.
#[derive(Debug, Default)]
pub struct Admitted {
    /// The request limit that is closest to exhaustion.
    pub tightest: Option<Allowance>,
    /// The quantities that are counted later. [`WorkerMeters::release`] takes the list back.
    pub later: Vec<Later>,
}

/// A count of a quantity that is known only after the request was admitted.
#[derive(Debug)]
pub struct Later {
    pub quantity: Quantity,
    pub counter: Arc<Counter>,
}

/// A limit and its remaining amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub level: Level,
    pub quantity: Quantity,
    pub amount: u64,
    pub left: u64,
    pub period_ms: u64,
    /// End of the window, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

/// A limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub denial: Denial,
    pub limit: Allowance,
}

/// Counts a request that uses these plans, unless a limit is reached.
///
/// # Errors
/// The first limit that is reached, in the order of `uses` and of each plan. Nothing is counted then.
pub fn admit(
    meters: &mut WorkerMeters,
    plans: &PlanTable,
    uses: impl Iterator<Item = (Level, PlanUse)> + Clone,
    sender: Sender<'_>,
    now_ms: u64,
) -> Result<Admitted, Refused> {
    let mut admitted = Admitted::default();
    let steps = steps(plans, uses);
    for (position, step) in steps.clone().enumerate() {
        if let Err(refused) = step.take((meters, plans), sender, now_ms, &mut admitted) {
            for taken in steps.take(position) {
                taken.release((meters, plans), sender, now_ms);
            }
            meters.release(admitted.later);
            return Err(refused);
        }
    }
    Ok(admitted)
}

/// Every limit that applies, in order.
fn steps(
    plans: &PlanTable,
    uses: impl Iterator<Item = (Level, PlanUse)> + Clone,
) -> impl Iterator<Item = Step> + Clone {
    uses.flat_map(|(level, of)| {
        let plan = plans.get(of.plan);
        let limits = plan.map_or(&[][..], |plan| &plan.limits);
        let burst = of.burst.or(plan.and_then(|plan| plan.burst));
        let step = move |limit: Limit, is_burst| Step { level, key: of.key, limit, is_burst };
        limits
            .iter()
            .map(move |limit| step(*limit, false))
            .chain(burst.map(|burst| step(burst, true)))
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
        (meters, plans): (&mut WorkerMeters, &PlanTable),
        sender: Sender<'_>,
        now_ms: u64,
        admitted: &mut Admitted,
    ) -> Result<(), Refused> {
        let Limit { quantity, amount, period_ms, .. } = self.limit;
        let key = self.key((meters, plans), sender);
        let mode = meters.mode();
        let counter = meters.counter(key, now_ms);
        let allowance = |left| {
            let mut until_ms = counter.until_ms(now_ms);
            if mode == Mode::Closed {
                until_ms = until_ms.min(now_ms.saturating_add(QUOTA_DOWN_MS));
            }
            Allowance { level: self.level, quantity, amount, left, period_ms, until_ms }
        };
        let taken = match (quantity, mode) {
            (_, Mode::Closed) => Err(()),
            (Quantity::Requests, Mode::Limited) => counter.take(amount, now_ms),
            (Quantity::Requests, Mode::Open) => counter.take(QUOTA_MAX, now_ms).or(Ok(QUOTA_MAX)),
            (Quantity::Bytes | Quantity::Reported(_), Mode::Limited) => {
                Some(counter.used(now_ms)).filter(|used| *used < amount).ok_or(())
            }
            (Quantity::Bytes | Quantity::Reported(_), Mode::Open) => Ok(counter.used(now_ms)),
        };
        let left = taken.map(|used| amount.saturating_sub(used)).ok();
        let Some(left) = left else {
            let denial = self.level.denial(self.is_burst);
            return Err(Refused { denial, limit: allowance(0) });
        };
        match quantity {
            Quantity::Bytes | Quantity::Reported(_) => {
                let later = Later { quantity, counter: Arc::clone(counter) };
                if admitted.later.capacity() == 0 {
                    admitted.later = meters.lend();
                }
                admitted.later.push(later);
            }
            Quantity::Requests if admitted.tightest.is_none_or(|tightest| left < tightest.left) => {
                admitted.tightest = Some(allowance(left));
            }
            Quantity::Requests => {}
        }
        Ok(())
    }

    fn release(
        self,
        (meters, plans): (&mut WorkerMeters, &PlanTable),
        sender: Sender<'_>,
        now_ms: u64,
    ) {
        if self.limit.quantity == Quantity::Requests {
            let key = self.key((meters, plans), sender);
            meters.counter(key, now_ms).release(now_ms);
        }
    }

    /// The key does not depend on the limit's amount, so that a changed amount applies to the current window.
    fn key<'s>(
        self,
        (meters, plans): (&mut WorkerMeters, &PlanTable),
        sender: Sender<'s>,
    ) -> Key<'s> {
        let Limit { quantity, period_ms, by, .. } = self.limit;
        let number = match by {
            LimitBy::All => 0,
            LimitBy::User => 1,
            LimitBy::Address => 2,
            LimitBy::Values(_) => 3,
        };
        let (quantity, reported) = match quantity {
            Quantity::Requests => (0, None),
            Quantity::Bytes => (1, None),
            Quantity::Reported(number) => (2, Some(number)),
        };
        let kind = quantity << 3 | number << 1 | u64::from(self.is_burst);
        let mut of_limit = mix(self.key, mix(period_ms, kind));
        if let Some(number) = reported {
            of_limit = mix(of_limit, number);
        }
        let client = match (by, sender.user) {
            (LimitBy::All, _) => {
                return Key { hash: of_limit, period_ms, of_limit, client: None };
            }
            (LimitBy::User, Some((issuer, subject))) => Client::User(issuer, subject),
            (LimitBy::User, None) | (LimitBy::Address, _) => Client::Network((sender.network)()),
            (LimitBy::Values(number), _) => {
                of_limit = mix(of_limit, number);
                let values = |out: &mut Vec<u8>| (sender.values)(plans.key_parts(number), out);
                Client::Values(meters.digest(values))
            }
        };
        let hash = mix(of_limit, meters.hash(client));
        Key { hash, period_ms, of_limit, client: Some(client) }
    }
}

#[cfg(test)]
mod tests {
    use base::limits::QUOTA_SHARDS;
    use model::{Plan, Plans};

    use super::*;

    #[test]
    fn all_limits_apply_and_the_first_that_is_reached_refuses() {
        check(&[0, 0, 0, 1_000, 1_000, 1_000], "1 0 burst@1000 1 0 full@60000");
        check(&[0, 1, 60_000], "1 0 1");
    }

    #[test]
    fn a_refused_request_is_taken_back_from_the_limits_before() {
        let mut test = Test::new();
        assert_eq!(test.admit("a", "", 0), "1");
        assert_eq!(test.admit("a", "", 0), "0");
        for _ in 0..5 {
            assert_eq!(test.admit("a", "", 0), "burst@1000");
        }
        assert_eq!(test.admit("a", "", 1_000), "1", "two of four were counted");
    }

    #[test]
    fn users_of_a_plan_and_senders_are_counted_separately() {
        let mut test = Test::new();
        for (uses, user, expect) in [
            ("a", "", "1"),
            ("b", "", "1"),
            ("by user", "ann", "0"),
            ("by user", "bob", "0"),
            ("by user", "ann", "full@60000"),
            ("by user", "", "0"),
            ("by user", "", "full@60000"),
        ] {
            assert_eq!(test.admit(uses, user, 0), expect, "{uses} {user}");
        }
    }

    #[test]
    fn what_is_known_later_limits_by_what_was_counted_before_and_costs_no_memory() {
        let reported = |number, amount| Limit {
            quantity: Quantity::Reported(number),
            amount,
            period_ms: 60_000,
            by: LimitBy::All,
        };
        let mut test = Test::new();
        let mut plans = Plans::default();
        let limits = vec![reported(1, 10), reported(2, 1)];
        plans.insert(Plan { name: "plan".to_owned(), limits, burst: None });
        test.plans = PlanTable::compile(&Arc::new(plans), None);
        let (mut list, mut used) = (None, Vec::new());
        while let Ok(Admitted { later, .. }) = test.admitted("a", "", 0) {
            let memory = later.as_ptr();
            assert_eq!(*list.get_or_insert(memory), memory, "the one that was released");
            let [first, second] = later.as_slice() else { panic!("one for each limit") };
            assert_eq!([first.quantity, second.quantity], [1, 2].map(Quantity::Reported));
            first.counter.add(4, 0);
            used.push(first.counter.used(0));
            test.meters.release(later);
        }
        assert_eq!(used, [4, 8, 12], "the request that reaches the limit goes beyond it");
        test.admitted("a", "", 60_000).expect("a new window");
    }

    #[test]
    fn workers_share_counts_and_drop_them_when_their_windows_are_over() {
        let mut test = Test::new();
        let mut other = WorkerMeters::new(Arc::clone(&test.shared));
        assert_eq!(test.admit("a", "", 0), "1");
        std::mem::swap(&mut test.meters, &mut other);
        assert_eq!(test.admit("a", "", 0), "0");
        assert_eq!(test.shared.len(), 2);
        for now_ms in [1_000, 60_000] {
            for _ in 0..QUOTA_SHARDS {
                test.meters.sweep(now_ms);
                other.sweep(now_ms);
            }
            let expect = usize::from(now_ms == 1_000);
            // A counter that the other worker drops last is dropped in the next round.
            for _ in 0..QUOTA_SHARDS {
                test.meters.sweep(now_ms);
            }
            assert_eq!(test.shared.len(), expect, "at {now_ms}");
        }
    }

    #[test]
    fn too_many_users_share_counts_and_reach_their_limit_early() {
        let mut test = Test::with_room(4 * QUOTA_SHARDS);
        let users = (0..9 * QUOTA_SHARDS).map(|number| number.to_string());
        let refused = users.filter(|user| test.admit("by user", user, 0) != "0").count();
        assert!(refused > QUOTA_SHARDS, "{refused} share a count that is used up");
        assert!(test.shared.len() <= 5 * QUOTA_SHARDS, "one more for each shard");
        assert_eq!(test.admit("a", "", 0), "1", "those of the configuration are not shared");
    }

    struct Test {
        shared: Arc<Meters>,
        meters: WorkerMeters,
        plans: Arc<PlanTable>,
    }

    impl Test {
        /// Plans with four requests a minute and two a second, and with one a minute per user.
        fn new() -> Self {
            Self::with_room(1_000_000)
        }

        fn with_room(keys_max: usize) -> Self {
            let limit = |amount, period_ms, by| Limit {
                quantity: Quantity::Requests,
                amount,
                period_ms,
                by,
            };
            let mut plans = Plans::default();
            plans.insert(Plan {
                name: "plan".to_owned(),
                limits: vec![limit(4, 60_000, LimitBy::All)],
                burst: Some(limit(2, 1_000, LimitBy::All)),
            });
            let by_user = vec![limit(1, 60_000, LimitBy::User)];
            plans.insert(Plan { name: "by user".to_owned(), limits: by_user, burst: None });
            let shared = Arc::new(Meters::with_room(keys_max));
            let meters = WorkerMeters::new(Arc::clone(&shared));
            Self { shared, meters, plans: PlanTable::compile(&Arc::new(plans), None) }
        }

        fn admitted(&mut self, uses: &str, user: &str, now_ms: u64) -> Result<Admitted, Refused> {
            let plan = self.plans.number(if uses == "by user" { uses } else { "plan" });
            let key = crate::plans::key_of(&[uses]);
            let uses = [(Level::Subscription, PlanUse { plan, key, burst: None })];
            let user = Some(("iss", user)).filter(|(_, user)| !user.is_empty());
            let values = |parts: &[KeyPart], out: &mut Vec<u8>| {
                out.extend(format!("{parts:?} {user:?}").bytes());
            };
            let sender = Sender { user, network: &|| 7, values: &values };
            admit(&mut self.meters, &self.plans, uses.into_iter(), sender, now_ms)
        }

        /// The remaining amount, or the limit that refused and the time to try again.
        fn admit(&mut self, uses: &str, user: &str, now_ms: u64) -> String {
            match self.admitted(uses, user, now_ms) {
                Ok(admitted) => admitted.tightest.map_or(0, |limit| limit.left).to_string(),
                Err(Refused { denial, limit, .. }) => {
                    let which = if denial == Denial::SubscriptionBurst { "burst" } else { "full" };
                    format!("{which}@{}", limit.until_ms)
                }
            }
        }
    }

    #[track_caller]
    fn check(times_ms: &[u64], expect: &str) {
        let mut test = Test::new();
        let found: Vec<_> = times_ms.iter().map(|now_ms| test.admit("a", "", *now_ms)).collect();
        assert_eq!(found.join(" "), expect);
    }
}
