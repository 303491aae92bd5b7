//! Think time: the pause between a response and the user's next request. It is never part of a latency.

use std::fmt;

use crate::limits;
use crate::load::options::parse_think;
use crate::random::{below, mix};
use serde::{Deserialize, Deserializer, Serialize};

use super::{IdleUser, NextStart};

/// A user's pause, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Think {
    /// The next request starts at once.
    #[default]
    None,
    /// Always the same pause.
    Constant { us: u64 },
    /// Uniformly distributed, including both ends; drawn from the seed.
    Uniform { from_us: u64, to_us: u64 },
}

/// Reads a pause as it is written on the command line, or as an agent gets it.
pub(super) fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Think, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a pause such as 100ms or 100ms..300ms")]
    enum Written {
        Text(String),
        Value(Think),
    }
    match Written::deserialize(from)? {
        Written::Text(text) => parse_think(&text).map_err(serde::de::Error::custom),
        Written::Value(think) => Ok(think),
    }
}

impl fmt::Display for Think {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1_000.0;
        match *self {
            Self::None => out.write_str("no think time"),
            Self::Constant { us } => write!(out, "think time {} ms", ms(us)),
            Self::Uniform { from_us, to_us } => {
                write!(out, "think time {} to {} ms", ms(from_us), ms(to_us))
            }
        }
    }
}

impl Think {
    pub(in crate::load) fn turn(self, free: IdleUser, seed: u64) -> NextStart {
        let pause_us = match self {
            Self::None => return NextStart::Now,
            Self::Constant { us } => us,
            Self::Uniform { from_us, to_us } => {
                let width = u128::from(to_us.saturating_sub(from_us)) + 1;
                from_us.saturating_add(below(draw(seed, free.user as u64, free.made), width))
            }
        };
        NextStart::At(free.since_us.saturating_add(pause_us))
    }

    pub(in crate::load) fn mean_us(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Constant { us } => us,
            Self::Uniform { from_us, to_us } => u64::midpoint(from_us, to_us),
        }
    }

    pub(in crate::load) fn check(self) -> Result<(), String> {
        let (from_us, to_us) = match self {
            Self::None => (0, 0),
            Self::Constant { us } => (us, us),
            Self::Uniform { from_us, to_us } => (from_us, to_us),
        };
        if from_us > to_us {
            return Err("think-time: the first time must not be longer than the second".to_owned());
        }
        if to_us > limits::LOAD_THINK_S_MAX * 1_000_000 {
            return Err(format!("think-time: must be at most {}s", limits::LOAD_THINK_S_MAX));
        }
        Ok(())
    }
}

/// 64 random bits for pause number `made` of a user.
fn draw(seed: u64, user: u64, made: u64) -> u64 {
    mix(mix(mix(seed) ^ user) ^ made)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn pauses_start_with_the_response() {
        assert_eq!(pause(Think::Constant { us: 500 }, 1, 1), 500);
        assert_eq!(Think::None.turn(free(1, 1), 0), NextStart::Now);
    }

    #[test]
    fn uniform_pauses_include_both_ends() {
        let think = Think::Uniform { from_us: 10, to_us: 19 };
        let mut counts = [0_u32; 10];
        for made in 0..10_000 {
            let pause = pause(think, made % 7, made);
            counts[usize::try_from(pause - 10).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[test]
    fn pauses_depend_on_the_seed() {
        let think = Think::Uniform { from_us: 0, to_us: 1_000_000 };
        let all = |seed| (0..20).map(|made| think.turn(free(3, made), seed)).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn ranges_are_validated() {
        let longest_us = limits::LOAD_THINK_S_MAX * 1_000_000;
        assert_eq!(Think::Uniform { from_us: 5, to_us: 5 }.check(), Ok(()));
        assert_eq!(pause(Think::Uniform { from_us: 5, to_us: 5 }, 1, 1), 5);
        assert!(Think::Uniform { from_us: 6, to_us: 5 }.check().is_err());
        assert_eq!(Think::Constant { us: longest_us }.check(), Ok(()));
        assert!(Think::Constant { us: longest_us + 1 }.check().is_err());
    }

    fn free(user: usize, made: u64) -> IdleUser {
        IdleUser { user, made, since_us: 1_000 }
    }

    #[track_caller]
    fn pause(think: Think, user: u64, made: u64) -> u64 {
        let user = usize::try_from(user).unwrap();
        match think.turn(free(user, made), 42) {
            NextStart::At(us) => us - 1_000,
            other @ (NextStart::Now | NextStart::Due(_)) => panic!("{other:?}"),
        }
    }
}
