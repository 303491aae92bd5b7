//! Confidence intervals of ratios over repetitions (docs/statistics.md).
//!
//! The mean of the logarithms of the ratios, plus and minus its standard error times a quantile of Student's
//! t-distribution. The p-value is of the same distribution, so interval and p-value agree.
//!
//! Architecture invariant: the same figures give the same interval on any machine.

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
    /// The difference, as a share of A, that as many repetitions with the same noise find with a probability of
    /// [`POWER`].
    pub smallest_effect: f64,
}

/// Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, section 2.4.
const POWER: f64 = 0.80;

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
pub fn ratio(samples: &Samples, confidence: Confidence) -> Option<Ratio> {
    let logs = Logs::of(samples)?;
    let (middle, error, freedom) = (logs.middle(), logs.error(), logs.freedom());
    let half = student::quantile(confidence.beyond(), freedom) * error;
    let chance = match middle {
        0.0 => 1.0,
        // Without variance, any difference is significant.
        _ => student::beyond(middle / error, freedom),
    };
    let (low, high) = ((middle - half).exp(), (middle + half).exp());
    // The true difference is farther from 1 than the interval is wide, by the noise of one in five cases.
    let one_sided = student::quantile(2.0 * (1.0 - POWER), freedom) * error;
    let smallest_effect = (half + one_sided).exp_m1();
    Some(Ratio { low, ratio: middle.exp(), high, chance, smallest_effect })
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

    /// Standard error of the middle.
    fn error(&self) -> f64 {
        match self {
            Self::Pairs(logs) => error_of_mean(logs),
            Self::Apart(a, b) => error_of_mean(a).hypot(error_of_mean(b)),
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

    /// The probability beyond the interval, on both sides.
    fn beyond(self) -> f64 {
        f64::from(100 - self.percent()) / 100.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// CPU times of docs/statistics.md.
    const A: [f64; 5] = [24.0, 25.1, 23.6, 24.4, 26.0];
    const B: [f64; 5] = [16.1, 17.3, 15.9, 16.5, 17.2];

    #[test]
    fn the_worked_example_of_the_manual_is_right() {
        let manual = include_str!("../../../docs/statistics.md");
        let pairs: Vec<(f64, f64)> = A.into_iter().zip(B).collect();
        for (index, (a, b)) in pairs.iter().enumerate() {
            let (ratio, log) = (b / a, (b / a).ln());
            let row = format!("| {} | {a:.1} | {b:.1} | {ratio:.4} | {log:.4} |", index + 1);
            assert!(manual.contains(&row), "{row}");
        }
        let paired = ratio(&Samples::Pairs(pairs), Confidence::Percent95).unwrap();
        let apart = Samples::Apart(A.to_vec(), B.to_vec());
        let apart = ratio(&apart, Confidence::Percent95).unwrap();
        let words: Vec<&str> = manual.split_whitespace().collect();
        let manual = words.join(" ");
        for expect in [
            format!("so the ratio is exp({:.4}) = {:.4}.", paired.ratio.ln(), paired.ratio),
            format!("that is {:.4} to {:.4}:", paired.low, paired.high),
            format!(
                "Half of the interval is {:.1} %",
                ((paired.high / paired.low).sqrt() - 1.0) * 100.0
            ),
            format!("differences from {:.1} % on are found", paired.smallest_effect * 100.0),
            format!("the same figures give {:.4} to {:.4},", apart.low, apart.high),
        ] {
            assert!(manual.contains(&expect), "{expect}");
        }
        assert!(paired.chance < 0.000_01, "{paired:?}");
    }

    #[test]
    fn interval_and_p_value_agree() {
        let of = |last: f64| {
            let pairs = vec![(1.0, 1.01), (1.0, 1.04), (1.0, 1.02), (1.0, last)];
            ratio(&Samples::Pairs(pairs), Confidence::Percent95).unwrap()
        };
        for last in [0.97, 0.99, 1.0, 1.005, 1.01, 1.03] {
            let found = of(last);
            assert_eq!(found.low > 1.0, found.chance < 0.05, "{last}: {found:?}");
        }
        assert!(of(0.97).low < 1.0 && of(1.03).low > 1.0);
    }

    #[test]
    fn pairing_removes_drift() {
        let pairs = vec![(100.0, 103.0), (120.0, 123.5), (140.0, 144.4), (160.0, 164.6)];
        let apart = Samples::Apart(
            pairs.iter().map(|pair| pair.0).collect(),
            pairs.iter().map(|pair| pair.1).collect(),
        );
        let paired = ratio(&Samples::Pairs(pairs), Confidence::Percent95).unwrap();
        let apart = ratio(&apart, Confidence::Percent95).unwrap();
        assert!(paired.low > 1.0 && apart.low < 1.0, "{paired:?} {apart:?}");
        assert!(paired.smallest_effect < 0.01 && apart.smallest_effect > 0.2);
    }

    #[test]
    fn the_smallest_effect_is_found_in_four_of_five_comparisons() {
        let mut numbers = SplitMix64(11);
        let mut noisy = || {
            let sum: f64 = (0..12).map(|_| numbers.next() as f64 / u64::MAX as f64).sum();
            (0.05 * (sum - 6.0)).exp()
        };
        let mut compare = |effect: f64| {
            let pairs = (0..10).map(|_| (1.0, effect * noisy())).collect();
            ratio(&Samples::Pairs(pairs), Confidence::Percent95).unwrap()
        };
        // The effect of noise alone, for any difference.
        let effect = (0..1_000).map(|_| compare(1.0).smallest_effect).sum::<f64>() / 1_000.0;
        let found = (0..1_000).filter(|_| compare(1.0 + effect).chance < 0.05).count();
        assert!((760..=840).contains(&found), "{found} of 1000 with an effect of {effect:.3}");
    }

    #[test]
    fn interval_coverage_matches_the_confidence_level() {
        let mut numbers = SplitMix64(7);
        // The sum of twelve uniform numbers is close to normal; standard deviation 5 % of the mean.
        let mut noisy = |mean: f64| {
            let sum: f64 = (0..12).map(|_| numbers.next() as f64 / u64::MAX as f64).sum();
            mean * (1.0 + 0.05 * (sum - 6.0))
        };
        for count in [2, 3, 5] {
            let (mut paired, mut apart) = (0, 0);
            for _ in 0..1_000 {
                let a: Vec<f64> = (0..count).map(|_| noisy(100.0)).collect();
                let b: Vec<f64> = (0..count).map(|_| noisy(110.0)).collect();
                let pairs = Samples::Pairs(a.iter().copied().zip(b.iter().copied()).collect());
                let held = |samples: &Samples| {
                    let found = ratio(samples, Confidence::Percent95).unwrap();
                    u32::from(found.low <= 1.1 && 1.1 <= found.high)
                };
                paired += held(&pairs);
                apart += held(&Samples::Apart(a, b));
            }
            // Unpaired intervals are conservative.
            assert!((935..=965).contains(&paired), "{paired} of 1000 with {count} pairs");
            assert!(apart >= 935, "{apart} of 1000 with {count} repetitions");
        }
    }

    #[test]
    fn too_few_or_invalid_figures_give_no_ratio() {
        let none = |samples| assert_eq!(ratio(&samples, Confidence::Percent95), None);
        none(Samples::Pairs(vec![(1.0, 1.0)]));
        none(Samples::Apart(vec![1.0], vec![1.0, 2.0]));
        none(Samples::Apart(vec![1.0, 0.0], vec![1.0, 2.0]));
        none(Samples::Pairs(vec![(1.0, 1.0), (1.0, f64::NAN)]));
    }
}
