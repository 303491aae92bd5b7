//! The revoked tokens of issuers, and the evaluation of responses.
//!
//! Architecture invariant: no files, sockets or clock: bytes and times are arguments.

use std::sync::Arc;

use base::{Now, limits};
use jose::{Revocation, RevocationPage};
use model::{Extent, Feed, IssuerSettings, Revoked};

use crate::feed::Next;

/// The response to one request.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The `iss` of the issuer, and the endpoint of the request.
    pub(crate) issuer: (String, Feed),
    pub(crate) result: Result<Vec<u8>, String>,
}

/// An issuer whose revocations are followed.
#[derive(Debug)]
pub(crate) struct Followed {
    /// The `name` and `iss` of the issuer.
    pub(crate) name: String,
    pub(crate) iss: String,
    pub(crate) next: Next,
    pub(crate) revoked: Arc<Revoked>,
    swept_s: u64,
}

/// The changes by a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// New revocations, to be stored.
    pub(crate) page: Option<RevocationPage>,
    /// Whether the revoked tokens have changed.
    pub(crate) revoked: bool,
}

impl Followed {
    /// `kept` has the stored revision and revocations of an earlier run.
    pub(crate) fn new(settings: &IssuerSettings, kept: (u64, Revoked), now: Now) -> Option<Self> {
        let (revision, mut revoked) = kept;
        revoked.sweep(now.unix_s);
        Some(Self {
            name: settings.name.clone(),
            iss: settings.iss.clone(),
            next: Next::new(settings.revocations.clone()?, revision, now),
            revoked: Arc::new(revoked),
            swept_s: now.unix_s,
        })
    }

    /// Whether this is the issuer of `settings`.
    pub(crate) fn is_of(&self, settings: &IssuerSettings) -> bool {
        self.name == settings.name
            && self.iss == settings.iss
            && settings.revocations.as_ref() == Some(&self.next.from)
    }

    /// Whether `asked` is a response for this issuer.
    pub(crate) fn has_asked(&self, asked: &Asked) -> bool {
        let (iss, from) = &asked.issuer;
        self.iss == *iss && self.next.from == *from && self.next.is_asking()
    }

    /// Adds the revocations of a response, and schedules the next request.
    ///
    /// # Errors
    /// A message about an invalid response. Known revocations stay in use.
    pub(crate) fn conclude(
        &mut self,
        result: Result<Vec<u8>, String>,
        now: Now,
    ) -> Result<Changed, String> {
        let page = result.and_then(|response| self.page(&response));
        self.next.schedule(page.is_ok(), now);
        let mut changed = Changed::default();
        let mut revoked = Revoked::clone(&self.revoked);
        if now.unix_s.saturating_sub(self.swept_s) >= limits::REVOKED_SWEEP_S {
            self.swept_s = now.unix_s;
            changed.revoked |= revoked.sweep(now.unix_s);
        }
        if let Ok(Some(page)) = &page {
            self.next.revision = page.revision;
            for revocation in &page.revoked {
                changed.revoked |= revoked.add(revocation.hash, extent(revocation));
            }
        }
        if changed.revoked {
            self.revoked = Arc::new(revoked);
        }
        changed.page = page?;
        Ok(changed)
    }

    /// Parses a response; `None` if it has no news.
    fn page(&self, response: &[u8]) -> Result<Option<RevocationPage>, String> {
        let page = jose::revocation_page(response)?;
        if self.revoked.len().saturating_add(page.revoked.len()) > limits::REVOKED_TOKENS_MAX {
            let most = limits::REVOKED_TOKENS_MAX;
            return Err(format!("more than {most} revoked tokens; some have to expire first"));
        }
        Ok((page.revision != self.next.revision || !page.revoked.is_empty()).then_some(page))
    }
}

/// The extent of a revocation. A token may be accepted for some time after it expires, so this is later than the
/// expiry.
pub(crate) fn extent(revocation: &Revocation) -> Extent {
    Extent {
        issued_s: revocation.issued_s.unwrap_or(u64::MAX),
        until_s: revocation.exp_s.saturating_add(limits::LEEWAY_S_MAX),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn followed() -> Followed {
        let from = Feed {
            url: "https://id.example/revocations".to_owned(),
            client_id: "gateway".to_owned(),
            client_secret: Vec::new(),
        };
        let name = "a".to_owned();
        let settings = IssuerSettings {
            iss: name.clone(),
            name,
            revocations: Some(from),
            ..IssuerSettings::default()
        };
        Followed::new(&settings, (0, Revoked::default()), at(0)).unwrap()
    }

    fn at(s: u64) -> Now {
        Now { unix_s: s, mono_us: s * 1_000_000 }
    }

    fn page(revision: u64, hashes: &[u8]) -> Result<Vec<u8>, String> {
        let entry = |byte: &u8| {
            let hash = jose::token_hash_text(&[*byte; 32]);
            format!("{{\"hash\":\"{hash}\",\"exp\":1000}}")
        };
        let list: Vec<String> = hashes.iter().map(entry).collect();
        Ok(format!("{{\"revision\":{revision},\"revoked\":[{}]}}", list.join(",")).into())
    }

    #[test]
    fn a_response_adds_to_what_is_known_and_moves_the_number() {
        let mut followed = followed();
        let changed = followed.conclude(page(5, &[1, 2]), at(1)).unwrap();
        assert!(changed.revoked && changed.page.is_some());
        assert_eq!((followed.next.revision, followed.revoked.len()), (5, 2));
        let soon_us = 1_000_000 + 1_000 * limits::FEED_PAUSE_MS;
        assert_eq!(followed.next.due_us(), Some(soon_us));
        let before = Arc::clone(&followed.revoked);
        assert_eq!(followed.conclude(page(5, &[]), at(2)), Ok(Changed::default()));
        assert!(Arc::ptr_eq(&before, &followed.revoked), "nothing to publish");
        let changed = followed.conclude(page(9, &[]), at(3)).unwrap();
        assert!(!changed.revoked && changed.page.is_some(), "the number is kept");
    }

    #[test]
    fn after_a_failure_what_is_known_stays_and_the_pause_doubles() {
        let mut followed = followed();
        followed.conclude(page(5, &[1]), at(1)).unwrap();
        for wait_us in [250_000, 500_000, 1_000_000, 2_000_000, 2_000_000] {
            followed.conclude(Err("no route".to_owned()), at(1)).unwrap_err();
            assert_eq!(followed.next.due_us(), Some(1_000_000 + wait_us));
        }
        followed.conclude(Ok(b"{}".to_vec()), at(1)).unwrap_err();
        assert_eq!((followed.next.revision, followed.revoked.len()), (5, 1));
    }

    #[test]
    fn a_token_leaves_when_no_leeway_could_accept_it() {
        let mut followed = followed();
        followed.conclude(page(5, &[1]), at(1)).unwrap();
        let last_s = 1_000 + limits::LEEWAY_S_MAX - 1;
        assert!(!followed.conclude(page(5, &[]), at(last_s)).unwrap().revoked);
        let later_s = last_s + limits::REVOKED_SWEEP_S;
        assert!(followed.conclude(page(5, &[]), at(later_s)).unwrap().revoked);
        assert!(followed.revoked.is_empty());
    }
}
