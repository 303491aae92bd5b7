//! `date:parse-date`: parses a date according to a pattern.
//!
//! The components that were parsed decide the type of the result: a year, a year and month, a date, a time or both. If
//! only a more detailed component was parsed, the year is 1, and month and day are the first. As in SimpleDateFormat, a
//! number extends as far as there are digits unless another number follows directly, whitespace before a component is
//! skipped, and text after the end of the pattern is ignored. Unlike in SimpleDateFormat, values out of range are
//! errors.

use xpath::dates::{DAYS, MONTHS};

use super::super::Evaluated;
use super::super::arguments::fail;
use super::moment::{Kind, Moment, days_in};
use super::picture::{Piece, Pieces};

/// Maximum number of digits of a number.
const DIGITS_MAX: usize = 9;
const MS: i128 = 1_000_000;

/// The components that were parsed.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    is_before_christ: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_in_year: Option<i64>,
    /// 0 to 23.
    hour: Option<i64>,
    /// 0 to 11.
    half: Option<i64>,
    is_afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    ms: Option<i64>,
    zone: Option<i64>,
}

/// The date in `text`; `None` if it does not match the pattern. `this_year` determines the century of a two-digit year,
/// which is less than 80 years ago, or at most 20 years ahead.
///
/// # Errors
/// A pattern letter that does not determine a date; an unknown century.
pub(super) fn parse(
    text: &str,
    picture: &str,
    this_year: Option<i64>,
) -> Evaluated<Option<Moment>> {
    let mut parts = Parts::default();
    let mut rest = text;
    let mut pieces = Pieces::of(picture).peekable();
    while let Some(piece) = pieces.next() {
        let (letter, width) = match piece {
            Piece::Literal(c) => match rest.strip_prefix(c) {
                Some(behind) => {
                    rest = behind;
                    continue;
                }
                None => return Ok(None),
            },
            Piece::Part(letter, width) => (letter, width),
        };
        rest = rest.trim_start_matches([' ', '\t']);
        let abuts =
            matches!(pieces.peek(), Some(Piece::Part(next, width)) if is_number(*next, *width));
        let digits_max = if abuts { width.min(DIGITS_MAX) } else { DIGITS_MAX };
        if !parts.read(letter, width, digits_max, &mut rest, this_year)? {
            return Ok(None);
        }
    }
    Ok(parts.moment())
}

fn is_number(letter: char, width: usize) -> bool {
    match letter {
        'M' => width < 3,
        'G' | 'E' | 'a' | 'z' | 'Z' => false,
        _ => true,
    }
}

impl Parts {
    /// Parses a component at the beginning of `rest`; returns false if it isn't there.
    fn read(
        &mut self,
        letter: char,
        width: usize,
        digits_max: usize,
        rest: &mut &str,
        this_year: Option<i64>,
    ) -> Evaluated<bool> {
        if is_number(letter, width) {
            let Some((number, digits)) = number(rest, digits_max) else { return Ok(false) };
            return self.set(letter, width, number, digits, this_year).map(|()| true);
        }
        let found = match letter {
            'M' => name(rest, &MONTHS).map(|at| self.month = Some(at)),
            // The day of the week follows from the date.
            'E' => name(rest, &DAYS).map(drop),
            'G' => name(rest, &["AD", "BC"]).map(|at| self.is_before_christ = at == 2),
            'a' => name(rest, &["AM", "PM"]).map(|at| self.is_afternoon = Some(at == 2)),
            _ => zone(rest).map(|minutes| self.zone = Some(minutes)),
        };
        Ok(found.is_some())
    }

    fn set(
        &mut self,
        letter: char,
        width: usize,
        number: i64,
        digits: usize,
        this_year: Option<i64>,
    ) -> Evaluated<()> {
        let place = match letter {
            'y' if width <= 2 && digits == 2 => {
                self.year = Some(in_century(number, this_year)?);
                return Ok(());
            }
            'y' => &mut self.year,
            'M' => &mut self.month,
            'd' => &mut self.day,
            'D' => &mut self.day_in_year,
            'H' => &mut self.hour,
            'k' => {
                self.hour = Some(if number == 24 { 0 } else { number });
                return Ok(());
            }
            'K' => &mut self.half,
            'h' => {
                self.half = Some(if number == 12 { 0 } else { number });
                return Ok(());
            }
            'm' => &mut self.minute,
            's' => &mut self.second,
            'S' => &mut self.ms,
            other => {
                return fail(format!(
                    "date:parse-date does not support the pattern letter `{other}`"
                ));
            }
        };
        *place = Some(number);
        Ok(())
    }

    fn moment(&self) -> Option<Moment> {
        let time = [self.hour, self.half, self.minute, self.second, self.ms];
        let has_time = time.iter().any(Option::is_some) || self.is_afternoon.is_some();
        let has_day = self.day.is_some() || self.day_in_year.is_some();
        let has_date = has_day || self.month.is_some() || self.year.is_some();
        let kind = match (has_time, has_date) {
            (true, true) => Kind::DateTime,
            (true, false) => Kind::Time,
            (false, true) if has_day => Kind::Date,
            (false, true) if self.month.is_some() => Kind::YearMonth,
            (false, true) => Kind::Year,
            (false, false) => return None,
        };
        let year = self.year.unwrap_or(1);
        let year = if self.is_before_christ { 1_i64.checked_sub(year)? } else { year };
        let (month, day) = self.month_and_day(year)?;
        Moment::new(kind, (year, month, day), self.nanos()?, self.zone)
    }

    fn month_and_day(&self, year: i64) -> Option<(i64, i64)> {
        let Some(mut day) = self.day_in_year else {
            return Some((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        for month in 1..=12 {
            let days = days_in(year, month)?;
            if day <= days {
                return Some((month, day));
            }
            day = day.checked_sub(days)?;
        }
        None
    }

    /// Nanoseconds since the beginning of the day.
    fn nanos(&self) -> Option<i128> {
        let half = |hour: i64| hour + if self.is_afternoon == Some(true) { 12 } else { 0 };
        let hour = self.hour.or(self.half.map(half));
        let hour = hour.unwrap_or_else(|| half(0));
        let below = |part: Option<i64>, limit: i64| {
            Some(part.unwrap_or(0)).filter(|part| *part < limit).map(i128::from)
        };
        if self.half.is_some_and(|half| half >= 12) {
            return None;
        }
        let hours = below(Some(hour), 24)?;
        let minutes = hours * 60 + below(self.minute, 60)?;
        let seconds = minutes * 60 + below(self.second, 60)?;
        Some((seconds * 1_000 + below(self.ms, 1_000)?) * MS)
    }
}

/// Expands a two-digit year.
fn in_century(number: i64, this_year: Option<i64>) -> Evaluated<i64> {
    let Some(this_year) = this_year else {
        return fail("a two-digit year requires the current time, which is not available");
    };
    // The last year with these two digits that is at most 20 years ahead.
    let last = this_year + 20;
    Ok(last - (last - number).rem_euclid(100))
}

/// A number and its digits.
fn number(rest: &mut &str, digits_max: usize) -> Option<(i64, usize)> {
    let digits = rest.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
    let (number, behind) = rest.split_at_checked(digits)?;
    *rest = behind;
    Some((number.parse().ok()?, digits))
}

/// The number, from 1, of the name that `rest` begins with, whole or its first three letters, in any case.
fn name(rest: &mut &str, names: &[&str]) -> Option<i64> {
    let begins = |name: &str| {
        rest.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name)).map(str::len)
    };
    let found = |name: &str| begins(name).or_else(|| begins(name.get(..3)?));
    let (at, len) = names.iter().enumerate().find_map(|(at, name)| Some((at, found(name)?)))?;
    *rest = rest.get(len..)?;
    i64::try_from(at + 1).ok()
}

/// Minutes east: `Z`, `UTC`, `GMT`, `GMT+01:00`, `-0330`.
fn zone(rest: &mut &str) -> Option<i64> {
    let mut behind = *rest;
    let named = name(&mut behind, &["UTC", "GMT"]).is_some();
    let Some(sign) = behind.chars().next().filter(|sign| matches!(sign, '+' | '-')) else {
        if !named {
            behind = behind.strip_prefix('Z')?;
        }
        *rest = behind;
        return Some(0);
    };
    behind = behind.get(1..)?;
    let (hours, _) = number(&mut behind, 2)?;
    behind = behind.strip_prefix(':').unwrap_or(behind);
    let (minutes, digits) = number(&mut behind, 2)?;
    if digits != 2 || minutes >= 60 || hours > 14 {
        return None;
    }
    *rest = behind;
    let east = hours * 60 + minutes;
    Some(if sign == '-' { -east } else { east })
}
