//! Dates and times, complete or partial. Source: XML Schema 1.0 part 2, sections 3.2.7 to 3.2.14.

use std::fmt;

use time::util::is_leap_year;
use time::{Date, Month, OffsetDateTime};
use xpath::dates::{DAYS, MONTHS};

use super::duration::{DAY, Duration, SECOND, nanos, seconds_text};

/// The type of a date. From `Year` to `DateTime`, each is more precise than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Year,
    YearMonth,
    Date,
    DateTime,
    Time,
    Month,
    MonthDay,
    Day,
}

/// Components that the kind does not have are those of some valid date. The year before 1 is 0 here, and -1 when it is
/// written. Years range from -999,999 to 999,999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) kind: Kind,
    date: Date,
    /// Nanoseconds since midnight.
    pub(super) nanos: i128,
    /// Minutes east of UTC.
    pub(super) zone: Option<i64>,
}

fn name(names: &'static [&'static str], at: i64) -> Option<&'static str> {
    names.get(usize::try_from(at).ok()?).copied()
}

/// A date; `None` if the calendar does not have it.
fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()
}

pub(super) fn days_in(year: i64, month: i64) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    Some(month.length(i32::try_from(year).ok()?).into())
}

fn days_since_epoch(date: Date) -> i64 {
    i64::from(date.to_julian_day()) - i64::from(OffsetDateTime::UNIX_EPOCH.to_julian_day())
}

fn date_of(days_since_epoch: i64) -> Option<Date> {
    let epoch = i64::from(OffsetDateTime::UNIX_EPOCH.to_julian_day());
    Date::from_julian_day(i32::try_from(days_since_epoch.checked_add(epoch)?).ok()?).ok()
}

impl Moment {
    /// A date; `None` if the calendar does not have it.
    pub(super) fn new(
        kind: Kind,
        (year, month, day): (i64, i64, i64),
        nanos: i128,
        zone: Option<i64>,
    ) -> Option<Self> {
        Some(Self { kind, date: date(year, month, day)?, nanos, zone })
    }

    /// The time in UTC; `None` if it is out of range.
    pub(super) fn from_epoch_ms(now_ms: i64) -> Option<Self> {
        let (days, ms) = (now_ms.div_euclid(86_400_000), now_ms.rem_euclid(86_400_000));
        let nanos = i128::from(ms) * 1_000_000;
        Some(Self { kind: Kind::DateTime, date: date_of(days)?, nanos, zone: Some(0) })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let mut reader = Reader { rest: text };
        let found = reader.moment()?;
        reader.rest.is_empty().then_some(found)
    }

    pub(super) fn without_fraction(self) -> Self {
        Self { nanos: self.nanos - self.nanos % SECOND, ..self }
    }

    fn has_date(self) -> bool {
        matches!(self.kind, Kind::DateTime | Kind::Date)
    }

    fn has_time(self) -> bool {
        matches!(self.kind, Kind::DateTime | Kind::Time)
    }

    pub(super) fn year(self) -> Option<i64> {
        (self.kind <= Kind::DateTime).then(|| written(self.date.year()))
    }

    pub(super) fn is_in_leap_year(self) -> Option<bool> {
        (self.kind <= Kind::DateTime).then(|| is_leap_year(self.date.year()))
    }

    pub(super) fn month_in_year(self) -> Option<i64> {
        let has = match self.kind {
            Kind::YearMonth | Kind::Date | Kind::DateTime | Kind::Month | Kind::MonthDay => true,
            Kind::Year | Kind::Time | Kind::Day => false,
        };
        has.then(|| u8::from(self.date.month()).into())
    }

    pub(super) fn day_in_month(self) -> Option<i64> {
        let has = self.has_date() || matches!(self.kind, Kind::MonthDay | Kind::Day);
        has.then(|| self.date.day().into())
    }

    pub(super) fn day_in_year(self) -> Option<i64> {
        self.has_date().then(|| self.date.ordinal().into())
    }

    /// The day of the week, from 1 for Sunday.
    pub(super) fn day_in_week(self) -> Option<i64> {
        self.has_date().then(|| self.date.weekday().number_from_sunday().into())
    }

    pub(super) fn day_of_week_in_month(self) -> Option<i64> {
        self.has_date().then(|| i64::from(self.date.day() - 1) / 7 + 1)
    }

    /// The week of the month. Weeks begin on Monday; the first of the month is in week 1.
    pub(super) fn week_in_month(self) -> Option<i64> {
        let first = self.date.replace_day(1).ok()?;
        let before = i64::from(first.weekday().number_days_from_monday());
        self.has_date().then(|| (i64::from(self.date.day() - 1) + before) / 7 + 1)
    }

    /// The week of the year. Source: ISO 8601.
    pub(super) fn week_in_year(self) -> Option<i64> {
        self.has_date().then(|| self.date.iso_week().into())
    }

    pub(super) fn month_name(self) -> Option<&'static str> {
        name(&MONTHS, self.month_in_year()? - 1)
    }

    pub(super) fn day_name(self) -> Option<&'static str> {
        name(&DAYS, self.day_in_week()? - 1)
    }

    fn units(self, nanos: i128) -> Option<i64> {
        i64::try_from(self.nanos / nanos).ok().filter(|_| self.has_time())
    }

    pub(super) fn hour(self) -> Option<i64> {
        self.units(3_600 * SECOND)
    }

    pub(super) fn minute(self) -> Option<i64> {
        self.units(60 * SECOND).map(|minutes| minutes % 60)
    }

    pub(super) fn second_text(self) -> Option<String> {
        self.has_time().then(|| seconds_text((self.nanos % (60 * SECOND)).unsigned_abs()))
    }

    pub(super) fn date_text(self) -> Option<String> {
        self.has_date().then(|| Self { kind: Kind::Date, ..self }.to_string())
    }

    pub(super) fn time_text(self) -> Option<String> {
        self.has_time().then(|| Self { kind: Kind::Time, ..self }.to_string())
    }

    /// The time since the Unix epoch, in UTC.
    pub(super) fn since_epoch(self) -> Option<Duration> {
        if self.kind > Kind::DateTime {
            return None;
        }
        let days = days_since_epoch(self.date);
        let zone = i128::from(self.zone.unwrap_or(0)) * 60 * SECOND;
        Some(Duration { months: 0, nanos: i128::from(days) * DAY + self.nanos - zone })
    }

    /// Adds months first, limiting the day to the last of the month, then days and time. The sum is as precise as the
    /// more precise operand.
    pub(super) fn plus(self, duration: Duration) -> Option<Self> {
        if self.kind > Kind::DateTime {
            return None;
        }
        let needs = if duration.nanos % DAY != 0 {
            Kind::DateTime
        } else if duration.nanos != 0 {
            Kind::Date
        } else if duration.months % 12 != 0 {
            Kind::YearMonth
        } else {
            Kind::Year
        };
        let months = self.months().checked_add(duration.months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let day = i64::from(self.date.day()).min(days_in(year, month)?);
        let start = i128::from(days_since_epoch(date(year, month, day)?)) * DAY + self.nanos;
        let end = start.checked_add(duration.nanos)?;
        let date = date_of(i64::try_from(end.div_euclid(DAY)).ok()?)?;
        let (kind, nanos) = (self.kind.max(needs), end.rem_euclid(DAY));
        Some(Self { kind, date, nanos, zone: self.zone })
    }

    /// Months since year 0.
    fn months(self) -> i64 {
        i64::from(self.date.year()) * 12 + i64::from(u8::from(self.date.month())) - 1
    }

    /// The duration until `end`, with the precision of the less precise one.
    pub(super) fn until(self, end: Self) -> Option<Duration> {
        let kind = self.kind.min(end.kind);
        match kind {
            _ if self.kind > Kind::DateTime || end.kind > Kind::DateTime => None,
            Kind::Year => {
                let years = i64::from(end.date.year()) - i64::from(self.date.year());
                Some(Duration { months: years * 12, nanos: 0 })
            }
            Kind::YearMonth => Some(Duration { months: end.months() - self.months(), nanos: 0 }),
            Kind::Date => {
                let days = days_since_epoch(end.date) - days_since_epoch(self.date);
                Some(Duration { months: 0, nanos: i128::from(days) * DAY })
            }
            Kind::DateTime => {
                let (start, end) = (self.since_epoch()?, end.since_epoch()?);
                Some(Duration { months: 0, nanos: end.nanos - start.nanos })
            }
            Kind::Time | Kind::Month | Kind::MonthDay | Kind::Day => None,
        }
    }
}

/// The year as written; the written form skips year 0.
fn written(year: i32) -> i64 {
    i64::from(if year <= 0 { year - 1 } else { year })
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, month, day) = (self.kind, u8::from(self.date.month()), self.date.day());
        let year = written(self.date.year());
        let sign = if year < 0 { "-" } else { "" };
        let year = year.abs();
        match kind {
            Kind::Year => write!(f, "{sign}{year:04}")?,
            Kind::YearMonth => write!(f, "{sign}{year:04}-{month:02}")?,
            Kind::Date => write!(f, "{sign}{year:04}-{month:02}-{day:02}")?,
            Kind::DateTime => write!(f, "{sign}{year:04}-{month:02}-{day:02}T")?,
            Kind::Time => {}
            Kind::Month => write!(f, "--{month:02}")?,
            Kind::MonthDay => write!(f, "--{month:02}-{day:02}")?,
            Kind::Day => write!(f, "---{day:02}")?,
        }
        if let (Some(hour), Some(minute), Some(second)) =
            (self.hour(), self.minute(), self.second_text())
        {
            let zero = if second.split('.').next().map_or(0, str::len) < 2 { "0" } else { "" };
            write!(f, "{hour:02}:{minute:02}:{zero}{second}")?;
        }
        match self.zone {
            None => Ok(()),
            Some(0) => f.write_str("Z"),
            Some(zone) => {
                let (sign, zone) = (if zone < 0 { '-' } else { '+' }, zone.abs());
                write!(f, "{sign}{:02}:{:02}", zone / 60, zone % 60)
            }
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn moment(&mut self) -> Option<Moment> {
        let (mut date, mut nanos) = ((1970, 1, 1), 0);
        let mut kind;
        if self.eat("---") {
            (kind, date.2) = (Kind::Day, self.digits(2)?);
        } else if self.eat("--") {
            // A leap year, for the 29th of February.
            (kind, date) = (Kind::Month, (1972, self.digits(2)?, 1));
            if !self.eat("--") && self.rest.starts_with('-') && self.day_follows() {
                self.eat("-");
                (kind, date.2) = (Kind::MonthDay, self.digits(2)?);
            }
        } else if self.rest.as_bytes().get(2) == Some(&b':') {
            (kind, nanos) = (Kind::Time, self.time()?);
        } else {
            (kind, date, nanos) = self.date()?;
        }
        Moment::new(kind, date, nanos, self.zone()?)
    }

    fn date(&mut self) -> Option<(Kind, (i64, i64, i64), i128)> {
        let negative = self.eat("-");
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        // Four digits; more only if the year needs them.
        let valid = len == 4 || len > 4 && !self.rest.starts_with('0');
        let year = self.digits(len).filter(|year| valid && *year > 0)?;
        let year = if negative { 1 - year } else { year };
        if !(self.day_follows() && self.eat("-")) {
            return Some((Kind::Year, (year, 1, 1), 0));
        }
        let month = self.digits(2)?;
        if !(self.day_follows() && self.eat("-")) {
            return Some((Kind::YearMonth, (year, month, 1), 0));
        }
        let day = self.digits(2)?;
        if !self.eat("T") {
            return Some((Kind::Date, (year, month, day), 0));
        }
        Some((Kind::DateTime, (year, month, day), self.time()?))
    }

    /// Whether a hyphen follows that doesn't begin a time zone.
    fn day_follows(&self) -> bool {
        self.rest.starts_with('-') && self.rest.as_bytes().get(3) != Some(&b':')
    }

    fn time(&mut self) -> Option<i128> {
        let hour = self.digits(2).filter(|hour| *hour < 24 && self.rest.starts_with(':'))?;
        self.eat(":");
        let minute = self.digits(2).filter(|minute| *minute < 60 && self.rest.starts_with(':'))?;
        self.eat(":");
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (seconds, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        let two = seconds.split('.').next().map_or(0, str::len) == 2;
        self.rest = rest;
        let seconds = nanos(seconds).filter(|nanos| two && *nanos < 60 * SECOND)?;
        Some(i128::from(hour * 60 + minute) * 60 * SECOND + seconds)
    }

    /// The time zone, if there is one; `None` if the text is not a time zone.
    fn zone(&mut self) -> Option<Option<i64>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        if self.eat("Z") {
            return Some(Some(0));
        }
        let sign = if self.eat("-") { -1 } else { 1 };
        if sign == 1 && !self.eat("+") {
            return None;
        }
        let hours = self.digits(2).filter(|hours| *hours <= 14)?;
        let minutes =
            if self.eat(":") { self.digits(2).filter(|it| *it < 60)? } else { return None };
        Some(Some(sign * (hours * 60 + minutes)))
    }

    fn eat(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        self.rest = rest;
        if good { digits.parse().ok() } else { None }
    }
}
