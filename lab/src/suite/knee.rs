//! The suite that measures a target at one level of a knee search: one scenario, one case.

use std::path::Path;
use std::time::Duration;

use super::{Source, Suite};
use crate::knee::By;

/// The settings shared by all levels.
#[derive(Clone, Debug)]
pub struct LevelSetup {
    /// Name of a shipped target, or path of a file ending in `.toml`.
    pub target: String,
    /// Name of a shipped scenario.
    pub scenario: String,
    pub bytes: u64,
    /// Maximum number of connections when searching by rate.
    pub users: usize,
    pub threads: usize,
    /// HTTP/2, with at most so many users on a connection. `None`: HTTP/1.1.
    pub streams: Option<usize>,
    pub warm_up: Duration,
    pub measure: Duration,
}

impl LevelSetup {
    /// The suite of a level: target, backend and generator are started for it and pinned as in
    /// suites/cost.toml.
    ///
    /// # Errors
    /// Unknown target or scenario, or a value out of range.
    pub fn suite(&self, by: By, level: f64) -> Result<Suite, String> {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let (users, shape) = match by {
            By::Rate => (
                self.users.to_string(),
                format!("{{ kind = \"arrivals\", rate_per_s = {level:?} }}"),
            ),
            By::Users => (format!("{level:.0}"), "{ kind = \"closed\" }".to_owned()),
        };
        let http2 = self
            .streams
            .map_or(String::new(), |streams| format!("http2 = true\nstreams = {streams}\n"));
        let text = format!(
            "name = \"knee\"\n\
             about = \"one level of a knee search\"\n\
             [matrix]\n\
             targets = [{target}]\n\
             scenarios = [{scenario}]\n\
             users = [{users}]\n\
             bytes = [{bytes}]\n\
             [load]\n\
             shape = {shape}\n\
             threads = {threads}\n\
             {http2}\
             [time]\n\
             warm_up = \"{warm_up}ms\"\n\
             measure = \"{measure}ms\"\n\
             [cores]\n\
             target = \"1\"\n\
             backend = \"0\"\n\
             generator = \"0\"\n",
            target = quoted(&self.target),
            scenario = quoted(&self.scenario),
            bytes = self.bytes,
            threads = self.threads,
            warm_up = self.warm_up.as_millis(),
            measure = self.measure.as_millis(),
        );
        Suite::from_source(Source { name: Path::new("knee.toml").to_owned(), text })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::super::scenario::Exchange;
    use super::*;
    use crate::load::{Protocol, Shape};

    fn setup(target: &str, scenario: &str) -> LevelSetup {
        let (target, scenario) = (target.to_owned(), scenario.to_owned());
        let (warm_up, measure) = (Duration::from_millis(1_500), Duration::from_secs(10));
        LevelSetup {
            target,
            scenario,
            bytes: 1_024,
            users: 200,
            threads: 1,
            streams: None,
            warm_up,
            measure,
        }
    }

    #[test]
    fn a_level_is_a_suite_of_one_case() {
        let suite = setup("nginx", "forward").suite(By::Rate, 1_234.5).unwrap();
        assert_eq!(suite.load.shape, Shape::Arrivals { rate_per_s: 1_234.5 });
        assert_eq!(
            (suite.matrix.users.as_slice(), suite.time.warm_up.as_millis()),
            (&[200][..], 1_500)
        );
        let suite = setup("nginx", "forward").suite(By::Users, 37.0).unwrap();
        assert_eq!(
            (&suite.load.shape, suite.matrix.users.as_slice()),
            (&Shape::default(), &[37][..])
        );
        assert_eq!(super::super::cases::all(&suite).len(), 1);
        let http2 = LevelSetup { streams: Some(30), ..setup("penstock", "forward") };
        let suite = http2.suite(By::Users, 61.0).unwrap();
        assert_eq!(suite.load.protocol(Exchange::Http, 61), Protocol::Http2 { connections: 3 });
    }

    #[test]
    fn unknown_targets_and_scenarios_are_rejected() {
        let error = |target: &str, scenario: &str| {
            setup(target, scenario).suite(By::Users, 1.0).unwrap_err()
        };
        assert!(error("ngnix", "forward").contains("`nginx`"));
        assert!(error("nginx", "forwrad").contains("`forward`"));
        // Quotes in the name must not end the TOML list.
        assert!(
            error("a\"]", "forward").contains("unknown target `a\"]`"),
            "{}",
            error("a\"]", "forward")
        );
    }
}
