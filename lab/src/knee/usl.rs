//! The Universal Scalability Law: throughput as a function of concurrency.
//!
//! X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1)): lambda is the throughput at n = 1, sigma the
//! contention, kappa the coherency cost. Source: Gunther, "Guerrilla Capacity Planning", 2007. Fitted by
//! least squares of relative errors on n / X, which is linear in the parameters, with sigma and kappa not
//! negative.

/// A fitted law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usl {
    /// Throughput at a concurrency of 1, in requests per second.
    pub lambda: f64,
    pub sigma: f64,
    pub kappa: f64,
    /// Root mean square of the relative residuals.
    pub error: f64,
    pub points: usize,
}

/// Minimum number of points: one more than the number of parameters.
pub const POINTS_MIN: usize = 4;

impl Usl {
    /// Fits pairs of concurrency (users, workers) and throughput. `None` with fewer than [`POINTS_MIN`]
    /// distinct concurrencies above zero, or if no valid parameters exist.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let good = |&&(n, x): &&(f64, f64)| n.is_finite() && x.is_finite() && n > 0.0 && x > 0.0;
        let points: Vec<(f64, f64)> = points.iter().filter(good).copied().collect();
        let mut different: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
        different.sort_by(f64::total_cmp);
        different.dedup();
        if different.len() < POINTS_MIN {
            return None;
        }
        // Fits with both terms, with one of them, and with none; negative parameters are discarded.
        let both = [[true, true], [true, false], [false, true], [false, false]];
        both.iter()
            .filter_map(|&terms| Self::with(&points, terms))
            .min_by(|a, b| a.error.total_cmp(&b.error))
    }

    fn with(points: &[(f64, f64)], [sigma, kappa]: [bool; 2]) -> Option<Self> {
        let mut matrix = [[0.0; 4]; 3];
        for &(n, x) in points {
            let y = n / x;
            let keep = |wanted: bool, value: f64| if wanted { value } else { 0.0 };
            // Divided by y, so that relative errors are minimised.
            let terms =
                [1.0, keep(sigma, n - 1.0), keep(kappa, n * (n - 1.0))].map(|term| term / y);
            for (row, a) in matrix.iter_mut().zip(terms) {
                for (cell, b) in row.iter_mut().zip(terms.into_iter().chain([1.0])) {
                    *cell += a * b;
                }
            }
        }
        let [a, b, c] = solve(matrix, [true, sigma, kappa])?;
        if !(a > 0.0 && b >= 0.0 && c >= 0.0) {
            return None;
        }
        let law =
            Self { lambda: 1.0 / a, sigma: b / a, kappa: c / a, error: 0.0, points: points.len() };
        let squares: f64 = points.iter().map(|&(n, x)| ((x - law.at(n)) / x).powi(2)).sum();
        Some(Self { error: (squares / points.len() as f64).sqrt(), ..law })
    }

    /// Throughput at concurrency `n`.
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// The concurrency with the highest throughput; `None` if throughput keeps growing.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma).max(0.0) / self.kappa).sqrt().max(1.0))
    }
}

/// Gauss-Jordan elimination with pivoting; unwanted unknowns are set to zero.
fn solve(mut matrix: [[f64; 4]; 3], wanted: [bool; 3]) -> Option<[f64; 3]> {
    for (place, is_wanted) in wanted.into_iter().enumerate() {
        if !is_wanted {
            matrix[place] = [0.0; 4];
            matrix[place][place] = 1.0;
        }
    }
    // Columns differ by the square of the concurrency; without scaling, small pivots would look like zero.
    let scale = [matrix[0][0], matrix[1][1], matrix[2][2]].map(f64::sqrt);
    for row in 0..3 {
        for column in 0..3 {
            matrix[row][column] /= scale[row] * scale[column];
        }
        matrix[row][3] /= scale[row];
    }
    for column in 0..3 {
        let pivot = (column..3)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))?;
        if matrix[pivot][column].abs() < 1e-9 || !matrix[pivot][column].is_finite() {
            return None;
        }
        matrix.swap(column, pivot);
        let of_pivot = matrix[column].map(|cell| cell / matrix[column][column]);
        matrix[column] = of_pivot;
        for row in (0..3).filter(|&row| row != column) {
            let factor = matrix[row][column];
            for (cell, pivot) in matrix[row].iter_mut().zip(of_pivot) {
                *cell -= factor * pivot;
            }
        }
    }
    Some([0, 1, 2].map(|place| matrix[place][3] / scale[place]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_fit_recovers_the_parameters() {
        for (lambda, sigma, kappa) in
            [(1_000.0, 0.02, 0.0005), (50.0, 0.1, 0.0), (1.0, 0.0, 0.01), (20_000.0, 0.0, 0.0)]
        {
            let law = Usl { lambda, sigma, kappa, error: 0.0, points: 0 };
            let points: Vec<(f64, f64)> =
                [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0].map(|n| (n, law.at(n))).to_vec();
            let found = Usl::fit(&points).unwrap();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
            assert!(near(found.lambda, lambda), "{found:?}");
            assert!(near(found.sigma, sigma) && near(found.kappa, kappa), "{found:?}");
            assert!(found.error < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn the_peak_is_where_the_throughput_is_highest() {
        let law = Usl { lambda: 1_000.0, sigma: 0.02, kappa: 0.0005, error: 0.0, points: 0 };
        let peak = law.peak().unwrap();
        assert!(law.at(peak) >= law.at(peak * 0.9) && law.at(peak) >= law.at(peak * 1.1));
        assert_eq!(Usl { kappa: 0.0, ..law }.peak(), None);
    }

    #[test]
    fn noise_appears_as_the_error_of_the_fit() {
        let law = Usl { lambda: 1_000.0, sigma: 0.05, kappa: 0.0001, error: 0.0, points: 0 };
        let noise = [1.05, 0.95, 1.05, 0.95, 1.05, 0.95];
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .into_iter()
            .zip(noise)
            .map(|(n, noise)| (n, law.at(n) * noise))
            .collect();
        let found = Usl::fit(&points).unwrap();
        assert!((0.02..0.06).contains(&found.error), "{found:?}");
    }

    #[test]
    fn too_few_or_invalid_points_have_no_fit() {
        assert_eq!(Usl::fit(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(Usl::fit(&[(1.0, 1.0), (1.0, 1.1), (2.0, 2.0), (3.0, 3.0)]), None);
        assert_eq!(Usl::fit(&[(0.0, 1.0), (2.0, f64::NAN), (3.0, -1.0), (4.0, 0.0)]), None);
    }
}
