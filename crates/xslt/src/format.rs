//! `format-number()`: section 12.3, the patterns of JDK 1.1's DecimalFormat.

use crate::program::Symbols;

/// One half of a pattern.
#[derive(Debug, Default)]
struct Picture {
    prefix: String,
    suffix: String,
    integers_least: usize,
    fractions_least: usize,
    fractions_most: usize,
    /// Digits between grouping separators; 0 for none.
    group: usize,
    factor: f64,
}

/// # Errors
/// A message about the pattern.
pub(crate) fn format(number: f64, pattern: &str, symbols: &Symbols) -> Result<String, String> {
    if number.is_nan() {
        return Ok(symbols.nan.clone());
    }
    let (positive, negative) = halves(pattern, symbols);
    let mut picture = parse(positive, symbols)?;
    let magnitude = number.abs() * picture.factor;
    let digits = if magnitude.is_infinite() {
        symbols.infinity.clone()
    } else {
        digits(magnitude, &picture, symbols)
    };
    if number < 0.0 {
        match negative {
            Some(negative) => {
                let other = parse(negative, symbols)?;
                (picture.prefix, picture.suffix) = (other.prefix, other.suffix);
            }
            None => picture.prefix.insert(0, symbols.minus),
        }
    }
    Ok([picture.prefix, digits, picture.suffix].concat())
}

/// The parts before and after the separator, quoted ones excepted.
fn halves<'p>(pattern: &'p str, symbols: &Symbols) -> (&'p str, Option<&'p str>) {
    let mut quoted = false;
    for (at, c) in pattern.char_indices() {
        quoted ^= c == '\'';
        if c == symbols.separator && !quoted {
            let (positive, rest) = pattern.split_at(at);
            return (positive, rest.strip_prefix(c));
        }
    }
    (pattern, None)
}

fn parse(pattern: &str, symbols: &Symbols) -> Result<Picture, String> {
    let mut picture = Picture { factor: 1.0, ..Picture::default() };
    let (mut in_number, mut after, mut fraction) = (false, false, false);
    let mut grouped: Option<usize> = None;
    let mut quoted = false;
    let (mut any, mut has_integers) = (false, false);
    for c in pattern.chars() {
        if c == '\'' {
            quoted = !quoted;
            continue;
        }
        let active = c == symbols.digit
            || c == symbols.zero
            || c == symbols.decimal
            || c == symbols.grouping;
        if active && !quoted {
            if after {
                return Err(format!("the pattern `{pattern}` has digits after its suffix"));
            }
            in_number = true;
            any |= c == symbols.digit || c == symbols.zero;
            if c == symbols.decimal && fraction {
                return Err(format!("the pattern `{pattern}` has two decimal separators"));
            } else if c == symbols.decimal {
                fraction = true;
            } else if c == symbols.grouping {
                if fraction {
                    return Err(format!(
                        "the pattern `{pattern}` has a grouping separator in its fraction"
                    ));
                }
                grouped = Some(0);
            } else if fraction {
                picture.fractions_most = picture.fractions_most.saturating_add(1);
                if c == symbols.zero {
                    if picture.fractions_least.saturating_add(1) != picture.fractions_most {
                        return Err(format!(
                            "the pattern `{pattern}` has a zero after an optional digit"
                        ));
                    }
                    picture.fractions_least = picture.fractions_most;
                }
            } else {
                has_integers = true;
                grouped = grouped.map(|count| count.saturating_add(1));
                if c == symbols.zero {
                    picture.integers_least = picture.integers_least.saturating_add(1);
                } else if picture.integers_least > 0 {
                    return Err(format!(
                        "the pattern `{pattern}` has an optional digit after a zero"
                    ));
                }
            }
            continue;
        }
        if !quoted && c == symbols.percent {
            picture.factor = 100.0;
        } else if !quoted && c == symbols.per_mille {
            picture.factor = 1000.0;
        }
        after |= in_number;
        if after { picture.suffix.push(c) } else { picture.prefix.push(c) }
    }
    if !any {
        return Err(format!("the pattern `{pattern}` has no digits"));
    }
    picture.group = grouped.unwrap_or(0);
    // Without a zero in the pattern, the last digit before the point counts as one.
    if picture.integers_least == 0 && picture.fractions_least == 0 {
        if has_integers || picture.fractions_most == 0 {
            picture.integers_least = 1;
        } else {
            picture.fractions_least = 1;
        }
    }
    Ok(picture)
}

fn digits(number: f64, picture: &Picture, symbols: &Symbols) -> String {
    let text = rounded(number, picture.fractions_most);
    let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let integer = integer.trim_start_matches('0');
    let missing = picture.integers_least.saturating_sub(integer.len());
    let integer = ["0".repeat(missing).as_str(), integer].concat();
    let mut out = String::new();
    for (at, c) in integer.chars().enumerate() {
        let left = integer.len().saturating_sub(at);
        if at > 0 && left.checked_rem(picture.group) == Some(0) {
            out.push(symbols.grouping);
        }
        out.push(shown(c, symbols));
    }
    let mut fraction = fraction;
    while fraction.len() > picture.fractions_least && fraction.ends_with('0') {
        fraction = fraction.strip_suffix('0').unwrap_or("");
    }
    if !fraction.is_empty() {
        out.push(symbols.decimal);
        out.extend(fraction.chars().map(|c| shown(c, symbols)));
    }
    if out.is_empty() {
        out.push(symbols.zero);
    }
    out
}

/// Rounds half to even, as DecimalFormat does, based on the shortest decimal representation.
fn rounded(number: f64, fractions: usize) -> String {
    let shortest = number.to_string();
    let (integer, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    if fraction.len() <= fractions {
        let zeros = "0".repeat(fractions.saturating_sub(fraction.len()));
        return format!("{integer}.{fraction}{zeros}");
    }
    let (kept, cut) = fraction.split_at(fractions);
    let mut all: Vec<u8> = integer.bytes().chain(kept.bytes()).collect();
    let odd = all.last().is_some_and(|digit| digit % 2 == 1);
    let half = cut.starts_with('5') && cut.bytes().skip(1).all(|b| b == b'0');
    if cut.as_bytes().first().is_some_and(|&b| b >= b'5') && (!half || odd) {
        let mut carry = true;
        for digit in all.iter_mut().rev() {
            if *digit == b'9' {
                *digit = b'0';
            } else {
                *digit = digit.saturating_add(1);
                carry = false;
                break;
            }
        }
        if carry {
            all.insert(0, b'1');
        }
    }
    let point = all.len().saturating_sub(fractions);
    let (integer, fraction) = all.split_at(point);
    [String::from_utf8_lossy(integer), ".".into(), String::from_utf8_lossy(fraction)].concat()
}

fn shown(digit: char, symbols: &Symbols) -> char {
    let value = digit.to_digit(10).unwrap_or(0);
    char::from_u32(u32::from(symbols.zero).saturating_add(value)).unwrap_or(digit)
}
