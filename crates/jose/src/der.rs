//! The subset of DER that is needed to find a public key in a PEM file. Source: X.690 sections 8.1 and 10.1,
//! RFC 5280 section 4.1 (certificates, SubjectPublicKeyInfo), RFC 8017 section A.1.1 (RSAPublicKey).
//!
//! Keys and certificates are configured, not sent by clients. Lengths are checked nevertheless.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
/// `[0]`, explicit: a certificate's version.
const CONTEXT_0: u8 = 0xa0;

/// 1.2.840.113549.1.1.1
pub(crate) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// 1.2.840.10045.2.1
pub(crate) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// 1.3.101.112
pub(crate) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// A sequence of elements.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

/// The content of a SubjectPublicKeyInfo.
pub(crate) struct PublicKeyInfo<'a> {
    pub(crate) algorithm: &'a [u8],
    /// The curve's OID, for EC keys.
    pub(crate) parameter: Option<&'a [u8]>,
    pub(crate) key: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next element: tag and contents.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        // Tag numbers from 31 on take more bytes; none is expected here.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // The indefinite form, and lengths of 16 MiB and more.
            0x80 | 0x84..=0xff => return None,
            0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let length =
                    digits.iter().fold(0, |high: usize, &byte| (high << 8) | usize::from(byte));
                (length, rest)
            }
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }

    /// Reads the next element, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.any().filter(|(own, _)| *own == tag).map(|(_, contents)| contents)
    }

    pub(crate) fn sequence(&mut self) -> Option<Self> {
        self.expect(SEQUENCE).map(Self)
    }
}

/// The SubjectPublicKeyInfo that fills `der`.
pub(crate) fn public_key_info(der: &[u8]) -> Option<PublicKeyInfo<'_>> {
    let mut outer = Reader::new(der);
    let mut info = outer.sequence()?;
    let mut identifier = info.sequence()?;
    let algorithm = identifier.expect(OID)?;
    let parameter = identifier.any().and_then(|(tag, contents)| (tag == OID).then_some(contents));
    let (unused_bits, key) = info.expect(BIT_STRING)?.split_first()?;
    (*unused_bits == 0 && info.is_empty() && outer.is_empty()).then_some(PublicKeyInfo {
        algorithm,
        parameter,
        key,
    })
}

/// The public key of the X.509 certificate that fills `der`. The signature and dates of the certificate aren't checked:
/// the file is trusted because it is configured.
pub(crate) fn certificate(der: &[u8]) -> Option<PublicKeyInfo<'_>> {
    let mut outer = Reader::new(der);
    let mut to_be_signed = outer.sequence()?.sequence()?;
    let mut after_version = to_be_signed;
    if after_version.expect(CONTEXT_0).is_some() {
        to_be_signed = after_version;
    }
    to_be_signed.expect(INTEGER)?;
    // Signature algorithm, issuer, validity, subject.
    for _ in 0..4 {
        to_be_signed.expect(SEQUENCE)?;
    }
    let before = to_be_signed.0;
    to_be_signed.expect(SEQUENCE)?;
    let length = before.len().checked_sub(to_be_signed.0.len())?;
    public_key_info(before.get(..length)?)
}

/// Modulus and exponent of the RSAPublicKey that fills `der`, big endian without leading zeros.
pub(crate) fn rsa_public_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut outer = Reader::new(der);
    let mut key = outer.sequence()?;
    let modulus = unsigned(key.expect(INTEGER)?)?;
    let exponent = unsigned(key.expect(INTEGER)?)?;
    (key.is_empty() && outer.is_empty()).then_some((modulus, exponent))
}

/// The bytes of a non-negative INTEGER without the leading zero of its sign.
fn unsigned(contents: &[u8]) -> Option<&[u8]> {
    match contents.split_first()? {
        (0, rest) => Some(rest),
        (1..=0x7f, _) => Some(contents),
        (0x80..=0xff, _) => None,
    }
}
