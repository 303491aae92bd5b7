//! The pages in docs/ and the example agree with the tables that they are generated from.

use std::path::Path;

use mediation::{MEDIATORS, POLICIES};
use penstock_mediation_tools::pages::{policies_examples, policies_page, synapse_page};

#[track_caller]
fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let present = std::fs::read_to_string(&file).unwrap_or_default();
    let help = "PENSTOCK_BLESS=1 cargo test -p penstock-mediation-tools page";
    assert_eq!(present, text, "regenerate {path}: {help}");
}

#[test]
fn the_page_of_mediators_is_generated_from_the_table() {
    check("docs/synapse.md", &synapse_page());
}

#[test]
fn the_page_of_policies_and_their_example_are_generated_from_the_table() {
    check("docs/policies.md", &policies_page());
    let [policies, schemas] = policies_examples();
    check("examples/policies.yaml", &policies);
    check("examples/schemas.yaml", &schemas);
}

#[test]
fn the_tables_are_sorted() {
    assert!(MEDIATORS.is_sorted_by_key(|row| row.element.to_lowercase()));
    assert!(POLICIES.is_sorted_by_key(|row| row.name.to_lowercase()));
}
