//! The data plane: from the first byte of a request to the last byte of its response.
//!
//! Start with [`pipeline`]: the life of an exchange, in order. The folders, lowest first; each imports only from those
//! before it (`cargo xtask tidy` checks that):
//!
//! - [`tasks`], [`body`], [`shares`], [`message`]: the parts of exchanges: tasks and deadlines, streamed and held
//!   bodies, places in a worker, the heads of the two messages;
//! - [`forward`]: requests to upstreams, those of clients and the gateway's own;
//! - [`artefacts`], [`quota`], [`cache`], [`account`]: compiled artefacts, limits, stored responses, records and
//!   counters;
//! - [`worker`]: the state of one worker, and the revision that it serves;
//! - [`own_requests`], [`exchange`], [`identity`], [`upstream_auth`], [`integration`]: parts of the steps;
//! - [`pipeline`]: the steps, in order;
//! - [`listen`]: listeners, connections of clients, HTTP/1.1 and HTTP/2;
//! - [`threads`]: a worker for each core, the admin port, the thread for upstreams.
//!
//! APIs, artefacts and settings are given as a [`model::Snapshot`].
//!
//! Architecture invariant: imports neither a format nor the control plane. A request writes no shared state but atomic
//! numbers (counts of quotas, the health of endpoints), and never waits for another request.

mod account;
mod artefacts;
#[doc(hidden)]
pub mod bench;
mod body;
mod cache;
mod exchange;
mod forward;
mod identity;
mod integration;
mod listen;
mod message;
mod own_requests;
mod pipeline;
mod quota;
mod shares;
#[cfg(test)]
mod simulation;
mod tasks;
mod threads;
mod upstream_auth;
mod worker;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use base::limits::{DRAIN_NOTICE_MS, QUESTIONS_MAX};
use base::{SystemClock, SystemEntropy};
use model::{Diagnostic, Http2Listeners, Settings, Snapshot};
use stages::Routes;
use stages::authenticate::Proofs;
use stages::throttle::{Link, Meters, Reconciler};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use wire::tls::{ClientAuth, ClientTls, ServerCertificates};

use account::{AccessLines, AccessLogger};
use artefacts::Integration;
use artefacts::policies::PolicyTable;
use listen::{Listener, Protocol};
use message::Serves;
use message::client_trust::Trusts;
use message::forwarded_certificates::CertificateField;
use quota::quotas::Quotas;
use threads::admin;
use threads::bind::Bound;
use threads::inbound::Inbounds;
use threads::runner::{self, Command, Running};
use worker::compiled::{Compiled, Live};
use worker::descriptors::Descriptors;
use worker::heavy::HeavyPool;

pub use forward::document::{Bounds, Content, FetchError, Fetched};
pub use integration::variable;
pub use message::Repetition;
pub use threads::admin::AdminPages;
pub use threads::bind::StartError;
pub use threads::upstreams::Upstreams;

/// Inputs of the gateway besides settings and snapshot.
pub struct Parts {
    /// Certificates of the https listener, replaced in place when their files change.
    pub certificates: Arc<ServerCertificates>,
    /// Verification of the certificates of clients, if they may present some.
    pub client_auth: Option<ClientAuth>,
    /// Verification of https endpoints.
    pub client_tls: Arc<ClientTls>,
    /// Started with the same settings.
    pub upstreams: Arc<Upstreams>,
    /// Contents of the admin port that other crates provide.
    pub pages: AdminPages,
    /// The `version` of `penstock_build_info`.
    pub build: &'static str,
}

/// The addresses that the gateway listens on, useful with port 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub http: Option<SocketAddr>,
    pub https: Option<SocketAddr>,
    pub integration_http: Option<SocketAddr>,
    pub integration_https: Option<SocketAddr>,
    pub admin: Option<SocketAddr>,
}

/// A running gateway. Dropping it shuts down immediately; [`Gateway::drain`] shuts down gracefully.
pub struct Gateway {
    workers: Vec<Running>,
    admin: Option<admin::Running>,
    addresses: Addresses,
    ready: Arc<AtomicBool>,
    /// The configuration that workers currently serve.
    current: Mutex<Compiled>,
    access: Option<AccessLogger>,
    key_sets: Mutex<Option<Receiver<String>>>,
    upstreams: Arc<Upstreams>,
    inbounds: Inbounds,
    certificate_field: Option<Arc<CertificateField>>,
    /// The counts of limits.
    meters: Arc<Meters>,
    /// Reconciliation of these counts with those of other gateways.
    reconciliation: Mutex<Option<Reconciliation>>,
}

/// Reconciles the counts of a gateway with those of others.
pub struct Reconciliation {
    pub reconciler: Reconciler,
    /// The clock of the workers.
    pub clock: SystemClock,
}

/// Protocols of the listeners, in clear and over TLS.
fn protocols(
    settings: &Settings,
    http2: Http2Listeners,
    certificates: &Arc<ServerCertificates>,
    clients: Option<&ClientAuth>,
) -> [Protocol; 2] {
    let config = wire::tls::server_config_for(Arc::clone(certificates), http2.https, clients);
    let forward_certificates = settings.tls.clients.as_ref().is_some_and(|clients| clients.forward);
    [Protocol::Http { http2: http2.http }, Protocol::Https { config, forward_certificates }]
}

fn certificate_field(
    settings: &Settings,
    authorities: Option<ClientAuth>,
) -> Option<Arc<CertificateField>> {
    let clients = settings.tls.clients.as_ref()?;
    let (name, forward) = (clients.header.clone()?, clients.forward);
    Some(Arc::new(CertificateField { name, authorities: authorities?, forward }))
}

impl Gateway {
    /// Binds the listeners and starts the workers. Requests are served when it returns.
    ///
    /// # Errors
    /// [`StartError`]; nothing keeps running.
    pub fn start(
        settings: &Settings,
        snapshot: &Snapshot,
        parts: Parts,
    ) -> Result<Self, StartError> {
        let count = runner::workers(settings);
        let integration = &settings.integration;
        let (http, https) = (settings.gateway.http, settings.gateway.https);
        if http.or(https).or(integration.http).or(integration.https).is_none() {
            return Err(StartError::NoListener);
        }
        let http = Bound::of(http, "[gateway] http", count)?;
        let https = Bound::of(https, "[gateway] https", count)?;
        let integration_http = Bound::of(integration.http, "[integration] http", count)?;
        let integration_https = Bound::of(integration.https, "[integration] https", count)?;
        let access = AccessLogger::start(&settings.access_log).map_err(StartError::AccessLog)?;
        let (sender, key_sets) = channel(QUESTIONS_MAX);
        let upstreams = parts.upstreams;
        let sources = &settings.gateway.source_addresses;
        forward::check_sources(sources)
            .map_err(|(address, source)| StartError::SourceAddress { address, source })?;
        upstreams.shared().ports.set_sources(sources);
        let clock = upstreams.clock.clone();
        upstreams.shared().set_client_tls(Arc::clone(&parts.client_tls));
        let routes = Arc::new(Routes::compile(snapshot, None));
        let services = Integration::compile(snapshot, &settings.integration.rules, None);
        let current = Compiled {
            policies: PolicyTable::compile(&routes, None),
            quotas: Quotas::compile(snapshot, &routes, &services, None),
            trusts: Trusts::compile(&routes, None),
            routes,
            integration: services,
            live: Arc::new(Live::new(settings, parts.client_tls)),
        };
        let (meters, reconciliation) = meters(settings, &clock);
        let heavy = HeavyPool::start(count).map_err(StartError::Worker)?;
        let ready = Arc::new(AtomicBool::new(true));
        let http2 = settings.gateway.http2;
        let [clear, tls] =
            protocols(settings, http2, &parts.certificates, parts.client_auth.as_ref());
        let http2 = integration.http2.unwrap_or(http2);
        let [own_clear, own_tls] =
            protocols(settings, http2, &parts.certificates, parts.client_auth.as_ref());
        let mut gateway = Self {
            workers: Vec::with_capacity(count),
            admin: None,
            addresses: Addresses {
                http: http.address,
                https: https.address,
                integration_http: integration_http.address,
                integration_https: integration_https.address,
                admin: None,
            },
            ready: Arc::clone(&ready),
            current: Mutex::new(current),
            access,
            key_sets: Mutex::new(Some(key_sets)),
            upstreams,
            inbounds: Inbounds::new(settings, &own_clear, &own_tls),
            certificate_field: certificate_field(settings, parts.client_auth),
            meters,
            reconciliation: Mutex::new(reconciliation),
        };
        let listener =
            |protocol: &Protocol, serves| Listener { protocol: protocol.clone(), serves };
        let listeners = [
            (http, listener(&clear, Serves::Apis)),
            (https, listener(&tls, Serves::Apis)),
            (integration_http, listener(&own_clear, Serves::Integration)),
            (integration_https, listener(&own_tls, Serves::Integration)),
        ];
        gateway.start_workers(count, listeners, &clock, &sender, &heavy)?;
        gateway.inbounds.follow(&gateway.compiled().integration, &gateway.workers);
        if let Some(address) = settings.admin.listen {
            let workers = &gateway.workers;
            let readiness = admin::Readiness {
                serving: ready,
                full: workers.iter().map(|worker| Arc::clone(&worker.full)).collect(),
            };
            let workers = workers.iter().map(|worker| worker.commands.clone()).collect();
            let admin = admin::start(address, workers, readiness, parts.pages, parts.build, clock)?;
            gateway.addresses.admin = Some(admin.address);
            gateway.admin = Some(admin);
        }
        Ok(gateway)
    }

    fn start_workers(
        &mut self,
        count: usize,
        listeners: [(Bound, Listener); 4],
        clock: &SystemClock,
        key_sets: &Sender<String>,
        heavy: &HeavyPool,
    ) -> Result<(), StartError> {
        let mut listeners = listeners.map(|(bound, kind)| (bound.listeners.into_iter(), kind));
        let descriptors = Descriptors::of_process(count);
        let (proofs, renewals) = (Arc::new(Proofs::new(&SystemEntropy)), Arc::default());
        for number in 0..count {
            let next = listeners
                .iter_mut()
                .filter_map(|(sockets, kind)| sockets.next().map(|socket| (socket, kind.clone())));
            let parts = worker::Parts {
                number,
                compiled: self.compiled(),
                access: self.access.as_ref().map_or_else(AccessLines::default, AccessLogger::lines),
                key_sets: key_sets.clone(),
                descriptors,
                upstreams: Arc::clone(self.upstreams.shared()),
                heavy: heavy.clone(),
                certificate_field: self.certificate_field.clone(),
                meters: Arc::clone(&self.meters),
                proofs: Arc::clone(&proofs),
                renewals: Arc::clone(&renewals),
            };
            let start = runner::Start {
                clock: clock.clone(),
                parts,
                full: Arc::default(),
                listeners: next.collect(),
            };
            self.workers.push(runner::start(start).map_err(StartError::Worker)?);
        }
        Ok(())
    }

    fn compiled(&self) -> Compiled {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The addresses that it listens on.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Receives the names of issuers whose current key sets are wanted. Each must be answered with
    /// [`Gateway::key_set_arrived`]. Returns `None` when called again.
    pub fn take_wanted_key_sets(&self) -> Option<Receiver<String>> {
        self.key_sets.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// With `[quotas]`: the reconciliation with other gateways. Returns `None` when called again.
    pub fn take_reconciliation(&self) -> Option<Reconciliation> {
        self.reconciliation.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Resumes the requests that wait for the key set of `issuer`: an earlier [`Gateway::apply`] brought it, or the
    /// issuer has none newer.
    pub fn key_set_arrived(&self, issuer: &str) {
        for worker in &self.workers {
            // Fails only if the worker has ended.
            let _ = worker.commands.send(Command::KeySet(issuer.to_owned()));
        }
    }

    /// Serves `snapshot` from the next request on; unchanged APIs are not compiled again. Returns when every
    /// worker uses it.
    pub fn apply(&self, snapshot: &Snapshot) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let routes = Arc::new(Routes::compile(snapshot, Some(&current.routes)));
        let rules = &current.live.rules;
        let (policies, trusts) = if routes.has_apis_of(&current.routes) {
            (Arc::clone(&current.policies), Arc::clone(&current.trusts))
        } else {
            let policies = PolicyTable::compile(&routes, Some(&current.policies));
            (policies, Trusts::compile(&routes, Some(&current.trusts)))
        };
        let integration = Integration::compile(snapshot, rules, Some(&current.integration));
        let before = Some((&*current.routes, &*current.quotas));
        let quotas = Quotas::compile(snapshot, &routes, &integration, before);
        let next = Compiled {
            policies,
            quotas,
            trusts,
            routes,
            integration,
            live: Arc::clone(&current.live),
        };
        // Dropped here, not by a worker that has requests to serve.
        let last = std::mem::replace(&mut *current, next);
        self.publish(&current);
        self.inbounds.follow(&current.integration, &self.workers);
        drop(last);
    }

    /// The addresses of inbound endpoints by the ports of their artefacts.
    #[must_use]
    pub fn inbound_addresses(&self) -> Vec<(u16, SocketAddr)> {
        self.inbounds.addresses()
    }

    /// The problems of the artefacts that were applied last. The last good version of a broken one is served.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = current.integration.diagnostics.clone();
        all.extend_from_slice(current.quotas.diagnostics());
        all.extend(self.inbounds.diagnostics());
        all
    }

    /// Applies settings that need no restart: limits, trusted proxies, certificate authorities.
    pub fn apply_settings(&self, settings: &Settings, client_tls: Arc<ClientTls>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.upstreams.shared().set_client_tls(Arc::clone(&client_tls));
        let sources = &settings.gateway.source_addresses;
        match forward::check_sources(sources) {
            Ok(()) => self.upstreams.shared().ports.set_sources(sources),
            Err((address, error)) => tracing::error!(
                %address,
                %error,
                "connections cannot come from an address of [gateway] source_addresses; the previous list stays in use"
            ),
        }
        let live = Arc::new(Live::new(settings, client_tls).keeping(&current.live));
        let integration = current.integration.with_rules(&live.rules);
        let quotas = current.quotas.with_services(&integration);
        let next = Compiled { live, integration, quotas, ..current.clone() };
        let last = std::mem::replace(&mut *current, next);
        self.publish(&current);
        drop(last);
    }

    fn publish(&self, current: &Compiled) {
        let (done, applied) = mpsc::channel();
        for worker in &self.workers {
            // Fails only if the worker has ended.
            let _ = worker.commands.send(Command::Apply(current.clone(), done.clone()));
        }
        drop(done);
        if !runner::all_done(&applied, self.workers.len()) {
            let revision = current.routes.revision();
            tracing::error!(revision, "a worker did not apply a change in time");
        }
    }

    /// Reopens the access log after it was renamed.
    pub fn reopen_logs(&self) {
        if let Some(access) = &self.access {
            access.reopen();
        }
    }

    /// Shuts down gracefully, within `drain_s`: `/readyz` fails first, then queued connections are accepted,
    /// every connection completes the request in progress with `Connection: close`, and idle ones are closed within
    /// `DRAIN_MS_MAX`. Returns the number of requests and tunnels that were cut off; idle connections are not counted.
    pub fn drain(mut self) -> usize {
        let clock = SystemClock::new();
        let allowed = Duration::from_secs(u64::from(self.compiled().live.drain_s));
        self.ready.store(false, Ordering::Release);
        if self.admin.is_some() {
            let notice = Duration::from_millis(u64::from(DRAIN_NOTICE_MS));
            std::thread::park_timeout(notice.min(allowed / 4));
        }
        for worker in &self.workers {
            let _ = worker.commands.send(Command::Drain);
        }
        for worker in &self.workers {
            let left = allowed.saturating_sub(Duration::from_micros(clock.now_us()));
            // Disconnected when the worker ends.
            let ended = worker.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ended.recv_timeout(left);
        }
        self.stop()
    }

    fn stop(&mut self) -> usize {
        let mut cut = 0;
        for worker in self.workers.drain(..) {
            let _ = worker.commands.send(Command::Stop);
            match worker.thread.join() {
                Ok(count) => cut += count,
                Err(_) => tracing::error!("a worker panicked"),
            }
        }
        self.admin = None;
        self.access = None;
        cut
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The counters of the process, linked with those of other gateways if the settings say so.
fn meters(settings: &Settings, clock: &SystemClock) -> (Arc<Meters>, Option<Reconciliation>) {
    let Some(quotas) = &settings.quotas else { return Default::default() };
    let secret = quotas.password.as_deref().unwrap_or_default();
    let (link, queue) = Link::new(quotas.when_down, secret);
    let meters = Arc::new(Meters::linked(Arc::clone(&link)));
    let reconciler = Reconciler::new(Arc::clone(&meters), link, queue);
    (meters, Some(Reconciliation { reconciler, clock: clock.clone() }))
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Gateway>();
};
