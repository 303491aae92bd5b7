//! Checks for incidents during the measurement: each incident is a warning.

use super::{Finding, Row};

pub(super) fn interrupted(row: &Row) -> Finding {
    incident(row, "interrupted")
}

pub(super) fn raw_data(row: &Row) -> Finding {
    incident(row, "raw-data")
}

pub(super) fn agent_lost(row: &Row) -> Finding {
    incident(row, "agent-lost")
}

pub(super) fn agent_clock(row: &Row) -> Finding {
    incident(row, "agent-clock")
}

pub(super) fn agent_time(row: &Row) -> Finding {
    incident(row, "agent-time")
}

fn incident(row: &Row, name: &str) -> Finding {
    let Some(incidents) = &row.incidents else { return Finding::NotApplicable };
    match incidents.get(name) {
        Some(texts) if !texts.is_empty() => Finding::Warning(texts.join("; ")),
        Some(_) | None => Finding::Passed,
    }
}
