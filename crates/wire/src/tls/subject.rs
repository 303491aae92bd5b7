//! Distinguished names: the subject of a certificate, and names in text form. Source: RFC 5280 section 4.1.2.4, RFC
//! 4514.

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::ber;

/// Names of attribute types. Source: RFC 4514 section 3; RFC 4519 and RFC 5280 appendix A for the last ones, which
/// OpenSSL also writes.
const TYPES: &[(&str, &str)] = &[
    ("CN", "2.5.4.3"),
    ("L", "2.5.4.7"),
    ("ST", "2.5.4.8"),
    ("O", "2.5.4.10"),
    ("OU", "2.5.4.11"),
    ("C", "2.5.4.6"),
    ("STREET", "2.5.4.9"),
    ("DC", "0.9.2342.19200300.100.1.25"),
    ("UID", "0.9.2342.19200300.100.1.1"),
    ("SN", "2.5.4.4"),
    ("serialNumber", "2.5.4.5"),
    ("title", "2.5.4.12"),
    ("businessCategory", "2.5.4.15"),
    ("GN", "2.5.4.42"),
    ("givenName", "2.5.4.42"),
    ("organizationIdentifier", "2.5.4.97"),
    ("emailAddress", "1.2.840.113549.1.9.1"),
];

/// A distinguished name, for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DistinguishedName(Vec<Relative>);

/// Types, in DER, and values, sorted.
type Relative = Vec<(Vec<u8>, Value)>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    /// A text, folded so that equivalent values are equal. Source: RFC 5280 section 7.1, RFC 4518.
    Text(String),
    /// Tag and contents of another type.
    Other(u8, Vec<u8>),
}

impl DistinguishedName {
    /// The subject of `certificate`.
    #[must_use]
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        Self::from_der(EndEntityCert::try_from(certificate).ok()?.subject())
    }

    /// `sequence`: the contents of the sequence of relative names.
    pub(super) fn from_der(mut sequence: &[u8]) -> Option<Self> {
        let mut name = Vec::new();
        while !sequence.is_empty() {
            let (mut set, rest) = ber::expect(sequence, ber::SET)?;
            let mut relative = Vec::new();
            while !set.is_empty() {
                let (attribute, others) = ber::expect(set, ber::SEQUENCE)?;
                let (kind, value) = ber::expect(attribute, ber::OID)?;
                relative.push((kind.to_vec(), Value::from_der(value)?));
                set = others;
            }
            name.push(sorted(relative)?);
            sequence = rest;
        }
        Some(Self(name))
    }

    /// A text by RFC 4514, such as `CN=client,O=Example`: the last relative name of a certificate comes first. Spaces
    /// around separators do not count. `None` if the text is malformed or empty, or has an unknown type name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut name = Vec::new();
        let mut rest = text;
        loop {
            let mut relative = Vec::new();
            loop {
                let (kind, value) = rest.split_once('=')?;
                let (value, after) = split_value(value);
                relative.push((
                    oid(kind.trim_matches(' '))?,
                    Value::parse(value.trim_start_matches(' '))?,
                ));
                rest = after;
                if !take(&mut rest, '+') {
                    break;
                }
            }
            name.push(sorted(relative)?);
            if !take(&mut rest, ',') {
                break;
            }
        }
        name.reverse();
        Some(Self(name))
    }
}

fn sorted(mut relative: Relative) -> Option<Relative> {
    relative.sort_unstable();
    (!relative.is_empty()).then_some(relative)
}

/// Removes `separator` from the start of `rest`; returns whether it was there.
fn take(rest: &mut &str, separator: char) -> bool {
    rest.strip_prefix(separator).map(|after| *rest = after).is_some()
}

/// Splits a value from the separator after it.
fn split_value(text: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let ends = !is_escaped && matches!(c, ',' | '+');
        is_escaped = !is_escaped && c == '\\';
        ends
    });
    end.and_then(|end| text.split_at_checked(end)).unwrap_or((text, ""))
}

impl Value {
    /// A value that fills `der`.
    fn from_der(der: &[u8]) -> Option<Self> {
        let (tag, contents, _) = ber::next(der).ok().filter(|(_, _, rest)| rest.is_empty())?;
        let text = match tag {
            // UTF8String.
            0x0c => Some(String::from_utf8(contents.to_vec()).ok()?),
            // NumericString, PrintableString, TeletexString, IA5String and VisibleString.
            0x12 | 0x13 | 0x14 | 0x16 | 0x1a if contents.is_ascii() => {
                Some(String::from_utf8_lossy(contents).into_owned())
            }
            // BMPString.
            0x1e => {
                let (units, rest) = contents.as_chunks::<2>();
                let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
                let text: Option<String> = char::decode_utf16(units).map(Result::ok).collect();
                Some(text.filter(|_| rest.is_empty())?)
            }
            _ => None,
        };
        Some(
            text.map_or_else(
                || Self::Other(tag, contents.to_vec()),
                |text| Self::Text(folded(&text)),
            ),
        )
    }

    /// A value as RFC 4514 section 2.4 writes it.
    fn parse(text: &str) -> Option<Self> {
        if let Some(hex) = text.strip_prefix('#') {
            let pairs = hex.trim_end_matches(' ').as_bytes().as_chunks::<2>();
            let (pairs, []) = pairs else { return None };
            let der: Option<Vec<u8>> = pairs.iter().map(|[high, low]| byte(*high, *low)).collect();
            return Self::from_der(&der?);
        }
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        loop {
            rest = match rest {
                [] => break,
                [b'\\', special, rest @ ..] if b" \"#+,;<=>\\".contains(special) => {
                    bytes.push(*special);
                    rest
                }
                [b'\\', high, low, rest @ ..] => {
                    bytes.push(byte(*high, *low)?);
                    rest
                }
                [b'"' | b'+' | b',' | b';' | b'<' | b'>' | b'\\' | 0, ..] => return None,
                [plain, rest @ ..] => {
                    bytes.push(*plain);
                    rest
                }
            };
        }
        String::from_utf8(bytes).ok().map(|text| Self::Text(folded(&text)))
    }
}

/// A byte from two hexadecimal digits.
fn byte(high: u8, low: u8) -> Option<u8> {
    let digit =
        |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(high)? << 4) | digit(low)?)
}

/// Folds case and runs of spaces.
fn folded(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    words.join(" ")
}

/// An attribute type by its name or number, in DER. Source: X.690 section 8.19.
fn oid(name: &str) -> Option<Vec<u8>> {
    let known = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let number = known.map_or(name, |(_, number)| *number);
    let mut arcs = number.split('.').map(|arc| {
        let plain = arc == "0" || !arc.starts_with(['0', '+']);
        arc.parse::<u64>().ok().filter(|_| plain)
    });
    let (first, second) = (arcs.next()??, arcs.next()??);
    if first > 2 || first < 2 && second > 39 {
        return None;
    }
    let mut der = Vec::new();
    push(first.checked_mul(40)?.checked_add(second)?, &mut der);
    for arc in arcs {
        push(arc?, &mut der);
    }
    Some(der)
}

/// Appends a number in digits of 7 bits, the highest first.
fn push(number: u64, der: &mut Vec<u8>) {
    for shift in (0..=9).rev().map(|digit| digit * 7) {
        let rest = number >> shift;
        if rest > 0 || shift == 0 {
            let digit = (rest & 0x7f) as u8;
            der.push(if shift == 0 { digit } else { digit | 0x80 });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Option<DistinguishedName> {
        DistinguishedName::parse(text)
    }

    #[test]
    fn texts_of_one_name_are_equal() {
        for (one, other) in [
            ("CN=client,O=Example", "CN=client, O=Example"),
            ("CN=client,O=Example", "cn = Client , o = EXAMPLE"),
            ("CN=client,O=Example", "2.5.4.3=client,2.5.4.10=Example"),
            ("CN=client,O=Example", "CN=#0c06636c69656e74,O=#13074578616d706c65"),
            ("CN=client,O=Example", r"CN=\63li\65nt,O=Example"),
            ("CN=a  b", "CN=a b"),
            ("CN=a+UID=b", "UID=b+CN=a"),
            (r"O=Sue\, Grabbit and Runn,C=GB", r"O=Sue\2C Grabbit and Runn,C=GB"),
            (r"CN=Lu\C4\8Di\C4\87", "CN=Lučić"),
            ("CN=#1e040043010d", "CN=Cč"),
            (r"CN=a\+b\=c", r"CN=a\2bb=c"),
            ("emailAddress=a@b.c", "1.2.840.113549.1.9.1=#16056140622e63"),
        ] {
            assert!(name(one).is_some(), "{one}");
            assert_eq!(name(one), name(other), "{other}");
        }
    }

    #[test]
    fn different_names_differ() {
        for other in [
            "CN=client",
            "O=Example,CN=client",
            "CN=client+O=Example",
            "CN=client2,O=Example",
            "UID=client,O=Example",
            "CN=client,O=Example,C=GB",
            "CN=client,O=Example,O=Example",
            r"CN=client\,O\=Example",
        ] {
            assert!(name(other).is_some(), "{other}");
            assert_ne!(name("CN=client,O=Example"), name(other), "{other}");
        }
    }

    #[test]
    fn a_text_that_is_no_name_is_rejected() {
        for text in [
            "",
            "client",
            "CN",
            "=a",
            "CN=a,",
            "CN=a,,O=b",
            "CN=a+",
            ",CN=a",
            "XY=a",
            "2.5.4.=a",
            "3.5=a",
            "1.40=a",
            "2.05=a",
            "2=a",
            "CN=a;O=b",
            "CN=<a>",
            "CN=\"a\"",
            r"CN=a\",
            r"CN=a\zz",
            "CN=#",
            "CN=#0",
            "CN=#0c0261",
            "CN=#0c016161",
            "CN=#zz",
            r"CN=\ff",
            "CN=a\0",
            "2.5.4.99999999999999999999=a",
        ] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn the_subject_of_a_certificate_is_compared() {
        let mut params = rcgen::CertificateParams::new(["client.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in [
            (rcgen::DnType::CountryName, "GB"),
            (rcgen::DnType::OrganizationName, "Example, Ltd"),
            (rcgen::DnType::CommonName, "A Client"),
        ] {
            params.distinguished_name.push(kind, value);
        }
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let found = DistinguishedName::of(certificate.der());
        assert_eq!(found, name(r"CN=A Client,O=Example\, Ltd,C=GB"));
        assert_ne!(found, name(r"C=GB,O=Example\, Ltd,CN=A Client"));
    }
}
