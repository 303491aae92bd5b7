//! Selection of the next endpoint of a set, and suspension of failing ones.
//!
//! ACTIVE --failures--> SUSPENDED --timeout--> one probe --> ACTIVE, or SUSPENDED for longer.
//! A failure is a refused, broken or timed-out exchange, never a status. State is per worker.
//!
//! By WSO2's rule, if an upstream has one, consecutive failures suspend. By default an endpoint is suspended if it
//! fails far more often than it works ([`Window::is_outlier`]), and never more than half of a set, so never a single
//! endpoint: clients of one path that breaks cannot take an endpoint away from all others.

use std::cell::Cell;
use std::rc::Rc;

use model::{Endpoint, Fault, Suspension, Upstream, UpstreamKind};

use super::pool::{Pool, Pools};

/// A worker's state of an endpoint set.
#[derive(Debug)]
pub(crate) struct Balancer {
    kind: UpstreamKind,
    /// `None`: outliers are suspended.
    suspension: Option<Suspension>,
    pub(crate) response_head_ms: u32,
    next: Cell<usize>,
    pub(crate) endpoints: Vec<EndpointState>,
}

/// A worker's state of an endpoint.
#[derive(Debug)]
pub(crate) struct EndpointState {
    pub(crate) config: Endpoint,
    pub(crate) authority: Rc<str>,
    pub(crate) pool: Rc<Pool>,
    health: Health,
}

#[derive(Debug, Default)]
struct Health {
    failures: Cell<u32>,
    /// End of the suspension; zero: active.
    suspended_until_us: Cell<u64>,
    /// Duration of the last suspension; zero after a success.
    suspended_ms: Cell<u32>,
    /// A probe is in progress: no other request is sent until it ends, or until this time.
    probing_until_us: Cell<u64>,
    window: Window,
}

/// How an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no connection: evidence about the endpoint, whatever was requested.
    Unreachable,
    /// The connection broke, or no valid response came in time: perhaps only for this path.
    Broken,
}

impl Failure {
    pub(crate) fn of(fault: &Fault) -> Self {
        if matches!(fault, Fault::Unreachable { .. } | Fault::ConnectTimeout { .. }) {
            Self::Unreachable
        } else {
            Self::Broken
        }
    }
}

/// What happened in the last one or two of [`WINDOW_US`].
#[derive(Debug, Default)]
struct Window {
    begun_us: Cell<u64>,
    current: Cell<Counts>,
    last: Cell<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    succeeded: u32,
    unreachable: u32,
    broken: u32,
}

/// Length of half a window of outlier detection, in microseconds.
const WINDOW_US: u64 = 2_000_000;
/// Least number of failed connections that make an outlier, if they are at least half of all exchanges.
const UNREACHABLE_MIN: u64 = 3;
/// Least number of broken exchanges that make an outlier, if they are at least nine in ten.
const BROKEN_MIN: u64 = 10;

impl Window {
    /// The counts of the current half, after moving on if its time is over.
    fn current(&self, now_us: u64) -> Counts {
        let age_us = now_us.saturating_sub(self.begun_us.get());
        if age_us >= WINDOW_US {
            let last = if age_us < 2 * WINDOW_US { self.current.get() } else { Counts::default() };
            self.last.set(last);
            self.current.set(Counts::default());
            self.begun_us.set(now_us);
        }
        self.current.get()
    }

    fn succeeded(&self, now_us: u64) {
        let counts = self.current(now_us);
        self.current.set(Counts { succeeded: counts.succeeded.saturating_add(1), ..counts });
    }

    fn failed(&self, failure: Failure, now_us: u64) {
        let mut counts = self.current(now_us);
        match failure {
            Failure::Unreachable => counts.unreachable = counts.unreachable.saturating_add(1),
            Failure::Broken => counts.broken = counts.broken.saturating_add(1),
        }
        self.current.set(counts);
    }

    fn is_outlier(&self) -> bool {
        let (current, last) = (self.current.get(), self.last.get());
        let sum = |count: fn(&Counts) -> u32| u64::from(count(&current)) + u64::from(count(&last));
        let unreachable = sum(|counts| counts.unreachable);
        let broken = sum(|counts| counts.broken);
        let all = sum(|counts| counts.succeeded) + unreachable + broken;
        unreachable >= UNREACHABLE_MIN && 2 * unreachable >= all
            || broken >= BROKEN_MIN && 10 * broken >= 9 * all
    }

    fn clear(&self) {
        self.current.set(Counts::default());
        self.last.set(Counts::default());
    }
}

/// Endpoints that a request has tried, by position. Positions from 63 on share a bit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tried(u64);

impl Tried {
    pub(crate) fn add(&mut self, position: usize) {
        self.0 |= 1 << position.min(63);
    }

    fn has(self, position: usize) -> bool {
        self.0 & (1 << position.min(63)) != 0
    }
}

impl Balancer {
    pub(crate) fn new(upstream: &Upstream, pools: &Pools) -> Self {
        let endpoint = |endpoint: &Endpoint| EndpointState {
            config: endpoint.clone(),
            authority: Rc::from(endpoint.authority.as_str()),
            pool: pools.of(endpoint),
            health: Health::default(),
        };
        Self {
            kind: upstream.kind,
            suspension: upstream.suspension,
            response_head_ms: upstream.response_head_ms,
            next: Cell::new(0),
            endpoints: upstream.endpoints.iter().map(endpoint).collect(),
        }
    }

    /// Selects the endpoint to try next; returns it with its position.
    ///
    /// # Errors
    /// [`Fault::NotReady`] for a single endpoint, [`Fault::NoReadyChild`] for a set, if all untried endpoints
    /// are suspended.
    pub(crate) fn choose(
        &self,
        now_us: u64,
        tried: Tried,
    ) -> Result<(usize, &EndpointState), Fault> {
        let count = self.endpoints.len();
        let first = match self.kind {
            UpstreamKind::Single | UpstreamKind::Failover => 0,
            UpstreamKind::RoundRobin => {
                let first = self.next.get();
                self.next.set((first + 1) % count.max(1));
                first
            }
        };
        (0..count)
            .map(|step| (first + step) % count)
            .filter_map(|position| {
                self.endpoints.get(position).map(|endpoint| (position, endpoint))
            })
            .find(|(position, endpoint)| !tried.has(*position) && endpoint.health.may_try(now_us))
            .ok_or_else(|| self.none_ready())
    }

    /// Whether an untried endpoint is available.
    pub(crate) fn has_another(&self, now_us: u64, tried: Tried) -> bool {
        self.endpoints
            .iter()
            .enumerate()
            .any(|(position, endpoint)| !tried.has(position) && endpoint.health.is_open(now_us))
    }

    fn none_ready(&self) -> Fault {
        let authority = self.endpoints.first().map_or("", |endpoint| &endpoint.config.authority);
        match self.kind {
            UpstreamKind::Single => Fault::NotReady { authority: authority.to_owned() },
            UpstreamKind::RoundRobin | UpstreamKind::Failover => {
                Fault::NoReadyChild { authority: authority.to_owned() }
            }
        }
    }

    /// The number of endpoints suspended at `now_us`.
    pub(crate) fn suspended(&self, now_us: u64) -> usize {
        self.endpoints.iter().filter(|endpoint| !endpoint.health.is_open(now_us)).count()
    }

    /// Records a failed exchange with `endpoint`.
    pub(crate) fn failed(&self, endpoint: &EndpointState, failure: Failure, now_us: u64) {
        let health = &endpoint.health;
        health.window.failed(failure, now_us);
        let suspended = match &self.suspension {
            Some(rule) => health.fail(rule, now_us),
            None => {
                let others = self.suspended(now_us) - usize::from(!health.is_open(now_us));
                let may = 2 * (others + 1) <= self.endpoints.len();
                health.fail_as_outlier(may, now_us)
            }
        };
        if let Some(duration_ms) = suspended {
            tracing::warn!(endpoint = %endpoint.authority, duration_ms, "endpoint suspended");
        }
    }
}

/// Allows the next probe when dropped, in case the request ended without an outcome.
pub(crate) struct ProbeGuard<'a>(Option<&'a Health>);

impl Drop for ProbeGuard<'_> {
    fn drop(&mut self) {
        if let Some(health) = self.0 {
            health.probing_until_us.set(0);
        }
    }
}

impl EndpointState {
    /// Call right after `choose`, and keep until the outcome is recorded.
    pub(crate) fn guard_probe(&self) -> ProbeGuard<'_> {
        let is_probe = self.health.probing_until_us.get() > 0;
        ProbeGuard(is_probe.then_some(&self.health))
    }

    /// Records a response head.
    pub(crate) fn succeeded(&self, now_us: u64) {
        self.health.window.succeeded(now_us);
        if self.health.suspended_until_us.get() > 0 {
            tracing::info!(endpoint = %self.authority, "endpoint active again");
        }
        if self.health.failures.get() > 0 || self.health.suspended_until_us.get() > 0 {
            self.health.failures.set(0);
            self.health.suspended_until_us.set(0);
            self.health.suspended_ms.set(0);
            self.health.probing_until_us.set(0);
        }
    }
}

/// Longest wait for the outcome of a probe before the next one, in microseconds.
const PROBE_US: u64 = 10_000_000;

impl Health {
    fn is_open(&self, now_us: u64) -> bool {
        self.suspended_until_us.get() <= now_us && self.probing_until_us.get() <= now_us
    }

    /// Like `is_open`; marks the request as the probe if a suspension has ended.
    fn may_try(&self, now_us: u64) -> bool {
        let open = self.is_open(now_us);
        if open && self.suspended_until_us.get() > 0 {
            self.probing_until_us.set(now_us.saturating_add(PROBE_US));
        }
        open
    }

    /// Records a failure where outliers are suspended. `may`: enough endpoints of the set are left. Returns the
    /// duration of the suspension that it starts, in milliseconds.
    fn fail_as_outlier(&self, may: bool, now_us: u64) -> Option<u32> {
        self.probing_until_us.set(0);
        let was_suspended = self.suspended_until_us.get() > 0;
        if !may {
            // It is used although it fails, like a single endpoint.
            self.suspended_until_us.set(0);
            return None;
        }
        if self.suspended_until_us.get() > now_us || !(was_suspended || self.window.is_outlier()) {
            return None;
        }
        self.window.clear();
        Some(self.suspend(&Suspension::default(), now_us))
    }

    /// Records a failure by WSO2's rule. Returns the duration of the suspension that it starts, in milliseconds.
    fn fail(&self, rule: &Suspension, now_us: u64) -> Option<u32> {
        let failures = self.failures.get().saturating_add(1);
        self.failures.set(failures);
        self.probing_until_us.set(0);
        let was_suspended = self.suspended_until_us.get() > 0;
        if rule.after_failures == 0 || (failures < rule.after_failures && !was_suspended) {
            return None;
        }
        if self.suspended_until_us.get() > now_us {
            return None;
        }
        Some(self.suspend(rule, now_us))
    }

    /// Suspends it, for longer than the last time. Returns the duration in milliseconds.
    fn suspend(&self, rule: &Suspension, now_us: u64) -> u32 {
        let duration_ms = match self.suspended_ms.get() {
            0 => rule.initial_ms,
            last => longer(last, rule.factor).min(rule.max_ms),
        };
        self.suspended_ms.set(duration_ms);
        self.suspended_until_us.set(now_us.saturating_add(u64::from(duration_ms) * 1_000).max(1));
        duration_ms
    }
}

/// `last_ms` times `factor`, at most `u32::MAX`.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped before the cast"
)]
fn longer(last_ms: u32, factor: f64) -> u32 {
    (f64::from(last_ms) * factor.max(1.0)).clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use model::Scheme;

    use super::*;

    const RULE: Suspension =
        Suspension { after_failures: 2, initial_ms: 1_000, factor: 2.0, max_ms: 3_000 };

    fn balancer(kind: UpstreamKind, count: u16, suspension: Option<Suspension>) -> Balancer {
        let endpoint = |number: u16| Endpoint {
            scheme: Scheme::Http,
            host: "127.0.0.1".to_owned(),
            port: 9000 + number,
            path: String::new(),
            authority: format!("127.0.0.1:{}", 9000 + number),
        };
        let upstream = Upstream {
            kind,
            endpoints: (0..count).map(endpoint).collect(),
            response_head_ms: 1_000,
            suspension,
        };
        Balancer::new(&upstream, &Pools::default())
    }

    #[track_caller]
    fn check(kind: UpstreamKind, count: u16, script: &str, expect: &str) {
        run(&balancer(kind, count, Some(RULE)), script, expect);
    }

    /// Without a rule in the file.
    #[track_caller]
    fn check_outliers(count: u16, script: &str, expect: &str) {
        let kind = if count == 1 { UpstreamKind::Single } else { UpstreamKind::Failover };
        run(&balancer(kind, count, None), script, expect);
    }

    /// Runs `script`: `?` selects an endpoint, `xN` records a failed connection to endpoint N, `bN` a broken
    /// exchange, `oN` a success, `+N` advances the clock by N milliseconds; `10*bN` is `bN` ten times. `expect` lists
    /// the selections.
    #[track_caller]
    fn run(balancer: &Balancer, script: &str, expect: &str) {
        let mut now_us = 0;
        let mut selected = Vec::new();
        let repeated = script.split(' ').flat_map(|word| {
            let (times, word) = word.split_once('*').unwrap_or(("1", word));
            std::iter::repeat_n(word, times.parse().unwrap())
        });
        for word in repeated {
            let number = word[1..].parse::<u32>().unwrap_or(0);
            match &word[..1] {
                "?" => selected.push(match balancer.choose(now_us, Tried::default()) {
                    Ok((position, _)) => position.to_string(),
                    Err(Fault::NotReady { .. }) => "303001".to_owned(),
                    Err(_) => "303000".to_owned(),
                }),
                "x" | "b" => {
                    let failure =
                        if word.starts_with('x') { Failure::Unreachable } else { Failure::Broken };
                    balancer.failed(&balancer.endpoints[number as usize], failure, now_us);
                }
                "o" => balancer.endpoints[number as usize].succeeded(now_us),
                _ => now_us += u64::from(number) * 1_000,
            }
        }
        assert_eq!(selected.join(" "), expect);
    }

    #[test]
    fn round_robin_skips_suspended_endpoints() {
        check(UpstreamKind::RoundRobin, 3, "? ? ? ?", "0 1 2 0");
        check(UpstreamKind::RoundRobin, 3, "x1 x1 ? ? ? ?", "0 2 2 0");
    }

    #[test]
    fn failover_uses_the_first_endpoint_that_is_not_suspended() {
        check(UpstreamKind::Failover, 2, "? ? x0 ? x0 ? ?", "0 0 0 1 1");
    }

    #[test]
    fn a_success_resets_the_failure_count() {
        check(UpstreamKind::Single, 1, "x0 o0 x0 ?", "0");
    }

    #[test]
    fn a_suspended_endpoint_is_not_ready_until_its_suspension_ends() {
        check(UpstreamKind::Single, 1, "x0 x0 ? +999 ? +1 ?", "303001 303001 0");
    }

    #[test]
    fn only_one_probe_is_sent_at_a_time() {
        check(UpstreamKind::Single, 1, "x0 x0 +1000 ? ? o0 ?", "0 303001 0");
        check(UpstreamKind::RoundRobin, 1, "x0 x0 +1000 ? ?", "0 303000");
    }

    #[test]
    fn each_failed_probe_doubles_the_suspension_up_to_the_maximum() {
        check(
            UpstreamKind::Single,
            1,
            "x0 x0 +1000 ? x0 +1999 ? +1 ? x0 +2999 ? +1 ? x0 +2999 ? +1 ?",
            "0 303001 0 303001 0 303001 0",
        );
    }

    #[test]
    fn a_probe_without_outcome_expires() {
        check(UpstreamKind::Single, 1, "x0 x0 +1000 ? +9999 ? +1 ?", "0 303001 0");
    }

    #[test]
    fn a_probe_whose_client_closes_allows_the_next() {
        let balancer = balancer(UpstreamKind::Single, 1, Some(RULE));
        let (_, endpoint) = balancer.choose(0, Tried::default()).unwrap();
        balancer.failed(endpoint, Failure::Broken, 0);
        balancer.failed(endpoint, Failure::Broken, 0);
        let (_, probed) = balancer.choose(1_000_000, Tried::default()).unwrap();
        let guard = probed.guard_probe();
        assert!(balancer.choose(1_000_000, Tried::default()).is_err());
        drop(guard);
        assert!(balancer.choose(1_000_000, Tried::default()).is_ok());
    }

    #[test]
    fn a_single_endpoint_is_never_suspended_by_default() {
        check_outliers(1, "100*x0 100*b0 ?", "0");
    }

    #[test]
    fn an_endpoint_that_cannot_be_reached_is_suspended_and_used_again_after_a_probe() {
        check_outliers(2, "x0 x0 ? x0 ? +999 ? +1 ? o0 ?", "0 1 1 0 0");
        check_outliers(2, "3*x0 +1000 ? x0 ? +1999 ? +1 ?", "0 1 1 0");
    }

    #[test]
    fn half_of_a_set_stays_in_use_however_it_fails() {
        check_outliers(2, "3*x0 9*x1 ?", "1");
        check_outliers(3, "3*x0 9*x1 ? 9*x2 ?", "1 1");
        check_outliers(4, "3*x0 3*x1 9*x2 ?", "2");
    }

    #[test]
    fn one_path_that_breaks_suspends_no_endpoint_that_serves_others() {
        check_outliers(2, "2*o0 10*b0 ?", "0");
        check_outliers(2, "1*o0 10*b0 ?", "1");
        check_outliers(2, "9*b0 ? b0 ?", "0 1");
    }

    #[test]
    fn failures_and_successes_of_the_past_do_not_count() {
        check_outliers(2, "2*x0 +4000 x0 ?", "0");
        check_outliers(2, "1000*o0 +4000 3*x0 ?", "1");
    }
}
