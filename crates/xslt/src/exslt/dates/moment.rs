//! Dates and times, whole or in part. Source: XML Schema 1.0 part 2, sections 3.2.7 to 3.2.14.

use std::fmt;

use super::duration::{DAY, Duration, SECOND, nanos, seconds_text};

/// What is said of a date. From `Year` to `DateTime` each says more than the one before.
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

/// Years are counted through zero; written, the one before 1 is -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) kind: Kind,
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    /// Of the day.
    pub(super) nanos: i128,
    /// Minutes east.
    pub(super) zone: Option<i64>,
}

/// Largest year, either side of zero. Beyond: not a date.
const YEAR_MAX: i64 = 9_999_999;

#[rustfmt::skip]
pub(super) const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

fn name(names: &'static [&'static str], at: i64) -> Option<&'static str> {
    names.get(usize::try_from(at).ok()?).copied()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar, counted by eras of 400 years that begin in March.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = shifted.div_euclid(146_097) * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

impl Moment {
    const START: Self =
        Self { kind: Kind::Year, year: 1970, month: 1, day: 1, nanos: 0, zone: None };

    /// In UTC.
    pub(super) fn of_epoch_ms(now_ms: i64) -> Self {
        let (days, ms) = (now_ms.div_euclid(86_400_000), now_ms.rem_euclid(86_400_000));
        let (year, month, day) = date_of(days);
        let nanos = i128::from(ms) * 1_000_000;
        Self { kind: Kind::DateTime, year, month, day, nanos, zone: Some(0) }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let mut reader = Reader { rest: text };
        let found = reader.moment()?;
        (found.is_good() && reader.rest.is_empty()).then_some(found)
    }

    /// Whether there is such a day.
    pub(super) fn is_good(self) -> bool {
        (1..=12).contains(&self.month)
            && (1..=days_in(self.year, self.month)).contains(&self.day)
            && self.year.abs() <= YEAR_MAX
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
        (self.kind <= Kind::DateTime).then_some(written(self.year))
    }

    pub(super) fn is_in_leap_year(self) -> Option<bool> {
        (self.kind <= Kind::DateTime).then(|| is_leap(self.year))
    }

    pub(super) fn month_in_year(self) -> Option<i64> {
        let has = match self.kind {
            Kind::YearMonth | Kind::Date | Kind::DateTime | Kind::Month | Kind::MonthDay => true,
            Kind::Year | Kind::Time | Kind::Day => false,
        };
        has.then_some(self.month)
    }

    pub(super) fn day_in_month(self) -> Option<i64> {
        let has = self.has_date() || matches!(self.kind, Kind::MonthDay | Kind::Day);
        has.then_some(self.day)
    }

    pub(super) fn day_in_year(self) -> Option<i64> {
        let first = days_since_epoch(self.year, 1, 1);
        self.has_date().then(|| days_since_epoch(self.year, self.month, self.day) - first + 1)
    }

    /// Sunday is 1.
    pub(super) fn day_in_week(self) -> Option<i64> {
        let days = days_since_epoch(self.year, self.month, self.day);
        self.has_date().then(|| (days + 4).rem_euclid(7) + 1)
    }

    pub(super) fn day_of_week_in_month(self) -> Option<i64> {
        self.has_date().then_some((self.day - 1) / 7 + 1)
    }

    /// Weeks begin on Monday; the first of the month is in week 1.
    pub(super) fn week_in_month(self) -> Option<i64> {
        let first = Self { day: 1, ..self }.day_in_week()?;
        Some((self.day - 1 + (first + 5) % 7) / 7 + 1)
    }

    /// Source: ISO 8601, the week with the year's first Thursday is week 1.
    pub(super) fn week_in_year(self) -> Option<i64> {
        let weekday = (self.day_in_week()? + 5) % 7;
        let thursday = days_since_epoch(self.year, self.month, self.day) - weekday + 3;
        let (year, ..) = date_of(thursday);
        Some((thursday - days_since_epoch(year, 1, 1)) / 7 + 1)
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

    /// Since the start of 1970, in UTC.
    pub(super) fn since_epoch(self) -> Option<Duration> {
        if self.kind > Kind::DateTime {
            return None;
        }
        let days = days_since_epoch(self.year, self.month, self.day);
        let zone = i128::from(self.zone.unwrap_or(0)) * 60 * SECOND;
        Some(Duration { months: 0, nanos: i128::from(days) * DAY + self.nanos - zone })
    }

    /// Months first, the day at most the month's last, then days and time. What the duration says more
    /// exactly than the date, the sum says too.
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
        let months = (self.year * 12 + self.month - 1).checked_add(duration.months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        if year.abs() > YEAR_MAX {
            return None;
        }
        let day = self.day.min(days_in(year, month));
        let start = i128::from(days_since_epoch(year, month, day)) * DAY + self.nanos;
        let end = start.checked_add(duration.nanos)?;
        let (year, month, day) = date_of(i64::try_from(end.div_euclid(DAY)).ok()?);
        let (kind, nanos) = (self.kind.max(needs), end.rem_euclid(DAY));
        let sum = Self { kind, year, month, day, nanos, zone: self.zone };
        (year.abs() <= YEAR_MAX).then_some(sum)
    }

    /// How long until `end`, by what both say.
    pub(super) fn until(self, end: Self) -> Option<Duration> {
        let kind = self.kind.min(end.kind);
        match kind {
            _ if self.kind > Kind::DateTime || end.kind > Kind::DateTime => None,
            Kind::Year => Some(Duration { months: (end.year - self.year) * 12, nanos: 0 }),
            Kind::YearMonth => {
                let months = (end.year - self.year) * 12 + end.month - self.month;
                Some(Duration { months, nanos: 0 })
            }
            Kind::Date => {
                let day = |at: Self| days_since_epoch(at.year, at.month, at.day);
                Some(Duration { months: 0, nanos: i128::from(day(end) - day(self)) * DAY })
            }
            Kind::DateTime => {
                let (start, end) = (self.since_epoch()?, end.since_epoch()?);
                Some(Duration { months: 0, nanos: end.nanos - start.nanos })
            }
            Kind::Time | Kind::Month | Kind::MonthDay | Kind::Day => None,
        }
    }
}

fn written(year: i64) -> i64 {
    if year <= 0 { year - 1 } else { year }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, month, day, .. } = *self;
        let year = written(self.year);
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
        let mut found = Moment::START;
        if self.eat("---") {
            found = Moment { kind: Kind::Day, day: self.digits(2)?, ..found };
        } else if self.eat("--") {
            // A leap year, so that the last of February can be said.
            found = Moment { kind: Kind::Month, year: 1972, month: self.digits(2)?, ..found };
            if !self.eat("--") && self.rest.starts_with('-') && self.day_follows() {
                self.eat("-");
                found = Moment { kind: Kind::MonthDay, day: self.digits(2)?, ..found };
            }
        } else if self.rest.as_bytes().get(2) == Some(&b':') {
            found = Moment { kind: Kind::Time, nanos: self.time()?, ..found };
        } else {
            self.date(&mut found)?;
        }
        found.zone = self.zone()?;
        Some(found)
    }

    fn date(&mut self, found: &mut Moment) -> Option<()> {
        let negative = self.eat("-");
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let year = self.digits(len).filter(|year| len >= 4 && (1..=YEAR_MAX).contains(year))?;
        found.year = if negative { 1 - year } else { year };
        if self.day_follows() && self.eat("-") {
            found.month = self.digits(2)?;
            found.kind = Kind::YearMonth;
            if self.day_follows() && self.eat("-") {
                found.day = self.digits(2)?;
                found.kind = Kind::Date;
                if self.eat("T") {
                    found.nanos = self.time()?;
                    found.kind = Kind::DateTime;
                }
            }
        }
        Some(())
    }

    /// A hyphen and two digits, which aren't the beginning of a zone.
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

    /// None: there is something else than a zone.
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
