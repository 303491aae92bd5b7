//! Checks on the figures of a row alone: they must be consistent with each other.

use super::{ERROR_PERCENT_MAX, Figure, Finding, Loop, Row, TOLERANCE};

/// Kinds of errors with a wrong or incomplete response.
const WRONG_BODY: &[&str] = &["body-mismatch", "closed", "extract", "protocol"];
/// How far a mean may be above the 90th percentile, in milliseconds. If responses take a tenth of a
/// millisecond, scheduling delays of a few of them raise the mean. A stall of 100 ms in 10 s raises it by
/// more.
const JITTER_MS: f64 = 0.1;
/// Share of an open loop's requests that may wait for a connection.
pub(super) const QUEUED_SHARE_MAX: f64 = 0.01;

pub(super) fn nothing(row: &Row) -> Finding {
    match row.requests {
        None => Finding::NotApplicable,
        Some(requests) if requests > 0.0 => Finding::Passed,
        Some(_) => Finding::Warning("no responses in the measured time".to_owned()),
    }
}

pub(super) fn errors(row: &Row) -> Finding {
    let Some(percent) = row.error_percent else { return Finding::NotApplicable };
    if percent.value <= ERROR_PERCENT_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "{} % of the requests failed{}; rate and latencies include them",
        trimmed(percent.value),
        kinds(row, |_| true)
    ))
}

pub(super) fn wrong_bodies(row: &Row) -> Finding {
    let Some(by_kind) = &row.errors_by_kind else { return Finding::NotApplicable };
    let is_wrong = |kind: &str| WRONG_BODY.contains(&kind);
    let wrong: u64 = by_kind.iter().filter(|(kind, _)| is_wrong(kind)).map(|(_, n)| n).sum();
    // A single connection closed by the server between requests is harmless; many are not.
    let mismatches = by_kind.get("body-mismatch").copied().unwrap_or(0);
    if mismatches == 0 && percent_of(wrong, row) <= ERROR_PERCENT_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "{wrong} responses were incomplete or not as expected{}",
        kinds(row, is_wrong)
    ))
}

pub(super) fn status_mix(row: &Row) -> Finding {
    let Some(by_kind) = &row.errors_by_kind else { return Finding::NotApplicable };
    let is_status = |kind: &str| kind.starts_with("status-");
    let other: u64 = by_kind.iter().filter(|(kind, _)| is_status(kind)).map(|(_, n)| n).sum();
    if percent_of(other, row) <= ERROR_PERCENT_MAX {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "{} % of the responses had a status other than 2xx{}, so the figures mix successes and failures",
        trimmed(percent_of(other, row)),
        kinds(row, is_status)
    ))
}

/// Little's law: users = rate x (mean + think time).
pub(super) fn littles_law(row: &Row) -> Finding {
    let Loop::Closed { users, think_ms } = row.loop_kind else { return Finding::NotApplicable };
    let (Some(rate), Some(mean)) = (row.rate_per_s, row.mean_ms) else {
        return Finding::NotApplicable;
    };
    let cycle = Figure {
        low: mean.low + think_ms,
        value: mean.value + think_ms,
        high: mean.high + think_ms,
    };
    let product = rate.times(cycle);
    let found = Figure {
        low: product.low / 1_000.0,
        value: product.value / 1_000.0,
        high: product.high / 1_000.0,
    };
    let off = found.off(users);
    if off <= TOLERANCE {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "rate x (mean latency + think time) is {:.1} users, not {users:.0}{}",
        found.value,
        if off.is_finite() {
            format!(": off by at least {:.1} %", off * 100.0)
        } else {
            String::new()
        }
    ))
}

/// In an open loop, the count is of requests due, so it is compared with the requested rate.
pub(super) fn count_and_rate(row: &Row) -> Finding {
    let rate = match row.loop_kind {
        Loop::Open { asked_per_s } => Some(Figure::exact(asked_per_s)),
        Loop::Closed { .. } | Loop::Unknown => row.rate_per_s,
    };
    let (Some(requests), Some(rate), Some(measured_s)) = (row.requests, rate, row.measured_s)
    else {
        return Finding::NotApplicable;
    };
    let implied = Figure {
        low: requests / rate.high,
        value: requests / rate.value,
        high: requests / rate.low,
    };
    if implied.off(measured_s) <= tolerance(row) {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "count / rate is {:.0} s, but {measured_s:.0} s were measured",
        implied.value
    ))
}

/// Minimum, percentiles and maximum must be in ascending order.
pub(super) fn order(row: &Row) -> Finding {
    let ladder = ladder(row);
    if ladder.len() < 2 {
        return Finding::NotApplicable;
    }
    for pair in ladder.windows(2) {
        if let [(below, low), (above, high)] = pair
            && low.surely_above(*high)
        {
            return Finding::Warning(format!(
                "{below} is {} ms, above {above} of {} ms",
                trimmed(low.value),
                trimmed(high.value)
            ));
        }
    }
    Finding::Passed
}

/// A mean above the 90th percentile is possible, but then a few slow requests dominate, and the row describes a
/// stall rather than the target.
pub(super) fn stalls(row: &Row) -> Finding {
    let (Some(mean), Some((percent, high))) =
        (row.mean_ms, row.percentiles_ms.iter().find(|(percent, _)| *percent >= 90.0))
    else {
        return Finding::NotApplicable;
    };
    let jitter = Figure { high: high.high + JITTER_MS, ..*high };
    if !mean.surely_above(jitter) {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "the mean of {} ms is above the {} percentile of {} ms: a stall or outliers dominate",
        trimmed(mean.value),
        ordinal(*percent),
        trimmed(high.value)
    ))
}

/// The mean must be consistent with minimum, maximum, percentiles and deviation.
pub(super) fn mean_bounds(row: &Row) -> Finding {
    let Some(mean) = row.mean_ms else { return Finding::NotApplicable };
    let mut applicable = false;
    let ends = [(row.min_ms, "below the minimum"), (row.max_ms, "above the maximum")];
    for (index, (end, what)) in ends.into_iter().enumerate() {
        let Some(end) = end else { continue };
        applicable = true;
        let beyond = if index == 0 { end.surely_above(mean) } else { mean.surely_above(end) };
        if beyond {
            let (mean, end) = (trimmed(mean.value), trimmed(end.value));
            return Finding::Warning(format!("the mean of {mean} ms is {what} of {end} ms"));
        }
    }
    for (percent, value) in &row.percentiles_ms {
        applicable = true;
        // Markov's inequality: a share of (100 - percent) takes at least the percentile's time.
        let least = value.low * (1.0 - percent / 100.0);
        if mean.high < least {
            return Finding::Warning(format!(
                "the mean of {} ms is too low for a {} percentile of {} ms",
                trimmed(mean.value),
                ordinal(*percent),
                trimmed(value.value)
            ));
        }
        if let Some(sd) = row.sd_ms
            && outside_cantelli(mean, sd, *percent, *value)
        {
            return Finding::Warning(format!(
                "a {} percentile of {} ms is impossible with a mean of {} ms and a deviation of {} ms",
                ordinal(*percent),
                trimmed(value.value),
                trimmed(mean.value),
                trimmed(sd.value)
            ));
        }
    }
    if applicable { Finding::Passed } else { Finding::NotApplicable }
}

/// Whether a percentile is further from the mean than any distribution with this deviation
/// allows. Source: Cantelli's inequality.
fn outside_cantelli(mean: Figure, sd: Figure, percent: f64, value: Figure) -> bool {
    let share = percent / 100.0;
    let above = sd.high * (share / (1.0 - share)).sqrt();
    let below = sd.high * ((1.0 - share) / share).sqrt();
    value.low > mean.high + above || value.high < mean.low - below
}

pub(super) fn rate_reached(row: &Row) -> Finding {
    let (Loop::Open { asked_per_s }, Some(rate)) = (row.loop_kind, row.rate_per_s) else {
        return Finding::NotApplicable;
    };
    if rate.off(asked_per_s) <= tolerance(row) {
        return Finding::Passed;
    }
    Finding::Warning(format!(
        "the requested rate is {asked_per_s:.0} requests per second, the achieved rate {:.0}",
        rate.value
    ))
}

/// The number of random arrivals has a relative deviation of 1/sqrt(n); four of them are exceeded once in 16,000
/// measurements.
fn tolerance(row: &Row) -> f64 {
    match row.requests {
        Some(requests) if row.random_arrivals && requests > 0.0 => {
            TOLERANCE + 4.0 / requests.sqrt()
        }
        Some(_) | None => TOLERANCE,
    }
}

pub(super) fn connections_busy(row: &Row) -> Finding {
    match row.queued_share {
        None => Finding::NotApplicable,
        Some(share) if share <= QUEUED_SHARE_MAX => Finding::Passed,
        Some(share) => Finding::Warning(format!(
            "no connection was free for {:.1} % of the requests: the target is too slow for the rate, or \
             there are too few connections",
            share * 100.0
        )),
    }
}

/// Minimum, percentiles and maximum with their names, as far as known.
fn ladder(row: &Row) -> Vec<(String, Figure)> {
    let mut ladder = Vec::new();
    ladder.extend(row.min_ms.map(|figure| ("the minimum".to_owned(), figure)));
    let named = |(percent, figure): &(f64, Figure)| {
        (format!("the {} percentile", ordinal(*percent)), *figure)
    };
    ladder.extend(row.percentiles_ms.iter().map(named));
    ladder.extend(row.max_ms.map(|figure| ("the maximum".to_owned(), figure)));
    ladder
}

fn percent_of(count: u64, row: &Row) -> f64 {
    match row.requests {
        Some(requests) if requests > 0.0 => 100.0 * count as f64 / requests,
        // Without a total, any count is too high.
        Some(_) | None if count > 0 => 100.0,
        Some(_) | None => 0.0,
    }
}

/// Errors by kind, such as ` (timeout 12, status-503 3)`; empty if unknown.
fn kinds(row: &Row, wanted: impl Fn(&str) -> bool) -> String {
    let Some(by_kind) = &row.errors_by_kind else { return String::new() };
    let list: Vec<String> = by_kind
        .iter()
        .filter(|(kind, count)| wanted(kind) && **count > 0)
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    if list.is_empty() { String::new() } else { format!(" ({})", list.join(", ")) }
}

fn ordinal(percent: f64) -> String {
    format!("{percent}th")
}

/// Up to three decimals, without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
