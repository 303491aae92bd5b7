//! The inventory of the recommendation, `data/features.cases`: each case has its result, and fails if its feature
//! is disabled. docs/conformance.md presents this inventory.

use crate::cases;

use std::collections::BTreeSet;

use cases::{document, paths, result};
use xpath::knock_out::without;

const INVENTORY: &str = include_str!("data/features.cases");

struct Case {
    section: &'static str,
    feature: &'static str,
    document: &'static str,
    expression: &'static str,
    result: &'static str,
}

fn inventory() -> Vec<Case> {
    let (mut section, mut feature, mut document) = ("", "", "");
    let mut all = Vec::new();
    for line in INVENTORY.lines().filter(|line| !line.starts_with('#')) {
        if let Some(head) = line.strip_prefix("== ") {
            (section, feature) = head.split_once(' ').unwrap();
        } else if line.starts_with('<') {
            document = line;
        } else {
            let (expression, result) = line.rsplit_once("| ").unwrap();
            all.push(Case { section, feature, document, expression: expression.trim(), result });
        }
    }
    all
}

#[test]
fn each_case_fails_if_and_only_if_its_feature_is_disabled() {
    let mut wrong = String::new();
    for case in inventory() {
        let document = document(case.document);
        let result = || result(&document, case.expression, paths);
        let (section, feature, expression) = (case.section, case.feature, case.expression);
        let with = result();
        if with != case.result {
            wrong += &format!("{section} {expression}: {with}, not {}\n", case.result);
        }
        let (out, _) = without(feature, result);
        if out == case.result {
            wrong += &format!("{section} {expression}: {out} without `{feature}` too\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_inventory_has_every_feature_of_the_engine() {
    let all = inventory();
    let listed: BTreeSet<&str> = all.iter().map(|case| case.feature).collect();
    let mut unlisted = BTreeSet::new();
    for case in &all {
        let document = document(case.document);
        let (_, met) = without("none", || result(&document, case.expression, paths));
        unlisted.extend(met.into_iter().filter(|name| !listed.contains(name.as_str())));
    }
    assert!(unlisted.is_empty(), "{unlisted:?}");
    let functions = xpath::core_function_names().map(|name| format!("function {name}"));
    let missing: Vec<String> = functions.filter(|name| !listed.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Counted in the recommendation: sections 2.2, 2.3, 4 and productions 21 to 29.
#[test]
fn the_inventory_is_as_long_as_the_recommendation() {
    let all: BTreeSet<&str> = inventory().iter().map(|case| case.feature).collect();
    for (kind, count) in [("axis ", 13), ("node test ", 8), ("operator ", 15), ("function ", 28)] {
        let found = all.iter().filter(|feature| feature.starts_with(kind)).count();
        assert_eq!(found, count, "{kind}: the core library's 27 and the tests' own p:twice()");
    }
}
