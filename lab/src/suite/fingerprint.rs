//! Hashes that identify a configuration, so that results can be matched to it.
//!
//! A suite's hash covers the suite, its scenarios and its targets in a canonical form: comments, whitespace
//! and the order of keys do not matter. A case's hash also covers the target's configuration as rendered for
//! the case; ports, folders and keys, which differ from run to run, are included by name only.
//!
//! Pure. Never hashes the output of `Debug`, which is not stable.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{Context, Digest, SHA256, digest};

use super::scenario::Scenario;
use super::source::Source;
use crate::target::definition::Target;
use crate::target::running::rendered;

/// SHA-256 in hexadecimal.
pub(crate) fn sha256(text: &str) -> String {
    hexadecimal(&digest(&SHA256, text.as_bytes()))
}

/// One hash of all `texts`.
pub(crate) fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = Context::new(&SHA256);
    for text in texts {
        // The length separates one text from the next.
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hexadecimal(&hash.finish())
}

fn hexadecimal(hash: &Digest) -> String {
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file's content in canonical form: JSON with sorted keys; the unchanged text if it is not TOML.
pub(crate) fn canonical(source: &Source) -> String {
    let table: Result<toml::Table, _> = toml::from_str(&source.text);
    table
        .ok()
        .and_then(|table| serde_json::to_string(&table).ok())
        .unwrap_or_else(|| source.text.clone())
}

/// Scenarios as JSON, one per line, as kept in the run's folder.
pub(crate) fn scenarios(scenarios: &[Scenario]) -> String {
    // Serialising plain structures with string keys cannot fail.
    let text = |scenario| serde_json::to_string(scenario).unwrap_or_default() + "\n";
    scenarios.iter().map(text).collect()
}

/// `suite`: the hash of the suite. `settings`: the target's settings for this case.
pub(crate) fn of_case(
    suite: &str,
    target: &Target,
    scenario: &Scenario,
    settings: &BTreeMap<String, String>,
) -> String {
    let path = scenario.path.split('?').next().unwrap_or_default();
    // A template that cannot be rendered fails the case when the target starts.
    let rendered =
        rendered(target, &scenario.used(&target.can), path, settings).unwrap_or_default();
    of_texts([suite].into_iter().chain(rendered.iter().map(String::as_str)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::suite::cases;
    use crate::suite::definition::Suite;

    const SUITE: &str = "name = 'small'\n[matrix]\ntargets = ['nginx']\nscenarios = ['forward']\n\
        users = [1]\nbytes = [50]\n[time]\nwarm_up = '1s'\nmeasure = '1s'\n[sweep]\n\
        setting = 'workers'\nvalues = [1, 2]\n";

    fn hashes(text: &str) -> (String, Vec<String>) {
        let suite = Source { name: "a.toml".into(), text: text.to_owned() };
        let suite = Suite::from_source(suite).unwrap();
        let whole = suite.sha256();
        let of = |case: &crate::result::Case| {
            let target = suite.target(&case.target).unwrap();
            let scenario = suite.scenario(&case.scenario).unwrap();
            of_case(&whole, target, scenario, &cases::settings(&suite, case))
        };
        let all = cases::all(&suite).iter().map(of).collect();
        (whole, all)
    }

    #[test]
    fn hashes_ignore_comments_and_order_but_not_values() {
        let found = hashes(SUITE);
        assert_eq!(found, hashes(SUITE), "the same suite gave two different hashes");
        let reordered = format!(
            "# a comment\n{}",
            SUITE.replace("users = [1]\nbytes = [50]", "bytes =  [ 50 ]\nusers = [1]")
        );
        assert_eq!(found, hashes(&reordered));
        let other = hashes(&SUITE.replace("users = [1]", "users = [2]"));
        assert_ne!(found.0, other.0);
        assert_ne!(found.1, other.1);
    }

    #[test]
    fn settings_change_the_hash_of_a_case() {
        let (_, all) = hashes(SUITE);
        assert_eq!(all.len(), 2);
        assert_ne!(all.first(), all.last());
    }
}
