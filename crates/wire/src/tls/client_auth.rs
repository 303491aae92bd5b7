//! Certificates that clients present to a listener.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

use super::client::add_roots;
use super::validity::Validity;
use super::{TlsError, provider};

/// The authorities whose certificates a listener accepts from clients.
#[derive(Clone)]
pub struct ClientAuth {
    verifier: Arc<Verifier>,
}

impl fmt::Debug for ClientAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientAuth")
    }
}

impl ClientAuth {
    /// Accepts certificates issued by one of `ca_pems` (each one or more PEM certificates) for client authentication,
    /// and these certificates themselves. With `required`, a handshake without a certificate fails; a handshake with an
    /// invalid one always fails.
    ///
    /// # Errors
    /// [`TlsError::BadRoot`] for an invalid CA; [`TlsError::NoRoots`] if there is none.
    pub fn new(ca_pems: &[Vec<u8>], required: bool) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let mut listed = Vec::new();
        for (index, pem) in ca_pems.iter().enumerate() {
            let added = add_roots(&mut roots, pem);
            listed.extend(added.map_err(|problem| TlsError::BadRoot { index, problem })?);
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        let issued =
            builder.build().map_err(|error| TlsError::NoRoots { problem: error.to_string() })?;
        Ok(Self::of(Some(issued), listed))
    }

    /// Accepts certificates issued by one of `issuers`, in DER, and these certificates themselves. `None` if none of
    /// them can issue certificates.
    #[must_use]
    pub fn of_issuers(issuers: &[Vec<u8>]) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        let listed: Vec<_> = issuers.iter().map(|der| CertificateDer::from(der.clone())).collect();
        roots.add_parsable_certificates(listed.iter().cloned());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let issued = builder.build().ok()?;
        Some(Self::of(Some(issued), listed))
    }

    /// Accepts a certificate of any issuer, or none. The handshake proves that the client has the key; the caller
    /// decides whether to trust the certificate, for example with [`Self::has_issued`].
    #[must_use]
    pub fn any() -> Self {
        Self::of(None, Vec::new())
    }

    fn of(
        issued: Option<Arc<dyn ClientCertVerifier>>,
        listed: Vec<CertificateDer<'static>>,
    ) -> Self {
        let algorithms = provider().signature_verification_algorithms;
        Self { verifier: Arc::new(Verifier { algorithms, issued, listed }) }
    }

    /// Whether `chain`, which begins with a client's certificate, is accepted at `now_s`.
    #[must_use]
    pub fn has_issued(&self, chain: &[CertificateDer<'_>], now_s: u64) -> bool {
        let Some((own, others)) = chain.split_first() else { return false };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s));
        self.verifier.verify_client_cert(own, others, now).is_ok()
    }

    pub(super) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        self.verifier.clone()
    }
}

/// Whether `certificate` has the alternative name `name`, a DNS name or an IP address. Unlike for servers, a wildcard
/// matches no other name.
#[must_use]
pub fn has_name(certificate: &CertificateDer<'_>, name: &str) -> bool {
    let (parsed, wanted) = (ParsedCertificate::try_from(certificate), ServerName::try_from(name));
    let (Ok(parsed), Ok(wanted)) = (parsed, wanted) else { return false };
    let lists = || {
        EndEntityCert::try_from(certificate)
            .is_ok_and(|own| own.valid_dns_names().any(|own| own.eq_ignore_ascii_case(name)))
    };
    let is_exact = !matches!(wanted, ServerName::DnsName(_)) || lists();
    is_exact && verify_server_name(&parsed, &wanted).is_ok()
}

/// Verifies that the client has the key of its certificate, and that the certificate is accepted.
#[derive(Debug)]
struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// Verifier of the issuer; `None` accepts any.
    issued: Option<Arc<dyn ClientCertVerifier>>,
    /// Certificates that are accepted themselves: `issued` rejects a self-signed client certificate that is a CA, as
    /// `openssl req -x509` creates them.
    listed: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for Verifier {
    fn client_auth_mandatory(&self) -> bool {
        self.issued.as_ref().is_some_and(|issued| issued.client_auth_mandatory())
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.issued.as_ref().map_or(&[], |issued| issued.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let Some(issued) = &self.issued else { return Ok(ClientCertVerified::assertion()) };
        issued.verify_client_cert(own, others, now).or_else(|error| {
            let is_listed = self.listed.contains(own);
            let validity = if is_listed { Validity::read(own) } else { None };
            let is_valid = validity.is_some_and(|validity| validity.lapse(now.as_secs()).is_none());
            if is_valid { Ok(ClientCertVerified::assertion()) } else { Err(error) }
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
