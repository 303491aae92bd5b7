//! Published summary tables: CSV with columns identified by their published names.
//!
//! Three kinds are supported: `summary.csv` of WSO2's pipeline, of which published tables contain a selection
//! of columns; the tables of Choreo Connect; and tables of best rates. Columns may be in any order; a table
//! without any known column is rejected.

use crate::limits;

use super::{Figure, Loop, Row};

/// Significant digits of the histogram behind the published percentiles.
const PUBLISHED_DIGITS: i32 = 2;
/// A results table must have at least one of these columns.
const NEEDED: &[&str] = &["Throughput (Requests/sec)", "Average Response Time (ms)", "Error %"];
const PERCENTILES: &[(f64, &str)] = &[
    (50.0, "50th"),
    (75.0, "75th"),
    (90.0, "90th"),
    (95.0, "95th"),
    (98.0, "98th"),
    (99.0, "99th"),
    (99.9, "99.9th"),
];

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    #[error("{0}")]
    Csv(String),
    #[error("line {line}: {cells} cells, but {columns} columns")]
    Cells { line: u64, cells: usize, columns: usize },
    #[error("not a results table: at least one of these columns is required: {needed}", needed = NEEDED.join(", "))]
    Columns,
    #[error("more than {} rows", limits::LAB_TABLE_ROWS_MAX)]
    Rows,
}

/// A table as printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    pub records: Vec<Record>,
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Line in the file, from 1.
    pub line: u64,
    pub cells: Vec<String>,
}

impl Table {
    /// Reads CSV (RFC 4180, with either kind of line end).
    ///
    /// # Errors
    /// [`TableError`] with the line.
    pub fn read(text: &[u8]) -> Result<Self, TableError> {
        // The reader counts lines at `\n`, which it attributes to the next record if it follows `\r`.
        let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
        let broken = |error: csv::Error| TableError::Csv(error.to_string());
        let columns: Vec<String> =
            reader.headers().map_err(broken)?.iter().map(|name| name.trim().to_owned()).collect();
        let mut records = Vec::new();
        for record in reader.records() {
            let record = record.map_err(broken)?;
            let line = record.position().map_or(0, csv::Position::line);
            if record.len() != columns.len() {
                let (cells, columns) = (record.len(), columns.len());
                return Err(TableError::Cells { line, cells, columns });
            }
            if records.len() == limits::LAB_TABLE_ROWS_MAX {
                return Err(TableError::Rows);
            }
            let cells = record.iter().map(|cell| cell.trim().to_owned()).collect();
            records.push(Record { line, cells });
        }
        Ok(Self { columns, records })
    }

    /// The cell of a record under the first of `names` that exists in the table.
    #[must_use]
    pub fn cell<'a>(&self, record: &'a Record, names: &[&str]) -> Option<&'a str> {
        let place =
            names.iter().find_map(|name| self.columns.iter().position(|column| column == name))?;
        record.cells.get(place).map(String::as_str).filter(|cell| !cell.is_empty())
    }

    /// The rows for the validity checks. Tables do not state the measured time; if they have counts, it is
    /// taken as the median of count / rate over all rows.
    ///
    /// # Errors
    /// [`TableError::Columns`]: not a results table.
    pub fn rows(&self) -> Result<Vec<(u64, Row)>, TableError> {
        if !NEEDED.iter().any(|name| self.columns.iter().any(|column| column == name)) {
            return Err(TableError::Columns);
        }
        let mut rows: Vec<(u64, Row)> =
            self.records.iter().map(|record| (record.line, self.row(record))).collect();
        let measured_s = median(rows.iter().filter_map(|(_, row)| {
            row.requests.zip(row.rate_per_s).map(|(requests, rate)| requests / rate.value)
        }));
        for (_, row) in &mut rows {
            row.measured_s = row.requests.and(measured_s);
        }
        Ok(rows)
    }

    fn row(&self, record: &Record) -> Row {
        let figure = |names: &[&str]| self.cell(record, names).and_then(Figure::printed);
        let users = figure(&["Concurrent Users"]).map(|figure| figure.value);
        let percentile = |&(percent, name): &(f64, &str)| {
            let value = figure(&[&format!("{name} Percentile of Response Time (ms)")])?;
            Some((percent, value.bucketed(PUBLISHED_DIGITS)))
        };
        Row {
            label: self.label(record),
            loop_kind: users.map_or(Loop::Unknown, |users| Loop::Closed { users, think_ms: 0.0 }),
            random_arrivals: false,
            incidents: None,
            rate_per_s: figure(&["Throughput (Requests/sec)"]),
            mean_ms: figure(&["Average Response Time (ms)"]),
            sd_ms: figure(&["Standard Deviation of Response Time (ms)"]),
            min_ms: figure(&["Minimum Response Time (ms)"]),
            max_ms: figure(&["Maximum Response Time (ms)"]),
            percentiles_ms: PERCENTILES.iter().filter_map(percentile).collect(),
            requests: figure(&["# Samples", "Total requests"]).map(|figure| figure.value),
            measured_s: None,
            error_percent: figure(&["Error %"]),
            errors_by_kind: None,
            queued_share: None,
            generator: None,
            backend: None,
            conditions: super::Conditions::default(),
        }
    }

    /// Identifies a row by its scenario, users, size and so on.
    fn label(&self, record: &Record) -> String {
        let named: &[(&[&str], &str)] = &[
            (&["Scenario Name"], ""),
            (&["Heap Size"], " heap"),
            (&["Concurrent Users", "Concurrent Users at best"], " users"),
            (&["Message Size (Bytes)"], " B"),
            (&["Back-end Service Delay (ms)"], " ms delay"),
        ];
        let parts = named.iter().filter_map(|(names, unit)| {
            let cell = self.cell(record, names)?;
            let unit = if cell.ends_with('B') && *unit == " B" { "" } else { unit };
            Some(format!("{cell}{unit}"))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
