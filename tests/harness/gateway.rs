//! A gateway in the process of the test.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use formats::declarative::read_plans;
use gateway::{Addresses, AdminPages, Parts};
use model::{
    AdminSettings, Artefact, ArtefactKind, ArtefactSet, ClientCertificates, FaultStatus,
    GatewaySettings, LogSettings, Plans, Settings, Snapshot,
};
use tempfile::TempDir;
use wire::tls::{ClientAuth, ClientTls, EndpointTls, ServerCertificates};

use crate::{ApiBuilder, Client, Identity, Issuer, PATIENCE, Response};

/// The certificate of every in-process gateway's https listener: `localhost` and 127.0.0.1.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::of(&["localhost", "127.0.0.1"]));

/// A gateway under construction.
#[derive(Debug)]
pub struct Builder {
    settings: Settings,
    apis: Vec<ApiBuilder>,
    issuers: Vec<Arc<model::Issuer>>,
    artefacts: ArtefactSet,
    plans: Plans,
    authorities: Vec<Vec<u8>>,
    client_auth: Option<ClientAuth>,
    endpoints: Vec<EndpointTls>,
}

impl Builder {
    /// One more API.
    #[must_use]
    pub fn api(mut self, api: ApiBuilder) -> Self {
        self.apis.push(api);
        self
    }

    /// Tokens of `issuer` are accepted.
    #[must_use]
    pub fn issuer(mut self, issuer: &Issuer) -> Self {
        self.issuers.push(issuer.model());
        self
    }

    /// Plans, as in `plans.toml`.
    #[must_use]
    pub fn plans(mut self, text: &str) -> Self {
        let read = read_plans(&[("plans.toml".into(), Ok(text.into()))]);
        let (plans, problems) = (read.plans, read.diagnostics);
        assert_eq!(problems, []);
        self.plans = plans;
        self
    }

    /// Clients on loopback are trusted proxies.
    #[must_use]
    pub fn trusting_loopback_clients(mut self) -> Self {
        self.settings.gateway.trusted_proxies = vec![(IpAddr::from([127, 0, 0, 0]), 8)];
        self
    }

    /// Upstreams with this certificate are trusted.
    #[must_use]
    pub fn trusting(mut self, identity: &Identity) -> Self {
        self.authorities.push(identity.cert_pem.clone().into_bytes());
        self
    }

    /// Clients may present this certificate, and upstreams get it.
    #[must_use]
    pub fn client_certificates(self, identity: &Identity, required: bool) -> Self {
        self.client_authorities(&[&identity.cert_pem], required)
    }

    /// Clients may have certificates of these authorities, in PEM.
    #[must_use]
    pub fn client_authorities(mut self, pems: &[&str], required: bool) -> Self {
        let authorities: Vec<_> = pems.iter().map(|pem| pem.as_bytes().to_vec()).collect();
        self.client_auth = Some(ClientAuth::new(&authorities, required).unwrap());
        self.settings.tls.clients =
            Some(ClientCertificates { ca: Vec::new(), required, forward: true, header: None });
        self
    }

    /// TLS settings of some endpoints.
    #[must_use]
    pub fn endpoint_tls(mut self, endpoint: EndpointTls) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Sets `fault_status = "http"`.
    #[must_use]
    pub fn http_statuses(mut self) -> Self {
        self.settings.gateway.fault_status = FaultStatus::Http;
        self
    }

    /// The values that expressions of its artefacts read as `configs.NAME`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        for artefact in &mut self.artefacts.artefacts {
            artefact.configs.insert(name.to_owned(), value.to_owned());
        }
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Starts it. It accepts requests when this returns.
    #[must_use]
    pub fn start(self) -> Gateway {
        let snapshot = Snapshot {
            revision: 1,
            apis: self.apis.into_iter().map(ApiBuilder::build).collect(),
            issuers: self.issuers,
            artefacts: Arc::new(self.artefacts),
            plans: Arc::new(self.plans),
            ..Snapshot::default()
        };
        let system_roots = self.authorities.is_empty();
        let client_tls =
            ClientTls::with_endpoints(&self.authorities, system_roots, &self.endpoints);
        let parts = Parts {
            certificates: Arc::new(ServerCertificates::new(IDENTITY.certificates())),
            client_auth: self.client_auth,
            client_tls: client_tls.unwrap_or_else(|_| ClientTls::insecure()),
            upstreams: gateway::Upstreams::start(&self.settings).unwrap(),
            pages: AdminPages {
                diagnostics: Box::new(|| "[]".to_owned()),
                metrics: Box::new(String::new),
            },
            build: "test",
        };
        let running = Arc::new(gateway::Gateway::start(&self.settings, &snapshot, parts).unwrap());
        answer_all(&running);
        Gateway::running(running, IDENTITY.clone(), snapshot, None)
    }
}

/// Answers every wish for a key set at once: they do not change.
fn answer_all(running: &Arc<gateway::Gateway>) {
    let (mut wanted, running) = (running.take_wanted_key_sets().unwrap(), Arc::downgrade(running));
    std::thread::spawn(move || {
        while let Some(issuer) = wanted.blocking_recv() {
            if let Some(running) = running.upgrade() {
                running.key_set_arrived(&issuer);
            }
        }
    });
}

/// A running gateway. Dropping it stops it at once.
pub struct Gateway {
    /// Dropped first, since its thread calls the gateway.
    following: Following,
    running: Arc<gateway::Gateway>,
    addresses: Addresses,
    identity: Identity,
    snapshot: Snapshot,
    revision: AtomicU64,
}

/// A follower's thread, waited for when dropped, and the folder that it follows.
struct Following(Option<(follow::Handle, Arc<TempDir>)>);

impl Drop for Following {
    fn drop(&mut self) {
        if let Some((follower, _folder)) = self.0.take() {
            follower.stop();
        }
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Gateway {
    /// A gateway with one worker, both listeners, the admin port, `api`, and default limits.
    #[must_use]
    pub fn of(api: ApiBuilder) -> Builder {
        Builder {
            settings: settings(),
            apis: vec![api],
            issuers: Vec::new(),
            artefacts: ArtefactSet::default(),
            plans: Plans::default(),
            authorities: Vec::new(),
            client_auth: None,
            endpoints: Vec::new(),
        }
    }

    /// One that serves Synapse artefacts, without `<definitions>` around them, instead of APIs.
    #[must_use]
    pub fn mediating(artefacts: &str) -> Builder {
        let mut builder = Self::of(crate::api("/unused"));
        builder.apis.clear();
        let listeners = &mut builder.settings;
        listeners.integration.http = listeners.gateway.http.take();
        listeners.integration.https = listeners.gateway.https.take();
        builder.artefacts.artefacts.push(artefact("test.xml", artefacts));
        builder
    }

    pub(crate) fn running(
        running: Arc<gateway::Gateway>,
        identity: Identity,
        snapshot: Snapshot,
        followed: Option<(follow::Handle, Arc<TempDir>)>,
    ) -> Self {
        let addresses = running.addresses();
        let revision = AtomicU64::new(snapshot.revision);
        let following = Following(followed);
        Self { following, running, addresses, identity, snapshot, revision }
    }

    /// The address of the listener in clear.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.addresses.http.or(self.addresses.integration_http).expect("an http listener")
    }

    /// The address of the listener of `[integration]`.
    #[must_use]
    pub fn integration_http(&self) -> SocketAddr {
        self.addresses.integration_http.expect("an http listener of [integration]")
    }

    /// The address of the listener with TLS.
    #[must_use]
    pub fn https(&self) -> SocketAddr {
        self.addresses.https.or(self.addresses.integration_https).expect("an https listener")
    }

    /// The address of the inbound endpoint with this port in its artefact, if it listens.
    #[must_use]
    pub fn inbound(&self, port: u16) -> Option<SocketAddr> {
        let all = self.running.inbound_addresses();
        all.into_iter().find(|(of, _)| *of == port).map(|(_, address)| address)
    }

    /// The address of the admin port.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.addresses.admin.expect("an admin port")
    }

    /// The certificate of its https listener.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A new connection in clear.
    #[must_use]
    pub fn connect(&self) -> Client {
        Client::connect(self.http())
    }

    /// A new connection over TLS that offers HTTP/1.1.
    #[must_use]
    pub fn connect_tls(&self) -> Client {
        let config = self.identity.client(&["http/1.1"]);
        Client::connect_tls(self.https(), config, "localhost")
    }

    /// The same, presenting the certificate of `identity`.
    #[must_use]
    pub fn connect_tls_as(&self, identity: &Identity) -> Client {
        let config = self.identity.client_as(&["http/1.1"], identity);
        Client::connect_tls(self.https(), config, "localhost")
    }

    /// A request on a connection of its own: `fetch("GET /shop/1.0/pets", "Accept: a/b\r\n")`.
    #[must_use]
    pub fn fetch(&self, request: &str, fields: &str) -> Response {
        self.connect().fetch(request, fields)
    }

    /// A page of the admin port.
    #[must_use]
    pub fn page(&self, path: &str) -> Response {
        Client::connect(self.admin()).fetch(&format!("GET {path}"), "")
    }

    /// The sum of the samples of `name` whose labels include `labels`, as in
    /// `metric("penstock_requests_total", "status=\"499\"")`.
    #[must_use]
    pub fn metric(&self, name: &str, labels: &str) -> u64 {
        let page = self.page("/metrics").text();
        let samples = page.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, found_labels) = series.split_once('{').unwrap_or((series, ""));
            let fits = found == name && labels.split(',').all(|one| found_labels.contains(one));
            fits.then(|| value.parse::<u64>().unwrap())
        });
        samples.sum()
    }

    /// Scrapes until the metric has this value.
    #[track_caller]
    pub fn wait_for_metric(&self, name: &str, labels: &str, value: u64) {
        let begun = Instant::now();
        loop {
            let found = self.metric(name, labels);
            if found == value {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}{{{labels}}} is {found}, not {value}");
            std::thread::yield_now();
        }
    }

    /// Waits until the inbound endpoint with this port in its artefact listens.
    #[track_caller]
    #[must_use]
    pub fn wait_for_inbound(&self, port: u16) -> SocketAddr {
        let begun = Instant::now();
        loop {
            if let Some(address) = self.inbound(port) {
                return address;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", self.diagnostics());
            std::thread::yield_now();
        }
    }

    /// Replaces the APIs, from the next request on.
    pub fn apply(&self, apis: Vec<ApiBuilder>) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let apis = apis.into_iter().map(ApiBuilder::build).collect();
        self.running.apply(&Snapshot { revision, apis, ..self.snapshot.clone() });
    }

    /// Replaces the artefacts, each a file and its text, from the next request on.
    pub fn apply_artefacts(&self, files: &[(&str, &str)]) {
        let artefacts = files.iter().map(|(file, artefacts)| artefact(file, artefacts)).collect();
        self.apply_set(ArtefactSet { artefacts, ..ArtefactSet::default() });
    }

    /// The same with archives and a registry.
    pub fn apply_set(&self, artefacts: ArtefactSet) {
        let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let artefacts = Arc::new(artefacts);
        self.running.apply(&Snapshot { revision, artefacts, ..self.snapshot.clone() });
    }

    /// The problems of its artefacts, one on each line.
    #[must_use]
    pub fn diagnostics(&self) -> String {
        let all = self.running.diagnostics();
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Drains it. Returns whether every connection finished in time.
    #[must_use]
    pub fn drain(self) -> bool {
        let Self { following, mut running, .. } = self;
        drop(following);
        let begun = Instant::now();
        loop {
            running = match Arc::try_unwrap(running) {
                Ok(gateway) => return gateway.drain() == 0,
                // A thread that answers a question holds it for a moment.
                Err(held) => held,
            };
            assert!(begun.elapsed() < PATIENCE, "no other reference");
            std::thread::yield_now();
        }
    }
}

/// A file with these artefacts.
#[must_use]
pub fn artefact(file: &str, artefacts: &str) -> Artefact {
    let bytes =
        format!("<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{artefacts}</definitions>");
    let proxies = artefacts.split("<proxy name=\"").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once('"')?;
        Some((ArtefactKind::Proxy, name.to_owned()))
    });
    Artefact {
        kind: ArtefactKind::Definitions,
        name: file.to_owned(),
        version: String::new(),
        file: file.into(),
        bytes: bytes.into_bytes().into(),
        configs: BTreeMap::new(),
        documents: BTreeMap::new(),
        contains: proxies.collect(),
        problems: Vec::new(),
        application: None,
    }
}

/// Settings of every gateway here, before changes.
#[must_use]
pub fn settings() -> Settings {
    let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let gateway = GatewaySettings {
        http: any,
        https: any,
        workers: Some(1),
        drain_s: u32::try_from(PATIENCE.as_secs()).unwrap(),
        ..GatewaySettings::default()
    };
    let log = LogSettings { level: "warn".to_owned(), ..LogSettings::default() };
    Settings { gateway, admin: AdminSettings { listen: any }, log, ..Settings::default() }
}
