//! The patterns of JDK 1.1's SimpleDateFormat, in English, for `date:format-date` and `date:parse-date`.

use super::moment::Moment;

/// A piece of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(char),
    /// A letter, which names a component, and how often it is repeated, which selects its format.
    Part(char, usize),
}

/// The pieces of a pattern. Letters between quotes are literals, two quotes are one.
pub(super) struct Pieces<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    quoted: bool,
}

impl<'p> Pieces<'p> {
    pub(super) fn of(picture: &'p str) -> Self {
        Self { rest: picture.chars().peekable(), quoted: false }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            let c = self.rest.next()?;
            if c == '\'' && self.rest.next_if_eq(&'\'').is_none() {
                self.quoted = !self.quoted;
                continue;
            }
            if self.quoted || !c.is_ascii_alphabetic() {
                return Some(Piece::Literal(c));
            }
            let mut width = 1usize;
            while self.rest.next_if_eq(&c).is_some() {
                width = width.saturating_add(1);
            }
            return Some(Piece::Part(c, width));
        }
    }
}

pub(super) fn format(at: Moment, picture: &str) -> String {
    let mut out = String::new();
    for piece in Pieces::of(picture) {
        match piece {
            Piece::Literal(c) => out.push(c),
            Piece::Part(letter, width) => part(at, letter, width, &mut out),
        }
    }
    out
}

fn part(at: Moment, letter: char, width: usize, out: &mut String) {
    let hour = at.hour();
    let number = match letter {
        'y' if width == 2 => at.year().map(|year| year.rem_euclid(100)),
        'y' => at.year(),
        'M' if width >= 3 => return out.push_str(&name(at.month_name(), width)),
        'M' => at.month_in_year(),
        'd' => at.day_in_month(),
        'D' => at.day_in_year(),
        'E' => return out.push_str(&name(at.day_name(), width)),
        'F' => at.day_of_week_in_month(),
        'w' => at.week_in_year(),
        'W' => at.week_in_month(),
        'H' => hour,
        'k' => hour.map(|hour| if hour == 0 { 24 } else { hour }),
        'K' => hour.map(|hour| hour % 12),
        'h' => hour.map(|hour| if hour % 12 == 0 { 12 } else { hour % 12 }),
        'a' => return out.push_str(hour.map_or("", |hour| if hour < 12 { "AM" } else { "PM" })),
        'G' => {
            return out.push_str(at.year().map_or("", |year| if year < 0 { "BC" } else { "AD" }));
        }
        'm' => at.minute(),
        's' => at.second_text().and_then(|text| text.split('.').next()?.parse().ok()),
        'S' => at.hour().and_then(|_| i64::try_from(at.nanos / 1_000_000 % 1_000).ok()),
        'z' => return out.push_str(&zone(at)),
        _ => None,
    };
    if let Some(number) = number {
        let digits = number.abs().to_string();
        // No component has more digits than a year, so longer repetitions make no difference.
        let zeros = width.min(9).saturating_sub(digits.len());
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(&digits);
    }
}

fn name(name: Option<&str>, width: usize) -> String {
    let name = name.unwrap_or("");
    if width >= 4 { name } else { name.get(..3).unwrap_or(name) }.to_owned()
}

fn zone(at: Moment) -> String {
    match at.zone {
        None => String::new(),
        Some(0) => "UTC".to_owned(),
        Some(zone) => {
            let (sign, zone) = (if zone < 0 { '-' } else { '+' }, zone.abs());
            format!("GMT{sign}{:02}:{:02}", zone / 60, zone % 60)
        }
    }
}
