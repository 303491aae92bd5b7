//! The validity checks on the published tables: they flag exactly the invalid rows.

use penstock_lab::validity::published::Table;
use penstock_lab::validity::{CHECKS, Row};

const API_MICROGATEWAY: &[u8] = include_bytes!("../published/api-microgateway.csv");
const API_MANAGER: &[u8] = include_bytes!("../published/api-manager.csv");
const CHOREO_CONNECT: &[u8] = include_bytes!("../published/choreo-connect-1cpu.csv");
const MICRO_INTEGRATOR: &[u8] = include_bytes!("../published/micro-integrator.csv");

#[test]
fn five_microgateway_rows_have_errors_and_four_of_them_miss_littles_law() {
    check(
        API_MICROGATEWAY,
        144,
        "134 errors littles-law; 142 errors littles-law; 143 errors; \
        144 errors littles-law; 145 errors littles-law",
    );
    let over_one_percent = rows(API_MICROGATEWAY)
        .into_iter()
        .filter(|(_, row)| row.error_percent.is_some_and(|percent| percent.value > 1.0));
    assert_eq!(over_one_percent.count(), 5);
}

#[test]
fn ten_api_manager_rows_miss_littles_law_and_three_of_them_have_errors() {
    check(
        API_MANAGER,
        144,
        "73 littles-law; 113 errors littles-law; 114 littles-law; \
        116 errors littles-law; 118 littles-law; 119 littles-law; 120 errors littles-law; \
        121 littles-law stalls; 126 littles-law; 129 littles-law",
    );
}

#[test]
fn four_of_those_ten_are_off_by_more_than_a_tenth() {
    let off = |row: &Row| {
        let warning = row.warnings().into_iter().find(|warning| warning.code == "littles-law")?;
        let (_, percent) = warning.message.rsplit_once("at least ")?;
        percent.trim_end_matches(" %").parse::<f64>().ok()
    };
    let offs: Vec<f64> = rows(API_MANAGER).iter().filter_map(|(_, row)| off(row)).collect();
    assert_eq!(offs.len(), 10);
    assert_eq!(offs.iter().filter(|&&percent| percent > 10.0).count(), 4, "{offs:?}");
}

#[test]
fn two_choreo_connect_counts_disagree_and_four_rows_miss_littles_law_beyond_their_rounding() {
    check(
        CHOREO_CONNECT,
        24,
        "2 littles-law; 8 littles-law; 9 littles-law; \
        11 count-and-rate-disagree; 14 littles-law; 24 count-and-rate-disagree stalls",
    );
}

#[test]
fn no_check_applies_to_a_table_of_best_rates() {
    check(MICRO_INTEGRATOR, 16, "");
    assert_eq!(rows(MICRO_INTEGRATOR).iter().flat_map(|(_, row)| row.applicable()).count(), 0);
}

#[test]
fn checks_without_figures_do_not_apply() {
    let applicable =
        |text| rows(text).first().map(|(_, row)| row.applicable().collect::<Vec<_>>().join(" "));
    assert_eq!(
        applicable(API_MANAGER).as_deref(),
        Some("errors littles-law mean-out-of-bounds stalls")
    );
    assert_eq!(
        applicable(CHOREO_CONNECT).as_deref(),
        Some(
            "nothing-measured errors littles-law count-and-rate-disagree \
              percentiles-in-order mean-out-of-bounds stalls"
        )
    );
}

#[test]
fn invalid_tables_are_rejected_with_the_line() {
    for (text, expect) in [
        ("a,b\n1,2\n", "not a results table"),
        ("Error %,b\n1\n", "line 2: 1 cells"),
        ("", "not a results table"),
    ] {
        let rejected = Table::read(text.as_bytes()).and_then(|table| table.rows());
        let output = rejected.map_or_else(|error| error.to_string(), |_| "read".to_owned());
        assert!(output.starts_with(expect), "{output}");
    }
}

#[test]
fn every_check_has_a_row_in_the_manual() {
    let manual = include_str!("../../docs/measuring.md");
    for check in CHECKS {
        assert!(manual.contains(&format!("| `{}` |", check.name)), "{}", check.name);
    }
}

fn rows(text: &[u8]) -> Vec<(u64, Row)> {
    Table::read(text).and_then(|table| table.rows()).unwrap()
}

/// `expect`: line and checks of each row with warnings, separated by `; `.
#[track_caller]
fn check(text: &[u8], count: usize, expect: &str) {
    let rows = rows(text);
    assert_eq!(rows.len(), count);
    let flagged = rows.iter().filter_map(|(line, row)| {
        let checks: Vec<String> = row.warnings().into_iter().map(|warning| warning.code).collect();
        (!checks.is_empty()).then(|| format!("{line} {}", checks.join(" ")))
    });
    assert_eq!(flagged.collect::<Vec<_>>().join("; "), expect);
}
