//! A gateway that follows files in a temporary folder: `penstock.toml` and API descriptions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::SystemClock;
use follow::{Change, Follower, Options};
use gateway::{AdminPages, Parts};
use tempfile::TempDir;
use wire::tls::ClientTls;

use crate::{Gateway, Identity, Issuer};

/// A folder with a configuration. Removed when it and its gateways are dropped.
#[derive(Debug)]
pub struct Files {
    folder: Arc<TempDir>,
    identity: Identity,
    gateway: String,
    issuers: String,
    more: String,
}

impl Default for Files {
    fn default() -> Self {
        Self::new()
    }
}

impl Files {
    /// An empty `apis/`, a certificate, and ports that the system chooses.
    #[must_use]
    pub fn new() -> Self {
        let files = Self {
            folder: Arc::new(tempfile::tempdir().unwrap()),
            identity: Identity::of(&["localhost", "127.0.0.1"]),
            gateway: String::new(),
            issuers: String::new(),
            more: String::new(),
        };
        fs::create_dir(files.path("apis")).unwrap();
        files.write("tls.crt", &files.identity.cert_pem);
        files.write("tls.key", &files.identity.key_pem);
        files
    }

    /// The path of `name`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The certificate of the https listener.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Writes a file atomically, by a rename.
    pub fn write(&self, name: &str, text: &str) {
        let (whole, half) = (self.path(name), self.path(&format!("{name}.half")));
        fs::write(&half, text).unwrap();
        fs::rename(half, whole).unwrap();
    }

    /// One more API description, `apis/{name}`.
    #[must_use]
    pub fn api(self, name: &str, text: &str) -> Self {
        self.write(&format!("apis/{name}"), text);
        self
    }

    /// Tokens of `issuer` are accepted; its keys are in `{name}.jwks`.
    #[must_use]
    pub fn issuer(mut self, name: &str, issuer: &Issuer) -> Self {
        self.write(&format!("{name}.jwks"), &issuer.jwks());
        self.issuers += &format!(
            "[[issuer]]\nname = \"{name}\"\niss = \"{}\"\njwks = \"{name}.jwks\"\n",
            issuer.iss()
        );
        self
    }

    /// Tokens of `issuer` are accepted; its keys are fetched from `url`.
    #[must_use]
    pub fn issuer_at(mut self, name: &str, issuer: &Issuer, url: &str) -> Self {
        let iss = issuer.iss();
        self.issuers +=
            &format!("[[issuer]]\nname = \"{name}\"\niss = \"{iss}\"\njwks = \"{url}\"\n");
        self
    }

    /// More keys of `[gateway]`, one per line.
    #[must_use]
    pub fn gateway(mut self, keys: &str) -> Self {
        self.gateway += keys;
        self
    }

    /// More sections of `penstock.toml`.
    #[must_use]
    pub fn toml(mut self, sections: &str) -> Self {
        self.more += sections;
        self
    }

    /// Writes `penstock.toml`.
    pub fn configure(&self) -> PathBuf {
        let toml = format!(
            "[gateway]\nhttp = \"127.0.0.1:0\"\nhttps = \"127.0.0.1:0\"\nworkers = 1\n\
             apis = [\"apis/\"]\ndata = \"data/\"\n{}\n[tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n{}{}",
            self.gateway, self.issuers, self.more
        );
        self.write("penstock.toml", &toml);
        self.path("penstock.toml")
    }

    /// Starts a gateway that follows them.
    #[must_use]
    pub fn start(&self) -> Gateway {
        let file = self.configure();
        let (settings, _) = follow::read_settings(&file).unwrap();
        let client_tls = ClientTls::insecure();
        let upstreams = gateway::Upstreams::start(&settings).unwrap();
        let [fetching, asking, vault] = [(); 3].map(|()| Arc::clone(&upstreams));
        let certificates = Arc::default();
        let options = Options {
            configuration: Some(file),
            https: settings.has_https(),
            certificates: Arc::clone(&certificates),
            clock: Arc::new(SystemClock::new()),
            fetch: Arc::new(move |url| fetching.fetch_key_set(url, &ClientTls::insecure())),
            ask_feed: Arc::new(move |from, request| {
                asking.fetch_feed(from, request, &ClientTls::insecure())
            }),
            ask_vault: Arc::new(move |of, request, token| {
                vault.ask_vault(of, request, token, &ClientTls::insecure())
            }),
        };
        let (follower, snapshot) = Follower::load(settings.clone(), options).unwrap();
        let status = follower.status();
        let parts = Parts {
            certificates,
            client_auth: None,
            client_tls: Arc::clone(&client_tls),
            upstreams,
            pages: AdminPages {
                diagnostics: Box::new(move || status.to_json()),
                metrics: Box::new(String::new),
            },
            build: "test",
        };
        let running =
            Arc::new(gateway::Gateway::start(follower.settings(), &snapshot, parts).unwrap());
        let gateway = Arc::clone(&running);
        let mut wanted = running.take_wanted_key_sets().unwrap();
        let fetch_keys = follower.on_unknown_kid();
        std::thread::spawn(move || {
            while let Some(issuer) = wanted.blocking_recv() {
                fetch_keys(&issuer);
            }
        });
        let publish = move |change| match change {
            Change::Snapshot(snapshot) => gateway.apply(&snapshot),
            Change::Keys(issuer) => gateway.key_set_arrived(&issuer),
            Change::Settings(settings) => {
                gateway.apply_settings(&settings, Arc::clone(&client_tls))
            }
        };
        let handle = follower.watch(Box::new(publish)).unwrap();
        let followed = Some((handle, Arc::clone(&self.folder)));
        Gateway::running(running, self.identity.clone(), (*snapshot).clone(), followed)
    }
}
