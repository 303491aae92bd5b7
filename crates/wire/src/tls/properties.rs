//! Properties that hold for any bytes, checked by unit tests and fuzz targets. The functions panic if a property does
//! not hold.

use super::ber;
use super::{DistinguishedName, ldap_tls_started};

/// A prefix of a response to StartTLS is never a success, for any bytes.
///
/// # Panics
/// If the property is violated.
pub fn start_tls(bytes: &[u8]) {
    let outcome = ldap_tls_started(bytes);
    for end in 0..bytes.len() {
        let part = ldap_tls_started(bytes.get(..end).unwrap_or(bytes));
        if outcome == Some(Ok(())) || outcome.is_none() {
            assert_eq!(part, None, "{end} bytes");
        } else {
            assert!(part.is_none_or(|part| part.is_ok() || Some(part) == outcome), "{end} bytes");
        }
    }
}

/// A distinguished name in DER equals the name parsed from its text, with all values in hexadecimal digits. A name in
/// text form stays the same with spaces around its separators.
///
/// # Panics
/// If the property is violated.
pub fn distinguished_name(bytes: &[u8]) {
    if let Some((name, text)) = DistinguishedName::from_der(bytes).zip(written(bytes)) {
        assert!(text.is_empty() || DistinguishedName::parse(&text) == Some(name), "{text}");
    }
    let text = String::from_utf8_lossy(bytes);
    if let Some(name) = DistinguishedName::parse(&text)
        && !text.contains('\\')
    {
        let spaced = text.replace(',', " , ").replace('+', " + ");
        assert_eq!(DistinguishedName::parse(&spaced), Some(name), "{spaced}");
    }
}

/// The sequence of relative names as a text; `None` if a type cannot be written.
fn written(mut sequence: &[u8]) -> Option<String> {
    let mut text = String::new();
    while !sequence.is_empty() {
        let (mut set, rest) = ber::expect(sequence, ber::SET)?;
        let mut relative = Vec::new();
        while !set.is_empty() {
            let (attribute, others) = ber::expect(set, ber::SEQUENCE)?;
            let (kind, value) = ber::expect(attribute, ber::OID)?;
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            relative.push(format!("{}=#{hex}", dotted(kind)?));
            set = others;
        }
        let separator = if text.is_empty() { "" } else { "," };
        text = format!("{}{separator}{text}", relative.join("+"));
        sequence = rest;
    }
    Some(text)
}

/// `None` if the number is not in its shortest form, or larger than a text may have.
fn dotted(mut der: &[u8]) -> Option<String> {
    let mut arcs = Vec::new();
    while !der.is_empty() {
        if der.starts_with(&[0x80]) {
            return None;
        }
        let end = der.iter().position(|byte| byte & 0x80 == 0)?;
        let (digits, rest) = der.split_at_checked(end.checked_add(1)?)?;
        let mut number = 0_u64;
        for digit in digits {
            number = number.checked_mul(128)?.checked_add(u64::from(digit & 0x7f))?;
        }
        arcs.push(number);
        der = rest;
    }
    let (first, rest) = arcs.split_first()?;
    let root = (first / 40).min(2);
    let rest: String = rest.iter().map(|arc| format!(".{arc}")).collect();
    Some(format!("{root}.{}{rest}", first.saturating_sub(root.saturating_mul(40))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_hold_for_examples() {
        start_tls(b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00");
        start_tls(b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x35\x04\x00\x04\x00!");
        distinguished_name(b"CN=a+UID=b,O=c d, C=#13024742");
        distinguished_name(b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02GB\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x0c\x01a");
    }
}
