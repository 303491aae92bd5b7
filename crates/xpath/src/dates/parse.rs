//! Reads dates by a pattern of `DateTimeFormatter`.

use time::{Date, Month, OffsetDateTime, Time, util::days_in_month};

use super::pattern::{self, Part};
use super::{DAY_MS, DAYS, MONTHS};
use crate::budget::Budget;
use crate::error::Error;

/// Parses `text` by a pattern of `DateTimeFormatter`, and returns its time in milliseconds since the Unix
/// epoch.
///
/// As Java does by default, it lowers the day to the last one of its month (31 June is 30 June), and reads 24:00 as the
/// end of the day. A date without a time is its midnight, a time without a date that of 1 January 1970. An offset from
/// UTC is read and ignored.
///
/// # Errors
/// [`Error::Date`]: a wrong pattern, and a text that doesn't match it.
pub fn parse(text: &str, pattern: &str, budget: &Budget) -> Result<i64, Error> {
    budget.charge_steps(pattern.len() as u64)?;
    budget.charge_scanning(text.len())?;
    let mut reader = Reader::new(text);
    for part in pattern::parts(pattern) {
        let matched = match part? {
            Part::Literal(literal) => reader.literal(literal),
            Part::Field(letter, width) => reader.field(letter, width),
        };
        if matched.is_none() {
            return mismatch(text, pattern);
        }
    }
    match reader.finish() {
        Some(unix_ms) => Ok(unix_ms),
        None => mismatch(text, pattern),
    }
}

fn mismatch(text: &str, pattern: &str) -> Result<i64, Error> {
    Err(Error::Date(format!("`{text}` does not match the date pattern `{pattern}`")))
}

struct Reader<'t> {
    rest: &'t str,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    is_afternoon: Option<bool>,
    /// Minutes, seconds and their fraction.
    ms_of_hour: i64,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            year: 1970,
            month: 1,
            day: 1,
            hour: 0,
            is_afternoon: None,
            ms_of_hour: 0,
        }
    }

    fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(())
    }

    /// A number of `least` to `most` digits.
    fn digits(&mut self, least: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.parse().ok()
    }

    /// The place in `names` of the name that comes next, all of it or its first three letters.
    fn name(&mut self, names: &[&str]) -> Option<i64> {
        for (place, name) in names.iter().enumerate() {
            for form in [*name, name.get(..3)?] {
                if let Some(rest) = self.rest.strip_prefix(form) {
                    self.rest = rest;
                    return i64::try_from(place).ok();
                }
            }
        }
        None
    }

    fn field(&mut self, letter: char, width: usize) -> Option<()> {
        let most = if width == 1 { 2 } else { width };
        let mut number = || self.digits(width, most);
        match letter {
            'y' | 'u' if width == 2 => self.year = 2000 + self.digits(2, 2)?,
            'y' | 'u' => self.year = self.digits(width, width.max(4))?,
            'M' | 'L' if width > 2 => self.month = self.name(&MONTHS)? + 1,
            'M' | 'L' => self.month = number()?,
            'd' => self.day = number()?,
            'E' => _ = self.name(&DAYS)?,
            'H' => self.hour = number().filter(|hour| *hour <= 24)?,
            'k' => self.hour = number().filter(|hour| (1..=24).contains(hour))? % 24,
            'h' => self.hour = number().filter(|hour| (1..=12).contains(hour))? % 12,
            'K' => self.hour = number().filter(|hour| *hour < 12)?,
            'm' => self.ms_of_hour += number().filter(|minute| *minute < 60)? * 60_000,
            's' => self.ms_of_hour += number().filter(|second| *second < 60)? * 1_000,
            'S' => {
                let scale = 10_i64.checked_pow(u32::try_from(width).ok()?)?;
                self.ms_of_hour += self.digits(width, width)?.checked_mul(1_000)? / scale;
            }
            'a' => {
                let half = self.rest.get(..2)?.to_ascii_uppercase();
                self.is_afternoon =
                    Some(["AM", "PM"].iter().position(|known| *known == half)? == 1);
                self.rest = self.rest.get(2..)?;
            }
            'X' | 'x' | 'Z' => return self.offset(),
            _ => return None,
        }
        Some(())
    }

    fn offset(&mut self) -> Option<()> {
        if self.literal("Z").is_some() {
            return Some(());
        }
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        self.digits(2, 2)?;
        if self.literal(":").is_some() || !self.rest.is_empty() {
            self.digits(2, 2)?;
        }
        Some(())
    }

    fn finish(self) -> Option<i64> {
        let month = Month::try_from(u8::try_from(self.month).ok()?).ok()?;
        let year = i32::try_from(self.year).ok()?;
        if !self.rest.is_empty() || !(1..=31).contains(&self.day) {
            return None;
        }
        let day = u8::try_from(self.day).ok()?.min(days_in_month(month, year));
        let date = Date::from_calendar_date(year, month, day).ok()?;
        let midnight = OffsetDateTime::new_utc(date, Time::MIDNIGHT).unix_timestamp();
        let hour = match self.is_afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let ms_of_day = self.ms_of_hour.checked_add(hour * 3_600_000)?;
        (ms_of_day <= DAY_MS).then(|| midnight * 1_000 + ms_of_day)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, format};
    use super::*;

    fn iso(text: &str, pattern: &str) -> Option<String> {
        let unix_ms = parse(text, pattern, &Budget::default()).ok()?;
        let pattern = "uuuu-MM-dd'T'HH:mm:ss.SSS";
        Some(format(unix_ms, pattern, Dialect::DateTimeFormatter, &Budget::default()).unwrap())
    }

    #[test]
    fn texts_are_read_by_their_pattern() {
        for (text, pattern, expected) in [
            ("2024-02-29 01:02:03", "yyyy-MM-dd HH:mm:ss", "2024-02-29T01:02:03.000"),
            ("29 February 24", "d MMMM yy", "2024-02-29T00:00:00.000"),
            ("Thu, 29 Feb 2024 11:59 pm", "EEE, dd MMM yyyy h:mm a", "2024-02-29T23:59:00.000"),
            ("12:00 AM", "hh:mm a", "1970-01-01T00:00:00.000"),
            ("20240229T235959.5+01:00", "yyyyMMdd'T'HHmmss.SXXX", "2024-02-29T23:59:59.500"),
            ("1'2024", "d''yyyy", "2024-01-01T00:00:00.000"),
        ] {
            assert_eq!(iso(text, pattern).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn days_past_the_end_of_a_month_and_24_oclock_are_adjusted_as_java_does() {
        assert_eq!(iso("2023-02-31", "yyyy-MM-dd").unwrap(), "2023-02-28T00:00:00.000");
        assert_eq!(iso("2023-02-28 24:00", "yyyy-MM-dd HH:mm").unwrap(), "2023-03-01T00:00:00.000");
    }

    #[test]
    fn other_texts_are_rejected() {
        for (text, pattern) in [
            ("2023-02-32", "yyyy-MM-dd"),
            ("2023-13-01", "yyyy-MM-dd"),
            ("2023-00-01", "yyyy-MM-dd"),
            ("24:01", "HH:mm"),
            ("25:00", "HH:mm"),
            ("13:00 AM", "hh:mm a"),
            ("23-1-1", "yyyy-MM-dd"),
            ("2023-01-01x", "yyyy-MM-dd"),
            ("é", "a"),
            ("", "yyyy"),
        ] {
            assert_eq!(iso(text, pattern), None, "{text}");
        }
    }
}
