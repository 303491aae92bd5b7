//! Stages (open loop): a rate that is held, changes linearly, or jumps, one stage after the other. The warm-up, if any,
//! runs at the initial rate.
//!
//! Request n is due when the area below the rate reaches n, so the same requests are due for any number of threads.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arrivals::ArrivalNumbers;
use super::users::whole;
use super::{IdleUser, NextStart, Part, Scheduler, Timeline};
use crate::limits;
use crate::load::{parse_duration, us};

/// The course of a rate, written `100/s for 10s, to 1000/s in 30s, 1000/s for 1m`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Stages(Vec<Stage>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stage {
    from_per_s: f64,
    to_per_s: f64,
    duration: Duration,
}

impl Stage {
    fn requests(&self) -> f64 {
        f64::midpoint(self.from_per_s, self.to_per_s) * self.duration.as_secs_f64()
    }

    /// The time from the stage's start until `requests` of it are due.
    ///
    /// At a rate a + g t, a t + g t^2 / 2 requests are due before t. This solves for t in the form that is
    /// also exact for g = 0.
    fn after_s(&self, requests: f64) -> f64 {
        if requests <= 0.0 {
            return 0.0;
        }
        let growth_per_s = (self.to_per_s - self.from_per_s) / self.duration.as_secs_f64();
        let under_root = self.from_per_s * self.from_per_s + 2.0 * growth_per_s * requests;
        2.0 * requests / (self.from_per_s + under_root.max(0.0).sqrt())
    }
}

impl Stages {
    /// Linear from the first rate to the second.
    pub(super) fn ramp((from_per_s, to_per_s): (f64, f64), duration: Duration) -> Self {
        Self(vec![Stage { from_per_s, to_per_s, duration }])
    }

    /// The length of all stages.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.0.iter().fold(Duration::ZERO, |sum, stage| sum.saturating_add(stage.duration))
    }

    /// The average rate.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        let requests: f64 = self.0.iter().map(Stage::requests).sum();
        requests / self.duration().as_secs_f64()
    }

    /// # Errors
    /// A message that starts with `stages`.
    pub(super) fn check(&self) -> Result<(), String> {
        let (count, most) = (self.0.len(), limits::LOAD_STAGES_MAX);
        if count == 0 || count > most {
            return Err(format!("stages: expected 1 to {most}, not {count}"));
        }
        let rate_max = limits::LOAD_RATE_MAX as f64;
        let rates = self.0.iter().flat_map(|stage| [stage.from_per_s, stage.to_per_s]);
        if let Some(rate) = rates.into_iter().find(|rate| !(0.0..=rate_max).contains(rate)) {
            return Err(format!("stages: expected 0/s to {rate_max}/s, not {rate}/s"));
        }
        if let Some(stage) = self.0.iter().find(|stage| stage.duration.is_zero()) {
            return Err(format!("stages: `{}/s` must take longer than 0s", stage.to_per_s));
        }
        if self.0.iter().map(Stage::requests).sum::<f64>() < 1.0 {
            return Err("stages: no request is due".to_owned());
        }
        Ok(())
    }
}

impl FromStr for Stages {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut stages = Vec::new();
        let mut rate_per_s = 0.0;
        for written in text.split(',') {
            let words: Vec<&str> = written.split_whitespace().collect();
            let (rate, time, is_ramp) = match words[..] {
                [rate, "for", time] => (rate, time, false),
                ["to", rate, "in", time] => (rate, time, true),
                _ => return Err(not_understood(written)),
            };
            let digits = rate.strip_suffix("/s").ok_or_else(|| not_understood(written))?;
            let to_per_s: f64 = digits.parse().map_err(|_| not_understood(written))?;
            let from_per_s = if is_ramp { rate_per_s } else { to_per_s };
            stages.push(Stage { from_per_s, to_per_s, duration: parse_duration(time)? });
            rate_per_s = to_per_s;
        }
        let stages = Self(stages);
        stages.check().map(|()| stages)
    }
}

fn not_understood(stage: &str) -> String {
    let stage = stage.trim();
    format!("stages: `{stage}` is not a stage; write `100/s for 10s` or `to 1000/s in 30s`")
}

impl fmt::Display for Stages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let Stage { from_per_s, to_per_s, duration } = stage;
            let is_held = from_per_s.total_cmp(to_per_s).is_eq();
            let (to, how) = if is_held { ("", "for") } else { ("to ", "in") };
            write!(out, "{separator}{to}{to_per_s}/s {how} {}s", duration.as_secs_f64())?;
        }
        Ok(())
    }
}

impl TryFrom<String> for Stages {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Stages> for String {
    fn from(stages: Stages) -> Self {
        stages.to_string()
    }
}

/// Arrivals at the rate of the stages.
pub(super) struct StagedArrivals {
    begin_us: u64,
    stages: Stages,
    warm_up: Stage,
    turns: ArrivalNumbers,
}

impl StagedArrivals {
    pub(super) fn new(timeline: Timeline, part: Part, stages: Stages) -> Self {
        let rate_per_s = stages.0.first().map_or(0.0, |stage| stage.from_per_s);
        let warm_up_us = timeline.from_us.saturating_sub(timeline.begin_us);
        let warm_up = Stage {
            from_per_s: rate_per_s,
            to_per_s: rate_per_s,
            duration: Duration::from_micros(warm_up_us),
        };
        Self { begin_us: timeline.begin_us, stages, warm_up, turns: ArrivalNumbers::new(part) }
    }

    /// When request `turn` is due, in microseconds after the start; `None` after the last stage.
    fn due_us(&self, turn: u64) -> Option<u64> {
        let mut left = turn as f64;
        let mut start_us = 0;
        for stage in std::iter::once(&self.warm_up).chain(&self.stages.0) {
            let requests = stage.requests();
            if left < requests {
                return Some(whole(stage.after_s(left) * 1_000_000.0).saturating_add(start_us));
            }
            left -= requests;
            start_us = start_us.saturating_add(us(stage.duration));
        }
        None
    }
}

impl Scheduler for StagedArrivals {
    fn next(&mut self, _: IdleUser) -> NextStart {
        let turn = self.turns.next();
        let due_us = self.due_us(turn);
        NextStart::Due(due_us.map_or(u64::MAX, |us| self.begin_us.saturating_add(us)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::super::tests::COURSE;
    use super::*;

    const FREE: IdleUser = IdleUser { user: 0, made: 0, since_us: 0 };

    #[test]
    fn stages_are_read_and_written() {
        for (text, seconds, rate_per_s) in [
            ("100/s for 10s", 10.0, 100.0),
            ("to 100/s in 10s", 10.0, 50.0),
            ("100/s for 10s, to 1000/s in 30s, 1000/s for 60s", 100.0, 775.0),
            ("10/s for 0.5s, 0/s for 1s, 2.5/s for 0.5s, to 0/s in 2s", 4.0, 2.1875),
        ] {
            let stages: Stages = text.parse().unwrap();
            assert_eq!(stages.to_string(), text);
            assert_eq!(
                (stages.duration().as_secs_f64(), stages.rate_per_s()),
                (seconds, rate_per_s)
            );
            let json = serde_json::to_string(&stages).unwrap();
            assert_eq!(serde_json::from_str::<Stages>(&json).unwrap(), stages);
        }
        assert_eq!("1/s for 1m".parse::<Stages>().unwrap().to_string(), "1/s for 60s");
    }

    #[test]
    fn invalid_stages_are_named() {
        let many = vec!["1/s for 1s"; limits::LOAD_STAGES_MAX + 1].join(",");
        for (text, expect) in [
            ("", "`` is not a stage"),
            ("100/s", "`100/s` is not a stage"),
            ("100 for 10s", "`100 for 10s` is not a stage"),
            ("1/s for 1s, to 2/s for 1s", "`to 2/s for 1s` is not a stage"),
            ("1/s for 10", "`10` is not a duration"),
            ("1/s for 0s", "`1/s` must take longer"),
            ("-1/s for 1s", "not -1/s"),
            ("nan/s for 1s", "not NaN/s"),
            ("2000000/s for 1s", "not 2000000/s"),
            ("0/s for 10s", "no request is due"),
            (&many, "1 to 100, not 101"),
        ] {
            let error = text.parse::<Stages>().unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }

    #[test]
    fn requests_are_due_where_the_area_below_the_rate_is_whole() {
        // 10 s of warm-up at 1/s, 4 in 4 s, 4.5 on the way to 2/s, a pause, and a spike.
        let due = due("1/s for 4s, to 2/s in 3s, 0/s for 4s, 4/s for 1s", Part::WHOLE);
        let at_ms: Vec<u64> = due.iter().map(|us| us / 1_000).collect();
        let constant = (2..16).map(|second| second * 1_000);
        let rest = [16_000, 16_872, 17_582, 18_196, 18_744, 23_125, 23_375, 23_625, 23_875];
        assert_eq!(at_ms, constant.chain(rest).collect::<Vec<_>>());
    }

    #[test]
    fn parts_interleave() {
        let text = "to 50/s in 3s, 50/s for 2s, to 0/s in 5s";
        for of in [2, 3, 5] {
            let mut all: Vec<u64> =
                (0..of).flat_map(|index| due(text, Part { index, of })).collect();
            all.sort_unstable();
            assert_eq!(all, due(text, Part::WHOLE), "{of} parts");
        }
        assert_eq!(due(text, Part::WHOLE).len(), 300);
    }

    fn due(text: &str, part: Part) -> Vec<u64> {
        let mut arrivals = StagedArrivals::new(COURSE, part, text.parse().unwrap());
        let due = std::iter::from_fn(|| match arrivals.next(FREE) {
            NextStart::Due(us) => (us < u64::MAX).then_some(us),
            other @ (NextStart::Now | NextStart::At(_)) => panic!("{other:?}"),
        });
        due.collect()
    }
}
