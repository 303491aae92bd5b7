//! The credentials that upstreams get from the gateway, by name, and a worker's tokens for them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::{BACKEND_TOKEN_PAUSE_S, BACKEND_TOKENS_MAX};

use crate::forward::credential::Credential;

const SECOND_US: u64 = 1_000_000;

/// A worker's tokens, by the addresses of the credentials that they were got with, which the entries keep alive.
#[derive(Default)]
pub(crate) struct BackendTokens(RefCell<HashMap<*const Credential, Entry>>);

struct Entry {
    _credential: Arc<Credential>,
    /// The value of `Authorization`. `None`: the server issued none.
    value: Option<Rc<str>>,
    since_us: u64,
    /// From then on another one is asked for.
    until_us: u64,
    /// From then on the token is not used, even without a new one.
    expires_us: u64,
}

impl BackendTokens {
    /// The token that is known now; inside, `None`: the server issued none just before.
    pub(crate) fn find(
        &self,
        credential: &Arc<Credential>,
        now_us: u64,
    ) -> Option<Option<Rc<str>>> {
        let all = self.0.borrow();
        let entry = all.get(&Arc::as_ptr(credential)).filter(|entry| now_us < entry.until_us)?;
        Some(entry.value.clone())
    }

    pub(crate) fn insert(
        &self,
        credential: &Arc<Credential>,
        value: Option<Rc<str>>,
        (since_us, valid_s): (u64, u64),
    ) {
        let mut all = self.0.borrow_mut();
        if all.len() >= BACKEND_TOKENS_MAX {
            all.retain(|_, entry| since_us < entry.until_us);
        }
        if all.len() >= BACKEND_TOKENS_MAX {
            all.clear();
        }
        let until_us = since_us.saturating_add(valid_s.saturating_mul(SECOND_US));
        let known = all.get_mut(&Arc::as_ptr(credential));
        if let (None, Some(known)) = (&value, known)
            && since_us < known.expires_us
        {
            // The token was rejected, perhaps for another reason than itself, and the server issued no new one.
            (known.since_us, known.until_us) = (since_us, until_us.min(known.expires_us));
            return;
        }
        let expires_us = until_us;
        let _credential = Arc::clone(credential);
        let entry = Entry { _credential, value, since_us, until_us, expires_us };
        all.insert(Arc::as_ptr(credential), entry);
    }

    /// An endpoint rejected the token. One that is new is not asked for again at once.
    pub(crate) fn reject(&self, credential: &Arc<Credential>, now_us: u64) {
        let pause_us = BACKEND_TOKEN_PAUSE_S.saturating_mul(SECOND_US);
        let mut all = self.0.borrow_mut();
        if let Some(entry) = all.get_mut(&Arc::as_ptr(credential)) {
            entry.until_us =
                entry.until_us.min(entry.since_us.saturating_add(pause_us).max(now_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::BackendCredential;

    use super::*;

    #[test]
    fn a_token_is_used_until_it_expires_or_is_rejected_but_not_asked_for_too_often() {
        let tokens = BackendTokens::default();
        let credential = Arc::new(Credential::from(&BackendCredential::query("k", b"v")));
        let value = |at_s: u64| {
            let found = tokens.find(&credential, at_s * SECOND_US);
            found.map(|value| value.as_deref().unwrap_or("none").to_owned())
        };
        assert_eq!(value(0), None);
        tokens.insert(&credential, Some("a".into()), (100 * SECOND_US, 60));
        assert_eq!((value(159), value(160)), (Some("a".to_owned()), None));
        // Rejected when it was new: it stays in use for the pause, so that not every request asks for another one.
        tokens.reject(&credential, 101 * SECOND_US);
        let end_s = 100 + BACKEND_TOKEN_PAUSE_S;
        assert_eq!((value(end_s - 1), value(end_s)), (Some("a".to_owned()), None));
        tokens.insert(&credential, Some("b".into()), (200 * SECOND_US, 60));
        tokens.reject(&credential, 230 * SECOND_US);
        assert_eq!(value(230), None);
        // No other one was issued: it is used until it expires, and another one is asked for after the pause.
        tokens.insert(&credential, None, (230 * SECOND_US, BACKEND_TOKEN_PAUSE_S));
        let end_s = 230 + BACKEND_TOKEN_PAUSE_S;
        assert_eq!((value(end_s - 1), value(end_s)), (Some("b".to_owned()), None));
        tokens.insert(&credential, None, (258 * SECOND_US, BACKEND_TOKEN_PAUSE_S));
        assert_eq!((value(259), value(260)), (Some("b".to_owned()), None));
        tokens.insert(&credential, None, (300 * SECOND_US, BACKEND_TOKEN_PAUSE_S));
        assert_eq!(value(300), Some("none".to_owned()));
        let other = Arc::new(Credential::from(&BackendCredential::query("k", b"v")));
        assert_eq!(tokens.find(&other, 300 * SECOND_US), None);
    }

    #[test]
    fn the_number_of_tokens_is_limited() {
        let tokens = BackendTokens::default();
        for _ in 0..=BACKEND_TOKENS_MAX {
            let credential = Arc::new(Credential::from(&BackendCredential::query("k", b"v")));
            tokens.insert(&credential, None, (0, 1));
        }
        assert_eq!(tokens.0.borrow().len(), 1);
    }
}
