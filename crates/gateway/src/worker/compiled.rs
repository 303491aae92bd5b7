//! One revision of everything that can change while the gateway runs.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use model::{ArtefactRules, BackendCredential, FaultStatus, Settings};
use stages::Routes;
use stages::authenticate::Users;
use wire::tls::ClientTls;

use super::backend_jwt::Signer;
use super::sessions::Logins;
use crate::artefacts::Integration;
use crate::artefacts::policies::PolicyTable;
use crate::forward::credential::{Credential, Credentials};
use crate::forward::{Balancer, Forwarding, RetryCounts};
use crate::message::client_trust::Trusts;
use crate::quota::quotas::Quotas;

/// A compiled revision. Workers share its parts.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) routes: Arc<Routes>,
    pub(crate) integration: Arc<Integration>,
    pub(crate) policies: Arc<PolicyTable>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) trusts: Arc<Trusts>,
    pub(crate) live: Arc<Live>,
}

/// Settings that take effect from the next request on, without a restart.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) fault_status: FaultStatus,
    pub(crate) connect_ms: u32,
    pub(crate) head_ms: u32,
    pub(crate) idle_ms: u32,
    pub(crate) stall_ms: u32,
    pub(crate) connections_max: usize,
    pub(crate) client_connections_max: usize,
    pub(crate) client_requests_max: usize,
    pub(crate) api_requests_max: usize,
    pub(crate) endpoint_waiting_max: usize,
    pub(crate) min_rate: u32,
    /// Whether DPoP proofs have to have a nonce.
    pub(crate) dpop_nonce: bool,
    pub(crate) held_body_bytes_max: usize,
    pub(crate) held_bytes_max: usize,
    pub(crate) drain_s: u32,
    pub(crate) trusted_proxies: Vec<(IpAddr, u8)>,
    /// Rules of Synapse's artefacts.
    pub(crate) rules: ArtefactRules,
    pub(crate) client_tls: Arc<ClientTls>,
    pub(crate) backend_jwt: Option<Arc<Signer>>,
    pub(crate) users: Arc<Users>,
    pub(crate) credentials: Credentials,
    pub(crate) logins: Logins,
}

impl Live {
    /// How a request that begins at `begun_us`, on the worker's clock, is forwarded: without fields of the client that
    /// say who it is.
    pub(crate) fn forwarding<'a>(
        &'a self,
        retries: &'a RetryCounts,
        balancer: &'a Rc<Balancer>,
        begun_us: u64,
    ) -> Forwarding<'a> {
        Forwarding {
            client_tls: &self.client_tls,
            connect_ms: self.connect_ms,
            stall_ms: self.stall_ms,
            min_rate: self.min_rate,
            endpoint_waiting_max: self.endpoint_waiting_max,
            begun_us,
            retries,
            balancer,
            operation: 0,
            forward_fields: &[],
            judged_later: None,
        }
    }

    pub(crate) fn new(settings: &Settings, client_tls: Arc<ClientTls>) -> Self {
        let gateway = &settings.gateway;
        Self {
            fault_status: gateway.fault_status,
            connect_ms: gateway.connect_ms,
            head_ms: gateway.head_ms,
            idle_ms: gateway.idle_ms,
            stall_ms: gateway.stall_ms,
            connections_max: gateway.connections_max,
            client_connections_max: gateway.client_connections_max,
            client_requests_max: gateway.client_requests_max,
            api_requests_max: gateway.api_requests_max,
            endpoint_waiting_max: gateway.endpoint_waiting_max,
            min_rate: gateway.min_rate,
            dpop_nonce: gateway.dpop_nonce,
            held_body_bytes_max: gateway.held_body_bytes_max,
            held_bytes_max: gateway.held_bytes_max,
            drain_s: gateway.drain_s,
            trusted_proxies: gateway.trusted_proxies.clone(),
            rules: settings.integration.rules.clone(),
            client_tls,
            backend_jwt: settings.backend_jwt.as_ref().and_then(Signer::new),
            users: Users::compile(&settings.users),
            credentials: settings.credentials.iter().map(prepared).collect(),
            logins: Logins::new(&settings.logins),
        }
    }

    /// With the credentials of `before` that are still the same: the tokens that were got with them stay in use.
    pub(crate) fn keeping(mut self, before: &Self) -> Self {
        for (name, credential) in &mut self.credentials {
            let known = before.credentials.get(name).filter(|known| *known == credential);
            *credential = Arc::clone(known.unwrap_or(credential));
        }
        self
    }
}

fn prepared((name, credential): &(String, Arc<BackendCredential>)) -> (String, Arc<Credential>) {
    (name.clone(), Arc::new(Credential::from(&**credential)))
}

/// The limit for bodies without progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    /// Longest time without it.
    pub(crate) ms: u32,
    /// Least progress, in bytes per second.
    pub(crate) min_rate: u32,
}

impl Stall {
    pub(crate) fn of(live: &Live) -> Self {
        Self { ms: live.stall_ms, min_rate: live.min_rate }
    }
}
