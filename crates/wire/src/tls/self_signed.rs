//! Self-signed certificates, for a first start on loopback.

use std::time::Duration;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, date_time_ymd};
use rustls_pki_types::ServerName;

use super::TlsError;

/// Validity period of a generated certificate, in seconds: a year. Source: Apple's platforms reject more than 825 days,
/// even with a root that the user has added (HT210176).
const VALID_S: u64 = 365 * 86_400;
/// The validity period starts this long before now, in seconds, for clients whose clocks are slow.
const EARLIER_S: u64 = 3_600;

/// Generates an ECDSA P-256 key and a self-signed certificate for `hosts` (DNS names and IP addresses),
/// valid for a year from `now_s` (seconds since the Unix epoch). Returns the certificate and the PKCS#8 key,
/// both PEM.
///
/// # Errors
/// [`TlsError::BadHost`] if a host is neither a DNS name nor an address.
pub fn generate_self_signed(hosts: &[&str], now_s: u64) -> Result<(String, String), TlsError> {
    for &host in hosts {
        if ServerName::try_from(host).is_err() {
            return Err(TlsError::BadHost { host: host.to_owned() });
        }
    }
    let names = hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>();
    let mut params = CertificateParams::new(names)?;
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(now_s.saturating_sub(EARLIER_S));
    params.not_after = epoch + Duration::from_secs(now_s.saturating_add(VALID_S));
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Penstock, generated");
    params.distinguished_name.push(DnType::CommonName, hosts.first().copied().unwrap_or("none"));
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
