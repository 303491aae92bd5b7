//! The sequences that a format token begins: digits of many scripts, letters and traditional numerals.

use crate::is_out;

/// What `letter-value` says where letters have two sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterValue {
    Unsaid,
    Alphabetic,
    Traditional,
}

/// A numbering that isn't made of digits.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sequence {
    /// a, b, ... z, aa, ab, ...
    Alphabet(&'static str),
    Roman {
        upper: bool,
    },
    /// Ones, tens and hundreds have letters of their own, nine each; up to 999.
    Additive(&'static [&'static str; 3], Spelling),
}

/// What differs between the additive numerals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Ends with a keraia.
    Greek,
    /// 15 and 16 are 9 + 6 and 9 + 7.
    Hebrew,
}

/// A sequence by the token that begins it, the alphabetic one first.
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

/// Languages whose lists are lettered with the 26 letters and no others.
const PLAIN_LATIN: &[&str] = &["de", "en", "fr", "id", "it", "la", "ms", "nl", "pt"];
/// The letters of the other scripts above, by language.
const OTHERS: &[(&str, &str)] = &[("el", "αΑ"), ("he", "א"), ("ja", "あア"), ("ru", "аА")];

/// Whether the letters that a picture's tokens begin are those of the language (`lang`, as `xml:lang`).
pub(crate) fn knows_letters_of(language: &str, picture: &str) -> bool {
    let primary = language.split('-').next().unwrap_or("").to_ascii_lowercase();
    let tokens = picture.split(|c: char| !c.is_alphanumeric());
    tokens.filter(|token| Sequence::of(token, LetterValue::Unsaid).is_some()).all(|token| {
        match token {
            "a" | "A" => PLAIN_LATIN.contains(&primary.as_str()),
            "i" | "I" => true,
            _ => OTHERS.iter().any(|(known, first)| *known == primary && first.contains(token)),
        }
    })
}

impl Sequence {
    /// None: digits, or a token whose sequence isn't known and for which `1` stands in.
    pub(super) fn of(token: &str, letters: LetterValue) -> Option<Self> {
        Self::known(token, letters).filter(|_| !is_out(&["number format ", token]))
    }

    fn known(token: &str, letters: LetterValue) -> Option<Self> {
        let traditional = letters == LetterValue::Traditional;
        match token {
            "i" => return Some(Self::Roman { upper: false }),
            "I" => return Some(Self::Roman { upper: true }),
            "α" if traditional => return Some(Self::Additive(&GREEK_LOWER, Spelling::Greek)),
            "Α" if traditional => return Some(Self::Additive(&GREEK_UPPER, Spelling::Greek)),
            "א" => return Some(Self::Additive(&HEBREW, Spelling::Hebrew)),
            _ => {}
        }
        let found = ALPHABETS.iter().find(|(first, _)| *first == token);
        found.map(|(_, alphabet)| Self::Alphabet(alphabet))
    }

    /// False, and nothing is written, when the sequence doesn't go there.
    pub(super) fn spell(self, count: u64, out: &mut String) -> bool {
        match self {
            Self::Alphabet(alphabet) => letters(count, alphabet, out),
            Self::Roman { upper } => roman(count, upper, out),
            Self::Additive(parts, spelling) => additive(count, parts, spelling, out),
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

/// The largest that is still written with Ms in a row, as libxslt does.
const ROMAN_MOST: u64 = 5_000;

#[rustfmt::skip]
const ROMAN: &[(u64, &str, &str)] = &[
    (1000, "M", "m"), (900, "CM", "cm"), (500, "D", "d"), (400, "CD", "cd"), (100, "C", "c"),
    (90, "XC", "xc"), (50, "L", "l"), (40, "XL", "xl"), (10, "X", "x"), (9, "IX", "ix"),
    (5, "V", "v"), (4, "IV", "iv"), (1, "I", "i"),
];

fn roman(count: u64, upper: bool, out: &mut String) -> bool {
    if !(1..=ROMAN_MOST).contains(&count) {
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

fn additive(count: u64, parts: &[&str; 3], spelling: Spelling, out: &mut String) -> bool {
    if !(1..=999).contains(&count) {
        return false;
    }
    let [ones, tens, hundreds] = parts;
    let letter = |letters: &str, digit: u64| {
        let at = usize::try_from(digit.checked_sub(1)?).ok()?;
        letters.chars().nth(at)
    };
    let mut hundred = count / 100;
    while hundred > 4 && spelling == Spelling::Hebrew {
        out.extend(letter(hundreds, 4));
        hundred = hundred.saturating_sub(4);
    }
    out.extend(letter(hundreds, hundred));
    let (mut ten, mut one) = (count / 10 % 10, count % 10);
    if spelling == Spelling::Hebrew && ten == 1 && (one == 5 || one == 6) {
        out.extend(letter(ones, 9));
        (ten, one) = (0, one.saturating_add(1));
    }
    out.extend(letter(tens, ten));
    out.extend(letter(ones, one));
    if spelling == Spelling::Greek {
        out.push('\u{374}');
    }
    true
}

/// The zeros of Unicode's decimal digits (general category Nd); nine more follow each.
#[rustfmt::skip]
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6,
    0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
    0x104A0, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0,
    0x11730, 0x118E0, 0x11C50, 0x16A60, 0x16B50, 0x1D7CE, 0x1D7D8, 0x1D7E2, 0x1D7EC, 0x1D7F6,
];

/// Of a token that ends in a one with zeros before it: the zero, and how many digits it wants at least.
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
    fn traditional_numerals_are_spelt_as_they_are_written() {
        let check = |token: &str, count: u64, expected: &str| {
            let mut out = String::new();
            let sequence = Sequence::of(token, LetterValue::Traditional).unwrap();
            assert!(sequence.spell(count, &mut out));
            assert_eq!(out, expected, "{token} {count}");
        };
        check("α", 666, "χξϛ\u{374}");
        check("Α", 10, "Ι\u{374}");
        check("א", 15, "טו");
        check("א", 16, "טז");
        check("א", 999, "תתקצט");
        let mut out = String::new();
        assert!(!Sequence::of("א", LetterValue::Unsaid).unwrap().spell(1_000, &mut out));
        assert!(!Sequence::of("i", LetterValue::Unsaid).unwrap().spell(5_001, &mut out));
    }

    #[test]
    fn a_language_has_letters_or_none_that_are_known() {
        assert!(knows_letters_of("en-GB", "(a)"));
        assert!(knows_letters_of("da", "1.i"));
        assert!(!knows_letters_of("da", "1.a"));
        assert!(knows_letters_of("ru", "а"));
        assert!(!knows_letters_of("en", "а"));
    }
}
