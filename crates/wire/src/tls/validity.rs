//! When a certificate is valid: the one fact we need that rustls does not tell. A walk over the
//! first fields of the DER, nothing else. Source: RFC 5280 section 4.1.

/// Why a certificate is not valid now. Times in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapse {
    NotYet { from_s: u64 },
    Expired { since_s: u64 },
}

/// The span of a certificate, both edges included, in seconds since the Unix epoch.
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
    /// None when `der` is not laid out as a certificate, or holds times before 1970.
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

/// The content of the element at the start of `der`, if it has this tag, and what follows it.
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

/// `YYMMDDHHMMSSZ` up to 2049, `YYYYMMDDHHMMSSZ` after. Source: RFC 5280 section 4.1.2.5.
fn time(der: &[u8]) -> Option<(u64, &[u8])> {
    let (year, rest_of_text, rest) = match element(der, UTC_TIME) {
        Some((text, rest)) => {
            let (year, text) = number(text, 2)?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text, rest)
        }
        None => {
            let (text, rest) = element(der, GENERALIZED_TIME)?;
            let (year, text) = number(text, 4)?;
            (year, text, rest)
        }
    };
    let (month, text) = number(rest_of_text, 2)?;
    let (day, text) = number(text, 2)?;
    let (hour, text) = number(text, 2)?;
    let (minute, text) = number(text, 2)?;
    let (second, zone) = number(text, 2)?;
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24;
    if !in_range || minute > 59 || second > 59 || zone != b"Z" {
        return None;
    }
    let days = days_since_epoch(year, month, day)?;
    Some((days * 86_400 + hour * 3_600 + minute * 60 + second, rest))
}

fn number(text: &[u8], digits: usize) -> Option<(u64, &[u8])> {
    let (head, rest) = text.split_at_checked(digits)?;
    let head =
        std::str::from_utf8(head).ok().filter(|it| it.bytes().all(|b| b.is_ascii_digit()))?;
    Some((head.parse().ok()?, rest))
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years count from March, so that the
/// leap day is the last of its year.
fn days_since_epoch(year: u64, month: u64, day: u64) -> Option<u64> {
    let shifted_year = if month > 2 { year } else { year.checked_sub(1)? };
    let shifted_month = (month + 9) % 12;
    let leap_days = shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days_from_march_0000 =
        shifted_year * 365 + leap_days + (shifted_month * 153 + 2) / 5 + day - 1;
    const EPOCH: u64 = 719_468;
    days_from_march_0000.checked_sub(EPOCH)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn validity_is_read_to_the_second_in_both_notations() {
        // Expected figures: `date -u -d '2050-01-01' +%s` and so on.
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
    fn a_certificate_cut_short_or_damaged_has_no_validity_and_does_no_harm() {
        let der = certificate((2020, 1, 1), (2030, 1, 1));
        for cut in 0..der.len() {
            assert_eq!(Validity::read(&der[..cut]), None, "cut at {cut}");
        }
        for at in 0..der.len() {
            for byte in [0x00, 0x2f, 0x7f, 0x80, 0xff] {
                let mut damaged = der.clone();
                damaged[at] = byte;
                // Any answer will do: what counts is that there is one.
                let _ = Validity::read(&damaged);
            }
        }
    }

    fn certificate(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }
}
