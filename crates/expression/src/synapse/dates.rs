//! Dates and Java's `DateTimeFormatter` patterns, in UTC and English, with Java's lenience ("smart" resolving).

use time::{Date, Duration, Month, OffsetDateTime, Time, Weekday};

/// A date, a time of day, or both; in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    date: Option<Date>,
    time: Option<Time>,
}

impl Moment {
    pub(super) fn from_unix_ms(ms: i64) -> Result<Self, String> {
        let when = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000)
            .map_err(|_| "a date beyond the year 9999 cannot be formatted".to_owned())?;
        Ok(Self { date: Some(when.date()), time: Some(when.time()) })
    }
}

enum Item<'p> {
    Literal(&'p str),
    Quote,
    /// A run of one letter, and its length.
    Field(char, usize),
}

/// The items of a pattern: runs of one letter, quoted text, and other characters.
fn items(pattern: &str) -> Result<Vec<Item<'_>>, String> {
    let mut items = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            let body = rest.get(1..).unwrap_or_default();
            if body.starts_with('\'') {
                items.push(Item::Quote);
                rest = body.get(1..).unwrap_or_default();
                continue;
            }
            let (text, after) = body.split_once('\'').ok_or("unterminated quote in the pattern")?;
            items.push(Item::Literal(text));
            rest = after;
            // Two quotes inside quoted text are one quote.
            if rest.starts_with('\'') {
                items.push(Item::Quote);
            }
            continue;
        }
        let same = |next: char| {
            if first.is_ascii_alphabetic() {
                next == first
            } else {
                !next.is_ascii_alphabetic() && next != '\''
            }
        };
        let end = rest.find(|next| !same(next)).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(end).unwrap_or_default();
        rest = after;
        items.push(if first.is_ascii_alphabetic() {
            Item::Field(first, run.len())
        } else {
            Item::Literal(run)
        });
    }
    Ok(items)
}

/// Formats `when`; fails for fields that it does not have.
pub(super) fn format(when: Moment, pattern: &str) -> Result<String, String> {
    let mut text = String::new();
    for item in items(pattern)? {
        match item {
            Item::Literal(literal) => text.push_str(literal),
            Item::Quote => text.push('\''),
            Item::Field(letter, width) => text.push_str(&field(when, letter, width)?),
        }
    }
    Ok(text)
}

fn field(when: Moment, letter: char, width: usize) -> Result<String, String> {
    let longest = match letter {
        'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's' | 'V' => 2,
        'D' => 3,
        'a' => 1,
        'S' | 'n' => 9,
        'u' | 'y' | 'A' => 15,
        'z' | 'O' => 4,
        'M' | 'L' | 'E' | 'e' | 'X' | 'x' | 'Z' | 'G' => 5,
        _ => return Err(format!("unknown pattern letter `{letter}`")),
    };
    if width > longest {
        return Err(format!("too many pattern letters `{letter}`"));
    }
    let missing =
        || format!("pattern letter `{letter}` needs a field that the value does not have");
    match letter {
        'H' | 'h' | 'k' | 'K' | 'm' | 's' | 'S' | 'n' | 'A' | 'a' => {
            Ok(time_field(when.time.ok_or_else(missing)?, letter, width))
        }
        'X' | 'x' | 'Z' | 'z' | 'O' | 'V' => Ok(zone_field(letter, width).to_owned()),
        _ => Ok(date_field(when.date.ok_or_else(missing)?, letter, width)),
    }
}

fn date_field(date: Date, letter: char, width: usize) -> String {
    let year = date.year();
    // Weekdays and months by their names: full, first letter, or first three letters.
    let name = |name: String| match width {
        4 => name,
        5 => name.chars().take(1).collect(),
        _ => name.chars().take(3).collect(),
    };
    match letter {
        'y' | 'u' if width == 2 => format!("{:02}", year.rem_euclid(100)),
        'y' | 'u' => format!("{year:0width$}"),
        'M' | 'L' if width > 2 => name(date.month().to_string()),
        'M' | 'L' => format!("{:0width$}", u8::from(date.month())),
        'd' => format!("{:0width$}", date.day()),
        'D' => format!("{:0width$}", date.ordinal()),
        'e' => format!("{:0width$}", date.weekday().number_from_sunday()),
        'E' => name(date.weekday().to_string()),
        _ => if year > 0 { "AD" } else { "BC" }.to_owned(),
    }
}

fn time_field(time: Time, letter: char, width: usize) -> String {
    let hour = time.hour();
    let ms_of_day = (time - Time::MIDNIGHT).whole_milliseconds();
    match letter {
        'H' => format!("{hour:0width$}"),
        'k' => format!("{:0width$}", if hour == 0 { 24 } else { hour }),
        'K' => format!("{:0width$}", hour % 12),
        'h' => format!("{:0width$}", if hour.is_multiple_of(12) { 12 } else { hour % 12 }),
        'm' => format!("{:0width$}", time.minute()),
        's' => format!("{:0width$}", time.second()),
        'S' => format!("{:09}", time.nanosecond()).chars().take(width).collect(),
        'n' => format!("{:0width$}", time.nanosecond()),
        'A' => format!("{ms_of_day:0width$}"),
        _ => if hour < 12 { "AM" } else { "PM" }.to_owned(),
    }
}

/// UTC by the letter of a zone and its width.
fn zone_field(letter: char, width: usize) -> &'static str {
    match (letter, width) {
        ('X', _) | ('Z', 5) => "Z",
        ('x', 1) => "+00",
        ('x', 3 | 5) => "+00:00",
        ('x', _) | ('Z', 1..=3) => "+0000",
        ('Z', _) | ('O', _) => "GMT",
        _ => "UTC",
    }
}

/// Parses `text` by `pattern`.
pub(super) fn parse(text: &str, pattern: &str) -> Result<Moment, String> {
    let mismatch = || format!("`{text}` does not match the pattern `{pattern}`");
    let mut parser = Parser { rest: text, fields: Fields::default() };
    for item in items(pattern)? {
        let matched = match item {
            Item::Literal(literal) => parser.literal(literal),
            Item::Quote => parser.literal("'"),
            Item::Field(letter, width) => parser.field(letter, width),
        };
        matched.ok_or_else(mismatch)?;
    }
    let complete = parser.rest.is_empty();
    parser.fields.resolve().filter(|_| complete).ok_or_else(mismatch)
}

#[derive(Default)]
struct Fields {
    year: Option<i32>,
    month: Option<i64>,
    day: Option<i64>,
    weekday: Option<Weekday>,
    /// 0 to 24.
    hour: Option<i64>,
    /// 0 to 11, and whether it is after noon.
    hour_of_half: Option<i64>,
    afternoon: Option<bool>,
    minute: i64,
    second: i64,
    nanosecond: i64,
}

impl Fields {
    /// A day past the end of its month becomes the last one, 24:00 midnight of the next day; as in Java.
    fn resolve(self) -> Option<Moment> {
        let hour = match (self.hour, self.hour_of_half, self.afternoon) {
            (Some(hour), _, _) => Some(hour),
            (None, Some(hour), Some(afternoon)) => Some(hour + if afternoon { 12 } else { 0 }),
            (None, _, _) => None,
        };
        let midnight = hour == Some(24) && (self.minute, self.second, self.nanosecond) == (0, 0, 0);
        let time = match hour {
            Some(_) if midnight => Some(Time::MIDNIGHT),
            Some(hour) => {
                let (minute, second) = (self.minute.try_into().ok()?, self.second.try_into().ok()?);
                let nanosecond = self.nanosecond.try_into().ok()?;
                Some(Time::from_hms_nano(hour.try_into().ok()?, minute, second, nanosecond).ok()?)
            }
            None => None,
        };
        let date = match (self.year, self.month, self.day) {
            (Some(year), Some(month), Some(day)) => {
                let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
                let day = u8::try_from(day).ok().filter(|day| (1..=31).contains(day))?;
                let date =
                    Date::from_calendar_date(year, month, day.min(month.length(year))).ok()?;
                if self.weekday.is_some_and(|weekday| weekday != date.weekday()) {
                    return None;
                }
                if midnight { date.checked_add(Duration::DAY) } else { Some(date) }
            }
            (_, _, _) => None,
        };
        (date.is_some() || time.is_some()).then_some(Moment { date, time })
    }
}

struct Parser<'t> {
    rest: &'t str,
    fields: Fields,
}

impl Parser<'_> {
    fn literal(&mut self, literal: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(())
    }

    fn digits(&mut self, fewest: usize, most: usize) -> Option<i64> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < fewest {
            return None;
        }
        let (digits, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        digits.parse().ok()
    }

    /// One of `names`, in full or by its first three letters.
    fn name<T: Copy + ToString>(&mut self, names: impl Iterator<Item = T>) -> Option<T> {
        for value in names {
            let name = value.to_string();
            for form in [name.as_str(), name.get(..3)?] {
                if let Some(rest) = self.rest.strip_prefix(form) {
                    self.rest = rest;
                    return Some(value);
                }
            }
        }
        None
    }

    fn field(&mut self, letter: char, width: usize) -> Option<()> {
        let most = if width == 1 { 2 } else { width };
        let months = || (1..=12).filter_map(|month| Month::try_from(month).ok());
        let weekdays = || (0..7).map(|day| Weekday::Monday.nth_next(day));
        match letter {
            'y' | 'u' if width == 2 => {
                self.fields.year = i32::try_from(2000 + self.digits(2, 2)?).ok();
            }
            'y' | 'u' => {
                self.fields.year = i32::try_from(self.digits(width, width.max(4))?).ok();
            }
            'M' | 'L' if width > 2 => {
                self.fields.month = Some(u8::from(self.name(months())?).into());
            }
            'M' | 'L' => self.fields.month = Some(self.digits(width, most)?),
            'd' => self.fields.day = Some(self.digits(width, most)?),
            'E' => self.fields.weekday = Some(self.name(weekdays())?),
            'H' => self.fields.hour = Some(self.digits(width, most)?),
            'k' => {
                let hour = self.digits(width, most).filter(|hour| (1..=24).contains(hour))?;
                self.fields.hour = Some(hour % 24);
            }
            'h' => {
                let hour = self.digits(width, most).filter(|hour| (1..=12).contains(hour))?;
                self.fields.hour_of_half = Some(hour % 12);
            }
            'K' => self.fields.hour_of_half = Some(self.digits(width, most).filter(|h| *h < 12)?),
            'm' => self.fields.minute = self.digits(width, most)?,
            's' => self.fields.second = self.digits(width, most)?,
            'S' => {
                let scale = 10_i64.checked_pow(u32::try_from(9_usize.checked_sub(width)?).ok()?)?;
                self.fields.nanosecond = self.digits(width, width)? * scale;
            }
            'a' => {
                let afternoon = self.rest.starts_with("PM");
                let known = afternoon || self.rest.starts_with("AM");
                self.rest = self.rest.get(2..).filter(|_| known)?;
                self.fields.afternoon = Some(afternoon);
            }
            'X' | 'x' | 'Z' => return self.zone(),
            _ => return None,
        }
        Some(())
    }

    /// An offset from UTC. Micro Integrator parses local times, so that it has no effect.
    fn zone(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Some(());
        }
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        self.digits(2, 2)?;
        if self.literal(":").is_some() || !self.rest.is_empty() {
            self.digits(2, 2)?;
        }
        Some(())
    }
}
