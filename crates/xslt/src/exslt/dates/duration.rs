//! Durations. Source: XML Schema 1.0 part 2, section 3.2.6.

use std::fmt;

pub(super) const SECOND: i128 = 1_000_000_000;
pub(super) const DAY: i128 = 86_400 * SECOND;

/// Maximum number of digits of a component. More: not a duration. Sums of components fit in 128 bits.
const DIGITS_MAX: usize = 18;

/// Largest number of seconds of `date:duration()`: as many digits as [`DIGITS_MAX`].
const SECONDS_MAX: f64 = 1e18;

/// Months and nanoseconds, of the same sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Duration {
    pub(super) months: i64,
    pub(super) nanos: i128,
}

impl Duration {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let body = text.strip_prefix('P')?;
        let (date, time) = match body.split_once('T') {
            Some((_, "")) => return None,
            Some((date, time)) => (date, time),
            None if body.is_empty() => return None,
            None => (body, ""),
        };
        let mut duration = Self::default();
        for (amount, unit) in parts(date, "YMD")? {
            let amount: i64 = amount.parse().ok()?;
            match unit {
                'Y' => duration.months = duration.months.checked_add(amount.checked_mul(12)?)?,
                'M' => duration.months = duration.months.checked_add(amount)?,
                _ => duration.nanos += i128::from(amount) * DAY,
            }
        }
        for (amount, unit) in parts(time, "HMS")? {
            duration.nanos += match unit {
                'H' => amount.parse::<i128>().ok()? * 3_600 * SECOND,
                'M' => amount.parse::<i128>().ok()? * 60 * SECOND,
                _ => nanos(amount)?,
            };
        }
        Some(Self { months: duration.months * sign, nanos: duration.nanos * i128::from(sign) })
    }

    /// A duration of this many seconds; `None` if it is out of range.
    pub(super) fn of_seconds(seconds: f64) -> Option<Self> {
        if !seconds.is_finite() || seconds.abs() >= SECONDS_MAX {
            return None;
        }
        let nanos = nanos(&seconds.abs().to_string())?;
        Some(Self { months: 0, nanos: if seconds < 0.0 { -nanos } else { nanos } })
    }

    /// The sum of two durations; `None` if its parts would have different signs.
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        let months = self.months.checked_add(other.months)?;
        let nanos = self.nanos.checked_add(other.nanos)?;
        let mixed = (months > 0 && nanos < 0) || (months < 0 && nanos > 0);
        (!mixed).then_some(Self { months, nanos })
    }

    pub(super) fn seconds_text(self) -> String {
        let sign = if self.nanos < 0 { "-" } else { "" };
        [sign, &seconds_text(self.nanos.unsigned_abs())].concat()
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::default() {
            return f.write_str("P0D");
        }
        f.write_str(if self.months < 0 || self.nanos < 0 { "-P" } else { "P" })?;
        let months = self.months.unsigned_abs();
        let nanos = self.nanos.unsigned_abs();
        let second = SECOND.unsigned_abs();
        let part = |f: &mut fmt::Formatter<'_>, amount: u128, unit: char| {
            if amount == 0 { Ok(()) } else { write!(f, "{amount}{unit}") }
        };
        part(f, u128::from(months / 12), 'Y')?;
        part(f, u128::from(months % 12), 'M')?;
        part(f, nanos / (86_400 * second), 'D')?;
        let time = nanos % (86_400 * second);
        if time == 0 {
            return Ok(());
        }
        f.write_str("T")?;
        part(f, time / (3_600 * second), 'H')?;
        part(f, time / (60 * second) % 60, 'M')?;
        let rest = time % (60 * second);
        if rest == 0 { Ok(()) } else { write!(f, "{}S", seconds_text(rest)) }
    }
}

/// Amounts with their units, in that order. Only seconds may have a fraction.
fn parts<'t>(text: &'t str, units: &str) -> Option<Vec<(&'t str, char)>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut left = units;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, from) = rest.split_at(end);
        let unit = from.chars().next()?;
        let (_, later) = left.split_once(unit)?;
        let whole = amount.split('.').next().unwrap_or("");
        let fraction = amount.contains('.') && unit != 'S';
        if whole.is_empty() || whole.len() > DIGITS_MAX || fraction {
            return None;
        }
        found.push((amount, unit));
        left = later;
        rest = from.get(unit.len_utf8()..)?;
    }
    Some(found)
}

/// Nanoseconds of a decimal number of seconds, truncated.
pub(super) fn nanos(text: &str) -> Option<i128> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > DIGITS_MAX {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    Some(whole.parse::<i128>().ok()? * SECOND + fraction.parse::<i128>().ok()?)
}

/// Seconds with the necessary number of decimals.
pub(super) fn seconds_text(nanos: u128) -> String {
    let second = SECOND.unsigned_abs();
    let fraction = format!("{:09}", nanos % second);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    [&(nanos / second).to_string(), point, fraction].concat()
}
