//! Dates in the patterns of Java's `SimpleDateFormat` and `DateTimeFormatter`, in UTC and English.
//!
//! Times are milliseconds since the Unix epoch. Weeks are those of Java's locale `en_US`: they begin on Sunday, and the
//! first is the one with 1 January. The fields are those of OpenJDK 17, with two differences: the calendar is also
//! Gregorian before 1582, where `SimpleDateFormat` uses the Julian one; and `F` is the week of the month as in
//! `SimpleDateFormat`, where `DateTimeFormatter` had the day of the week until OpenJDK 18. The letters `B`, `c`, `g`,
//! `N` and `v` are not supported.

mod parse;
mod pattern;

use std::fmt::Write;

use time::{Date, OffsetDateTime};

use crate::budget::Budget;
use crate::error::Error;
use pattern::Part;

pub use parse::parse;

/// The Java class whose pattern letters are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `java.text.SimpleDateFormat`
    SimpleDateFormat,
    /// `java.time.format.DateTimeFormatter`
    DateTimeFormatter,
}

fn unknown(letter: char) -> Error {
    Error::Date(format!("unknown letter `{letter}` in a date pattern"))
}

fn too_many(letter: char) -> Error {
    Error::Date(format!("too many letters `{letter}` in a row in a date pattern"))
}

fn out_of_range() -> Error {
    Error::Date("date out of range: its year is outside of -9999 to 9999".to_owned())
}

const DAY_MS: i64 = 86_400_000;

/// Maximum bytes of output per byte of a pattern: `a` becomes `AM`, `XXX` becomes `+00:00`.
const BYTES_PER_LETTER: usize = 8;

/// English names of the months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// English names of the days, from Sunday.
pub const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Formats the time `unix_ms`.
///
/// ```
/// use xpath::Budget;
/// use xpath::dates::{Dialect, format};
///
/// let text = format(1_700_000_000_000, "EEE, d MMM yyyy HH:mm:ss Z", Dialect::SimpleDateFormat, &Budget::default())?;
/// assert_eq!(text, "Tue, 14 Nov 2023 22:13:20 +0000");
/// # Ok::<(), xpath::Error>(())
/// ```
///
/// # Errors
/// [`Error::Date`]: a pattern that the dialect rejects, and years outside of -9999 to 9999.
pub fn format(
    unix_ms: i64,
    pattern: &str,
    dialect: Dialect,
    budget: &Budget,
) -> Result<String, Error> {
    budget.charge_steps(pattern.len() as u64)?;
    budget.charge_memory(pattern.len().saturating_mul(BYTES_PER_LETTER))?;
    let fields = Fields::of(unix_ms)?;
    let mut out = String::new();
    for part in pattern::parts(pattern) {
        match part? {
            Part::Literal(text) => out.push_str(text),
            Part::Field(letter, width) => {
                let known = match dialect {
                    Dialect::SimpleDateFormat => fields.simple(letter, width, &mut out)?,
                    Dialect::DateTimeFormatter => fields.formatter(letter, width, &mut out)?,
                };
                if !known {
                    return Err(unknown(letter));
                }
            }
        }
    }
    Ok(out)
}

/// The fields of a time.
struct Fields {
    date: Date,
    ms_of_day: i64,
}

fn padded(number: i64, width: usize, out: &mut String) {
    if number < 0 {
        out.push('-');
    }
    // Writing to a string can't fail.
    _ = write!(out, "{:0width$}", number.unsigned_abs());
}

fn two_digits(year: i64, out: &mut String) {
    padded(year.abs() % 100, 2, out);
}

impl Fields {
    fn of(unix_ms: i64) -> Result<Self, Error> {
        let seconds = unix_ms.div_euclid(1_000);
        let time = OffsetDateTime::from_unix_timestamp(seconds);
        let date = time.map_err(|_| out_of_range())?.date();
        Ok(Self { date, ms_of_day: unix_ms.rem_euclid(DAY_MS) })
    }

    fn year(&self) -> i64 {
        i64::from(self.date.year())
    }

    /// Year 0 is 1 BC.
    fn year_of_era(&self) -> i64 {
        let year = self.year();
        if year > 0 { year } else { 1 - year }
    }

    fn era(&self) -> &'static str {
        if self.year() > 0 { "AD" } else { "BC" }
    }

    fn month(&self) -> i64 {
        i64::from(u8::from(self.date.month()))
    }

    fn day(&self) -> i64 {
        i64::from(self.date.day())
    }

    fn day_of_year(&self) -> i64 {
        i64::from(self.date.ordinal())
    }

    /// The day of the week, from 0 for Sunday.
    fn weekday(&self) -> i64 {
        i64::from(self.date.weekday().number_days_from_sunday())
    }

    fn hour(&self) -> i64 {
        self.ms_of_day / 3_600_000
    }

    fn minute(&self) -> i64 {
        self.ms_of_day / 60_000 % 60
    }

    fn second(&self) -> i64 {
        self.ms_of_day / 1_000 % 60
    }

    fn ms(&self) -> i64 {
        self.ms_of_day % 1_000
    }

    /// The week of the year, and the year that it belongs to.
    fn week(&self) -> (i64, i64) {
        let days = i64::from(time::util::days_in_year(self.date.year()));
        let days_left_in_week = 6 - self.weekday();
        if self.day_of_year() + days_left_in_week > days {
            return (1, self.year() + 1);
        }
        let first_weekday = (self.weekday() - (self.day_of_year() - 1)).rem_euclid(7);
        ((self.day_of_year() - 1 + first_weekday) / 7 + 1, self.year())
    }

    fn week_of_month(&self) -> i64 {
        let first_weekday = (self.weekday() - (self.day() - 1)).rem_euclid(7);
        (self.day() - 1 + first_weekday) / 7 + 1
    }

    fn month_name(&self) -> &'static str {
        let place = usize::from(u8::from(self.date.month())) - 1;
        MONTHS.get(place).copied().unwrap_or("")
    }

    fn day_name(&self) -> &'static str {
        let place = usize::from(self.date.weekday().number_days_from_sunday());
        DAYS.get(place).copied().unwrap_or("")
    }

    /// The letters of both dialects; false for any other.
    fn common(&self, letter: char, width: usize, out: &mut String) -> bool {
        let hour = self.hour();
        let number = match letter {
            'd' => self.day(),
            'D' => self.day_of_year(),
            'w' => self.week().0,
            'W' => self.week_of_month(),
            'F' => (self.day() - 1) / 7 + 1,
            'H' => hour,
            'k' => (hour + 23) % 24 + 1,
            'K' => hour % 12,
            'h' => (hour + 11) % 12 + 1,
            'm' => self.minute(),
            's' => self.second(),
            'a' => {
                out.push_str(if hour < 12 { "AM" } else { "PM" });
                return true;
            }
            _ => return false,
        };
        padded(number, width, out);
        true
    }

    fn simple(&self, letter: char, width: usize, out: &mut String) -> Result<bool, Error> {
        match letter {
            'y' if width == 2 => two_digits(self.year_of_era(), out),
            'y' => padded(self.year_of_era(), width, out),
            'Y' if width == 2 => two_digits(self.week().1, out),
            'Y' => padded(self.week().1, width, out),
            'M' | 'L' if width > 2 => out.push_str(form(self.month_name(), width.min(4))),
            'M' | 'L' => padded(self.month(), width, out),
            'E' => out.push_str(form(self.day_name(), width.min(4))),
            'u' => padded((self.weekday() + 6) % 7 + 1, width, out),
            'S' => padded(self.ms(), width, out),
            'G' => out.push_str(self.era()),
            'z' if width > 3 => out.push_str("Coordinated Universal Time"),
            'z' => out.push_str("UTC"),
            'Z' => out.push_str("+0000"),
            'X' if width > 3 => return Err(too_many(letter)),
            'X' => out.push('Z'),
            _ => return Ok(self.common(letter, width, out)),
        }
        Ok(true)
    }

    fn formatter(&self, letter: char, width: usize, out: &mut String) -> Result<bool, Error> {
        let most = match letter {
            'a' | 'F' | 'W' => 1,
            'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's' | 'w' | 'V' => 2,
            'D' => 3,
            'z' | 'O' => 4,
            'M' | 'L' | 'E' | 'e' | 'X' | 'x' | 'Z' | 'G' | 'Q' | 'q' => 5,
            'S' | 'n' => 9,
            _ => 15,
        };
        if width > most {
            return Err(too_many(letter));
        }
        let offset = |forms: [&'static str; 5]| forms.get(width - 1).copied().unwrap_or("");
        match letter {
            'y' if width == 2 => two_digits(self.year_of_era(), out),
            'y' => padded(self.year_of_era(), width, out),
            'u' if width == 2 => two_digits(self.year(), out),
            'u' => padded(self.year(), width, out),
            'Y' if width == 2 => two_digits(self.week().1, out),
            'Y' => padded(self.week().1, width, out),
            'Q' | 'q' => self.quarter(width, out),
            'M' | 'L' if width > 2 => out.push_str(form(self.month_name(), width)),
            'M' | 'L' => padded(self.month(), width, out),
            'E' => out.push_str(form(self.day_name(), width)),
            'e' if width > 2 => out.push_str(form(self.day_name(), width)),
            'e' => padded(self.weekday() + 1, width, out),
            'S' => out.extend(format!("{:03}000000", self.ms()).chars().take(width)),
            'n' => padded(self.ms() * 1_000_000, width, out),
            'A' => padded(self.ms_of_day, width, out),
            'G' if width == 4 => {
                out.push_str(if self.year() > 0 { "Anno Domini" } else { "Before Christ" });
            }
            'G' if width == 5 => out.push_str(form(self.era(), 5)),
            'G' => out.push_str(self.era()),
            'X' => out.push('Z'),
            'x' => out.push_str(offset(["+00", "+0000", "+00:00", "+0000", "+00:00"])),
            'Z' => out.push_str(offset(["+0000", "+0000", "+0000", "GMT", "Z"])),
            'O' => out.push_str("GMT"),
            'z' if width == 4 => out.push_str("Coordinated Universal Time"),
            'z' | 'V' => out.push_str("UTC"),
            _ => return Ok(self.common(letter, width, out)),
        }
        Ok(true)
    }

    fn quarter(&self, width: usize, out: &mut String) {
        let quarter = (self.month() - 1) / 3;
        let ordinal = ["1st quarter", "2nd quarter", "3rd quarter", "4th quarter"];
        let place = usize::try_from(quarter).unwrap_or(0);
        match width {
            3 => out.push('Q'),
            4 => return out.push_str(ordinal.get(place).copied().unwrap_or("")),
            _ => {}
        }
        padded(quarter + 1, if width == 2 { 2 } else { 1 }, out);
    }
}

/// Three letters of a name, all of it (4) or one (5).
fn form(name: &'static str, width: usize) -> &'static str {
    match width {
        4 => name,
        5 => name.get(..1).unwrap_or(name),
        _ => name.get(..3).unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BudgetExceeded;

    /// 14 November 2023, 22:13:20.789 UTC, a Tuesday.
    const NOVEMBER: i64 = 1_700_000_000_789;

    fn simple(unix_ms: i64, pattern: &str) -> String {
        format(unix_ms, pattern, Dialect::SimpleDateFormat, &Budget::default()).unwrap()
    }

    fn formatter(unix_ms: i64, pattern: &str) -> String {
        format(unix_ms, pattern, Dialect::DateTimeFormatter, &Budget::default()).unwrap()
    }

    // The expected values of these tests are the output of OpenJDK 17.0.15 in en_US and UTC.

    #[test]
    fn simple_date_format_has_javas_fields() {
        for (pattern, expected) in [
            ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2023-11-14T22:13:20.789Z"),
            ("yyyy.MM.dd G 'at' HH:mm:ss z", "2023.11.14 AD at 22:13:20 UTC"),
            ("EEE, MMM d, ''yy", "Tue, Nov 14, '23"),
            ("h:mm a", "10:13 PM"),
            ("hh 'o''clock' a, zzzz", "10 o'clock PM, Coordinated Universal Time"),
            ("yyyyy.MMMMM.dd GGG hh:mm aaa", "02023.November.14 AD 10:13 PM"),
            ("yyMMddHHmmssZ", "231114221320+0000"),
            ("YYYY-'W'ww-u", "2023-W46-2"),
            ("D W F k K S", "318 3 2 22 10 789"),
            ("MM/dd/yyyy", "11/14/2023"),
        ] {
            assert_eq!(simple(NOVEMBER, pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn date_time_formatter_has_javas_fields() {
        for (pattern, expected) in [
            ("yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "2023-11-14T22:13:20.789000Z"),
            ("EEEE EEEEE eee e MMMM MMMMM", "Tuesday T Tue 3 November N"),
            ("u QQQ QQQQ Q", "2023 Q4 4th quarter 4"),
            ("xxx x Z ZZZZ O VV z", "+00:00 +00 +0000 GMT GMT UTC UTC"),
            ("A n D", "80000789 789000000 318"),
        ] {
            assert_eq!(formatter(NOVEMBER, pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn weeks_begin_on_sunday_and_the_first_has_the_first_of_january() {
        let day = |text: &str| parse(text, "yyyy-MM-dd", &Budget::default()).unwrap();
        for (text, expected) in [
            ("2022-12-31", "2022-53"),
            ("2023-01-01", "2023-01"),
            ("2023-01-08", "2023-02"),
            ("2023-12-30", "2023-52"),
            ("2023-12-31", "2024-01"),
            ("2025-12-28", "2026-01"),
        ] {
            assert_eq!(simple(day(text), "YYYY-ww"), expected, "{text}");
        }
    }

    #[test]
    fn midnight_and_noon_have_four_hours_each() {
        let hours = |hour: i64| formatter(hour * 3_600_000, "H k K h a");
        assert_eq!(hours(0), "0 24 0 12 AM");
        assert_eq!(hours(12), "12 12 0 12 PM");
        assert_eq!(hours(13), "13 13 1 1 PM");
    }

    #[test]
    fn years_before_christ_count_from_one() {
        assert_eq!(formatter(-62_167_219_200_000, "y u G"), "1 0 BC");
        assert_eq!(formatter(-62_167_219_200_001, "y u G"), "2 -1 BC");
        assert_eq!(formatter(-62_167_219_200_001, "uuuu uu yyyy"), "-0001 01 0002");
    }

    #[test]
    fn wrong_patterns_and_years_are_rejected() {
        let format = |unix_ms, pattern, dialect| {
            format(unix_ms, pattern, dialect, &Budget::default()).unwrap_err()
        };
        let (simple, formatter) = (Dialect::SimpleDateFormat, Dialect::DateTimeFormatter);
        assert_eq!(format(0, "yyyy J", simple), unknown('J'));
        assert_eq!(format(0, "yyyy J", formatter), unknown('J'));
        assert_eq!(format(0, "XXXX", simple), too_many('X'));
        assert_eq!(format(0, "ddd", formatter), too_many('d'));
        assert_eq!(format(0, "yyyy 'x", formatter), pattern::unterminated());
        assert_eq!(format(i64::MAX, "yyyy", formatter), out_of_range());
        assert_eq!(format(i64::MIN, "yyyy", formatter), out_of_range());
    }

    #[test]
    fn a_long_pattern_is_charged_before_it_is_used() {
        let pattern = "y".repeat(1_000);
        let steps = format(0, &pattern, Dialect::SimpleDateFormat, &Budget::new(999, 1 << 20));
        assert!(matches!(steps, Err(Error::Budget(BudgetExceeded::Steps { .. }))), "{steps:?}");
        let bytes = format(0, &pattern, Dialect::SimpleDateFormat, &Budget::new(9_999, 999));
        assert!(matches!(bytes, Err(Error::Budget(BudgetExceeded::Bytes { .. }))), "{bytes:?}");
    }
}
