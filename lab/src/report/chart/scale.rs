//! Axes: round steps and short numbers.

/// A scale with round ticks: from zero, or logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) ticks: Vec<f64>,
    /// Where a logarithmic scale begins.
    start: Option<f64>,
    end: f64,
}

/// Values that differ by a larger factor have a logarithmic scale.
const LINEAR_FACTOR_MAX: f64 = 50.0;

impl Scale {
    /// For points: a target that is a hundred times slower does not hide the differences of the others.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let highest = values.iter().copied().fold(0.0, f64::max);
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        if lowest <= 0.0 || highest < lowest * LINEAR_FACTOR_MAX {
            return Self::up_to(highest);
        }
        let (first, last) = (lowest.log10().floor(), highest.log10().ceil());
        let powers = std::iter::successors(Some(first), |power| Some(power + 1.0));
        let ticks = powers.take_while(|power| *power <= last).map(|power| 10_f64.powf(power));
        Self { ticks: ticks.collect(), start: Some(10_f64.powf(first)), end: 10_f64.powf(last) }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.start.is_some()
    }

    /// The place of a value, 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = match self.start {
            None => value / self.end,
            Some(start) => (value / start).ln() / (self.end / start).ln(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// For values from 0 to `highest`.
    pub(super) fn up_to(highest: f64) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let rough = highest / 4.0;
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        let steps = (highest / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=8_u32).map(f64::from).filter(|place| *place <= steps);
        Self { ticks: ticks.map(|place| place * step).collect(), start: None, end: steps * step }
    }
}

/// Three to four significant digits: `1234`, `12.3`, `0.0123`, `56.7k`, `1.2M`.
pub(in crate::report) fn short(value: f64) -> String {
    let size = value.abs();
    let (divisor, unit) = match size {
        _ if size >= 1e9 => (1e9, "G"),
        _ if size >= 1e6 => (1e6, "M"),
        _ if size >= 1e5 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = value / divisor;
    let decimals = match value.abs() {
        size if size >= 1_000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    format!("{}{unit}", crate::report::view::trimmed(value, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_include_the_maximum() {
        for (highest, end, count) in
            [(100.0, 100.0, 5), (4_406.0, 6_000.0, 4), (0.37, 0.4, 5), (1.0, 1.0, 5), (0.0, 1.0, 5)]
        {
            let scale = Scale::up_to(highest);
            assert!((scale.end - end).abs() < 1e-9 && scale.ticks.len() == count, "{scale:?}");
        }
        assert_eq!(Scale::up_to(f64::NAN).end, 1.0);
    }

    #[test]
    fn values_that_differ_much_have_a_logarithmic_scale() {
        let scale = Scale::of([0.2, 3.0, 90.0].into_iter());
        assert_eq!(scale.ticks, [0.1, 1.0, 10.0, 100.0]);
        for (value, share) in
            [(0.1, 0.0), (1.0, 1.0 / 3.0), (100.0, 1.0), (0.0, 0.0), (f64::NAN, 0.0)]
        {
            assert!((scale.share(value) - share).abs() < 1e-9, "{value}");
        }
        for linear in [vec![2.0, 90.0], vec![0.0, 1.0, 90.0], vec![]] {
            assert!(!Scale::of(linear.into_iter()).is_logarithmic());
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (9.876, "9.88"),
            (123.45, "123.5"),
            (4_406.4, "4406"),
            (123_456.0, "123.5k"),
            (2_000_000.0, "2M"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
