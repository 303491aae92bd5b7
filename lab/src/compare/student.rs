//! Student's t-distribution, two-sided.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Two-sided tail probability of `t`; `freedom` is at least 1.
pub(super) fn beyond(t: f64, freedom: usize) -> f64 {
    2.0 * distribution(freedom).sf(t.abs())
}

/// The `t` with this two-sided tail probability.
pub(super) fn quantile(share: f64, freedom: usize) -> f64 {
    distribution(freedom).inverse_cdf(1.0 - share / 2.0)
}

fn distribution(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom")
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
