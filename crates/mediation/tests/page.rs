//! docs/synapse.md agrees with the table of mediators.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use penstock_mediation::{MEDIATORS, synapse_page};

#[test]
fn the_page_of_mediators_is_generated_from_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/synapse.md");
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        std::fs::write(&file, synapse_page()).unwrap();
    }
    let present = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        present,
        synapse_page(),
        "regenerate docs/synapse.md: PENSTOCK_BLESS=1 cargo test -p penstock-mediation page"
    );
}

#[test]
fn the_table_is_sorted() {
    assert!(MEDIATORS.is_sorted_by_key(|row| row.element.to_lowercase()));
}
