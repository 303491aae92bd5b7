//! Conversions between numbers and strings: XPath 1.0 sections 4.2 and 4.4.

use std::borrow::Cow;

/// White space as production 39 defines it: that of XML.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Converts as `string()` does: the fewest digits that identify the number, without an exponent; `NaN`,
/// `Infinity`, and `0` for negative zero too. Source: XPath 1.0 section 4.2.
#[must_use]
pub fn number_to_string(number: f64) -> Cow<'static, str> {
    if number.is_nan() {
        Cow::Borrowed("NaN")
    } else if number.is_infinite() {
        Cow::Borrowed(if number > 0.0 { "Infinity" } else { "-Infinity" })
    } else if number == 0.0 {
        Cow::Borrowed("0")
    } else {
        Cow::Owned(number.to_string())
    }
}

/// Converts as `number()` does: a decimal number with an optional minus sign and white space around it,
/// correctly rounded; anything else is NaN. Source: XPath 1.0 section 4.4.
#[must_use]
pub fn string_to_number(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (mut points, mut figures) = (0u32, false);
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => figures = true,
            b'.' if points == 0 => points = 1,
            _ => return f64::NAN,
        }
    }
    if figures { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// Rounds as `round()` does: to the nearest integer, halves towards positive infinity; zero keeps its sign.
/// Source: XPath 1.0 section 4.4.
#[must_use]
pub fn round(number: f64) -> f64 {
    let floor = number.floor();
    let rounded = if number - floor >= 0.5 { number.ceil() } else { floor };
    if rounded == 0.0 { rounded.copysign(number) } else { rounded }
}
