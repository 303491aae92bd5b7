//! Certificates of clients in a field of a trusted proxy that has made their TLS handshakes
//! (`[tls] client_certificate_header`).
//!
//! Life of a request: listen -> **certificate** -> authenticate. Each is verified as in a handshake of the gateway's
//! own, by the CAs of `client_ca`, and remembered for a minute.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use base::limits::{
    FORWARDED_CERTIFICATE_BYTES_MAX, FORWARDED_CERTIFICATE_S, FORWARDED_CERTIFICATES_BYTES_MAX,
    REJECTED_CERTIFICATES_BYTES_MAX,
};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use foldhash::HashMap;
use percent_encoding::percent_decode;
use wire::tls::{CertificateDer, ClientAuth};

use super::{CERTIFICATE_FIELD, ClientCertificate, Forwarded, HeadEdits, Request};

/// The field in which trusted proxies send the certificates of their clients.
pub(crate) struct CertificateField {
    pub(crate) name: String,
    pub(crate) authorities: ClientAuth,
    /// Upstreams get them.
    pub(crate) forward: bool,
}

/// A worker's certificates from such fields.
pub(crate) struct ForwardedCertificates {
    /// `None`: no field counts.
    field: Option<Arc<CertificateField>>,
    accepted: RefCell<Known>,
    /// Separate, so that clients without an accepted certificate cannot evict accepted ones.
    rejected: RefCell<Known>,
}

/// Results in two generations. When the newer one is full, the older one is dropped, with the entries not used
/// meanwhile.
struct Known {
    newer: Generation,
    older: Generation,
    /// Bytes of the newer generation.
    bytes: usize,
    generation_bytes_max: usize,
}

/// By the value of the field. All of it is hashed: its end may be an issuer's, which many clients have in common.
type Generation = HashMap<Box<[u8]>, Entry>;

struct Entry {
    found: Forwarded,
    until_s: u64,
}

impl ForwardedCertificates {
    pub(crate) fn new(field: Option<Arc<CertificateField>>) -> Self {
        Self {
            field,
            accepted: Known::new(FORWARDED_CERTIFICATES_BYTES_MAX).into(),
            rejected: Known::new(REJECTED_CERTIFICATES_BYTES_MAX).into(),
        }
    }

    /// The client's certificate that the peer of `request` forwards, if the peer is a trusted proxy.
    pub(crate) fn of(&self, request: &Request, now_s: u64) -> Forwarded {
        let Some(field) = self.field.as_ref().filter(|_| request.peer.trusted) else {
            return Forwarded::Absent;
        };
        let bytes = request.bytes.as_slice();
        let is_it = |name: &[u8]| name.eq_ignore_ascii_case(field.name.as_bytes());
        let mut fields = request.head.fields().iter().filter(|one| is_it(one.name.of(bytes)));
        // A proxy may leave out a field without a value, as nginx does: its own certificate is still not its client's.
        let Some(first) = fields.next() else { return Forwarded::Rejected };
        let value = first.value.of(bytes).trim_ascii();
        if fields.next().is_some()
            || value.is_empty()
            || value.len() > FORWARDED_CERTIFICATE_BYTES_MAX
        {
            return Forwarded::Rejected;
        }
        let known = |all: &RefCell<Known>| all.borrow_mut().find(value, now_s);
        let known = known(&self.accepted).or_else(|| known(&self.rejected));
        known.unwrap_or_else(|| self.verified(&field.authorities, value, now_s))
    }

    #[cold]
    fn verified(&self, authorities: &ClientAuth, value: &[u8], now_s: u64) -> Forwarded {
        let chain = chain(value).filter(|chain| authorities.has_issued(chain, now_s));
        let (found, of_its_kind) = match chain.and_then(|chain| ClientCertificate::new(&chain)) {
            Some(certificate) => (Forwarded::Certificate(certificate.into()), &self.accepted),
            None => (Forwarded::Rejected, &self.rejected),
        };
        let until_s = now_s.saturating_add(FORWARDED_CERTIFICATE_S);
        let entry = Entry { found: found.clone(), until_s };
        of_its_kind.borrow_mut().insert(value.into(), entry);
        found
    }

    /// Removes the field that any client sends, and adds the certificate if upstreams get it.
    pub(crate) fn write(&self, request: &Request, edits: &mut HeadEdits) {
        let Some(field) = &self.field else { return };
        edits.remove(field.name.as_bytes());
        if request.peer.trusted {
            edits.remove(CERTIFICATE_FIELD);
        }
        if let Forwarded::Certificate(certificate) = &request.forwarded
            && field.forward
        {
            edits.append(CERTIFICATE_FIELD, certificate.base64().as_bytes());
        }
    }
}

impl Known {
    fn new(bytes_max: usize) -> Self {
        let [newer, older] = [Generation::default(), Generation::default()];
        Self { newer, older, bytes: 0, generation_bytes_max: bytes_max / 2 }
    }

    fn find(&mut self, value: &[u8], now_s: u64) -> Option<Forwarded> {
        let fresh = |entry: &Entry| (now_s < entry.until_s).then(|| entry.found.clone());
        if let Some(entry) = self.newer.get(value) {
            return fresh(entry);
        }
        let (value, entry) = self.older.remove_entry(value)?;
        let found = fresh(&entry)?;
        self.insert(value, entry);
        Some(found)
    }

    fn insert(&mut self, value: Box<[u8]>, entry: Entry) {
        // The value, its bytes in the chain, and in base64.
        let bytes = value.len().saturating_mul(3).saturating_add(size_of::<(Box<[u8]>, Entry)>());
        if self.bytes.saturating_add(bytes) > self.generation_bytes_max {
            self.older = mem::take(&mut self.newer);
            self.bytes = 0;
        }
        if self.newer.insert(value, entry).is_none() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }
}

/// The certificates in `value`, the client's first: PEM, which may be percent-encoded and on one line, or one in base64
/// of its DER form.
fn chain(value: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let text = percent_decode(value).decode_utf8().ok()?;
    let der = |text: &str| {
        let base64: String = text.split_ascii_whitespace().collect();
        let der = BASE64_STANDARD.decode(base64).ok().filter(|der| !der.is_empty())?;
        Some(CertificateDer::from(der))
    };
    let mut blocks = text.split("-----BEGIN CERTIFICATE-----");
    let before = blocks.next()?;
    let blocks: Vec<&str> = blocks.collect();
    if blocks.is_empty() {
        return Some(vec![der(before)?]);
    }
    let of_block = |block: &&str| {
        let (inside, after) = block.split_once("-----END CERTIFICATE-----")?;
        after.trim_ascii().is_empty().then(|| der(inside))?
    };
    before.trim_ascii().is_empty().then(|| blocks.iter().map(of_block).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_stays_however_many_others_come_and_the_memory_is_bounded() {
        let mut known = Known::new(64 * 1024);
        let insert = |known: &mut Known, value: &[u8]| {
            known.insert(value.into(), Entry { found: Forwarded::Rejected, until_s: 60 });
        };
        insert(&mut known, b"used");
        insert(&mut known, b"unused");
        for number in 0..1_000 {
            assert!(known.find(b"used", 59).is_some(), "{number}");
            insert(&mut known, format!("{number:0>1000}").as_bytes());
            assert!(known.newer.len() + known.older.len() <= 24, "{number}");
        }
        assert!(known.find(b"unused", 59).is_none());
        assert!(known.find(b"used", 60).is_none(), "it is verified again");
    }

    #[test]
    fn certificates_are_read_as_wso2_and_proxies_write_them() {
        let pem =
            |text: &str| format!("-----BEGIN CERTIFICATE-----{text}-----END CERTIFICATE-----");
        let encoded =
            |text: &str| text.replace('\n', "%0A").replace('+', "%2B").replace('=', "%3D");
        for (value, expect) in [
            ("Zm9v+w==".to_owned(), "Zm9v+w=="),
            (pem("\nZm9v\n+w==\n"), "Zm9v+w=="),
            (pem(" Zm9v +w== ") + " ", "Zm9v+w=="),
            (encoded(&pem("\nZm9v\n+w==\n")), "Zm9v+w=="),
            (pem("\nZm9v\n+w==\n").replace('\n', "%0A"), "Zm9v+w=="),
            (encoded(&format!("{}\n{}\n", pem("\nZm9v\n"), pem("\nYmFy\n"))), "Zm9v YmFy"),
            (pem("Zm9v") + "more", ""),
            ("more".to_owned() + &pem("Zm9v"), ""),
            (pem(""), ""),
            ("-----BEGIN CERTIFICATE-----Zm9v".to_owned(), ""),
            ("forged".to_owned(), ""),
            ("%FF".to_owned(), ""),
            (String::new(), ""),
        ] {
            let found = chain(value.as_bytes()).unwrap_or_default();
            let found: Vec<_> = found.iter().map(|der| BASE64_STANDARD.encode(der)).collect();
            assert_eq!(found.join(" "), expect, "{value}");
        }
    }
}
