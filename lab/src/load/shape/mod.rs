//! Load shapes: when each request starts. One file each (docs/adding-a-load-shape.md).
//!
//! A shape reads the timeline of a measurement and the time at which a user became idle, and returns a
//! [`NextStart`]. The generator waits, sends and counts.
//!
//! - *Closed*: a user's next request follows its last response ([`users`], [`think`]). A slow target gets
//!   fewer requests, so slow periods are under-represented.
//! - *Open*: requests are due on a schedule ([`arrivals`]), independent of the target. Latency counts from the due time
//!   and so includes any wait. [`poisson`]: the same at random times.
//! - *Ramp*: either of them, increasing over the measured time ([`ramp`]).
//! - *Stages*: an open loop whose rate is held, changes or jumps, as written ([`stages`]).
//!
//! Architecture invariant: no clock, no socket, no protocol. The result is the same for any number of threads
//! and agents.

mod arrivals;
mod poisson;
mod ramp;
mod stages;
mod think;
mod users;

use std::time::Duration;

use crate::limits;
use serde::{Deserialize, Serialize};

pub use stages::Stages;
pub use think::Think;

/// When requests are sent to the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Shape {
    /// Each user has one request in flight, and pauses for `think` between requests.
    Closed {
        #[serde(default, deserialize_with = "think::written")]
        think: Think,
    },
    /// Requests are due at even intervals. `users` is the maximum number of connections.
    Arrivals { rate_per_s: f64 },
    /// As `Arrivals`, at random times: a Poisson process.
    Poisson { rate_per_s: f64 },
    /// As `Closed`: `from` users during the warm-up; the others join at even intervals over the measured
    /// time.
    RampUsers {
        from: usize,
        #[serde(default, deserialize_with = "think::written")]
        think: Think,
    },
    /// As `Arrivals`: `from_per_s` during the warm-up, then linear to `to_per_s` at the end of the measured
    /// time.
    RampArrivals { from_per_s: f64, to_per_s: f64 },
    /// As `Arrivals`, at rates that change from stage to stage. They take the whole measured time.
    Stages { stages: Stages },
}

impl Default for Shape {
    /// As in WSO2's test plans: closed, without think time.
    fn default() -> Self {
        Self::Closed { think: Think::None }
    }
}

/// A shape's entry in the help text.
pub struct ShapeInfo {
    pub name: &'static str,
    pub flags: &'static str,
    pub summary: &'static str,
}

/// Every shape; `penstock lab load --help` is generated from it.
#[rustfmt::skip]
pub const LOAD_SHAPES: &[ShapeInfo] = &[
    ShapeInfo { name: "closed",        flags: "--users N",                    summary: "N users; each \
     waits for its response before it sends the next request" },
    ShapeInfo { name: "think",         flags: "--users N --think-time T",     summary: "the same, with a \
     pause between response and next request" },
    ShapeInfo { name: "arrivals",      flags: "--rate R [--users N]",         summary: "R requests per \
     second on at most N connections" },
    ShapeInfo { name: "poisson",       flags: "--rate R --poisson [--users N]", summary: "the same rate at \
     random times, as of independent clients" },
    ShapeInfo { name: "ramp-users",    flags: "--users N --ramp FROM",        summary: "the number of \
     users increases from FROM to N over the measured time" },
    ShapeInfo { name: "ramp-arrivals", flags: "--rate R --ramp FROM [--users N]", summary: "the rate \
     increases from FROM to R over the measured time" },
    ShapeInfo { name: "stages",        flags: "--stages STAGES [--users N]",  summary: "rates that are held, \
     change or jump: '100/s for 10s, to 1000/s in 30s'" },
];

impl Shape {
    /// Name of the shape in [`LOAD_SHAPES`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Closed { think: Think::None } => "closed",
            Self::Closed { think: Think::Constant { .. } | Think::Uniform { .. } } => "think",
            Self::Arrivals { .. } => "arrivals",
            Self::Poisson { .. } => "poisson",
            Self::RampUsers { .. } => "ramp-users",
            Self::RampArrivals { .. } => "ramp-arrivals",
            Self::Stages { .. } => "stages",
        }
    }

    /// Whether requests are due on a schedule.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Arrivals { .. }
            | Self::Poisson { .. }
            | Self::RampArrivals { .. }
            | Self::Stages { .. } => true,
            Self::Closed { .. } | Self::RampUsers { .. } => false,
        }
    }

    /// Whether it depends on the length of the measured time.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        match self {
            Self::RampUsers { .. } | Self::RampArrivals { .. } | Self::Stages { .. } => true,
            Self::Closed { .. } | Self::Arrivals { .. } | Self::Poisson { .. } => false,
        }
    }

    /// Average arrival rate over the measured time; `None` for a closed loop.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        match self {
            Self::Arrivals { rate_per_s } | Self::Poisson { rate_per_s } => Some(*rate_per_s),
            Self::RampArrivals { from_per_s, to_per_s } => {
                Some(f64::midpoint(*from_per_s, *to_per_s))
            }
            Self::Stages { stages } => Some(stages.rate_per_s()),
            Self::Closed { .. } | Self::RampUsers { .. } => None,
        }
    }

    /// Average number of users over the measured time, out of `users`; `None` for an open loop.
    #[must_use]
    pub fn mean_users(&self, users: usize) -> Option<f64> {
        match self {
            Self::Closed { .. } => Some(users as f64),
            Self::RampUsers { from, .. } => Some(f64::midpoint(*from as f64, users as f64)),
            Self::Arrivals { .. }
            | Self::Poisson { .. }
            | Self::RampArrivals { .. }
            | Self::Stages { .. } => None,
        }
    }

    /// Average pause between two requests of a user, in milliseconds.
    #[must_use]
    pub fn mean_pause_ms(&self) -> f64 {
        match self {
            Self::Closed { think } | Self::RampUsers { think, .. } => {
                think.mean_us() as f64 / 1_000.0
            }
            Self::Arrivals { .. }
            | Self::Poisson { .. }
            | Self::RampArrivals { .. }
            | Self::Stages { .. } => 0.0,
        }
    }

    /// The measured time that it requires.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        match self {
            Self::Stages { stages } => Some(stages.duration()),
            Self::Closed { .. }
            | Self::RampUsers { .. }
            | Self::Arrivals { .. }
            | Self::Poisson { .. }
            | Self::RampArrivals { .. } => None,
        }
    }

    /// # Errors
    /// A message that starts with the name of the value out of range.
    pub fn check(&self, users: usize) -> Result<(), String> {
        match self {
            Self::Closed { think } => think.check(),
            Self::Arrivals { rate_per_s } | Self::Poisson { rate_per_s } => {
                check_rate("rate", *rate_per_s)
            }
            Self::RampUsers { from, .. } if *from == 0 || *from > users => {
                Err(format!("ramp: expected 1 to {users} users, not {from}"))
            }
            Self::RampUsers { think, .. } => think.check(),
            Self::RampArrivals { from_per_s, to_per_s } => {
                check_rate("ramp", *from_per_s).and_then(|()| check_rate("rate", *to_per_s))
            }
            Self::Stages { stages } => stages.check(),
        }
    }

    /// The scheduler for one of the threads that share a measurement.
    pub(crate) fn scheduler(
        &self,
        timeline: Timeline,
        part: Part,
        seed: u64,
    ) -> Box<dyn Scheduler> {
        match self {
            Self::Closed { think } => Box::new(users::Users::new(timeline, *think, seed)),
            Self::Arrivals { rate_per_s } => {
                Box::new(arrivals::Arrivals::new(timeline, part, *rate_per_s))
            }
            Self::Poisson { rate_per_s } => {
                Box::new(poisson::Poisson::new(timeline, part, *rate_per_s, seed))
            }
            Self::RampUsers { from, think } => {
                Box::new(ramp::RampUsers::new(timeline, *from, *think, seed))
            }
            Self::RampArrivals { from_per_s, to_per_s } => {
                let measured_us = timeline.until_us.saturating_sub(timeline.from_us);
                let measured = Duration::from_micros(measured_us);
                let ramp = Stages::ramp((*from_per_s, *to_per_s), measured);
                Box::new(stages::StagedArrivals::new(timeline, part, ramp))
            }
            Self::Stages { stages } => {
                Box::new(stages::StagedArrivals::new(timeline, part, stages.clone()))
            }
        }
    }
}

fn check_rate(name: &str, per_s: f64) -> Result<(), String> {
    let least = 1.0 / limits::LOAD_INTERVAL_S_MAX as f64;
    let most = limits::LOAD_RATE_MAX as f64;
    if (least..=most).contains(&per_s) {
        return Ok(());
    }
    Err(format!(
        "{name}: expected 1/{} to {most} requests per second, not {per_s}",
        limits::LOAD_INTERVAL_S_MAX
    ))
}

/// The times of a measurement, in microseconds of its clock, and the total number of users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Start of the warm-up.
    pub(crate) begin_us: u64,
    /// Start of the measured time.
    pub(crate) from_us: u64,
    /// End of the measured time, unless it is ended early.
    pub(crate) until_us: u64,
    pub(crate) users: usize,
}

/// A share of work that is divided equally: a generator thread, or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// 0 to `of - 1`.
    pub(crate) index: usize,
    pub(crate) of: usize,
}

impl Part {
    pub(crate) const WHOLE: Self = Self { index: 0, of: 1 };

    /// The part's share of `count` things; all shares add up to `count`.
    pub(crate) fn share(self, count: u64) -> u64 {
        let of = (self.of as u64).max(1);
        count / of + u64::from((self.index as u64) < count % of)
    }
}

/// A user that is ready for its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdleUser {
    /// Index among all users of the measurement.
    pub(crate) user: usize,
    /// Number of requests made so far.
    pub(crate) made: u64,
    /// When it became idle, in microseconds.
    pub(crate) since_us: u64,
}

/// When a user's next request starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStart {
    /// Now; latency counts from the start.
    Now,
    /// At this time, which may have passed; latency counts from the start.
    At(u64),
    /// Due at this time, which may have passed; latency counts from the due time.
    Due(u64),
}

/// A load shape in operation.
pub(crate) trait Scheduler: Send {
    /// When an idle user starts its next request. Called again for that user only after the request. A time
    /// at or after the end of the measured time ends the user.
    fn next(&mut self, free: IdleUser) -> NextStart;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
pub(crate) mod tests {
    use super::*;

    /// 10 s of warm-up and 10 s measured, starting at 2 s.
    pub(crate) const COURSE: Timeline =
        Timeline { begin_us: 2_000_000, from_us: 12_000_000, until_us: 22_000_000, users: 4 };

    #[test]
    fn the_table_lists_every_shape() {
        let think = Think::Constant { us: 1 };
        let shapes = [
            Shape::default(),
            Shape::Closed { think },
            Shape::Arrivals { rate_per_s: 1.0 },
            Shape::Poisson { rate_per_s: 1.0 },
            Shape::RampUsers { from: 1, think: Think::None },
            Shape::RampArrivals { from_per_s: 1.0, to_per_s: 2.0 },
            Shape::Stages { stages: "1/s for 1s".parse().unwrap() },
        ];
        let names: Vec<_> = shapes.iter().map(Shape::name).collect();
        assert_eq!(names, LOAD_SHAPES.iter().map(|row| row.name).collect::<Vec<_>>());
    }

    #[test]
    fn values_out_of_range_are_rejected_by_name() {
        let most = limits::LOAD_RATE_MAX as f64;
        let think = Think::Uniform { from_us: 2, to_us: 1 };
        for (shape, expect) in [
            (Shape::default(), ""),
            (Shape::Closed { think }, "think-time"),
            (Shape::Arrivals { rate_per_s: 100.5 }, ""),
            (Shape::Arrivals { rate_per_s: 0.0 }, "rate"),
            (Shape::Arrivals { rate_per_s: f64::NAN }, "rate"),
            (Shape::Arrivals { rate_per_s: most * 2.0 }, "rate"),
            (Shape::RampUsers { from: 4, think: Think::None }, ""),
            (Shape::RampUsers { from: 5, think: Think::None }, "ramp"),
            (Shape::RampUsers { from: 0, think: Think::None }, "ramp"),
            (Shape::RampUsers { from: 1, think }, "think-time"),
            (Shape::RampArrivals { from_per_s: -1.0, to_per_s: 9.0 }, "ramp"),
            (Shape::RampArrivals { from_per_s: 1.0, to_per_s: f64::INFINITY }, "rate"),
        ] {
            let error = shape.check(4).err().unwrap_or_default();
            assert_eq!(error.split(':').next(), Some(expect), "{shape:?}");
        }
    }

    #[test]
    fn shares_add_up() {
        for count in [0, 1, 5, 6, 7, 100] {
            let shares = (0..3).map(|index| Part { index, of: 3 }.share(count));
            assert_eq!(shares.sum::<u64>(), count);
        }
    }

    #[test]
    fn averages_are_over_the_measured_time() {
        let ramp = Shape::RampUsers { from: 10, think: Think::Constant { us: 2_500 } };
        assert_eq!((ramp.mean_users(30), ramp.rate_per_s()), (Some(20.0), None));
        assert_eq!(ramp.mean_pause_ms(), 2.5);
        let ramp = Shape::RampArrivals { from_per_s: 10.0, to_per_s: 30.0 };
        assert_eq!((ramp.mean_users(30), ramp.rate_per_s()), (None, Some(20.0)));
    }

    #[test]
    fn shapes_survive_a_json_round_trip() {
        for text in [
            r#"{"kind":"closed","think":{"kind":"none"}}"#,
            r#"{"kind":"arrivals","rate_per_s":100.5}"#,
            r#"{"kind":"poisson","rate_per_s":100.5}"#,
            r#"{"kind":"ramp-users","from":3,"think":{"kind":"uniform","from_us":1,"to_us":2}}"#,
            r#"{"kind":"ramp-arrivals","from_per_s":1.0,"to_per_s":2.0}"#,
            r#"{"kind":"stages","stages":"5/s for 1s, to 9/s in 2s"}"#,
        ] {
            let shape: Shape = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&shape).unwrap(), text);
        }
        for text in [r#"{"kind":"arrivals","rate":1}"#, r#"{"kind":"stages","stages":"fast"}"#] {
            assert!(serde_json::from_str::<Shape>(text).is_err(), "{text}");
        }
    }
}
