//! Figures with the uncertainty of their printed digits.

/// A value known to be between `low` and `high`.
///
/// `3` in a table of whole milliseconds may have been 2.5 or 3.5; treating it as 3.000 would produce warnings
/// for valid rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    pub low: f64,
    pub value: f64,
    pub high: f64,
}

impl Figure {
    /// An exact value.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { low: value, value, high: value }
    }

    /// A printed value, accurate to half a unit of its last digit. `None` if `text` is not a number, such as
    /// `N/A`.
    #[must_use]
    pub fn printed(text: &str) -> Option<Self> {
        let text = text.trim();
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
        if text.contains(['e', 'E']) {
            return Some(Self::exact(value));
        }
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let half = 0.5 * 10_f64.powi(-i32::try_from(decimals).unwrap_or(i32::MAX));
        Some(Self { low: value - half, value, high: value + half })
    }

    /// A percentile of a histogram with `digits` significant digits: the printed value is the highest of its
    /// bucket, so the actual value may be lower by one part in 10^`digits`.
    #[must_use]
    pub fn bucketed(self, digits: i32) -> Self {
        Self { low: self.low * (1.0 - 10_f64.powi(-digits)), ..self }
    }

    /// The product of two figures that are not negative.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self {
            low: self.low.max(0.0) * other.low.max(0.0),
            value: self.value * other.value,
            high: self.high * other.high,
        }
    }

    /// The relative distance of `expected` from the interval: 0 inside, infinite if they cannot be compared.
    #[must_use]
    pub fn off(self, expected: f64) -> f64 {
        let off = if self.high < expected {
            1.0 - self.high / expected
        } else if self.low > expected {
            self.low / expected - 1.0
        } else if self.low <= expected && expected <= self.high {
            0.0
        } else {
            f64::INFINITY
        };
        if off.is_nan() { f64::INFINITY } else { off }
    }

    /// Whether this is greater than `other` for all values within both intervals.
    #[must_use]
    pub fn surely_above(self, other: Self) -> bool {
        self.low > other.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_digits_determine_the_uncertainty() {
        for (text, low, high) in
            [("3", 2.5, 3.5), ("3.0", 2.95, 3.05), (" 0.49 ", 0.485, 0.495), ("-1", -1.5, -0.5)]
        {
            let figure = Figure::printed(text);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(figure.is_some_and(|f| near(f.low, low) && near(f.high, high)), "{text}");
        }
        assert_eq!(Figure::printed("2e3"), Some(Figure::exact(2_000.0)));
        for text in ["", "N/A", "NaN", "inf", "1,5", "50B"] {
            assert_eq!(Figure::printed(text), None, "{text}");
        }
    }

    #[test]
    fn distances_from_the_interval() {
        let figure = Figure { low: 90.0, value: 95.0, high: 99.0 };
        for (expected, off) in [(90.0, 0.0), (99.0, 0.0), (100.0, 0.01), (75.0, 0.2)] {
            assert!((figure.off(expected) - off).abs() < 1e-9, "{expected}");
        }
        assert_eq!(figure.off(f64::NAN), f64::INFINITY);
        assert_eq!(Figure::exact(f64::NAN).off(1.0), f64::INFINITY);
    }
}
