//! Reconciliation of the counts of several gateways, as decisions alone: what to send to Redis, and what its replies
//! mean. Who sends it, and when, is elsewhere (crate `reconcile`), so that a simulation can drive it.
//!
//! Of each counter, Redis has what every gateway has counted in a window, as a number that only grows, and their sum. A
//! gateway sends its own number and receives the sum of the others'. A report that arrives twice, late or after a newer
//! one therefore changes nothing, and one that is lost is made up for by the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use base::limits::{QUOTA_KEEP_MS, QUOTA_PUSH_MAX};

use super::counter::Counter;
use super::link::Link;
use super::meters::Meters;

/// The reconciliation of a gateway.
#[derive(Debug)]
pub struct Reconciler {
    meters: Arc<Meters>,
    link: Arc<Link>,
    queue: Receiver<Arc<Counter>>,
    /// Those that this round has to report.
    pending: VecDeque<Arc<Counter>>,
    /// Those of the last batch, with the windows that it named.
    sent: Vec<(Arc<Counter>, u64)>,
    clock: RemoteClock,
    connected: bool,
}

/// What a gateway has counted, for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of the counter, the same in all gateways.
    pub counter: u64,
    pub window: u64,
    pub count: u64,
    /// How long Redis keeps it.
    pub keep_ms: u64,
}

/// The reply to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Redis' clock.
    pub time_ms: u64,
    /// What others have counted, in the order of the reports.
    pub others: Vec<u64>,
}

impl Reconciler {
    /// For the counters of `meters`, which have this link, with the other end of its queue.
    #[must_use]
    pub fn new(meters: Arc<Meters>, link: Arc<Link>, queue: Receiver<Arc<Counter>>) -> Self {
        let (pending, sent, clock) = (VecDeque::new(), Vec::new(), RemoteClock::default());
        Self { meters, link, queue, pending, sent, clock, connected: false }
    }

    /// Begins a round, which reports the counters that have changed until now; with a new connection all, since Redis
    /// may have lost everything.
    pub fn begin(&mut self) {
        if !self.connected {
            self.meters.queue_all();
        }
        self.pending.extend(self.queue.try_iter());
    }

    /// What to send next, at `now_ms` of this machine: up to `QUOTA_PUSH_MAX` counters. Empty: only Redis' time is
    /// wanted. The round ends with a batch of fewer.
    pub fn batch(&mut self, now_ms: u64) -> Vec<Report> {
        let now_ms = self.link.time_ms(now_ms);
        self.sent.clear();
        let mut reports = Vec::new();
        let most = self.pending.len().min(QUOTA_PUSH_MAX);
        for counter in self.pending.drain(..most) {
            counter.dequeue();
            let own = counter.own(now_ms);
            let keep_ms = own.period_ms.saturating_add(QUOTA_KEEP_MS);
            reports.push(Report {
                counter: own.name,
                window: own.window,
                count: own.count,
                keep_ms,
            });
            self.sent.push((counter, own.window));
        }
        reports
    }

    /// Handles the reply to the last batch, sent and received at these times of this machine.
    pub fn replied(&mut self, reply: &Reply, sent_ms: u64, received_ms: u64) {
        self.link.set_ahead(self.clock.observe(reply.time_ms, sent_ms, received_ms));
        for ((counter, window), others) in self.sent.drain(..).zip(&reply.others) {
            counter.learn(window, *others);
        }
        self.connected = true;
        self.link.set_connected(true);
    }

    /// There is no reply to the last batch, or no connection.
    pub fn failed(&mut self) {
        self.sent.drain(..).for_each(|(counter, _)| counter.requeue());
        self.connected = false;
        self.link.set_connected(false);
    }
}

/// What is known of Redis' clock.
#[derive(Debug, Default)]
struct RemoteClock {
    best: Option<Observed>,
}

#[derive(Clone, Copy, Debug)]
struct Observed {
    ahead_ms: i64,
    error_ms: u64,
    at_ms: u64,
}

/// How fast the clocks of two machines may drift apart: 1 ms in 2 s, 500 ppm.
const DRIFT: u64 = 2_000;

impl RemoteClock {
    /// Returns what the remote clock is ahead, given what it showed between `sent_ms` and `received_ms`. A quick reply
    /// says more than a slow one: the error is half of the time between. What was observed grows less certain with
    /// time, and is wrong if it contradicts what is observed now: the remote clock was set.
    fn observe(&mut self, remote_ms: u64, sent_ms: u64, received_ms: u64) -> i64 {
        let error_ms = received_ms.saturating_sub(sent_ms).div_ceil(2);
        let middle_ms = sent_ms.saturating_add(error_ms);
        let ahead_ms = i64::try_from(remote_ms).unwrap_or(i64::MAX)
            - i64::try_from(middle_ms).unwrap_or(i64::MAX);
        let new = Observed { ahead_ms, error_ms, at_ms: received_ms };
        let best = self.best.filter(|best| {
            let now_ms = best.error_ms + received_ms.saturating_sub(best.at_ms) / DRIFT;
            now_ms < error_ms && best.ahead_ms.abs_diff(ahead_ms) <= now_ms + error_ms + 1
        });
        let best = best.unwrap_or(new);
        self.best = Some(best);
        best.ahead_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_reply_says_what_time_it_is() {
        // Sent, received, remote; what it is ahead.
        check("0 10 1005 1000, 100 300 1290 1000, 400 404 1401 999, 500 700 1700 999");
        // The remote clock is set back.
        check("0 10 1005 1000, 100 110 65 -40");
        // After ten minutes a slow reply is better than a quick one of then.
        check("0 2 1001 1000, 600000 600200 601000 900");
    }

    #[track_caller]
    fn check(observations: &str) {
        let mut clock = RemoteClock::default();
        for one in observations.split(", ") {
            let words: Vec<i64> = one.split(' ').map(|word| word.parse().expect("one")).collect();
            let [sent, received, remote, expect] = words[..] else { panic!("{one}") };
            let found = clock.observe(remote as u64, sent as u64, received as u64);
            assert_eq!(found, expect, "{one}");
        }
    }
}
