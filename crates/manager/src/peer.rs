//! Who is at the other end of a connection, and the certificates that prove it. Source: RFC 8705.

use std::net::IpAddr;

use base::addresses::{self, Block};
use http::{HeaderMap, HeaderValue};
use rustls::pki_types::CertificateDer;
use store::Client;
use wire::tls::DistinguishedName;

use crate::manager::Manager;
use crate::reply::Refusal;
use crate::secrets;
use crate::token::has;

/// The other end of a connection.
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// That it presented, its own first, and of which it has the key. They are not verified against a CA.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

impl Peer {
    /// The client of a trusted proxy, which is not the other end itself: certificates are those of the proxy. `None`:
    /// the request is that of the other end.
    pub(crate) fn client(&self, head: &HeaderMap, trusted: &[Block]) -> Option<Self> {
        const FORWARDED_FOR: &str = "x-forwarded-for";
        let is_proxy = addresses::is_in(trusted, self.address.to_canonical());
        if !is_proxy || !head.contains_key(FORWARDED_FOR) {
            return None;
        }
        let values = head.get_all(FORWARDED_FOR).into_iter().map(HeaderValue::as_bytes);
        let address = addresses::forwarded_for(values, trusted).unwrap_or(self.address);
        Some(Self { address, certificates: Vec::new() })
    }

    /// The SHA-256 of its certificate in base64url, which tokens can be bound to. Source: RFC 8705 section 3.1.
    pub(crate) fn thumbprint(&self) -> Option<String> {
        self.certificates.first().map(secrets::hash)
    }
}

impl Manager {
    /// Whether the certificate of `peer` is that of `client`. Source: RFC 8705 section 2.
    pub(crate) fn has_certificate_of(&self, client: &Client, peer: &Peer) -> bool {
        let Some(own) = peer.certificates.first() else { return false };
        match client.certificate.split_once(' ') {
            Some((SELF_SIGNED, thumbprints)) => {
                peer.thumbprint().is_some_and(|own| has(thumbprints, &own))
            }
            Some((ISSUED, name)) => wire::tls::has_name(own, name) && self.has_issued(peer),
            Some((ISSUED_TO, name)) => {
                let subject = DistinguishedName::of(own);
                subject.is_some()
                    && subject == DistinguishedName::parse(name)
                    && self.has_issued(peer)
            }
            Some(_) | None => false,
        }
    }

    /// Whether a known CA has issued the certificate of `peer`.
    fn has_issued(&self, peer: &Peer) -> bool {
        let authorities = self.authorities.as_ref();
        authorities.is_some_and(|known| known.has_issued(&peer.certificates, self.now_s()))
    }

    /// The thumbprint that the tokens of `client` are bound to. `None`: they are not bound.
    pub(crate) fn binding(&self, client: &Client, peer: &Peer) -> Result<Option<String>, Refusal> {
        const NONE: Refusal = Refusal::InvalidRequest(
            "the client's tokens are bound to its certificate, and it presents none",
        );
        if client.bound { peer.thumbprint().ok_or(NONE).map(Some) } else { Ok(None) }
    }
}

/// Prefixes of a client's `certificate`: an alternative name or the subject of one that a CA issued, or thumbprints,
/// follow.
pub(crate) const ISSUED: &str = "issued";
pub(crate) const ISSUED_TO: &str = "issued-to";
pub(crate) const SELF_SIGNED: &str = "self-signed";
