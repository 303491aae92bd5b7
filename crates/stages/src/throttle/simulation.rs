//! Gateways that share a limit by way of Redis, over thousands of random schedules: bursts of requests, clocks that
//! disagree, slow, lost and repeated messages, partitions, and a Redis that loses its memory. Each schedule is checked
//! against the bound of docs/quotas.md.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Limit, LimitBy, Plan, PlanUse, Plans, Quantity, WhenDown};

use super::*;
use crate::plans::PlanTable;

const SCHEDULES: u64 = 2_000;
const STEPS_MS: u64 = 1_200;
const PERIOD_MS: u64 = 400;
const INTERVAL_MS: u64 = 20;
const REPLY_MS_MAX: u64 = 60;
/// True time at the start.
const START_MS: u64 = 1_000_000_000;

#[test]
fn gateways_together_exceed_a_limit_by_no_more_than_the_stated_bound() {
    let mut exceeded = 0;
    for seed in 0..SCHEDULES {
        let mut world = World::new(seed);
        for now_ms in START_MS..START_MS + STEPS_MS {
            world.step(now_ms);
        }
        exceeded += usize::from(world.check(seed));
    }
    assert!(exceeded > 100, "only {exceeded} schedules exceed the limit at all");
}

/// As the script of the crate `reconcile` keeps it.
#[derive(Default)]
struct Redis {
    counts: HashMap<(u64, u64), HashMap<usize, u64>>,
    /// How often it has lost its memory. Connections from before are closed.
    start: u64,
    ahead_ms: u64,
}

impl Redis {
    fn report(&mut self, gateway: usize, report: Report) -> u64 {
        let counts = self.counts.entry((report.counter, report.window)).or_default();
        let own = counts.entry(gateway).or_default();
        *own = report.count.max(*own);
        counts.iter().filter(|(other, _)| **other != gateway).map(|(_, count)| count).sum()
    }
}

struct Gateway {
    workers: [WorkerMeters; 2],
    reconciler: Reconciler,
    /// What its clock is ahead of true time.
    ahead_ms: u64,
    start: u64,
    exchange: Exchange,
    /// When the counts of the last successful exchange were read.
    read_ms: u64,
    /// The longest time from reading counts to the reply to the next reading.
    lag_ms: u64,
    arrivals: Vec<u64>,
    partitioned_until_ms: u64,
}

enum Exchange {
    Idle {
        next_ms: u64,
    },
    /// `reply_ms` is `None` until Redis has seen it.
    Sent {
        sent_ms: u64,
        at_ms: u64,
        reports: Vec<Report>,
        reply: Option<(u64, Reply)>,
    },
}

struct World {
    random: Random,
    redis: Redis,
    gateways: Vec<Gateway>,
    plans: Arc<PlanTable>,
    limit: u64,
    /// Percent of messages that are lost, and that arrive again later.
    lossy: u64,
    delay_ms_max: u64,
    /// Messages that will arrive again.
    repeated: Vec<(u64, usize, Vec<Report>)>,
    admitted: BTreeMap<u64, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let limit = 1 + random.below(60);
        let mut plans = Plans::default();
        let one = Limit {
            quantity: Quantity::Requests,
            amount: limit,
            period_ms: PERIOD_MS,
            by: LimitBy::All,
        };
        plans.insert(Plan { name: "plan".to_owned(), limits: vec![one], burst: None });
        let count = 1 + random.below(5);
        Self {
            redis: Redis { ahead_ms: random.below(5_000), ..Redis::default() },
            gateways: (0..count).map(|_| Gateway::new(&mut random)).collect(),
            plans: PlanTable::compile(&Arc::new(plans), None),
            limit,
            lossy: [0, 0, 10, 40][random.index(4)],
            delay_ms_max: [1, 10, 50][random.index(3)],
            repeated: Vec::new(),
            admitted: BTreeMap::new(),
            random,
        }
    }

    fn step(&mut self, now_ms: u64) {
        if self.random.below(1_500) == 0 {
            self.redis.counts.clear();
            self.redis.start += 1;
        }
        for (_, gateway, reports) in self.repeated.extract_if(.., |(at_ms, ..)| *at_ms <= now_ms) {
            for report in reports {
                self.redis.report(gateway, report);
            }
        }
        for number in 0..self.gateways.len() {
            if self.random.below(2_000) == 0 {
                let until_ms = now_ms + self.random.below(300);
                self.gateways[number].partitioned_until_ms = until_ms;
            }
            self.exchange(number, now_ms);
            if self.random.below(20) == 0 {
                for _ in 0..self.random.below(12) {
                    self.arrive(number, now_ms);
                }
            }
        }
    }

    fn arrive(&mut self, number: usize, now_ms: u64) {
        let worker = self.random.index(2);
        let gateway = &mut self.gateways[number];
        gateway.arrivals.push(now_ms);
        let meters = &mut gateway.workers[worker];
        let time_ms = meters.time_ms(now_ms + gateway.ahead_ms);
        let plan = self.plans.number("plan");
        let uses = [(Level::Api, PlanUse { plan, key: 1, burst: None })];
        let sender = Sender { user: None, network: &|| 0, values: &|_, _| {} };
        let window = |limit: Allowance| limit.until_ms / PERIOD_MS - 1;
        match admit(meters, &self.plans, uses.into_iter(), sender, time_ms) {
            Ok(admitted) => {
                let limit = admitted.tightest.expect("the plan has one");
                *self.admitted.entry(window(limit)).or_default() += 1;
            }
            Err(Refused { limit, .. }) => {
                let admitted = self.admitted.get(&window(limit)).copied().unwrap_or_default();
                assert!(admitted >= self.limit, "refused after {admitted} of {}", self.limit);
            }
        }
    }

    fn exchange(&mut self, number: usize, now_ms: u64) {
        let Self { random, redis, repeated, .. } = self;
        let gateway = &mut self.gateways[number];
        let local_ms = now_ms + gateway.ahead_ms;
        let is_cut = gateway.partitioned_until_ms > now_ms || random.below(100) < self.lossy;
        match &mut gateway.exchange {
            Exchange::Idle { next_ms } if *next_ms > now_ms => {}
            Exchange::Idle { .. } if gateway.start != redis.start => {
                gateway.start = redis.start;
                gateway.reconciler.begin();
                gateway.reconciler.batch(local_ms);
                gateway.failed(now_ms);
            }
            Exchange::Idle { .. } => {
                gateway.reconciler.begin();
                let reports = gateway.reconciler.batch(local_ms);
                let at_ms = now_ms + random.below(self.delay_ms_max);
                gateway.exchange = Exchange::Sent { sent_ms: now_ms, at_ms, reports, reply: None };
            }
            Exchange::Sent { sent_ms, .. }
                if now_ms - *sent_ms > REPLY_MS_MAX || gateway.start != redis.start =>
            {
                gateway.failed(now_ms);
            }
            Exchange::Sent { at_ms, reports, reply, .. } if reply.is_none() => {
                if *at_ms > now_ms || gateway.partitioned_until_ms > now_ms {
                    return;
                }
                if random.below(100) < self.lossy {
                    // It arrives much later, as a repetition, or not at all.
                    if random.below(2) == 0 {
                        repeated.push((now_ms + random.below(400), number, reports.clone()));
                    }
                    *at_ms = u64::MAX;
                    return;
                }
                let others = reports.iter().map(|report| redis.report(number, *report));
                let others = others.collect();
                let time_ms = now_ms + redis.ahead_ms;
                // Lost replies never arrive.
                let back_ms = now_ms + random.below(self.delay_ms_max);
                let back_ms = if is_cut { u64::MAX } else { back_ms };
                *reply = Some((back_ms, Reply { time_ms, others }));
            }
            Exchange::Sent { sent_ms, reply, .. } => {
                let Some((back_ms, reply)) = reply else { return };
                if *back_ms > now_ms {
                    return;
                }
                let (sent_ms, reply) = (*sent_ms, reply.clone());
                gateway.reconciler.replied(&reply, sent_ms + gateway.ahead_ms, local_ms);
                gateway.lag_ms = gateway.lag_ms.max(now_ms - gateway.read_ms);
                gateway.read_ms = sent_ms;
                gateway.exchange = Exchange::Idle { next_ms: sent_ms + INTERVAL_MS };
            }
        }
    }

    /// Returns whether the limit was exceeded.
    fn check(&self, seed: u64) -> bool {
        let end_ms = START_MS + STEPS_MS;
        let lags = self.gateways.iter().map(|one| one.lag_ms.max(end_ms - one.read_ms));
        let lag_ms = lags.max().unwrap_or_default();
        let intervals = 2 + self.redis.start;
        let bound: u64 = self.gateways.iter().map(|one| intervals * one.most_within(lag_ms)).sum();
        let count = self.gateways.len() as u64;
        let most = (self.limit + bound).min(self.limit * count);
        for (window, admitted) in &self.admitted {
            assert!(
                *admitted <= most,
                "schedule {seed}, window {window}: {admitted} > {most} ({count} gateways, limit {}, lag {lag_ms} ms)",
                self.limit
            );
        }
        self.admitted.values().any(|admitted| *admitted > self.limit)
    }
}

impl Gateway {
    fn new(random: &mut Random) -> Self {
        let (link, queue) = Link::new(WhenDown::Local, b"");
        let meters = Arc::new(Meters::linked(Arc::clone(&link)));
        let worker = || WorkerMeters::new(Arc::clone(&meters));
        let workers = [worker(), worker()];
        Self {
            workers,
            reconciler: Reconciler::new(meters, link, queue),
            ahead_ms: random.below(3_000),
            start: 0,
            exchange: Exchange::Idle { next_ms: START_MS + random.below(INTERVAL_MS) },
            read_ms: START_MS,
            lag_ms: 0,
            arrivals: Vec::new(),
            partitioned_until_ms: 0,
        }
    }

    fn failed(&mut self, now_ms: u64) {
        self.reconciler.failed();
        self.exchange = Exchange::Idle { next_ms: now_ms + INTERVAL_MS };
    }

    /// The most requests that arrived within any interval of this length.
    fn most_within(&self, length_ms: u64) -> u64 {
        let from = |(at, first): (usize, &u64)| {
            self.arrivals[at..].iter().take_while(|one| **one <= first + length_ms).count() as u64
        };
        self.arrivals.iter().enumerate().map(from).max().unwrap_or_default()
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap_or_default()
    }
}
