//! Numbering sequences by their first token: digits of many scripts, letters and traditional numerals.

use crate::knock_out::is_out;

/// `letter-value`: which sequence to use if a letter begins two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterValue {
    Unspecified,
    Alphabetic,
    Traditional,
}

/// A numbering other than digits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sequence {
    /// a, b, ... z, aa, ab, ...
    Alphabet(&'static str),
    Roman {
        upper: bool,
    },
    /// Nine letters each for ones, tens and hundreds; up to 999.
    Additive(&'static [&'static str; 3], Numerals),
}

/// Additive numeral systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numerals {
    /// Ends with a keraia.
    Greek,
    /// 15 and 16 are 9 + 6 and 9 + 7.
    Hebrew,
}

/// Alphabetic sequences by their first letter.
#[rustfmt::skip]
const ALPHABETS: &[(&str, &str)] = &[
    ("a", "abcdefghijklmnopqrstuvwxyz"),
    ("A", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    ("α", "αβγδεζηθικλμνξοπρστυφχψω"),
    ("Α", "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"),
    ("а", "абвгдежзиклмнопрстуфхцчшщыэюя"),
    ("А", "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ"),
    ("あ", "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわをん"),
    ("ア", "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"),
];

const GREEK_LOWER: [&str; 3] = ["αβγδεϛζηθ", "ικλμνξοπϟ", "ρστυφχψωϡ"];
const GREEK_UPPER: [&str; 3] = ["ΑΒΓΔΕϚΖΗΘ", "ΙΚΛΜΝΞΟΠϞ", "ΡΣΤΥΦΧΨΩϠ"];
const HEBREW: [&str; 3] = ["אבגדהוזחט", "יכלמנסעפצ", "קרשת"];

/// Languages that number lists with the 26 letters of basic Latin.
const PLAIN_LATIN: &[&str] = &["de", "en", "fr", "id", "it", "la", "ms", "nl", "pt"];
/// The first letters of other scripts, by language.
const OTHERS: &[(&str, &str)] = &[("el", "αΑ"), ("he", "א"), ("ja", "あア"), ("ru", "аА")];

/// Whether the alphabetic tokens of a format are letters of the language (`lang`).
pub(crate) fn is_supported_language(language: &str, picture: &str) -> bool {
    let primary = language.split('-').next().unwrap_or("").to_ascii_lowercase();
    let tokens = picture.split(|c: char| !c.is_alphanumeric());
    tokens.filter(|token| Sequence::of(token, LetterValue::Unspecified).is_some()).all(|token| {
        match token {
            "a" | "A" => PLAIN_LATIN.contains(&primary.as_str()),
            "i" | "I" => true,
            _ => OTHERS.iter().any(|(known, first)| *known == primary && first.contains(token)),
        }
    })
}

impl Sequence {
    /// The sequence that a token begins; `None` for digits, and for an unknown token, which is treated as `1`.
    pub(super) fn of(token: &str, letters: LetterValue) -> Option<Self> {
        Self::known(token, letters).filter(|_| !is_out(&["number format ", token]))
    }

    fn known(token: &str, letters: LetterValue) -> Option<Self> {
        let traditional = letters == LetterValue::Traditional;
        match token {
            "i" => return Some(Self::Roman { upper: false }),
            "I" => return Some(Self::Roman { upper: true }),
            "α" if traditional => return Some(Self::Additive(&GREEK_LOWER, Numerals::Greek)),
            "Α" if traditional => return Some(Self::Additive(&GREEK_UPPER, Numerals::Greek)),
            "א" => return Some(Self::Additive(&HEBREW, Numerals::Hebrew)),
            _ => {}
        }
        let found = ALPHABETS.iter().find(|(first, _)| *first == token);
        found.map(|(_, alphabet)| Self::Alphabet(alphabet))
    }

    /// Appends a number. Returns false, without output, if the number is outside the sequence.
    pub(super) fn push(self, count: u64, out: &mut String) -> bool {
        match self {
            Self::Alphabet(alphabet) => letters(count, alphabet, out),
            Self::Roman { upper } => roman(count, upper, out),
            Self::Additive(parts, system) => additive(count, parts, system, out),
        }
    }
}

fn letters(count: u64, alphabet: &str, out: &mut String) -> bool {
    let all: Vec<char> = alphabet.chars().collect();
    let base = all.len() as u64;
    let mut made: Vec<char> = Vec::new();
    let mut left = count;
    while let Some(before) = left.checked_sub(1) {
        let Some(digit) = before.checked_rem(base) else { return false };
        made.extend(usize::try_from(digit).ok().and_then(|digit| all.get(digit)));
        left = before.checked_div(base).unwrap_or(0);
    }
    out.extend(made.iter().rev());
    count > 0
}

/// Largest Roman numeral, as in libxslt.
const ROMAN_MAX: u64 = 5_000;

#[rustfmt::skip]
const ROMAN: &[(u64, &str, &str)] = &[
    (1000, "M", "m"), (900, "CM", "cm"), (500, "D", "d"), (400, "CD", "cd"), (100, "C", "c"),
    (90, "XC", "xc"), (50, "L", "l"), (40, "XL", "xl"), (10, "X", "x"), (9, "IX", "ix"),
    (5, "V", "v"), (4, "IV", "iv"), (1, "I", "i"),
];

fn roman(count: u64, upper: bool, out: &mut String) -> bool {
    if !(1..=ROMAN_MAX).contains(&count) {
        return false;
    }
    let mut left = count;
    for (value, high, low) in ROMAN {
        while let Some(rest) = left.checked_sub(*value) {
            out.push_str(if upper { high } else { low });
            left = rest;
        }
    }
    true
}

fn additive(count: u64, parts: &[&str; 3], system: Numerals, out: &mut String) -> bool {
    if !(1..=999).contains(&count) {
        return false;
    }
    let [ones, tens, hundreds] = parts;
    let letter = |letters: &str, digit: u64| {
        let at = usize::try_from(digit.checked_sub(1)?).ok()?;
        letters.chars().nth(at)
    };
    let mut hundred = count / 100;
    while hundred > 4 && system == Numerals::Hebrew {
        out.extend(letter(hundreds, 4));
        hundred = hundred.saturating_sub(4);
    }
    out.extend(letter(hundreds, hundred));
    let (mut ten, mut one) = (count / 10 % 10, count % 10);
    if system == Numerals::Hebrew && ten == 1 && (one == 5 || one == 6) {
        out.extend(letter(ones, 9));
        (ten, one) = (0, one.saturating_add(1));
    }
    out.extend(letter(tens, ten));
    out.extend(letter(ones, one));
    if system == Numerals::Greek {
        out.push('\u{374}');
    }
    true
}

/// The zeros of Unicode's decimal digits (general category Nd).
#[rustfmt::skip]
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0,
    0x11730, 0x118E0, 0x11C50, 0x16A60, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6,
];

/// The zero and the minimum width of a token that consists of zeros and a final one.
pub(super) fn digits(token: &str) -> Option<(char, usize)> {
    let last = token.chars().next_back()?;
    let zero = char::from_u32(u32::from(last).checked_sub(1)?)?;
    let before = token.strip_suffix(last)?;
    let good = ZEROS.contains(&u32::from(zero)) && before.chars().all(|c| c == zero);
    good.then(|| (zero, token.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traditional_numerals() {
        let check = |token: &str, count: u64, expected: &str| {
            let mut out = String::new();
            let sequence = Sequence::of(token, LetterValue::Traditional).unwrap();
            assert!(sequence.push(count, &mut out));
            assert_eq!(out, expected, "{token} {count}");
        };
        check("α", 666, "χξϛ\u{374}");
        check("Α", 10, "Ι\u{374}");
        check("א", 15, "טו");
        check("א", 16, "טז");
        check("א", 999, "תתקצט");
        let mut out = String::new();
        assert!(!Sequence::of("א", LetterValue::Unspecified).unwrap().push(1_000, &mut out));
        assert!(!Sequence::of("i", LetterValue::Unspecified).unwrap().push(5_001, &mut out));
    }

    #[test]
    fn languages_without_known_letters_are_not_supported() {
        assert!(is_supported_language("en-GB", "(a)"));
        assert!(is_supported_language("da", "1.i"));
        assert!(!is_supported_language("da", "1.a"));
        assert!(is_supported_language("ru", "а"));
        assert!(!is_supported_language("en", "а"));
    }
}
