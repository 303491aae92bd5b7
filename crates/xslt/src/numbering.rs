//! Formats the numbers of `xsl:number`: section 7.7.1.

mod sequence;

use sequence::Sequence;
pub(crate) use sequence::{LetterValue, is_supported_language};

/// The format of a list of numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style<'s> {
    pub(crate) picture: &'s str,
    pub(crate) letters: LetterValue,
    /// Separator and group size; the recommendation requires both or none.
    pub(crate) grouping: Option<(&'s str, usize)>,
}

/// A number to format.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Count(u64),
    /// A number from `value`: rounded, at least 1, finite.
    Rounded(f64),
}

/// The parts of a format: prefix, tokens with the separator before each, and suffix.
#[derive(Debug, Default, PartialEq)]
struct Picture<'s> {
    prefix: &'s str,
    tokens: Vec<(&'s str, &'s str)>,
    suffix: &'s str,
}

/// An empty list is formatted as an empty string: the recommendation leaves this open, and libxslt does the same.
pub(crate) fn format(numbers: &[Number], style: Style<'_>) -> String {
    if numbers.is_empty() {
        return String::new();
    }
    let picture = parts(style.picture);
    let mut out = picture.prefix.to_owned();
    let mut last = (DEFAULT_SEPARATOR, DEFAULT_TOKEN);
    let mut tokens = picture.tokens.iter();
    for (at, number) in numbers.iter().enumerate() {
        if let Some(next) = tokens.next() {
            last = *next;
        }
        let (separator, token) = last;
        if at > 0 {
            out.push_str(if separator.is_empty() { DEFAULT_SEPARATOR } else { separator });
        }
        push(*number, token, style, &mut out);
    }
    out.push_str(picture.suffix);
    out
}

/// An upper bound of the length of a list of `count` numbers: each has a separator, and digits that may be grouped.
pub(crate) fn bytes_at_most(count: usize, picture: &str, grouping: Option<(&str, usize)>) -> usize {
    /// The digits of the largest `f64`.
    const DIGITS: usize = 309;
    let group = grouping.map_or(0, |(separator, _)| separator.len());
    let digits = picture.len().saturating_add(DIGITS).saturating_mul(group.saturating_add(4));
    picture.len().saturating_add(digits).saturating_mul(count)
}

const DEFAULT_SEPARATOR: &str = ".";
const DEFAULT_TOKEN: &str = "1";

fn parts(text: &str) -> Picture<'_> {
    let mut picture = Picture::default();
    let mut rest = text;
    let mut first = true;
    while !rest.is_empty() {
        let start = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
        let (between, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_alphanumeric()).unwrap_or(from.len());
        let (token, after) = from.split_at(end);
        if first {
            picture.prefix = between;
        }
        if token.is_empty() {
            picture.suffix = between;
        } else {
            picture.tokens.push((if first { "" } else { between }, token));
        }
        first = false;
        rest = after;
    }
    picture
}

fn push(number: Number, token: &str, style: Style<'_>, out: &mut String) {
    let sequence = Sequence::of(token, style.letters);
    let count = match number {
        Number::Count(count) => Some(count),
        Number::Rounded(value) => whole(value),
    };
    if let (Some(sequence), Some(count)) = (sequence, count)
        && sequence.push(count, out)
    {
        return;
    }
    let (zero, width) = sequence::digits(token).unwrap_or(('0', 1));
    let digits = match (count, number) {
        (Some(count), _) | (None, Number::Count(count)) => count.to_string(),
        (None, Number::Rounded(value)) => format!("{value:.0}"),
    };
    let padding = width.saturating_sub(digits.len());
    let total = padding.saturating_add(digits.len());
    let all = std::iter::repeat_n('0', padding).chain(digits.chars());
    for (at, digit) in all.enumerate() {
        let left = total.saturating_sub(at);
        if let Some((separator, size)) = style.grouping
            && at > 0
            && left.checked_rem(size) == Some(0)
        {
            out.push_str(separator);
        }
        let value = digit.to_digit(10).unwrap_or(0);
        out.push(char::from_u32(u32::from(zero).saturating_add(value)).unwrap_or(digit));
    }
}

/// The value as an integer, if it fits.
fn whole(value: f64) -> Option<u64> {
    let digits = format!("{value:.0}");
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(picture: &str, numbers: &[u64], expected: &str) {
        let numbers: Vec<Number> = numbers.iter().map(|n| Number::Count(*n)).collect();
        let style = Style { picture, letters: LetterValue::Unspecified, grouping: None };
        assert_eq!(format(&numbers, style), expected, "{picture}");
    }

    #[test]
    fn each_token_selects_its_sequence() {
        check("1", &[7], "7");
        check("001", &[7], "007");
        check("a", &[26], "z");
        check("a", &[27], "aa");
        check("A", &[703], "AAA");
        check("i", &[1999], "mcmxcix");
        check("I", &[4], "IV");
        check("\u{661}", &[12], "\u{661}\u{662}");
        check("\u{3b1}", &[25], "\u{3b1}\u{3b1}");
        check("w", &[3], "3");
        check("a", &[0], "0");
    }

    #[test]
    fn separators_come_from_the_format_and_the_last_token_is_repeated() {
        check("1.1", &[1, 2, 3], "1.2.3");
        check("1-a", &[1, 2, 3], "1-b-c");
        check("(1)", &[1, 2], "(1.2)");
        check("[A.1/i]", &[1, 2, 3, 4], "[A.2/iii/iv]");
        check("", &[5], "5");
        check("(1)", &[], "");
    }

    #[test]
    fn groups_and_huge_numbers() {
        let style = |picture| Style {
            picture,
            letters: LetterValue::Unspecified,
            grouping: Some((",", 3)),
        };
        assert_eq!(format(&[Number::Count(1_234_567)], style("1")), "1,234,567");
        assert_eq!(format(&[Number::Count(12)], style("0001")), "0,012");
        let huge = format(&[Number::Rounded(1e300)], style("i"));
        assert!(huge.starts_with("1,000,000") && huge.len() < 500, "{huge}");
    }
}
