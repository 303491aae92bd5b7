//! Gateways that share limits of requests and bytes by way of Redis, over thousands of random schedules: bursts of
//! requests, clocks that disagree, drift and are set, slow, lost and repeated messages, partitions, gateways that are
//! killed and started again or stand still, and a Redis that loses its memory. Each schedule is checked against the
//! bound of docs/quotas.md.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    let (mut exceeded, mut restarted) = (0, 0);
    for seed in 0..SCHEDULES {
        let mut world = World::new(seed);
        for now_ms in START_MS..START_MS + STEPS_MS {
            world.step(now_ms);
        }
        exceeded += usize::from(world.check(seed));
        restarted += usize::from(!world.ended.is_empty());
    }
    assert!(exceeded > 100, "only {exceeded} schedules exceed a limit at all");
    assert!(restarted > 100, "only {restarted} schedules have a restart");
}

/// The data as the script of the crate `reconcile` stores it.
#[derive(Default)]
struct Redis {
    counts: HashMap<(u64, u64), HashMap<usize, u64>>,
    /// Number of times that Redis has lost its memory, which closes connections.
    start: u64,
    ahead_ms: u64,
}

/// The limited quantities, in the order of the plan.
const QUANTITIES: [Quantity; 2] = [Quantity::Requests, Quantity::Bytes];

impl Redis {
    fn report(&mut self, gateway: usize, report: Report) -> u64 {
        let counts = self.counts.entry((report.counter, report.window)).or_default();
        let own = counts.entry(gateway).or_default();
        *own = report.count.max(*own);
        counts.iter().filter(|(other, _)| **other != gateway).map(|(_, count)| count).sum()
    }
}

/// A gateway process.
struct Gateway {
    /// The gateway's name in Redis.
    name: usize,
    link: Arc<Link>,
    workers: [WorkerMeters; 2],
    reconciler: Reconciler,
    /// Time by which the gateway's clock is ahead of true time at the start.
    ahead_ms: u64,
    /// Rate by which the clock is too fast, in millionths.
    fast: u64,
    start: u64,
    exchange: Exchange,
    /// The time at which the counts of the last successful exchange were read.
    read_ms: u64,
    /// The longest time from reading counts to the reply to the next reading.
    lag_ms: u64,
    /// Arrival times of requests, and their bytes.
    arrivals: Vec<(u64, u64)>,
    partitioned_until_ms: u64,
    /// End of the time for which the process or its machine is stopped.
    stands_until_ms: u64,
}

enum Exchange {
    Idle {
        next_ms: u64,
    },
    /// A batch on its way; `reply_ms` is `None` until Redis has received it.
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
    /// Gateways that were killed.
    ended: Vec<Gateway>,
    plans: Arc<PlanTable>,
    when_down: WhenDown,
    /// The limits of requests and of bytes.
    limits: [u64; 2],
    largest: u64,
    /// Percent of messages that are lost, and that arrive again later.
    lossy: u64,
    delay_ms_max: u64,
    /// Messages that will arrive again.
    repeated: Vec<(u64, usize, Vec<Report>)>,
    /// Admitted requests and bytes by window.
    admitted: BTreeMap<u64, [u64; 2]>,
    /// Windows in which a gateway without Redis has admitted everything.
    open: BTreeSet<u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let largest = 1 + random.below(8);
        let limits = [1 + random.below(60), 1 + random.below(60 * largest)];
        let of =
            |(quantity, amount)| Limit { quantity, amount, period_ms: PERIOD_MS, by: LimitBy::All };
        let both = QUANTITIES.into_iter().zip(limits).map(of).collect();
        let mut plans = Plans::default();
        plans.insert(Plan { name: "plan".to_owned(), limits: both, burst: None });
        let count = 1 + random.index(5);
        let when_down =
            [WhenDown::Local, WhenDown::Local, WhenDown::Open, WhenDown::Closed][random.index(4)];
        let gateway = |name| Gateway::new(name, when_down, START_MS, &mut random);
        Self {
            gateways: (0..count).map(gateway).collect(),
            ended: Vec::new(),
            redis: Redis { ahead_ms: 10_000 + random.below(5_000), ..Redis::default() },
            plans: PlanTable::compile(&Arc::new(plans), None),
            when_down,
            limits,
            largest,
            lossy: [0, 0, 10, 40][random.index(4)],
            delay_ms_max: [1, 10, 50][random.index(3)],
            repeated: Vec::new(),
            admitted: BTreeMap::new(),
            open: BTreeSet::new(),
            random,
        }
    }

    fn step(&mut self, now_ms: u64) {
        if self.random.below(1_500) == 0 {
            self.redis.counts.clear();
            self.redis.start += 1;
        }
        if self.random.below(6_000) == 0 {
            // Sets the gateway's clock, by up to two and a half windows.
            self.redis.ahead_ms = self.redis.ahead_ms + self.random.below(2_000) - 1_000;
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
            if self.random.below(3_000) == 0 {
                self.restart(number, now_ms);
            }
            if self.random.below(3_000) == 0 {
                self.gateways[number].stands_until_ms = now_ms + self.random.below(300);
            }
            if self.gateways[number].stands_until_ms > now_ms {
                continue;
            }
            self.exchange(number, now_ms);
            if self.random.below(20) == 0 {
                for _ in 0..self.random.below(12) {
                    self.arrive(number, now_ms);
                }
            }
        }
    }

    /// Kills a gateway, whose unreported counts are lost, and starts it again.
    fn restart(&mut self, number: usize, now_ms: u64) {
        let name = self.gateways.len() + self.ended.len();
        let mut new = Gateway::new(name, self.when_down, now_ms, &mut self.random);
        new.start = self.redis.start;
        let mut old = std::mem::replace(&mut self.gateways[number], new);
        old.lag_ms = old.lag_ms.max(now_ms - old.read_ms);
        self.ended.push(old);
    }

    fn arrive(&mut self, number: usize, now_ms: u64) {
        let (worker, bytes) = (self.random.index(2), 1 + self.random.below(self.largest));
        let gateway = &mut self.gateways[number];
        gateway.arrivals.push((now_ms, bytes));
        let mode = gateway.link.mode();
        let local_ms = gateway.local_ms(now_ms);
        let meters = &mut gateway.workers[worker];
        let time_ms = meters.time_ms(local_ms);
        let plan = self.plans.number("plan");
        let uses = [(Level::Api, PlanUse { plan, key: 1, burst: None })];
        let sender = Sender { user: None, network: &|| 0, values: &|_, _| {} };
        let window = |limit: Allowance| limit.until_ms / PERIOD_MS - 1;
        match admit(meters, &self.plans, uses.into_iter(), sender, time_ms) {
            Ok(admitted) => {
                assert_ne!(mode, Mode::Closed);
                admitted.later.iter().for_each(|later| later.counter.add(bytes, time_ms));
                let window = window(admitted.tightest.expect("the plan has one"));
                let [requests, all_bytes] = self.admitted.entry(window).or_default();
                (*requests, *all_bytes) = (*requests + 1, *all_bytes + bytes);
                if mode == Mode::Open {
                    self.open.insert(window);
                }
            }
            Err(Refused { limit, .. }) if mode == Mode::Limited => {
                let admitted = self.admitted.get(&window(limit)).copied().unwrap_or_default();
                let of = usize::from(limit.quantity == Quantity::Bytes);
                let (admitted, amount) = (admitted[of], self.limits[of]);
                assert!(admitted >= amount, "refused after {admitted} of {amount}");
            }
            Err(_) => assert_eq!(mode, Mode::Closed),
        }
    }

    fn exchange(&mut self, number: usize, now_ms: u64) {
        let Self { random, redis, repeated, .. } = self;
        let gateway = &mut self.gateways[number];
        let (name, local_ms) = (gateway.name, gateway.local_ms(now_ms));
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
                    // The message arrives much later, as a repetition, or not at all.
                    if random.below(2) == 0 {
                        repeated.push((now_ms + random.below(400), name, reports.clone()));
                    }
                    *at_ms = u64::MAX;
                    return;
                }
                let others = reports.iter().map(|report| redis.report(name, *report));
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
                let sent_local_ms = gateway.local_ms(sent_ms);
                gateway.reconciler.replied(&reply, sent_local_ms, local_ms);
                gateway.lag_ms = gateway.lag_ms.max(now_ms - gateway.read_ms);
                gateway.read_ms = sent_ms;
                gateway.exchange = Exchange::Idle { next_ms: sent_ms + INTERVAL_MS };
            }
        }
    }

    /// Returns whether a limit was exceeded.
    fn check(&self, seed: u64) -> bool {
        let end_ms = START_MS + STEPS_MS;
        let running = self.gateways.iter().map(|one| one.lag_ms.max(end_ms - one.read_ms));
        let lags = running.chain(self.ended.iter().map(|one| one.lag_ms));
        let lag_ms = lags.max().unwrap_or_default();
        let processes = || self.gateways.iter().chain(&self.ended);
        let (count, losses) = (processes().count() as u64, self.redis.start);
        let mut exceeded = false;
        for (of, limit) in self.limits.into_iter().enumerate() {
            let excess = |one: &Gateway| (2 + losses) * one.most_within(lag_ms, of);
            let bound: u64 = limit + processes().map(excess).sum::<u64>();
            // The last exchange may exceed a limit of bytes.
            let alone = count * (limit + [0, self.largest - 1][of]);
            // If Redis loses its memory, the counts of ended processes are lost.
            let is_lost = losses > 0 && !self.ended.is_empty();
            let most = if is_lost { alone } else { bound.min(alone) };
            for (window, admitted) in self.admitted.iter().filter(|(at, _)| !self.open.contains(at))
            {
                let (admitted, quantity) = (admitted[of], QUANTITIES[of]);
                assert!(
                    admitted <= most,
                    "schedule {seed}, window {window}: {admitted} > {most} {quantity:?} \
                     ({count} processes, limit {limit}, lag {lag_ms} ms)"
                );
                exceeded |= admitted > limit;
            }
        }
        exceeded
    }
}

impl Gateway {
    fn new(name: usize, when_down: WhenDown, now_ms: u64, random: &mut Random) -> Self {
        let (link, queue) = Link::new(when_down, b"");
        let meters = Arc::new(Meters::linked(Arc::clone(&link)));
        let worker = || WorkerMeters::new(Arc::clone(&meters));
        let workers = [worker(), worker()];
        Self {
            name,
            link: Arc::clone(&link),
            workers,
            reconciler: Reconciler::new(meters, link, queue),
            ahead_ms: random.below(3_000),
            fast: random.below(20_000),
            start: 0,
            exchange: Exchange::Idle { next_ms: now_ms + random.below(INTERVAL_MS) },
            read_ms: now_ms,
            lag_ms: 0,
            arrivals: Vec::new(),
            partitioned_until_ms: 0,
            stands_until_ms: 0,
        }
    }

    /// The gateway's local time.
    fn local_ms(&self, now_ms: u64) -> u64 {
        now_ms + self.ahead_ms + (now_ms - START_MS) * self.fast / 1_000_000
    }

    fn failed(&mut self, now_ms: u64) {
        self.reconciler.failed();
        self.exchange = Exchange::Idle { next_ms: now_ms + INTERVAL_MS };
    }

    /// The maximum of requests, or bytes, that arrived within any interval of this length.
    fn most_within(&self, length_ms: u64, of: usize) -> u64 {
        let from = |(at, first): (usize, &(u64, u64))| {
            let within = self.arrivals[at..].iter().take_while(|one| one.0 <= first.0 + length_ms);
            within.map(|one| [1, one.1][of]).sum::<u64>()
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
