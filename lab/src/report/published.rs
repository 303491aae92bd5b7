//! The published results shown in charts for comparison, with the hardware they were measured on.

use super::chart::{Point, Series};
use crate::validity::Row;
use crate::validity::published::{Record, Table};

/// A published table.
struct Source {
    text: &'static str,
    /// Product and hardware, for the legend.
    label: &'static str,
    /// Our scenario names and the table's; empty if the table has only one scenario.
    scenarios: &'static [(&'static str, &'static str)],
}

/// Source: lab/published/SOURCE.md.
#[rustfmt::skip]
const SOURCES: &[Source] = &[
    Source {
        text: include_str!("../../published/api-manager.csv"),
        label: "published: API Manager 2.6, m5.large 2 vCPU",
        scenarios: &[("passthrough", "Passthrough"), ("mediation", "Mediation")],
    },
    Source {
        text: include_str!("../../published/api-microgateway.csv"),
        label: "published: API Microgateway 3.0, m5.xlarge 4 vCPU",
        scenarios: &[
            ("microgw-passthrough-jwt", "Microgateway-Passthrough-JWT"),
            ("microgw-passthrough-oauth", "Microgateway-Passthrough-OAuth2"),
        ],
    },
    Source {
        text: include_str!("../../published/choreo-connect-1cpu.csv"),
        label: "published: Choreo Connect 1.1, 1 CPU router + 1 CPU enforcer",
        scenarios: &[("choreo-connect", "")],
    },
    Source {
        text: include_str!("../../published/micro-integrator.csv"),
        label: "published: Micro Integrator 4.2, c5.large 2 vCPU, best users",
        scenarios: &[
            ("direct-proxy", "Direct Proxy"),
            ("direct-api", "Direct API"),
            ("cbr", "CBR (body)"),
            ("xslt", "XSLT Proxy"),
        ],
    },
];

/// A published row, by our scenario names.
#[derive(Clone, Debug)]
pub(super) struct PublishedRow {
    pub(super) label: &'static str,
    scenario: &'static str,
    /// `None` in a table of best rates, where the number of users differs by row.
    users: Option<u32>,
    bytes: u64,
    delay_ms: u64,
    row: Row,
    warning: String,
}

/// A figure of a published row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublishedFigure {
    Rate,
    Mean,
    P99,
    Errors,
}

/// Every published row that matches one of our scenarios.
pub(super) fn rows() -> Vec<PublishedRow> {
    SOURCES.iter().flat_map(of_source).collect()
}

fn of_source(source: &'static Source) -> Vec<PublishedRow> {
    // The tables are compiled in, and a test parses all of them.
    let Ok(table) = Table::read(source.text.as_bytes()) else { return Vec::new() };
    let Ok(rows) = table.rows() else { return Vec::new() };
    let in_our_terms = |(record, (_, row)): (&Record, (u64, Row))| {
        let cell = |names: &[&str]| table.cell(record, names);
        let theirs = cell(&["Scenario Name"]).unwrap_or_default();
        let (scenario, _) = source.scenarios.iter().find(|(_, name)| *name == theirs)?;
        let number = |names: &[&str]| cell(names)?.parse().ok();
        let warnings = row.warnings();
        let checks: Vec<&str> = warnings.iter().map(|warning| warning.code.as_str()).collect();
        Some(PublishedRow {
            label: source.label,
            scenario,
            users: number(&["Concurrent Users"]),
            bytes: bytes(cell(&["Message Size (Bytes)"])?)?,
            delay_ms: number(&["Back-end Service Delay (ms)"]).map_or(0, u64::from),
            warning: checks.join(", "),
            row,
        })
    };
    table.records.iter().zip(rows).filter_map(in_our_terms).collect()
}

/// Parses `50`, `50B` or `10KiB`.
fn bytes(cell: &str) -> Option<u64> {
    let (digits, factor) = match (cell.strip_suffix("KiB"), cell.strip_suffix('B')) {
        (Some(digits), _) => (digits, 1_024),
        (None, Some(digits)) => (digits, 1),
        (None, None) => (cell, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A cell of the matrix; `None` for the dimension on the chart's axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'a> {
    pub(super) scenario: &'a str,
    pub(super) users: Option<u32>,
    pub(super) bytes: Option<u64>,
    pub(super) delay_ms: u64,
}

/// The published series for a chart whose categories are `keys` (users or sizes).
pub(super) fn series(
    rows: &[PublishedRow],
    place: Cell<'_>,
    keys: &[u64],
    figure: PublishedFigure,
) -> Vec<Series> {
    let fits = |row: &&PublishedRow| {
        row.scenario == place.scenario
            && row.delay_ms == place.delay_ms
            && place.bytes.is_none_or(|bytes| row.bytes == bytes)
            && place.users.is_none_or(|users| row.users.is_none_or(|theirs| theirs == users))
    };
    let found: Vec<&PublishedRow> = rows.iter().filter(fits).collect();
    let mut labels: Vec<&'static str> = found.iter().map(|row| row.label).collect();
    labels.dedup();
    let of_label = |label: &'static str| {
        let points = keys.iter().map(|&key| {
            let at = |row: &&&PublishedRow| match (place.users, place.bytes) {
                // Best rates have no fixed number of users, so they are not drawn on charts by users.
                (None, _) => row.users.map(u64::from) == Some(key),
                (Some(_), _) => row.bytes == key,
            };
            let row = found.iter().filter(|row| row.label == label).find(at)?;
            let value = match figure {
                PublishedFigure::Rate => row.row.rate_per_s?.value,
                PublishedFigure::Mean => row.row.mean_ms?.value,
                PublishedFigure::P99 => {
                    row.row.percentiles_ms.iter().find(|(p, _)| *p >= 99.0)?.1.value
                }
                PublishedFigure::Errors => row.row.error_percent?.value,
            };
            Some(Point { value, warning: row.warning.clone() })
        });
        let points: Vec<Option<Point>> = points.collect();
        let some = points.iter().any(Option::is_some);
        some.then(|| Series { name: label.to_owned(), points, published: true, colour: None })
    };
    labels.into_iter().filter_map(of_label).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_mapped() {
        assert_eq!(rows().len(), 144 + 144 + 24 + 16);
    }

    #[test]
    fn series_follow_users_and_sizes_with_their_warnings() {
        let rows = rows();
        let place =
            Cell { scenario: "choreo-connect", users: None, bytes: Some(1_024), delay_ms: 0 };
        let along_users = series(&rows, place, &[10, 50, 60], PublishedFigure::Rate);
        let of = |series: &[Series]| -> Vec<Option<(f64, String)>> {
            let points = series[0].points.iter();
            points.map(|p| p.as_ref().map(|p| (p.value, p.warning.clone()))).collect()
        };
        let law = || "littles-law".to_owned();
        let expect = [Some((2_323.7, law())), Some((3_102.9, law())), None];
        assert_eq!(of(&along_users), expect);
        let place = Cell { scenario: "cbr", users: Some(100), bytes: None, delay_ms: 0 };
        let along_sizes = series(&rows, place, &[500, 10_000], PublishedFigure::Rate);
        assert_eq!(
            of(&along_sizes),
            [Some((5_664.0, String::new())), Some((1_159.0, String::new()))]
        );
        assert!(
            series(&rows, Cell { scenario: "other", ..place }, &[500], PublishedFigure::Rate)
                .is_empty()
        );
    }
}
