//! Student's t-distribution.
//!
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4: for whole degrees
//! of freedom, the probability is a finite sum of powers of a cosine.

use std::f64::consts::FRAC_2_PI;

/// Two-sided tail probability of `t`; `freedom` is at least 1.
pub(super) fn beyond(t: f64, freedom: usize) -> f64 {
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let within = if freedom.is_multiple_of(2) {
        sine * powers(cosine, 1.0, freedom / 2)
    } else {
        FRAC_2_PI * (angle + sine * cosine * powers(cosine, 2.0, freedom / 2))
    };
    (1.0 - within).clamp(0.0, 1.0)
}

/// The `t` with this two-sided tail probability.
pub(super) fn quantile(share: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while beyond(high, freedom) > share && high < 1e9 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if beyond(middle, freedom) > share { low = middle } else { high = middle }
    }
    high
}

/// The first `count` terms of 1 + n/(n+1) c^2 + n(n+2)/((n+1)(n+3)) c^4 + ...
fn powers(cosine: f64, first: f64, count: usize) -> f64 {
    let (mut term, mut sum, mut factor) = (1.0, 0.0, first);
    for _ in 0..count {
        sum += term;
        term *= factor / (factor + 1.0) * cosine * cosine;
        factor += 2.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables, two-sided: 10, 5 and 1 %.
    const TABLE: &[(usize, [f64; 3])] = &[
        (1, [6.314, 12.706, 63.657]),
        (2, [2.920, 4.303, 9.925]),
        (3, [2.353, 3.182, 5.841]),
        (4, [2.132, 2.776, 4.604]),
        (9, [1.833, 2.262, 3.250]),
        (30, [1.697, 2.042, 2.750]),
    ];

    #[test]
    fn the_distribution_matches_printed_tables() {
        for (freedom, quantiles) in TABLE {
            for (share, t) in [0.10, 0.05, 0.01].into_iter().zip(quantiles) {
                let found = quantile(share, *freedom);
                assert!((found - t).abs() < 0.000_6, "{freedom} {share}: {found}");
                assert!((beyond(*t, *freedom) - share).abs() < 0.000_1, "{freedom} {t}");
            }
        }
        // With many degrees of freedom it approaches the normal distribution.
        assert!((quantile(0.05, 10_000) - 1.960).abs() < 0.001);
    }

    #[test]
    fn extreme_values_are_handled() {
        assert_eq!((beyond(0.0, 1), beyond(0.0, 6)), (1.0, 1.0));
        assert!(beyond(f64::INFINITY, 3) < 1e-12 && beyond(-50.0, 4) < 1e-5);
    }
}
