//! The thread that looks after upstreams for all workers: it looks up their names, checks their health, and fetches
//! documents such as key sets. It keeps its connections, as a worker does.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use base::limits::{
    self, BODY_BUFFER_BYTES, HEALTH_CHECKS_MAX, OWN_IDLE_MAX, OWN_SWEEP_MS,
    UPSTREAM_CONNECTIONS_MAX,
};
use base::{SystemClock, SystemEntropy};
use model::{Feed, FeedRequest, Settings, VaultRequest, VaultSettings};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};
use wire::tls::ClientTls;

use super::runner;
use crate::forward::document::{self, Bounds, Content, Fetch, FetchError, Fetched};
use crate::forward::{Checked, CheckedEndpoint, Follower, PoolLimits, Pools, Shared, Watched};
use crate::message::resources::Resources;
use crate::own_requests::fetch;

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Upstreams {
    shared: Arc<Shared>,
    pub(crate) clock: SystemClock,
}

impl Upstreams {
    /// Starts it for a gateway with these settings.
    ///
    /// # Errors
    /// The system provides no thread or no event queue.
    pub fn start(settings: &Settings) -> io::Result<Arc<Self>> {
        let servers = settings.gateway.nameservers.clone();
        let upstreams = Self::with(runner::workers(settings), servers)?;
        upstreams.shared.ports.set_sources(&settings.gateway.source_addresses);
        Ok(upstreams)
    }

    /// Starts it for a program without a gateway.
    ///
    /// # Errors
    /// As [`Upstreams::start`].
    pub fn alone() -> io::Result<Arc<Self>> {
        Self::with(1, Vec::new())
    }

    /// `servers`: name servers in place of the system's.
    fn with(workers: usize, servers: Vec<SocketAddr>) -> io::Result<Arc<Self>> {
        let clock = SystemClock::new();
        let (shared, watched) = Shared::watched(workers, &SystemEntropy);
        if let Some(ports) = runner::local_ports() {
            shared.ports.set_range(ports);
        }
        let (for_thread, own_clock) = (Arc::clone(&shared), clock.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let limits = PoolLimits { open_max: UPSTREAM_CONNECTIONS_MAX, idle_max: OWN_IDLE_MAX };
        std::thread::Builder::new().name("upstreams".to_owned()).spawn(move || {
            let sender = Rc::new(Sender {
                pools: Pools::new(for_thread, limits),
                resources: Resources::new(own_clock, 0),
                checks: Semaphore::new(HEALTH_CHECKS_MAX),
            });
            LocalSet::new().block_on(&runtime, run(watched, Follower::new(servers), sender));
        })?;
        Ok(Arc::new(Self { shared, clock }))
    }

    /// Gets `url` (`http` or `https`), or posts the body of `content` to it. Blocks. Redirects are not followed, so
    /// that a server cannot choose another host; any other status is a success.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub fn fetch(
        &self,
        url: &str,
        content: Content,
        tls: &Arc<ClientTls>,
        bounds: Bounds,
    ) -> Result<Fetched, FetchError> {
        let (endpoint, target) = document::endpoint(url).map_err(FetchError::Url)?;
        let (done, fetched) = sync_channel(1);
        let fetch = Fetch { endpoint, target, content, tls: Arc::clone(tls), bounds, done };
        if !self.shared.send(Watched::Fetch(Box::new(fetch))) {
            return Err(FetchError::Stopped);
        }
        fetched.recv().unwrap_or(Err(FetchError::Stopped))
    }

    /// Fetches the key set at `url`, within the limits of key sets.
    ///
    /// # Errors
    /// The problem, for a diagnostic.
    pub fn fetch_key_set(&self, url: &str, tls: &Arc<ClientTls>) -> Result<Vec<u8>, String> {
        let bounds =
            Bounds { bytes_max: limits::JWKS_BYTES_MAX, total_ms: limits::JWKS_FETCH_MS_MAX };
        self.fetch_ok(url, Content::default(), tls, bounds).map_err(|error| error.to_string())
    }

    /// As [`Self::fetch`], for the body of a response with status 200.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub fn fetch_ok(
        &self,
        url: &str,
        content: Content,
        tls: &Arc<ClientTls>,
        bounds: Bounds,
    ) -> Result<Vec<u8>, FetchError> {
        let fetched = self.fetch(url, content, tls, bounds)?;
        match fetched.status {
            200 => Ok(fetched.body),
            status => Err(FetchError::Status(status)),
        }
    }

    /// Asks a control plane for the changes after a number, and waits for them.
    ///
    /// # Errors
    /// The problem, for a diagnostic.
    pub fn fetch_feed(
        &self,
        from: &Feed,
        request: FeedRequest,
        tls: &Arc<ClientTls>,
    ) -> Result<Vec<u8>, String> {
        let FeedRequest { after, wait_s, full } = request;
        let wait_ms = u32::try_from(wait_s.saturating_mul(1_000)).unwrap_or(u32::MAX);
        let bounds = Bounds {
            bytes_max: limits::FEED_BYTES_MAX,
            total_ms: wait_ms.saturating_add(limits::JWKS_FETCH_MS_MAX),
        };
        let separator = if from.url.contains('?') { '&' } else { '?' };
        let full = if full { "&full=true" } else { "" };
        let url = format!("{}{separator}after={after}&wait_s={wait_s}{full}", from.url);
        let login = fetch::basic(&from.client_id, &from.client_secret);
        let content = Content { fields: vec![("Authorization", login)], ..Content::default() };
        let fetched = self.fetch(&url, content, tls, bounds);
        let fetched = fetched.map_err(|error| error.to_string())?;
        match fetched.status {
            200 => Ok(fetched.body),
            401 => Err("status 401: the server rejects `client_id` and `client_secret`".to_owned()),
            403 => {
                Err("status 403: register the client with the scope `penstock_gateway`".to_owned())
            }
            status => Err(format!("the server responded with status {status}")),
        }
    }

    /// Sends a request to Vault, with a token. Returns status and body.
    ///
    /// # Errors
    /// The problem, for a diagnostic.
    pub fn ask_vault(
        &self,
        vault: &VaultSettings,
        request: &VaultRequest,
        token: Option<&str>,
        tls: &Arc<ClientTls>,
    ) -> Result<(u16, Vec<u8>), String> {
        // Agents of Vault can be configured to require the first one, which no browser sends for another site.
        let fields = [
            ("X-Vault-Request", Some("true")),
            ("X-Vault-Token", token),
            ("X-Vault-Namespace", vault.namespace.as_deref()),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned())));
        let body = request.body.clone();
        let content = Content { fields: fields.collect(), body, ..Content::default() };
        let url = format!("{}/v1/{}", vault.url, request.path);
        let bounds = Bounds { bytes_max: limits::VAULT_BYTES_MAX, total_ms: limits::VAULT_MS_MAX };
        let fetched = self.fetch(&url, content, tls, bounds).map_err(|error| error.to_string())?;
        Ok((fetched.status, fetched.body))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        // Fails only if the thread has ended.
        let _ = self.shared.send(Watched::Nothing);
    }
}

async fn run(mut watched: UnboundedReceiver<Watched>, follower: Rc<Follower>, sender: Rc<Sender>) {
    spawn_local(Rc::clone(&sender).sweep());
    while let Some(next) = watched.recv().await {
        match next {
            Watched::Name(name) => spawn_local(Rc::clone(&follower).follow(name)),
            Watched::Endpoint(endpoint) => spawn_local(Rc::clone(&sender).watch(endpoint)),
            Watched::Fetch(fetch) => spawn_local(Rc::clone(&sender).fetch(fetch)),
            Watched::Nothing => return,
        };
    }
}

/// Sends requests that no worker sends.
struct Sender {
    pools: Pools,
    resources: Resources,
    checks: Semaphore,
}

impl Sender {
    /// Closes connections that were idle for too long.
    async fn sweep(self: Rc<Self>) {
        loop {
            tokio::time::sleep(Duration::from_millis(OWN_SWEEP_MS)).await;
            self.pools.sweep(self.resources.sweep());
        }
    }

    async fn fetch(self: Rc<Self>, fetch: Box<Fetch>) {
        let Fetch { endpoint, target, content, tls, bounds, done } = *fetch;
        let own = (&self.resources, &self.pools);
        let target = (target.as_str(), &content);
        // Fails only if the caller no longer waits.
        let _ = done.send(fetch::within(own, endpoint, target, &tls, bounds).await);
    }

    /// Checks an endpoint until no worker uses its set.
    async fn watch(self: Rc<Self>, checked: Box<CheckedEndpoint>) {
        let CheckedEndpoint { endpoint, check, .. } = &*checked;
        let target = format!("{}{}", endpoint.path, check.path);
        let (own, shared) = ((&self.resources, &self.pools), self.pools.shared());
        loop {
            let Ok(permit) = self.checks.acquire().await else { return };
            let Some(tls) = shared.client_tls() else { return };
            let bounds =
                Bounds { bytes_max: BODY_BUFFER_BYTES as usize, total_ms: check.timeout_ms };
            let target = (target.as_str(), &Content::default());
            let fetched = fetch::within(own, endpoint.clone(), target, &tls, bounds).await;
            // Not held through the pause, which other endpoints need not wait for.
            drop(permit);
            let problem = match fetched {
                Ok(response) if (200..300).contains(&response.status) => None,
                Ok(response) => Some(format!("status {}", response.status)),
                Err(error) => Some(error.to_string()),
            };
            let Some(health) = shared.checked(&checked) else { return };
            shared.count_check(problem.is_none());
            let authority = &endpoint.authority;
            match health.checked(problem.is_none(), check, self.resources.now_us()) {
                Some(Checked::Healthy) => tracing::info!(endpoint = authority, "endpoint healthy"),
                Some(Checked::Unhealthy) => {
                    let problem = problem.unwrap_or_default();
                    tracing::warn!(endpoint = authority, problem, "endpoint unhealthy");
                }
                None => {}
            }
            drop(health);
            tokio::time::sleep(Duration::from_millis(u64::from(check.interval_ms))).await;
        }
    }
}
