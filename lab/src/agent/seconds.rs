//! The seconds of several agents, merged into one time series and one histogram log.
//!
//! Agents number their seconds from the start of the measured time, which is the same moment of the controller's clock
//! for all of them.

use std::collections::BTreeMap;

use crate::limits;
use crate::load::Incident;
use crate::load::LoadError;
use crate::load::Options;
use crate::load::monitor::{CpuTimes, point};
use crate::load::report::SeriesPoint;
use crate::load::statistics::Interval;
use crate::recording::hlog::{HistogramLog, TimedInterval};

const SECOND_US: u64 = 1_000_000;

pub(super) struct Seconds<'a> {
    options: &'a Options,
    /// Agents that will report further seconds, with the number of the latest that each has reported. One that was late
    /// reports two seconds as one, so numbers may be missing.
    running: BTreeMap<usize, Option<u64>>,
    /// By number: the sum of the agents that have reported it.
    pending: BTreeMap<u64, TimedInterval>,
    /// Seconds before this one are complete.
    next: u64,
    /// Reports of agents that came too late.
    left_out: u64,
    points: Vec<SeriesPoint>,
    log: Option<HistogramLog>,
    /// At the last complete second.
    cpu: Option<CpuTimes>,
}

impl<'a> Seconds<'a> {
    /// `from_unix_us`: the start of the measured time.
    ///
    /// # Errors
    /// [`LoadError::File`]: the histogram log exists or cannot be created.
    pub(super) fn new(
        options: &'a Options,
        agents: usize,
        from_unix_us: u64,
    ) -> Result<Self, LoadError> {
        let log = options.recordings.hlog.as_ref().map(|path| {
            let title = format!("penstock lab load {}", options.url);
            HistogramLog::create(path, from_unix_us, title)
                .map_err(|source| LoadError::File { path: path.clone(), source })
        });
        Ok(Self {
            options,
            running: (0..agents).map(|agent| (agent, None)).collect(),
            pending: BTreeMap::new(),
            next: 0,
            left_out: 0,
            points: Vec::new(),
            log: log.transpose()?,
            cpu: None,
        })
    }

    /// The measured time has begun.
    pub(super) fn begin(&mut self) {
        self.cpu.get_or_insert_with(|| CpuTimes::now(self.options));
    }

    /// Adds a second of an agent. One that comes after [`limits::AGENT_SECONDS_PENDING_MAX`] others is left out, an
    /// incident.
    pub(super) fn add(&mut self, agent: usize, second: &TimedInterval) {
        let number = second.from_us.saturating_add(SECOND_US / 2) / SECOND_US;
        if number < self.next {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let empty = || {
            let interval = Interval::new(self.options.shape.is_open());
            TimedInterval { interval, spent_us: 0, ..*second }
        };
        if let Some(latest) = self.running.get_mut(&agent) {
            *latest = Some(number).max(*latest);
        }
        let sum = self.pending.entry(number).or_insert_with(empty);
        sum.until_us = sum.until_us.max(second.until_us);
        sum.spent_us = sum.spent_us.saturating_add(second.spent_us);
        sum.interval.merge(&second.interval);
        self.complete();
    }

    /// The agent has ended, or is lost.
    pub(super) fn end(&mut self, agent: usize) {
        self.running.remove(&agent);
        self.complete();
    }

    fn complete(&mut self) {
        while let Some(entry) = self.pending.first_entry() {
            let has_all = self.running.values().all(|latest| *latest >= Some(*entry.key()));
            if !has_all && self.pending.len() <= limits::AGENT_SECONDS_PENDING_MAX {
                return;
            }
            let Some((number, sum)) = self.pending.pop_first() else { return };
            self.next = number.saturating_add(1);
            let target_us = self.cpu.as_mut().and_then(|cpu| cpu.advance(self.options).target_us);
            if let Some(point) = point(0, &sum, target_us)
                && self.points.len() < limits::LOAD_SERIES_MAX
            {
                self.points.push(point);
            }
            if let Some(log) = &self.log {
                log.push(sum);
            }
        }
    }

    pub(super) fn last(&self) -> Option<&SeriesPoint> {
        self.points.last()
    }

    /// The series, and why it or the histogram log is incomplete.
    pub(super) fn finish(self) -> (Vec<SeriesPoint>, Vec<Incident>) {
        let problem = self.log.and_then(|log| log.finish().err());
        let problem = problem.map(|error| format!("the histogram log is incomplete: {error}"));
        let late = (self.left_out > 0).then(|| {
            format!("the time series lacks {} seconds that agents reported too late", self.left_out)
        });
        let incidents = problem.into_iter().chain(late);
        (self.points, incidents.map(|problem| Incident::RawData { problem }).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_complete_when_all_running_agents_have_reported_it_or_a_later_one() {
        // Events: `A0` is second 0 of agent A, `A-` its end. Expected: requests of each complete second.
        for (events, expect) in [
            ("A0 A1 B0", "2"),
            ("A0 B0 B1 A1", "2 2"),
            ("A0 A1 B-", "1 1"),
            ("A0 B0 A- B1 B2", "2 1 1"),
            ("A0 B1 A1", "1 2"),
            ("A0 A2 B0 B1 B2", "2 1 2"),
            ("A0 A1 A2 B0 B2", "2 1 2"),
        ] {
            assert_eq!(found(events), expect, "{events}");
        }
    }

    #[test]
    fn a_silent_agent_delays_others_for_a_limited_number_of_seconds() {
        let most = limits::AGENT_SECONDS_PENDING_MAX;
        let events: Vec<String> = (0..=most).map(|second| format!("A{second}")).collect();
        assert_eq!(found(&events[..most].join(" ")), "");
        // The second that was reported without B does not count again.
        let events = format!("{} B0 B1", events.join(" "));
        assert_eq!(found(&events), "1 2");
        let (_, incidents) = seconds(&Options::new("http://localhost/"), &events).finish();
        let text: Vec<String> = incidents.iter().map(ToString::to_string).collect();
        assert_eq!(text, ["the time series lacks 1 seconds that agents reported too late"]);
    }

    fn found(events: &str) -> String {
        let options = Options::new("http://localhost/");
        let points = seconds(&options, events).points;
        let requests = points.iter().map(|point| point.requests.to_string());
        requests.collect::<Vec<_>>().join(" ")
    }

    fn seconds<'a>(options: &'a Options, events: &str) -> Seconds<'a> {
        let mut seconds = Seconds::new(options, 2, 0).unwrap();
        for event in events.split(' ') {
            let (agent, second) = event.split_at(1);
            let agent = usize::from(agent == "B");
            match second.parse::<u64>() {
                Err(_) => seconds.end(agent),
                Ok(second) => {
                    let mut interval = Interval::new(false);
                    interval.latencies_us.record(5).unwrap();
                    // Seconds begin some microseconds late.
                    let from_us = second * SECOND_US + 700 * agent as u64;
                    let until_us = from_us + SECOND_US;
                    seconds.add(agent, &TimedInterval { from_us, until_us, interval, spent_us: 1 });
                }
            }
        }
        seconds
    }
}
