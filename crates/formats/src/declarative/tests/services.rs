//! `[[service]]`.

use model::{Diagnostic, Plans, Security};

use super::{check, load};
use crate::declarative::{check_service_plans, shipped};

const BEGIN: &str = "[integration]\nhttp = \"127.0.0.1:8290\"\n[[issuer]]\nname = \"mine\"\niss = \"a\"\n\
    jwks = \"https://id.example/keys\"\n[[service]]\n";

#[test]
fn a_service_without_security_is_open_and_without_plans() {
    for keys in ["", "security = []\n", "scopes = []\nplans = []\n"] {
        let (settings, diagnostics) = load(&format!("{BEGIN}name = \"Quotes\"\n{keys}"));
        assert_eq!(diagnostics, [], "{keys}");
        let services = settings.expect("it is valid").integration.rules.services;
        let [service] = services.as_slice() else { panic!("{services:?}") };
        assert_eq!(service.name, "Quotes");
        assert_eq!((&service.access.security, service.access.plans.len()), (&Security::Open, 0));
    }
}

#[test]
fn mistakes_in_a_service_are_reported_with_their_position() {
    for (keys, expect) in [
        ("plans = []\n", "7:1: [[service]] has no `name`"),
        ("name = \"Quotes\"\nsecurty = [\"mine\"]\n", "9:1: unknown key `securty` in [[service]]"),
        ("name = \"Quotes\"\nsecurity = [\"mine\", \"mien\"]\n", "9:21: there is no issuer `mien`"),
        ("name = \"Quotes\"\nsecurity = \"mine\"\n", "9:12: `security` must be a list of strings"),
        (
            "name = \"Quotes\"\nscopes = [\"a\"]\n",
            "9:10: `scopes` has no effect without `security`",
        ),
        (
            "name = \"Quotes\"\nsecurity = [\"mine\"]\nscopes = [\"a b\"]\n",
            "10:11: `a b` is not one scope",
        ),
        (
            "name = \"Quotes\"\nplans = [\"10KPerMin\", \"10kpermin\"]\n",
            "9:23: duplicate plan `10kpermin`",
        ),
        ("name = \"Quotes\"\n[[service]]\nname = \"Quotes\"\n", "10:8: duplicate service `Quotes`"),
    ] {
        check(&format!("{BEGIN}{keys}"), expect);
    }
    let alone = "[gateway]\nhttp = \"127.0.0.1:1\"\n[[service]]\nname = \"Quotes\"\n";
    check(alone, "3:1: [[service]] has no effect without [integration]");
}

#[test]
fn a_plan_that_does_not_exist_is_reported_with_its_position() {
    let toml = format!(
        "{BEGIN}name = \"Quotes\"\nplans = [\"10kPerMin\", \"10KPerMinute\", \"Golden\"]\n"
    );
    let (settings, _) = load(&toml);
    let services = settings.expect("it is valid").integration.rules.services;
    let found = |plans: &Plans| -> Vec<_> {
        check_service_plans(&services, plans).iter().map(Diagnostic::to_string).collect()
    };
    let shown = found(&shipped());
    let [first, second] = shown.as_slice() else { panic!("{shown:?}") };
    assert!(
        first.starts_with("etc/penstock.toml:9:23: error: there is no plan `10KPerMinute`"),
        "{first}"
    );
    assert!(first.contains("did you mean `10KPerMin`?"), "{first}");
    assert!(
        second.starts_with("etc/penstock.toml:9:39: error: there is no plan `Golden`"),
        "{second}"
    );
}
