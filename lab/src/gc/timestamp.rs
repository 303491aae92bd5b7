//! Timestamps of JDK 8 logs: uptime in seconds (`0.200`), date (`2026-01-31T23:59:59.452+0100`), or both,
//! each followed by a colon.

use time::{Date, UtcOffset};

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
pub(super) fn is_only_timestamps(text: &str) -> bool {
    text.split_ascii_whitespace().all(|word| {
        let first = word.bytes().next();
        word.ends_with(':') && first.is_some_and(|byte| byte.is_ascii_digit())
    })
}

/// Parses `2026-01-31T23:59:59.452+0100` at the end of `word`, which may start with other text.
fn date_ms(word: &str) -> Option<f64> {
    let text = word.get(word.len().checked_sub("2026-01-31T23:59:59.452+0100".len())?..)?;
    let separators = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":"), (19, ".")];
    if !separators.iter().all(|&(at, separator)| text.get(at..at + 1) == Some(separator)) {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u16>().ok();
    let two = |from: usize| u8::try_from(number(from, from + 2)?).ok();
    let date =
        Date::from_calendar_date(i32::from(number(0, 4)?), two(5)?.try_into().ok()?, two(8)?);
    let date = date.ok()?.with_hms_milli(two(11)?, two(14)?, two(17)?, number(20, 23)?).ok()?;
    let (hours, minutes) = (i8::try_from(two(24)?).ok()?, i8::try_from(two(26)?).ok()?);
    let offset = match text.get(23..24)? {
        "+" => UtcOffset::from_hms(hours, minutes, 0),
        "-" => UtcOffset::from_hms(-hours, -minutes, 0),
        _ => return None,
    };
    Some((date.assume_offset(offset.ok()?).unix_timestamp_nanos() / 1_000_000) as f64)
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
            assert_eq!(is_only_timestamps(text), expect, "{text}");
        }
    }
}
