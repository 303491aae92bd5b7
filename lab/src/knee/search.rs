//! Where the knee is: doubling until the objective breaks, then halving the gap.
//!
//! Architecture invariant: pure. It proposes levels and is told what became of them; who measures, and
//! with what, it doesn't know.

use crate::limits;

/// The levels that are searched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub from: f64,
    pub to: f64,
    /// The search ends when what holds and what breaks are this close, as a share.
    pub precision: f64,
    /// Levels are whole numbers: users.
    pub whole: bool,
}

/// What became of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    Holds,
    Breaks,
    /// The measurement itself is doubtful: it says nothing about the target.
    Doubtful,
}

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The knee lies between what holds and what breaks.
    Found,
    /// The lowest level breaks already.
    NothingHolds,
    /// The highest level holds still.
    AllHolds,
    /// A level could not be measured, twice.
    Doubtful,
    /// [`limits::LAB_KNEE_PROBES_MAX`] measurements were made.
    Spent,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Search {
    range: Range,
    holds: Option<f64>,
    breaks: Option<f64>,
    doubted: usize,
    probes: usize,
}

impl Search {
    #[must_use]
    pub fn new(range: Range) -> Self {
        Self { range, holds: None, breaks: None, doubted: 0, probes: 0 }
    }

    /// The level to measure next, or why there is none.
    ///
    /// # Errors
    /// [`Ended`].
    pub fn propose(&self) -> Result<f64, Ended> {
        let Range { from, to, precision, .. } = self.range;
        if self.doubted > 1 {
            return Err(Ended::Doubtful);
        }
        if self.probes >= limits::LAB_KNEE_PROBES_MAX {
            return Err(Ended::Spent);
        }
        match (self.holds, self.breaks) {
            (None, None) => Ok(self.level(from)),
            (None, Some(_)) => Err(Ended::NothingHolds),
            (Some(holds), None) if holds >= to => Err(Ended::AllHolds),
            (Some(holds), None) => Ok(self.level((holds * 2.0).min(to))),
            (Some(holds), Some(breaks)) => {
                let middle = self.level(holds.midpoint(breaks));
                let close = breaks - holds <= precision * holds;
                if close || middle <= holds || middle >= breaks {
                    return Err(Ended::Found);
                }
                Ok(middle)
            }
        }
    }

    /// What became of the level that [`Self::propose`] proposed.
    pub fn told(&mut self, level: f64, became: Became) {
        self.probes += 1;
        match became {
            Became::Holds => (self.holds, self.doubted) = (Some(level), 0),
            Became::Breaks => (self.breaks, self.doubted) = (Some(level), 0),
            Became::Doubtful => self.doubted += 1,
        }
    }

    /// The highest level that held, and the lowest that broke.
    #[must_use]
    pub fn between(&self) -> (Option<f64>, Option<f64>) {
        (self.holds, self.breaks)
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
            let (search, ended, probes) = run(USERS, |level| holds(level <= knee));
            let (Some(low), Some(high)) = search.between() else { panic!("{search:?}") };
            assert_eq!(ended, Ended::Found);
            assert!(low <= knee && knee < high, "{knee}: {low} to {high}");
            assert!(high - low <= (0.05 * low).max(1.0), "{knee}: {low} to {high}");
            assert!(probes < 16, "{probes}");
        }
    }

    #[test]
    fn ends_of_the_range_are_told() {
        assert_eq!(run(USERS, |_| Became::Holds).1, Ended::AllHolds);
        assert_eq!(run(USERS, |_| Became::Breaks).1, Ended::NothingHolds);
    }

    #[test]
    fn a_level_that_is_doubtful_twice_ends_it_with_what_is_known() {
        let (search, ended, _) =
            run(USERS, |level| if level < 100.0 { Became::Holds } else { Became::Doubtful });
        assert_eq!((ended, search.between()), (Ended::Doubtful, (Some(64.0), None)));
        let mut first = true;
        let once = |level: f64| {
            let doubtful = level >= 100.0 && std::mem::take(&mut first);
            if doubtful { Became::Doubtful } else { holds(level <= 100.0) }
        };
        assert_eq!(run(USERS, once).1, Ended::Found);
    }

    #[test]
    fn it_ends_whatever_it_is_told() {
        let endless = Range { from: 1e-300, to: 1e300, precision: 0.0, whole: false };
        assert_eq!(run(endless, |_| Became::Holds).1, Ended::Spent);
    }

    fn holds(it: bool) -> Became {
        if it { Became::Holds } else { Became::Breaks }
    }

    fn run(range: Range, mut of: impl FnMut(f64) -> Became) -> (Search, Ended, usize) {
        let mut search = Search::new(range);
        let mut probes = 0;
        loop {
            match search.propose() {
                Ok(level) => search.told(level, of(level)),
                Err(ended) => return (search, ended, probes),
            }
            probes += 1;
        }
    }
}
