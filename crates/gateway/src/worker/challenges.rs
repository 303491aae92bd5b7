//! The challenges of HTTP Digest that a worker's requests answer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use base::limits::BACKEND_TOKENS_MAX;
use jose::DigestChallenge;

use crate::forward::credential::Credential;

/// The last challenges, by the addresses of the credentials, which the entries keep alive.
#[derive(Default)]
pub(crate) struct Challenges(RefCell<HashMap<*const Credential, Entry>>);

struct Entry {
    _credential: Arc<Credential>,
    challenge: Rc<DigestChallenge>,
    /// How often its nonce was used.
    count: u32,
}

impl Challenges {
    /// The challenge to answer, and how often it was answered then.
    pub(crate) fn next(&self, credential: &Arc<Credential>) -> Option<(Rc<DigestChallenge>, u32)> {
        let mut all = self.0.borrow_mut();
        let entry = all.get_mut(&Arc::as_ptr(credential))?;
        entry.count = entry.count.checked_add(1)?;
        Some((Rc::clone(&entry.challenge), entry.count))
    }

    pub(crate) fn learn(&self, credential: &Arc<Credential>, challenge: DigestChallenge) {
        let mut all = self.0.borrow_mut();
        if all.len() >= BACKEND_TOKENS_MAX {
            // Removes challenges of earlier configurations, too.
            all.clear();
        }
        let (_credential, challenge) = (Arc::clone(credential), Rc::new(challenge));
        all.insert(Arc::as_ptr(credential), Entry { _credential, challenge, count: 0 });
    }
}
