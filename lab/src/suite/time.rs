//! Seconds since 1970 as people and other programs read them.

/// RFC 3339, UTC, such as `2026-01-31T23:59:59Z`. Source of the calendar: Howard Hinnant,
/// "chrono-compatible low-level date algorithms", `civil_from_days`.
pub(crate) fn rfc3339(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn seconds_are_told_as_dates() {
        for (unix_s, expect) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix_s), expect);
        }
    }
}
