//! A gateway that follows its files, shared by `gateway` and `up`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use base::limits::{JWKS_BYTES_MAX, JWKS_FETCH_MS_MAX};
use base::{SystemClock, SystemEntropy};
use follow::{AskFeed, AskVault, Change, Fetch, Follower, Handle, Options, Status};
use gateway::{
    Addresses, AdminPages, Bounds, Content, FetchError, Gateway, Parts, StartError, Upstreams,
};
use model::{ClientCertificates, Diagnostic, Settings, UpstreamTls};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::oneshot;
use wire::tls::{ClientAuth, ClientTls, EndpointTls, ServerCertificates};

use super::signals::{Event, Shutdown, Signals};
use super::stderr;
use crate::failure::Failure;
use crate::process_log::ProcessLog;

/// A running gateway and the follower that keeps its snapshot up to date.
pub(crate) struct Serving {
    gateway: Arc<Gateway>,
    follower: Handle,
    signals: Signals,
    pub(crate) settings: Settings,
    /// Reconciliation of limits with other gateways.
    reconciliation: Option<reconcile::Handle>,
    log: ProcessLog,
}

/// Listener addresses from the command line, in place of those of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Listen {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) https: Option<SocketAddr>,
    pub(crate) integration: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
}

impl Listen {
    fn apply(&self, settings: &mut Settings) {
        for (address, setting) in [
            (self.http, &mut settings.gateway.http),
            (self.https, &mut settings.gateway.https),
            (self.integration, &mut settings.integration.http),
            (self.admin, &mut settings.admin.listen),
        ] {
            *setting = address.or(*setting);
        }
    }
}

/// The trust store for upstreams and issuers, as last read.
type Trust = Arc<Mutex<Arc<ClientTls>>>;

impl Serving {
    /// Reads `configuration`, with the listeners of `listen` in place of its own, and starts serving. Requests are
    /// accepted when it returns. `before` starts the services that the gateway asks at its start; it gets the settings,
    /// and the certificates of the https listener, not loaded yet.
    pub(crate) fn start<T>(
        configuration: &Path,
        listen: &Listen,
        before: impl FnOnce(&Settings, &Arc<ServerCertificates>) -> Result<T, Failure>,
    ) -> Result<(Self, T), Failure> {
        let read = follow::read_settings_to_serve(configuration);
        let (configured, warnings) = read.map_err(|invalid| report(&invalid.diagnostics))?;
        let mut settings = configured.clone();
        listen.apply(&mut settings);
        if !has_listener(&settings) {
            let file = configuration.display();
            let help = "add `http = \"127.0.0.1:8280\"` under [gateway]";
            return Err(Failure::Error(format!("{file}: the gateway has no listener; {help}")));
        }
        let log = ProcessLog::start(&settings.log).map_err(|error| {
            Failure::Error(format!("cannot start the thread that writes the log: {error}"))
        })?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        raise_open_files();
        let signals = Signals::listen()?;
        let certificates = Arc::<ServerCertificates>::default();
        let started = before(&settings, &certificates)?;
        let client_tls = client_tls(&settings.upstream_tls).map_err(Failure::Error)?;
        let trust: Trust = Arc::new(Mutex::new(Arc::clone(&client_tls)));
        let upstreams = Upstreams::start(&settings).map_err(|error| {
            Failure::Error(format!("cannot start the thread that looks after upstreams: {error}"))
        })?;
        let options = Options {
            configuration: Some(configuration.to_owned()),
            https: settings.has_https(),
            certificates: Arc::clone(&certificates),
            clock: Arc::new(SystemClock::new()),
            fetch: fetch(&trust, &upstreams),
            ask_feed: ask_feed(&trust, &upstreams),
            ask_vault: ask_vault(&trust, &upstreams),
        };
        let (follower, snapshot) =
            Follower::load(configured, options).map_err(|invalid| report(&invalid.diagnostics))?;
        settings.credentials.clone_from(&follower.settings().credentials);
        let figures = settings.quotas.as_ref().map(|_| Arc::<reconcile::Figures>::default());
        let parts = Parts {
            certificates,
            client_auth: client_auth(settings.tls.clients.as_ref()).map_err(Failure::Error)?,
            client_tls,
            upstreams,
            pages: admin_pages(&follower.status(), &log, figures.as_ref()),
            build: env!("CARGO_PKG_VERSION"),
        };
        let gateway = Gateway::start(&settings, &snapshot, parts)
            .map_err(|error| not_started(&error, configuration))?;
        let gateway = Arc::new(gateway);
        let reconciliation = reconciliation(&gateway, &settings, figures)?;
        forward_wanted_key_sets(&gateway, &follower)?;
        let status = follower.status();
        status.compiled(gateway.diagnostics());
        let publish = publish(Arc::clone(&gateway), status, trust);
        let follower = follower.watch(publish).map_err(|error| {
            Failure::Error(format!("cannot start the thread that follows files: {error}"))
        })?;
        Ok((Self { gateway, follower, signals, settings, reconciliation, log }, started))
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.gateway.addresses()
    }

    /// Serves until SIGINT or SIGTERM, then drains. A second signal ends the process at once.
    pub(crate) fn wait(self) -> Result<(), Failure> {
        // The log is written to its end when this returns.
        let Self { gateway, follower, mut signals, settings, log: _log, .. } = self;
        // Ended when this returns, after the last requests were counted.
        let _reconciliation = self.reconciliation;
        while signals.next() == Event::Reload {
            gateway.reopen_logs();
            follower.reload();
        }
        let drain_s = settings.gateway.drain_s;
        tracing::info!(drain_s, "signal received, draining; a second signal shuts down at once");
        let (drained, done) = oneshot::channel();
        let drain = move || {
            // The follower holds a reference to the gateway.
            follower.stop();
            match Arc::into_inner(gateway).map_or(0, Gateway::drain) {
                0 => tracing::info!("shutdown complete, all requests finished"),
                cut => tracing::warn!(
                    cut,
                    "shutdown complete, requests and tunnels still open after `drain_s` were cut off"
                ),
            }
            // After a second signal, the receiver is gone.
            let _ = drained.send(());
        };
        let spawned = thread::Builder::new().name("drain".to_owned()).spawn(drain);
        spawned
            .map_err(|error| Failure::Error(format!("cannot start the drain thread: {error}")))?;
        match signals.wait_for_shutdown(done) {
            Shutdown::Complete => Ok(()),
            Shutdown::Forced => {
                tracing::error!("second signal received, shutting down now");
                Err(Failure::Reported)
            }
        }
    }
}

fn has_listener(settings: &Settings) -> bool {
    let (gateway, integration) = (&settings.gateway, &settings.integration);
    gateway.http.or(gateway.https).or(integration.http).or(integration.https).is_some()
}

/// Applies each change to the gateway, on the follower's thread.
fn publish(gateway: Arc<Gateway>, status: Arc<Status>, trust: Trust) -> follow::Publish {
    Box::new(move |change| match change {
        Change::Snapshot(snapshot) => {
            gateway.apply(&snapshot);
            status.compiled(gateway.diagnostics());
        }
        Change::Keys(issuer) => gateway.key_set_arrived(&issuer),
        Change::Settings(settings) => {
            let mut trusted = trust.lock().unwrap_or_else(PoisonError::into_inner);
            match client_tls(&settings.upstream_tls) {
                Ok(new) => *trusted = new,
                Err(problem) => {
                    tracing::error!("{problem}; the previous certificates stay in use")
                }
            }
            gateway.apply_settings(&settings, Arc::clone(&trusted));
            // Sections of services may name others than before.
            status.compiled(gateway.diagnostics());
        }
    })
}

/// Whether a command that serves nothing may send requests to the hosts that artefacts name.
#[derive(clap::Args)]
pub(crate) struct Fetching {
    /// Fetch the documents that artefacts name by URL (WSDLs, local entries); without it, no connection is opened
    #[arg(long)]
    fetch: bool,
}

impl Fetching {
    /// Fetches with the trust store of the system, or rejects every URL.
    pub(crate) fn fetch(&self) -> Fetch {
        if self.fetch {
            fetch_with(UpstreamTls { system_roots: true, ..UpstreamTls::default() })
        } else {
            fetch_nothing()
        }
    }
}

/// Rejects every URL, without a connection.
pub(crate) fn fetch_nothing() -> Fetch {
    Arc::new(|_| Err("not fetched without `--fetch`".to_owned()))
}

/// Properties of Synapse for the mapping between JSON and XML.
pub(crate) type JsonRules = BTreeMap<&'static str, String>;

/// The rules for JSON in the `[integration]` of a configuration.
pub(crate) fn json_rules(config: Option<&Path>) -> Result<JsonRules, Failure> {
    let Some(config) = config else { return Ok(JsonRules::new()) };
    match follow::read_settings(config) {
        Ok((settings, _)) => Ok(settings.integration.rules.json),
        Err(invalid) => Err(report(&invalid.diagnostics)),
    }
}

/// Fetches for programs that serve no APIs.
pub(crate) fn fetch_with(trust: UpstreamTls) -> Fetch {
    let send = send_with(trust);
    let bounds = Bounds { bytes_max: JWKS_BYTES_MAX, total_ms: JWKS_FETCH_MS_MAX };
    Arc::new(move |url| send(url, Content::default(), bounds)?.map_err(|error| error.to_string()))
}

/// Sends requests for programs that serve no APIs. Returns the body of a response with status 200; the outer error:
/// nothing can be sent.
pub(crate) fn send_with(
    trust: UpstreamTls,
) -> impl Fn(&str, Content, Bounds) -> Result<Result<Vec<u8>, FetchError>, String> {
    let (upstreams, tls) = (OnceLock::new(), OnceLock::new());
    move |url, content, bounds| {
        let start = || Upstreams::alone().map_err(|error| error.to_string());
        let upstreams: Arc<Upstreams> = upstreams.get_or_init(start).clone()?;
        let tls = match tls.get() {
            Some(tls) => tls,
            // Again at the next request if a file cannot be read.
            None => {
                let read = client_tls(&trust)?;
                tls.get_or_init(|| read)
            }
        };
        Ok(upstreams.fetch_ok(url, content, tls, bounds))
    }
}

/// Fetches with the current trust store.
fn fetch(trust: &Trust, upstreams: &Arc<Upstreams>) -> Fetch {
    let (trust, upstreams) = (Arc::clone(trust), Arc::clone(upstreams));
    Arc::new(move |url| {
        let trusted = Arc::clone(&trust.lock().unwrap_or_else(PoisonError::into_inner));
        upstreams.fetch_key_set(url, &trusted)
    })
}

/// Asks the control plane with the current trust store.
fn ask_feed(trust: &Trust, upstreams: &Arc<Upstreams>) -> AskFeed {
    let (trust, upstreams) = (Arc::clone(trust), Arc::clone(upstreams));
    Arc::new(move |from, request| {
        let trusted = Arc::clone(&trust.lock().unwrap_or_else(PoisonError::into_inner));
        upstreams.fetch_feed(from, request, &trusted)
    })
}

/// Asks Vault with the current trust store.
fn ask_vault(trust: &Trust, upstreams: &Arc<Upstreams>) -> AskVault {
    let (trust, upstreams) = (Arc::clone(trust), Arc::clone(upstreams));
    Arc::new(move |vault, request, token| {
        let trusted = Arc::clone(&trust.lock().unwrap_or_else(PoisonError::into_inner));
        upstreams.ask_vault(vault, request, token, &trusted)
    })
}

/// Verification of the certificates of clients.
fn client_auth(settings: Option<&ClientCertificates>) -> Result<Option<ClientAuth>, String> {
    let read = |settings| follow::client_auth(settings).map_err(|problem| problem.to_string());
    settings.map(read).transpose()
}

pub(crate) fn client_tls(settings: &UpstreamTls) -> Result<Arc<ClientTls>, String> {
    let read = |file: &PathBuf| {
        follow::read_pem(file)
            .map_err(|problem| format!("{}, named by `[upstream_tls]`: {problem}", file.display()))
    };
    let read_all = |files: &[PathBuf]| files.iter().map(read).collect::<Result<Vec<_>, _>>();
    let endpoint = |endpoint: &model::EndpointTls| {
        let pair = endpoint.identity.as_ref();
        let identity = pair.map(|pair| Ok::<_, String>((read(&pair.cert)?, read(&pair.key)?)));
        let (hosts, ca_pems) = (endpoint.hosts.clone(), read_all(&endpoint.ca)?);
        Ok::<_, String>(EndpointTls { hosts, identity: identity.transpose()?, ca_pems })
    };
    let authorities = read_all(&settings.ca)?;
    let endpoints = settings.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, _>>()?;
    ClientTls::with_endpoints(&authorities, settings.system_roots, &endpoints)
        .map_err(|error| format!("`[upstream_tls]`: {error}"))
}

/// Tells the follower whose key sets the gateway wants. They come as changes.
fn forward_wanted_key_sets(gateway: &Gateway, follower: &Follower) -> Result<(), Failure> {
    let Some(mut wanted) = gateway.take_wanted_key_sets() else { return Ok(()) };
    let fetch_keys = follower.on_unknown_kid();
    let spawned = thread::Builder::new().name("key-sets".to_owned()).spawn(move || {
        while let Some(issuer) = wanted.blocking_recv() {
            fetch_keys(&issuer);
        }
    });
    spawned.map(drop).map_err(|error| Failure::Error(format!("cannot start a thread: {error}")))
}

/// Starts to reconcile the counts of limits with other gateways, if the settings say so.
fn reconciliation(
    gateway: &Gateway,
    settings: &Settings,
    figures: Option<Arc<reconcile::Figures>>,
) -> Result<Option<reconcile::Handle>, Failure> {
    let (Some(quotas), Some(figures)) = (&settings.quotas, figures) else { return Ok(None) };
    let Some(gateway::Reconciliation { reconciler, clock }) = gateway.take_reconciliation() else {
        return Ok(None);
    };
    let mut authorities = Vec::new();
    for file in &quotas.ca {
        let pem = follow::read_pem(file).map_err(|problem| {
            Failure::Error(format!("{}, named by `[quotas] ca`: {problem}", file.display()))
        })?;
        authorities.extend(pem);
    }
    let ca = (!quotas.ca.is_empty()).then_some(authorities);
    let counted = reconcile::Counted { reconciler, clock };
    let started = reconcile::start(counted, quotas, ca, &SystemEntropy, figures);
    started.map(Some).map_err(|error| Failure::Error(error.to_string()))
}

fn admin_pages(
    status: &Arc<Status>,
    log: &ProcessLog,
    quotas: Option<&Arc<reconcile::Figures>>,
) -> AdminPages {
    let (for_page, for_metrics) = (Arc::clone(status), Arc::clone(status));
    let (log, quotas) = (log.metrics(), quotas.cloned());
    AdminPages {
        diagnostics: Box::new(move || for_page.to_json()),
        metrics: Box::new(move || {
            let quotas = quotas.as_ref().map_or_else(String::new, |quotas| quotas.to_prometheus());
            for_metrics.to_prometheus() + &log() + &quotas
        }),
    }
}

/// Prints `diagnostics` to stderr.
pub(super) fn report(diagnostics: &[Diagnostic]) -> Failure {
    for diagnostic in diagnostics {
        stderr(&format!("{diagnostic}\n"));
    }
    Failure::Reported
}

fn not_started(error: &StartError, configuration: &Path) -> Failure {
    Failure::Error(format!("{error} in {}", configuration.display()))
}

/// Raises the soft limit on open files, often 1,024, to the hard limit: each connection takes one.
fn raise_open_files() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, most)| setrlimit(Resource::RLIMIT_NOFILE, most, most));
    if let Err(error) = raised {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}
