//! The certificates of listeners, selected by SNI and replaced as one set.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, DnsName, PrivateKeyDer};

use super::validity::{Lapse, Validity};
use super::{TlsError, provider};

/// A certificate chain (leaf first) and its private key (PKCS#8, PKCS#1 or SEC1), both PEM.
pub type PemPair<'a> = (&'a [u8], &'a [u8]);
/// Host names (`api.example.org`, `*.example.org`), certificate chain and key, both PEM.
pub type SniPair = (Vec<String>, Vec<u8>, Vec<u8>);

/// A validated set of certificates: each key matches its leaf, each host has one certificate.
#[derive(Debug, Default)]
pub struct CertificateSet {
    default: Option<Arc<CertifiedKey>>,
    /// Certificates by whole host name, in lower case.
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// Certificates by the name after `*.`, in lower case.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
    validities: Vec<(String, Validity)>,
}

impl CertificateSet {
    /// Reads and validates every pair. The default pair is for clients without SNI and for unknown names;
    /// without it such handshakes fail.
    ///
    /// # Errors
    /// The first invalid pair, by name. An expired certificate is not an error: see [`Self::lapses`].
    pub fn load(default: Option<PemPair<'_>>, sni: Vec<SniPair>) -> Result<Self, TlsError> {
        let mut set = Self::default();
        if let Some((cert, key)) = default {
            set.default = Some(set.read("default", cert, key)?);
        }
        for (hosts, cert, key) in sni {
            let certified = set.read(&hosts.join(", "), &cert, &key)?;
            for host in hosts {
                set.insert(&host, Arc::clone(&certified))?;
            }
        }
        Ok(set)
    }

    /// The pairs whose certificate is not valid at `now_s` (seconds since the Unix epoch), for a warning.
    pub fn lapses(&self, now_s: u64) -> Vec<(String, Lapse)> {
        let lapse = |(pair, validity): &(String, Validity)| {
            validity.lapse(now_s).map(|lapse| (pair.clone(), lapse))
        };
        self.validities.iter().filter_map(lapse).collect()
    }

    /// The certificate for `name`: exact, then with `*.` for its first label, then the default. Case is
    /// ignored. Source: RFC 6125 section 6.4.3.
    fn find(&self, name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let Some(name) = name.map(str::to_ascii_lowercase) else {
            return self.default.as_ref();
        };
        self.exact
            .get(&name)
            .or_else(|| self.wildcard.get(name.split_once('.')?.1))
            .or(self.default.as_ref())
    }

    fn read(&mut self, pair: &str, cert: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
        let certified = read_pair(pair, cert, key)?;
        if let Some(validity) = certified.cert.first().and_then(|leaf| Validity::read(leaf)) {
            self.validities.push((pair.to_owned(), validity));
        }
        Ok(Arc::new(certified))
    }

    fn insert(&mut self, host: &str, certified: Arc<CertifiedKey>) -> Result<(), TlsError> {
        let lower = host.to_ascii_lowercase();
        let (map, name) = match lower.strip_prefix("*.") {
            Some(parent) => (&mut self.wildcard, parent),
            None => (&mut self.exact, lower.as_str()),
        };
        if DnsName::try_from(name).is_err() {
            return Err(TlsError::BadHost { host: host.to_owned() });
        }
        match map.insert(name.to_owned(), certified) {
            None => Ok(()),
            Some(_) => Err(TlsError::DuplicateHost { host: host.to_owned() }),
        }
    }
}

/// The certificates of all listeners. The lock is held for one lookup per handshake, never per request.
#[derive(Debug, Default)]
pub struct ServerCertificates {
    current: RwLock<Arc<CertificateSet>>,
}

impl ServerCertificates {
    pub fn new(set: CertificateSet) -> Self {
        Self { current: RwLock::new(Arc::new(set)) }
    }

    /// Replaces the current set. Handshakes from now on use it; existing connections are not affected.
    pub fn replace(&self, set: CertificateSet) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }
}

impl ResolvesServerCert for ServerCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.find(hello.server_name()).cloned()
    }
}

/// Reads and validates a pair. `pair`: its name in errors.
pub(super) fn read_pair(pair: &str, cert: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain = read_chain(pair, cert)?;
    let key = match PrivateKeyDer::pem_slice_iter(key).next() {
        None => {
            return Err(TlsError::NoKey { pair: pair.to_owned() });
        }
        Some(key) => key.map_err(|error| broken_pem("key", pair, &error))?,
    };
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|source| TlsError::UnusableKey { pair: pair.to_owned(), source })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::KeyMismatch { pair: pair.to_owned() })
        }
        Err(source) => Err(TlsError::BrokenCertificate { pair: pair.to_owned(), source }),
    }
}

fn read_chain(pair: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| broken_pem("certificate", pair, &error))?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate { pair: pair.to_owned() });
    }
    Ok(chain)
}

fn broken_pem(part: &'static str, pair: &str, error: &pem::Error) -> TlsError {
    TlsError::BrokenPem { part, pair: pair.to_owned(), problem: pem_problem(error) }
}

/// The problem without the offending text, which may be a private key.
pub(super) fn pem_problem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a `BEGIN` line has no `END` line",
        pem::Error::IllegalSectionStart { .. } => "a `BEGIN` line is malformed",
        pem::Error::Base64Decode(_) => "malformed base64",
        pem::Error::NoItemsFound => "no such section",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::Io(_) | _ => "unreadable",
    }
}
