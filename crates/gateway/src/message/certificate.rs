//! The certificate of a client.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use base::limits::JUDGED_APIS_MAX;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use stages::authenticate;
use wire::tls::CertificateDer;

use super::client_trust::{AcceptedFor, Trust};

/// In which upstreams get the certificate.
pub(crate) const CERTIFICATE_FIELD: &[u8] = b"X-WSO2-CLIENT-CERTIFICATE";

/// A certificate that was verified, and that its client has the key of.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    /// SHA-256 of the certificate.
    pub(crate) hash: [u8; 32],
    /// The certificate, and those of its issuers that came with it.
    chain: Vec<CertificateDer<'static>>,
    /// Results of the lists of APIs for the certificate.
    judged: RefCell<Vec<(Arc<Trust>, AcceptedFor)>>,
    base64: OnceCell<String>,
}

impl ClientCertificate {
    /// The first one of `chain`.
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> Option<Self> {
        let hash = authenticate::thumbprint(chain.first()?);
        let (judged, base64) = (RefCell::default(), OnceCell::new());
        Some(Self { hash, chain: chain.to_vec(), judged, base64 })
    }

    /// As upstreams get it.
    pub(crate) fn base64(&self) -> &str {
        let own = self.chain.first().map_or(&[][..], |own| own);
        self.base64.get_or_init(|| BASE64_STANDARD.encode(own))
    }

    /// The endpoints of an API for which it is accepted at `now_s`. `trust`: the lists of the API; `None`: it accepts
    /// all that the listener does.
    pub(crate) fn accepted_for(&self, trust: Option<&Arc<Trust>>, now_s: u64) -> AcceptedFor {
        let Some(trust) = trust else { return AcceptedFor::ALL };
        let mut judged = self.judged.borrow_mut();
        if let Some((_, known)) = judged.iter().find(|(of, _)| Arc::ptr_eq(of, trust)) {
            return *known;
        }
        let found = trust.judge(&self.hash, &self.chain, now_s);
        if judged.len() >= JUDGED_APIS_MAX {
            judged.clear();
        }
        judged.push((Arc::clone(trust), found));
        found
    }
}

/// The certificate of its client that a trusted proxy forwards.
#[derive(Clone, Debug, Default)]
pub(crate) enum Forwarded {
    /// Nothing, since no field counts: that of the handshake does.
    #[default]
    Absent,
    /// The client has none, or one that is not accepted.
    Rejected,
    Certificate(Rc<ClientCertificate>),
}
