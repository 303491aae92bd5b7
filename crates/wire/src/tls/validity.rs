//! The validity period of a certificate, which rustls does not expose: read from the first fields of its
//! DER. Source: RFC 5280 section 4.1.

use time::{Date, Month};

/// Why a certificate is not valid at the moment. Times are seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    NotYet { from_s: u64 },
    Expired { since_s: u64 },
}

/// The validity period, both ends included, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    from_s: u64,
    until_s: u64,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

impl Validity {
    /// `None` if `der` does not have the layout of a certificate, or holds times before 1970.
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (body, _) = element(certificate, SEQUENCE)?;
        let after_version = element(body, VERSION).map_or(body, |(_, rest)| rest);
        let (_serial, rest) = element(after_version, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, _) = element(rest, SEQUENCE)?;
        let (from_s, rest) = time(validity)?;
        let (until_s, _) = time(rest)?;
        Some(Self { from_s, until_s })
    }

    pub(super) fn lapse(self, now_s: u64) -> Option<Lapse> {
        if now_s < self.from_s {
            return Some(Lapse::NotYet { from_s: self.from_s });
        }
        (now_s > self.until_s).then_some(Lapse::Expired { since_s: self.until_s })
    }
}

/// The content of the element at the start of `der`, if it has this tag, and the rest.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    if first < 0x80 {
        return rest.split_at_checked(usize::from(first));
    }
    let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
    let mut bytes: usize = 0;
    for &byte in length {
        bytes = bytes.checked_mul(256)?.checked_add(usize::from(byte))?;
    }
    rest.split_at_checked(bytes)
}

/// `YYMMDDHHMMSSZ` until 2049, `YYYYMMDDHHMMSSZ` after. Returns seconds since the Unix epoch, and the bytes after the
/// time. Source: RFC 5280 section 4.1.2.5.
fn time(der: &[u8]) -> Option<(u64, &[u8])> {
    let (year, fields, rest) = match element(der, UTC_TIME) {
        Some((text, rest)) => {
            let (year, fields) = number(text, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, fields, rest)
        }
        None => {
            let (text, rest) = element(der, GENERALIZED_TIME)?;
            let (year, fields) = number(text, 4)?;
            (year, fields, rest)
        }
    };
    let [month, day, hour, minute, second] = numbers(fields)?;
    let month = Month::try_from(month).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, day).ok()?;
    let time = date.with_hms(hour, minute, second).ok()?.assume_utc();
    Some((u64::try_from(time.unix_timestamp()).ok()?, rest))
}

/// Five numbers of two digits, and `Z`.
fn numbers(text: &[u8]) -> Option<[u8; 5]> {
    let mut numbers = [0; 5];
    let mut rest = text;
    for slot in &mut numbers {
        let (number, after) = number(rest, 2)?;
        *slot = u8::try_from(number).ok()?;
        rest = after;
    }
    (rest == b"Z").then_some(numbers)
}

fn number(text: &[u8], digits: usize) -> Option<(u16, &[u8])> {
    let (head, rest) = text.split_at_checked(digits)?;
    let head =
        std::str::from_utf8(head).ok().filter(|it| it.bytes().all(|b| b.is_ascii_digit()))?;
    Some((head.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn validity_is_read_from_both_notations() {
        // Expected values: `date -u -d '2050-01-01' +%s` and so on.
        check((1970, 1, 1), (1999, 12, 31), (0, 946_598_400));
        check((2000, 2, 29), (2000, 3, 1), (951_782_400, 951_868_800));
        check((2024, 2, 29), (2049, 12, 31), (1_709_164_800, 2_524_521_600));
        check((2050, 1, 1), (2100, 3, 1), (2_524_608_000, 4_107_542_400));

        fn check(from: (i32, u8, u8), until: (i32, u8, u8), expect: (u64, u64)) {
            let validity = Validity::read(&certificate(from, until)).unwrap();
            assert_eq!((validity.from_s, validity.until_s), expect);
        }
    }

    #[test]
    fn truncated_and_damaged_certificates_do_not_panic() {
        let der = certificate((2020, 1, 1), (2030, 1, 1));
        for cut in 0..der.len() {
            assert_eq!(Validity::read(&der[..cut]), None, "cut at {cut}");
        }
        for at in 0..der.len() {
            for byte in [0x00, 0x2f, 0x7f, 0x80, 0xff] {
                let mut damaged = der.clone();
                damaged[at] = byte;
                // Any result is fine, as long as it does not panic.
                let _ = Validity::read(&damaged);
            }
        }
    }

    #[test]
    fn times_that_do_not_exist_are_rejected() {
        for (text, expect) in [
            ("240229120000Z", Some(1_709_208_000)),
            ("230229120000Z", None),
            ("240431000000Z", None),
            ("241301000000Z", None),
            ("240101240000Z", None),
            ("240101006000Z", None),
            ("240101000060Z", None),
            ("690101000000Z", None),
            ("2401010000Z", None),
            ("240101000000+0000", None),
            ("24010100000xZ", None),
        ] {
            let mut der = vec![UTC_TIME, u8::try_from(text.len()).unwrap()];
            der.extend_from_slice(text.as_bytes());
            assert_eq!(time(&der).map(|(seconds, _)| seconds), expect, "{text}");
        }
    }

    fn certificate(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }
}
