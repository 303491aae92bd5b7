//! The suite of `penstock lab cost`: a target with one policy at a time.

use std::path::Path;

use super::Source;
use super::definition::Suite;

const SUITE: &str = include_str!("../../../suites/cost.toml");
/// The line of the suite that names the target.
const TARGETS: &str = "targets = [\"penstock-managed\"]";
/// The scenario without a policy.
pub const BASELINE: &str = "forward";

/// The suite for `target`: the name of a shipped target, or the path of a file ending in `.toml`.
///
/// # Errors
/// No such target, or its file is invalid.
pub fn suite(target: &str) -> Result<Suite, String> {
    if target.contains(['"', '\\', '\n']) {
        return Err(format!("`{target}` is not a valid target name"));
    }
    let text = SUITE.replace(TARGETS, &format!("targets = [\"{target}\"]"));
    Suite::from_source(Source { name: Path::new("cost.toml").to_owned(), text })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn any_target_is_accepted_and_unknown_names_are_rejected() {
        let found = suite("nginx").unwrap();
        assert_eq!(found.targets[0].name, "nginx");
        assert!(found.scenario(BASELINE).is_some());
        assert!(suite("ngnix").unwrap_err().contains("`nginx`"));
        assert!(suite("a\"b").is_err());
    }
}
