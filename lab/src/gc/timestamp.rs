//! Timestamps of JDK 8 logs: uptime in seconds (`0.200`), date (`2026-01-31T23:59:59.452+0100`), or both,
//! each followed by a colon.

/// Milliseconds of the last timestamp in `text`: since the JVM's start, or since 1970 if the log has dates
/// only.
pub(super) fn ms(text: &str) -> Option<f64> {
    let last = text.trim_end().strip_suffix(':')?;
    let word = last.rsplit(char::is_whitespace).next()?;
    if word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return word.parse::<f64>().ok().map(|s| s * 1_000.0);
    }
    date_ms(word)
}

/// Whether `text` consists of timestamps only.
pub(super) fn only(text: &str) -> bool {
    text.split_ascii_whitespace().all(|word| {
        let first = word.bytes().next();
        word.ends_with(':') && first.is_some_and(|byte| byte.is_ascii_digit())
    })
}

/// Parses `2026-01-31T23:59:59.452+0100` at the end of `word`, which may start with other text.
fn date_ms(word: &str) -> Option<f64> {
    let text = word.get(word.len().checked_sub("2026-01-31T23:59:59.452+0100".len())?..)?;
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let separated = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, ".")];
    if !separated.iter().all(|&(at, separator)| text.get(at..at + 1) == Some(separator)) {
        return None;
    }
    let days = days(number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let zone_min = number(24, 26)? * 60 + number(26, 28)?;
    let east = match text.get(23..24)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let minutes = (days * 24 + number(11, 13)?) * 60 + number(14, 16)? - east * zone_min;
    Some(((minutes * 60 + number(17, 19)?) * 1_000 + number(20, 23)?) as f64)
}

/// Days since 1970-01-01. Source of the calendar: Howard Hinnant, "chrono-compatible low-level date
/// algorithms", `days_from_civil`, for years from 1 on.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_timestamp_is_used() {
        for (text, expect) in [
            ("0.200: ", Some(200.0)),
            ("2026-11-21T10:49:54.452+0000: 0.200: ", Some(200.0)),
            ("1970-01-01T00:00:00.000+0000: ", Some(0.0)),
            ("2000-02-29T00:00:00.001+0000: ", Some(951_782_400_001.0)),
            ("2000-02-29T01:30:00.001+0130: ", Some(951_782_400_001.0)),
            ("2000-02-28T19:00:00.001-0500:", Some(951_782_400_001.0)),
            ("[CMS2000-02-29T00:00:00.001+0000: ", Some(951_782_400_001.0)),
            ("2026-11-21 10:49:54.452+0000: ", None),
            ("Heap after: ", None),
            ("ü: ", None),
            ("", None),
        ] {
            assert_eq!(ms(text), expect, "{text}");
        }
    }

    #[test]
    fn lines_that_start_with_timestamps_are_recognised() {
        for (text, expect) in [
            ("2026-11-21T10:49:54.452+0000: 0.200: ", true),
            ("", true),
            ("   [Eden: ", false),
            (" (concurrent mode failure): ", false),
        ] {
            assert_eq!(only(text), expect, "{text}");
        }
    }
}
