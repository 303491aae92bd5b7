//! Confidence intervals of ratios: a bootstrap over repetitions.
//!
//! Repetitions are resampled with replacement, and the interval is taken from the distribution of the
//! resulting ratios. For few repetitions the percentile interval is too narrow, so it is expanded by a factor
//! from Student's distribution (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section
//! 4.1, the expanded percentile interval; here on the logarithm of the ratio).
//!
//! Architecture invariant: the same figures and seed give the same interval on any machine.

use crate::limits;
use crate::random::{SplitMix64, below};

use super::student;

/// Confidence level of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    Percent90,
    Percent95,
    Percent99,
}

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub low: f64,
    pub ratio: f64,
    pub high: f64,
    /// The p-value: probability of a difference at least this large by chance, by Student's t-test on the
    /// logarithms.
    pub chance: f64,
}

/// The repetitions of one case on both sides.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// A and B ran interleaved: each pair was measured under the same conditions.
    Pairs(Vec<(f64, f64)>),
    Apart(Vec<f64>, Vec<f64>),
}

/// B over A: the ratio of geometric means. `None` with fewer than two repetitions on a side, or a figure that
/// is not positive.
#[must_use]
pub fn ratio(samples: &Samples, confidence: Confidence, seed: u64) -> Option<Ratio> {
    let logs = Logs::of(samples)?;
    let mut numbers = SplitMix64(seed);
    let mut found: Vec<f64> =
        (0..limits::LAB_BOOTSTRAP_DRAWS).map(|_| logs.resampled(&mut numbers)).collect();
    found.sort_by(f64::total_cmp);
    let tail = confidence.tail();
    let at = |share: f64| {
        let place = (share * (found.len().saturating_sub(1)) as f64).round();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to the length"
        )]
        found.get(place as usize).copied()
    };
    let (middle, stretch) = (logs.middle(), confidence.stretch(logs.freedom()));
    let low = middle + (at(tail)? - middle) * stretch;
    let high = middle + (at(1.0 - tail)? - middle) * stretch;
    Some(Ratio { low: low.exp(), ratio: middle.exp(), high: high.exp(), chance: logs.chance() })
}

impl Ratio {
    /// The smallest detectable effect as a share of A: half the interval.
    #[must_use]
    pub fn smallest_effect(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }
}

enum Logs {
    Pairs(Vec<f64>),
    Apart(Vec<f64>, Vec<f64>),
}

impl Logs {
    fn of(samples: &Samples) -> Option<Self> {
        let good = |value: f64| value.is_finite() && value > 0.0;
        match samples {
            Samples::Pairs(pairs) => {
                let valid = pairs.len() > 1 && pairs.iter().all(|&(a, b)| good(a) && good(b));
                valid.then(|| Self::Pairs(pairs.iter().map(|(a, b)| (b / a).ln()).collect()))
            }
            Samples::Apart(a, b) => {
                let valid = |side: &[f64]| side.len() > 1 && side.iter().all(|&value| good(value));
                let logs = |side: &[f64]| side.iter().map(|value| value.ln()).collect();
                (valid(a) && valid(b)).then(|| Self::Apart(logs(a), logs(b)))
            }
        }
    }

    fn middle(&self) -> f64 {
        match self {
            Self::Pairs(logs) => mean(logs),
            Self::Apart(a, b) => mean(b) - mean(a),
        }
    }

    fn resampled(&self, numbers: &mut SplitMix64) -> f64 {
        match self {
            Self::Pairs(logs) => resampled_mean(logs, numbers),
            Self::Apart(a, b) => {
                let a = resampled_mean(a, numbers);
                resampled_mean(b, numbers) - a
            }
        }
    }

    /// See [`Ratio::chance`].
    fn chance(&self) -> f64 {
        let error = match self {
            Self::Pairs(logs) => error_of_mean(logs),
            Self::Apart(a, b) => error_of_mean(a).hypot(error_of_mean(b)),
        };
        match self.middle() {
            0.0 => 1.0,
            // Without variance, any difference is significant.
            middle => student::beyond(middle / error, self.freedom()),
        }
    }

    /// Degrees of freedom; for unpaired samples those of the smaller side, which is conservative.
    fn freedom(&self) -> usize {
        match self {
            Self::Pairs(logs) => logs.len() - 1,
            Self::Apart(a, b) => a.len().min(b.len()) - 1,
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Standard error of the mean.
fn error_of_mean(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

impl Confidence {
    /// # Errors
    /// A message for the user, for anything but 90, 95 and 99.
    pub fn of_percent(percent: u32) -> Result<Self, String> {
        match percent {
            90 => Ok(Self::Percent90),
            95 => Ok(Self::Percent95),
            99 => Ok(Self::Percent99),
            _ => Err(format!("confidence_percent is {percent}; expected 90, 95 or 99")),
        }
    }

    #[must_use]
    pub fn percent(self) -> u32 {
        match self {
            Self::Percent90 => 90,
            Self::Percent95 => 95,
            Self::Percent99 => 99,
        }
    }

    /// The probability beyond the interval on each side.
    fn tail(self) -> f64 {
        (100 - self.percent()) as f64 / 200.0
    }

    fn stretch(self, freedom: usize) -> f64 {
        let normal = match self {
            Self::Percent90 => 1.644_854,
            Self::Percent95 => 1.959_964,
            Self::Percent99 => 2.575_829,
        };
        let count = freedom as f64 + 1.0;
        student::quantile(2.0 * self.tail(), freedom) / normal * (count / freedom as f64).sqrt()
    }
}

/// The mean of a sample with replacement, of the same size.
fn resampled_mean(values: &[f64], numbers: &mut SplitMix64) -> f64 {
    let count = values.len() as u128;
    let drawn = (0..values.len()).filter_map(|_| {
        let index = usize::try_from(below(numbers.next(), count)).ok()?;
        values.get(index)
    });
    drawn.sum::<f64>() / values.len() as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let samples = Samples::Apart(vec![100.0, 103.0, 98.0], vec![110.0, 108.0, 113.0]);
        let of = |seed| ratio(&samples, Confidence::Percent95, seed).unwrap();
        assert_eq!(of(1), of(1));
        assert!((of(1).ratio - of(2).ratio).abs() < 1e-12);
        assert!(of(1).low < of(1).ratio && of(1).ratio < of(1).high);
    }

    #[test]
    fn pairing_removes_drift() {
        let pairs = vec![(100.0, 103.0), (120.0, 123.5), (140.0, 144.4), (160.0, 164.6)];
        let apart = Samples::Apart(
            pairs.iter().map(|pair| pair.0).collect(),
            pairs.iter().map(|pair| pair.1).collect(),
        );
        let paired = ratio(&Samples::Pairs(pairs), Confidence::Percent95, 1).unwrap();
        let apart = ratio(&apart, Confidence::Percent95, 1).unwrap();
        assert!(paired.low > 1.0 && apart.low < 1.0, "{paired:?} {apart:?}");
        assert!(paired.smallest_effect() < 0.01 && apart.smallest_effect() > 0.2);
    }

    #[test]
    fn interval_coverage_matches_the_confidence_level() {
        let mut numbers = SplitMix64(7);
        // The sum of twelve uniform numbers is close to normal; standard deviation 5 % of the mean.
        let mut noisy = |mean: f64| {
            let sum: f64 = (0..12).map(|_| numbers.next() as f64 / u64::MAX as f64).sum();
            mean * (1.0 + 0.05 * (sum - 6.0))
        };
        for count in [3, 5] {
            let mut held = 0;
            for seed in 0..60 {
                let a = (0..count).map(|_| noisy(100.0)).collect();
                let b = (0..count).map(|_| noisy(110.0)).collect();
                let found = ratio(&Samples::Apart(a, b), Confidence::Percent95, seed).unwrap();
                held += u32::from(found.low <= 1.1 && 1.1 <= found.high);
            }
            assert!((54..=60).contains(&held), "{held} of 60 with {count} repetitions");
        }
    }

    #[test]
    fn too_few_or_invalid_figures_give_no_ratio() {
        let none = |samples| assert_eq!(ratio(&samples, Confidence::Percent95, 1), None);
        none(Samples::Pairs(vec![(1.0, 1.0)]));
        none(Samples::Apart(vec![1.0], vec![1.0, 2.0]));
        none(Samples::Apart(vec![1.0, 0.0], vec![1.0, 2.0]));
        none(Samples::Pairs(vec![(1.0, 1.0), (1.0, f64::NAN)]));
    }
}
