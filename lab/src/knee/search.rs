//! The search: doubles the load until the objective is missed, then bisects.
//!
//! Architecture invariant: pure. It proposes levels and records verdicts; measuring is up to the caller.

use crate::limits;

/// The range of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub from: f64,
    pub to: f64,
    /// The search ends when the interval between met and missed is this small, relative to the former.
    pub precision: f64,
    /// Whether levels are whole numbers (users).
    pub whole: bool,
}

/// The verdict on a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelVerdict {
    Met,
    Missed,
    /// The measurement itself is invalid, so the target has no verdict.
    Inconclusive,
}

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// The knee lies between the last level met and the first one missed.
    Found,
    /// The lowest level is missed.
    NeverMet,
    /// The highest level is met.
    AlwaysMet,
    /// Two measurements in a row were invalid.
    Inconclusive,
    /// [`limits::LAB_KNEE_PROBES_MAX`] measurements were made.
    LimitReached,
    /// A measurement was interrupted.
    Interrupted,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub struct Search {
    range: Range,
    met: Option<f64>,
    missed: Option<f64>,
    flagged: usize,
    probes: usize,
}

impl Search {
    #[must_use]
    pub fn new(range: Range) -> Self {
        Self { range, met: None, missed: None, flagged: 0, probes: 0 }
    }

    /// The next level to measure.
    ///
    /// # Errors
    /// [`SearchEnd`]: the search is over.
    pub fn propose(&self) -> Result<f64, SearchEnd> {
        let Range { from, to, precision, .. } = self.range;
        if self.flagged > 1 {
            return Err(SearchEnd::Inconclusive);
        }
        if self.probes >= limits::LAB_KNEE_PROBES_MAX {
            return Err(SearchEnd::LimitReached);
        }
        match (self.met, self.missed) {
            (None, None) => Ok(self.level(from)),
            (None, Some(_)) => Err(SearchEnd::NeverMet),
            (Some(met), None) if met >= to => Err(SearchEnd::AlwaysMet),
            (Some(met), None) => Ok(self.level((met * 2.0).min(to))),
            (Some(met), Some(missed)) => {
                let middle = self.level(met.midpoint(missed));
                let close = missed - met <= precision * met;
                if close || middle <= met || middle >= missed {
                    return Err(SearchEnd::Found);
                }
                Ok(middle)
            }
        }
    }

    /// Records the verdict on the level proposed by [`Self::propose`].
    pub fn record(&mut self, level: f64, verdict: LevelVerdict) {
        self.probes += 1;
        match verdict {
            LevelVerdict::Met => (self.met, self.flagged) = (Some(level), 0),
            LevelVerdict::Missed => (self.missed, self.flagged) = (Some(level), 0),
            LevelVerdict::Inconclusive => self.flagged += 1,
        }
    }

    /// The highest level met, and the lowest one missed.
    #[must_use]
    pub fn between(&self) -> (Option<f64>, Option<f64>) {
        (self.met, self.missed)
    }

    fn level(&self, level: f64) -> f64 {
        if self.range.whole { level.round() } else { level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: Range = Range { from: 1.0, to: 1_000.0, precision: 0.05, whole: true };

    #[test]
    fn the_knee_is_found_in_few_measurements() {
        for knee in [1.0, 2.0, 7.0, 100.0, 333.0, 999.0] {
            let (search, ended, probes) = run(USERS, |level| met(level <= knee));
            let (Some(low), Some(high)) = search.between() else { panic!("{search:?}") };
            assert_eq!(ended, SearchEnd::Found);
            assert!(low <= knee && knee < high, "{knee}: {low} to {high}");
            assert!(high - low <= (0.05 * low).max(1.0), "{knee}: {low} to {high}");
            assert!(probes < 16, "{probes}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_reported() {
        assert_eq!(run(USERS, |_| LevelVerdict::Met).1, SearchEnd::AlwaysMet);
        assert_eq!(run(USERS, |_| LevelVerdict::Missed).1, SearchEnd::NeverMet);
    }

    #[test]
    fn two_inconclusive_measurements_end_the_search() {
        let (search, ended, _) =
            run(
                USERS,
                |level| if level < 100.0 { LevelVerdict::Met } else { LevelVerdict::Inconclusive },
            );
        assert_eq!((ended, search.between()), (SearchEnd::Inconclusive, (Some(64.0), None)));
        let mut first = true;
        let once = |level: f64| {
            let inconclusive = level >= 100.0 && std::mem::take(&mut first);
            if inconclusive { LevelVerdict::Inconclusive } else { met(level <= 100.0) }
        };
        assert_eq!(run(USERS, once).1, SearchEnd::Found);
    }

    #[test]
    fn the_search_always_ends() {
        let endless = Range { from: 1e-300, to: 1e300, precision: 0.0, whole: false };
        assert_eq!(run(endless, |_| LevelVerdict::Met).1, SearchEnd::LimitReached);
    }

    fn met(it: bool) -> LevelVerdict {
        if it { LevelVerdict::Met } else { LevelVerdict::Missed }
    }

    fn run(range: Range, mut of: impl FnMut(f64) -> LevelVerdict) -> (Search, SearchEnd, usize) {
        let mut search = Search::new(range);
        let mut probes = 0;
        loop {
            match search.propose() {
                Ok(level) => search.record(level, of(level)),
                Err(ended) => return (search, ended, probes),
            }
            probes += 1;
        }
    }
}
