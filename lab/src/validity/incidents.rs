//! Gates on what happened to the measuring itself: whoever watched it tells, and each is a doubt.

use super::{Look, Row};

pub(super) fn interrupted(row: &Row) -> Look {
    told(row, "interrupted")
}

pub(super) fn raw_data(row: &Row) -> Look {
    told(row, "raw-data")
}

pub(super) fn agent_lost(row: &Row) -> Look {
    told(row, "agent-lost")
}

pub(super) fn agent_clock(row: &Row) -> Look {
    told(row, "agent-clock")
}

fn told(row: &Row, name: &str) -> Look {
    let Some(incidents) = &row.incidents else { return Look::Unseen };
    match incidents.get(name) {
        Some(texts) if !texts.is_empty() => Look::Doubt(texts.join("; ")),
        Some(_) | None => Look::Fine,
    }
}
