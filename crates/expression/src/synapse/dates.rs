//! Moments and Java's `DateTimeFormatter` patterns, in UTC and English.

/// A time of day on a day of the proleptic Gregorian calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    days: i64,
    ms: i64,
}

const DAY_MS: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
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
const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
/// Years that a pattern may meet; what lies outside is refused.
const YEARS: std::ops::RangeInclusive<i64> = -9_999..=99_999;

impl Moment {
    pub(super) fn from_unix_ms(ms: i64) -> Self {
        Self { days: ms.div_euclid(DAY_MS), ms: ms.rem_euclid(DAY_MS) }
    }

    /// Year, month and day, each from 1. Eras of 400 years, years that begin in March.
    fn date(self) -> (i64, i64, i64) {
        let day = self.days.saturating_add(719_468);
        let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let shifted = (5 * of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let day = of_year - (153 * shifted + 2) / 5 + 1;
        (year + era * 400 + i64::from(month <= 2), month, day)
    }

    fn from_date(year: i64, month: i64, day: i64) -> Self {
        let shifted = if month > 2 { year } else { year - 1 };
        let (era, of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
        let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        Self { days, ms: 0 }
    }
}

enum Item<'p> {
    Literal(&'p str),
    Quote,
    Field(char, usize),
}

/// The items of a pattern: runs of one letter, quoted text, and the rest.
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
            let (text, after) =
                body.split_once('\'').ok_or("a quote in a date pattern has no end")?;
            items.push(Item::Literal(text));
            rest = after;
            // A quote twice inside quoted text stands for itself.
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

/// `when` in the form of `pattern`.
pub(super) fn format(when: Moment, pattern: &str) -> Result<String, String> {
    let mut text = String::new();
    if !YEARS.contains(&when.date().0) {
        return Err("a date so far away has no form".to_owned());
    }
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
    let (year, month, day) = when.date();
    let hour = when.ms / 3_600_000;
    let padded = |number: i64| format!("{number:0width$}");
    let name = |names: &[&str], place: i64| {
        let name = usize::try_from(place)
            .ok()
            .and_then(|place| names.get(place))
            .copied()
            .unwrap_or_default();
        match width {
            4 => name.to_owned(),
            5 => name.chars().take(1).collect(),
            _ => name.chars().take(3).collect(),
        }
    };
    let most = match letter {
        'd' | 'H' | 'h' | 'k' | 'K' | 'm' | 's' => 2,
        'D' => 3,
        'a' => 1,
        'S' | 'n' => 9,
        'u' | 'y' | 'A' => 15,
        'z' | 'O' => 4,
        'M' | 'L' | 'E' | 'e' | 'X' | 'x' | 'Z' | 'G' => 5,
        'V' => 2,
        _ => return Err(format!("`{letter}` is unknown in a date pattern")),
    };
    if width > most {
        return Err(format!("`{letter}` comes too often in a date pattern"));
    }
    Ok(match letter {
        'y' | 'u' if width == 2 => format!("{:02}", year.rem_euclid(100)),
        'y' | 'u' => padded(year),
        'M' | 'L' if width > 2 => name(&MONTHS, month - 1),
        'M' | 'L' => padded(month),
        'd' => padded(day),
        'D' => padded(when.days - Moment::from_date(year, 1, 1).days + 1),
        'E' => name(&DAYS, (when.days + 3).rem_euclid(7)),
        'e' => padded((when.days + 4).rem_euclid(7) + 1),
        'H' => padded(hour),
        'k' => padded(if hour == 0 { 24 } else { hour }),
        'K' => padded(hour % 12),
        'h' => padded(if hour % 12 == 0 { 12 } else { hour % 12 }),
        'm' => padded(when.ms / 60_000 % 60),
        's' => padded(when.ms / 1_000 % 60),
        'S' => format!("{:03}000000", when.ms % 1_000).chars().take(width).collect(),
        'n' => padded(when.ms % 1_000 * 1_000_000),
        'A' => padded(when.ms),
        'a' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'G' => if year > 0 { "AD" } else { "BC" }.to_owned(),
        'X' => "Z".to_owned(),
        'x' => ["+00", "+0000", "+00:00", "+0000", "+00:00"]
            .get(width - 1)
            .copied()
            .unwrap_or("+00")
            .to_owned(),
        'Z' => ["+0000", "+0000", "+0000", "GMT", "Z"]
            .get(width - 1)
            .copied()
            .unwrap_or("+0000")
            .to_owned(),
        'O' => "GMT".to_owned(),
        _ => "UTC".to_owned(),
    })
}

/// Reads `text` by `pattern`. A date without time is midnight, a time without date is of 1 January 1970.
pub(super) fn parse(text: &str, pattern: &str) -> Result<Moment, String> {
    let wrong = || format!("`{text}` is not in the form `{pattern}`");
    let mut read = Read { rest: text, year: 1970, month: 1, day: 1, hour: 0, half: None, ms: 0 };
    for item in items(pattern)? {
        let fits = match item {
            Item::Literal(literal) => read.literal(literal),
            Item::Quote => read.literal("'"),
            Item::Field(letter, width) => read.field(letter, width),
        };
        fits.ok_or_else(wrong)?;
    }
    read.finish().ok_or_else(wrong)
}

struct Read<'t> {
    rest: &'t str,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    half: Option<bool>,
    ms: i64,
}

impl Read<'_> {
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

    /// The place in `names`, given in full or by three letters.
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
        match letter {
            'y' | 'u' if width == 2 => self.year = 2000 + self.digits(2, 2)?,
            'y' | 'u' => self.year = self.digits(width, width.max(4))?,
            'M' | 'L' if width > 2 => self.month = self.name(&MONTHS)? + 1,
            'M' | 'L' => self.month = self.digits(width, most)?,
            'd' => self.day = self.digits(width, most)?,
            'E' => {
                self.name(&DAYS)?;
            }
            'H' | 'k' => self.hour = self.digits(width, most)? % 24,
            'h' | 'K' => self.hour = self.digits(width, most)? % 12,
            'm' => self.ms += self.digits(width, most).filter(|minute| *minute < 60)? * 60_000,
            's' => self.ms += self.digits(width, most).filter(|second| *second < 60)? * 1_000,
            'S' => {
                let scale = 10_i64.checked_pow(u32::try_from(width).ok()?)?;
                self.ms += self.digits(width, width)?.checked_mul(1_000)? / scale;
            }
            'a' => {
                let afternoon = self.rest.starts_with("PM") || self.rest.starts_with("pm");
                let known = afternoon || self.rest.starts_with("AM") || self.rest.starts_with("am");
                self.rest = self.rest.get(2..).filter(|_| known)?;
                self.half = Some(afternoon);
            }
            'X' | 'x' | 'Z' => return self.zone(),
            _ => return None,
        }
        Some(())
    }

    /// An offset from UTC; Micro Integrator reads local times, so that it changes nothing.
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

    fn finish(self) -> Option<Moment> {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days = match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        let sound =
            self.rest.is_empty() && (1..=days).contains(&self.day) && YEARS.contains(&self.year);
        let hour = if self.half == Some(true) { self.hour % 12 + 12 } else { self.hour };
        let day = Moment::from_date(self.year, self.month, self.day);
        sound
            .then(|| Moment { days: day.days, ms: (self.ms + hour * 3_600_000).rem_euclid(DAY_MS) })
    }
}
