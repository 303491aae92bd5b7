//! Hashes that on_event whether two results stand on the same configuration.
//!
//! A suite's covers the suite, the scenarios that it names and its targets in a canonical form, so that
//! comments, blanks and the order of keys make no difference. A case's covers that, and the target's
//! configuration as it is written for this case. Ports, folders and keys differ from run to run; they
//! stand there by name.
//!
//! Pure. Never the text of `Debug`, which is nobody's promise.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{Context, SHA256};

use super::scenario::Scenario;
use super::source::Source;
use crate::target::definition::Target;
use crate::target::running::rendered;

/// SHA-256 in hexadecimal digits.
pub(crate) fn of_texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = Context::new(&SHA256);
    for text in texts {
        // The length parts one text from the next.
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file's content without what says nothing: JSON, keys in order. Its text where it is no TOML.
pub(crate) fn canonical(source: &Source) -> String {
    let table: Result<toml::Table, _> = toml::from_str(&source.text);
    table
        .ok()
        .and_then(|table| serde_json::to_string(&table).ok())
        .unwrap_or_else(|| source.text.clone())
}

/// Scenarios one per line, as JSON: what a run's folder keeps of them.
pub(crate) fn scenarios(scenarios: &[Scenario]) -> String {
    // Plain structures with text keys: nothing in them can fail to be written.
    let text = |scenario| serde_json::to_string(scenario).unwrap_or_default() + "\n";
    scenarios.iter().map(text).collect()
}

/// `suite`: the hash of the suite. `settings`: what the target is told for this case.
pub(crate) fn of_case(
    suite: &str,
    target: &Target,
    scenario: &Scenario,
    settings: &BTreeMap<String, String>,
) -> String {
    let path = scenario.path.split('?').next().unwrap_or_default();
    // What can't be rendered can't be started: the case says so.
    let rendered = rendered(target, &scenario.needs, path, settings).unwrap_or_default();
    of_texts([suite].into_iter().chain(rendered.iter().map(String::as_str)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
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
    fn what_says_nothing_makes_no_difference_and_what_says_something_does() {
        let found = hashes(SUITE);
        assert_eq!(found, hashes(SUITE), "a run differs from the one before");
        let turned = format!(
            "# a comment\n{}",
            SUITE.replace("users = [1]\nbytes = [50]", "bytes =  [ 50 ]\nusers = [1]")
        );
        assert_eq!(found, hashes(&turned));
        let other = hashes(&SUITE.replace("users = [1]", "users = [2]"));
        assert_ne!(found.0, other.0);
        assert_ne!(found.1, other.1);
    }

    #[test]
    fn a_setting_that_changes_the_configuration_changes_the_hash_of_the_case() {
        let (_, all) = hashes(SUITE);
        assert_eq!(all.len(), 2);
        assert_ne!(all.first(), all.last());
    }
}
