//! The client certificates that APIs accept (`x-penstock-client-certificates`).
//!
//! Compiled when an API is loaded. Each list judges a certificate once for each connection.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Api, ClientTrust, KeyType, TrustedClients};
use stages::Routes;
use wire::tls::{CertificateDer, ClientAuth};

/// The lists of all APIs, by the address of the [`ClientTrust`] that they were compiled from.
#[derive(Debug, Default)]
pub(crate) struct Trusts(HashMap<usize, Arc<Trust>>);

/// The lists of one API.
#[derive(Debug)]
pub(crate) struct Trust {
    /// Keeps its address from being used again.
    source: Arc<ClientTrust>,
    production: Option<ClientAuth>,
    sandbox: Option<ClientAuth>,
}

/// The endpoints for which a certificate is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptedFor {
    pub(crate) production: bool,
    pub(crate) sandbox: bool,
}

impl Trusts {
    /// Compiles the lists of `routes`. Equal lists of `previous` are kept, with the results that connections have for
    /// them.
    pub(crate) fn compile(routes: &Routes, previous: Option<&Self>) -> Arc<Self> {
        let lists = routes.apis().filter_map(|routes| routes.api.client_trust.as_ref());
        let compiled = |source: &Arc<ClientTrust>| {
            let known = previous.and_then(|previous| previous.0.get(&address(source)));
            (address(source), known.map_or_else(|| Trust::compile(source), Arc::clone))
        };
        Arc::new(Self(lists.map(compiled).collect()))
    }

    /// The lists of `api`, if it has some.
    pub(crate) fn of(&self, api: &Api) -> Option<&Arc<Trust>> {
        self.0.get(&address(api.client_trust.as_ref()?))
    }
}

impl Trust {
    fn compile(source: &Arc<ClientTrust>) -> Arc<Self> {
        let issuers = |list: &TrustedClients| ClientAuth::of_issuers(&list.issuers);
        let (production, sandbox) = (issuers(&source.production), issuers(&source.sandbox));
        Arc::new(Self { source: Arc::clone(source), production, sandbox })
    }

    /// The lists' result for a certificate with this hash, the first one of `chain`, at `now_s`.
    pub(crate) fn judge(
        &self,
        hash: &[u8; 32],
        chain: &[CertificateDer<'_>],
        now_s: u64,
    ) -> AcceptedFor {
        let accepts = |list: &TrustedClients, issuers: &Option<ClientAuth>| {
            list.hashes.contains(hash)
                || issuers.as_ref().is_some_and(|issuers| issuers.has_issued(chain, now_s))
        };
        AcceptedFor {
            production: accepts(&self.source.production, &self.production),
            sandbox: accepts(&self.source.sandbox, &self.sandbox),
        }
    }
}

impl AcceptedFor {
    pub(crate) const ALL: Self = Self { production: true, sandbox: true };

    pub(crate) fn any(self) -> bool {
        self.production || self.sandbox
    }

    pub(crate) fn has(self, key_type: KeyType) -> bool {
        match key_type {
            KeyType::Production => self.production,
            KeyType::Sandbox => self.sandbox,
        }
    }

    /// The only type of endpoints for which it is accepted.
    pub(crate) fn only(self) -> Option<KeyType> {
        match (self.production, self.sandbox) {
            (true, false) => Some(KeyType::Production),
            (false, true) => Some(KeyType::Sandbox),
            (true, true) | (false, false) => None,
        }
    }
}

fn address(of: &Arc<ClientTrust>) -> usize {
    Arc::as_ptr(of).addr()
}
