//! Reconciliation of the counts of several gateways, without I/O: decides which reports to send to Redis, and evaluates
//! the replies. The crate `reconcile` sends them, so that a simulation can drive this module.
//!
//! For each counter and window, Redis stores the count of every gateway, as a number that only grows, and their sum. A
//! gateway sends its own count and receives the sum of the others. A report that arrives twice, late or after a newer
//! one therefore changes nothing, and the next report makes up for a lost one.

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
    /// The counters that this round has to report.
    pending: VecDeque<Arc<Counter>>,
    /// The counters of the last batch, with the windows that it named.
    sent: Vec<(Arc<Counter>, u64)>,
    clock: RemoteClock,
    connected: bool,
}

/// A gateway's count, for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the counter, the same in all gateways.
    pub counter: u64,
    pub window: u64,
    pub count: u64,
    /// Time for which Redis keeps the count.
    pub keep_ms: u64,
}

/// The reply to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Redis' clock.
    pub time_ms: u64,
    /// The counts of other gateways, in the order of the reports.
    pub others: Vec<u64>,
}

impl Reconciler {
    /// Creates the reconciliation for the counters of `meters`, which have this link. `queue` is the other end of the
    /// link's queue.
    #[must_use]
    pub fn new(meters: Arc<Meters>, link: Arc<Link>, queue: Receiver<Arc<Counter>>) -> Self {
        let (pending, sent, clock) = (VecDeque::new(), Vec::new(), RemoteClock::default());
        Self { meters, link, queue, pending, sent, clock, connected: false }
    }

    /// Begins a round, which reports the counters that have changed. With a new connection it reports all of them,
    /// since Redis may have lost its data.
    pub fn begin(&mut self) {
        if !self.connected {
            self.meters.queue_all();
        }
        self.pending.extend(self.queue.try_iter());
    }

    /// The next batch to send, at `now_ms` of this machine: up to `QUOTA_PUSH_MAX` counters. An empty batch only asks
    /// for Redis' time. A batch of fewer counters ends the round.
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

    /// Handles a missing reply to the last batch, or a lost connection.
    pub fn failed(&mut self) {
        self.sent.drain(..).for_each(|(counter, _)| counter.requeue());
        self.connected = false;
        self.link.set_connected(false);
    }
}

/// An estimate of Redis' clock.
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

/// Assumed maximum drift between the clocks of two machines: 1 ms in 2 s, 500 ppm.
const DRIFT: u64 = 2_000;

impl RemoteClock {
    /// Returns the time by which the remote clock is ahead, given its value between `sent_ms` and `received_ms`. A
    /// quick reply is more precise than a slow one: the error is half of the time in between. An earlier observation
    /// becomes less certain with time, and is discarded if it contradicts the present one, because the remote clock was
    /// set.
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
        // Times of sending and receipt, remote time; the resulting difference.
        check("0 10 1005 1000, 100 300 1290 1000, 400 404 1401 999, 500 700 1700 999");
        // The remote clock is set back.
        check("0 10 1005 1000, 100 110 65 -40");
        // After ten minutes a slow reply is better than an old quick one.
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
