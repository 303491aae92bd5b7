//! Files other than API descriptions: the configuration, keys and certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{Now, limits};
use foldhash::HashMap;
use model::{KeySource, Settings, VaultField};
use wire::tls::ServerCertificates;

use super::{Change, Follower, Message, Publish, Walk, Work};
use crate::certificates;
use crate::configuration::{self, ConfigurationError, Secrets, restart_needed};
use crate::control_plane::ControlPlane;
use crate::documents::read_keys;
use crate::fetch::Fetched;
use crate::issuers::{self, Offer};
use crate::session_key;
use crate::status::Status;
use crate::tracked::Node;
use crate::walk::{self, Roots, Version};

/// The key of certificates in the status.
const CERTIFICATES: &str = "certificates";

/// Loads the certificates of the https listener at the start.
pub(super) fn first_certificates(
    current: &ServerCertificates,
    settings: &Settings,
    status: &Status,
    now: Now,
) -> Result<(), ConfigurationError> {
    let loaded = certificates::load(&settings.tls, &settings.gateway.data, now);
    let (set, warnings) =
        loaded.map_err(|problem| ConfigurationError { diagnostics: vec![problem] })?;
    super::log(&warnings);
    status.post(Path::new(CERTIFICATES), warnings);
    current.replace(set);
    Ok(())
}

impl Follower {
    /// Adds the work for a change of a file that is not an API description.
    pub(super) fn on_other_file(&self, file: &Path, work: &mut Work) {
        work.settings |= self.configuration.as_deref() == Some(file);
        work.settings |= self.secrets.iter().any(|secret| secret == file);
        work.republish |= upstream_tls_files(&self.settings).iter().any(|pem| pem == file);
        work.issuers |= self.issuers.files().iter().any(|(_, _, of_issuer)| of_issuer == file);
        work.certificates |= self.certificate_files().iter().any(|pem| pem == file);
    }

    /// Files outside the walked folders, and files that descriptions refer to, whose versions have
    /// changed.
    pub(super) fn changed_single_files(
        &self,
        walked: &HashMap<Arc<Path>, Option<Version>>,
    ) -> Vec<Arc<Path>> {
        let single_files = self.single_files().into_iter().map(Arc::from);
        let single_files = single_files.chain(self.referrers.keys().cloned());
        let differing = single_files.filter(|file| {
            let version = walked.get(file).copied().flatten().or_else(|| walk::version(file));
            self.tracked.differs(file, version.as_ref())
        });
        differing.collect()
    }

    /// Watches the folders of all files that walks do not find. Earlier changes are found by the
    /// next walk.
    pub(super) fn watch_single_files(&mut self) {
        let references: Vec<Arc<Path>> = self.referrers.keys().cloned().collect();
        for file in self.single_files().into_iter().map(Arc::from).chain(references) {
            let locations = self.tracked.find(&file, Node::Unknown);
            self.watch_folders(&locations);
        }
    }

    fn single_files(&self) -> Vec<PathBuf> {
        let mut single_files =
            single_files(self.configuration.as_deref(), &self.settings, self.https);
        single_files.extend(self.secrets.iter().cloned());
        single_files
    }

    fn certificate_files(&self) -> Vec<PathBuf> {
        certificate_files(&self.settings, self.https)
    }

    fn look_at(&mut self, file: &Path) {
        let locations = self.tracked.look(&Arc::from(file));
        self.watch_folders(&locations);
    }

    pub(super) fn reread_certificates(&mut self) {
        for file in self.certificate_files() {
            self.look_at(&file);
        }
        if !self.https {
            return;
        }
        let data = &self.settings.gateway.data;
        match certificates::load(&self.settings.tls, data, self.clock.now()) {
            Ok((set, warnings)) => {
                self.certificates.replace(set);
                self.status.count_success(self.clock.now().unix_s);
                self.post(Path::new(CERTIFICATES), warnings);
                tracing::info!("certificates loaded");
            }
            Err(problem) => {
                self.status.count_failure();
                self.post(Path::new(CERTIFICATES), vec![problem]);
            }
        }
    }

    /// Applies the issuers of the settings.
    pub(super) fn configure_issuers(&mut self) {
        for known in self.issuers.current() {
            self.post(&issuer_key(&known.name), Vec::new());
        }
        self.issuers.configure(&self.settings.issuers, self.clock.now().mono_us);
        for (name, source, secret) in self.issuers.secrets() {
            self.offer(&name, &source, Ok(secret));
        }
        self.configure_revocations();
        self.reread_issuers();
    }

    /// Reads the keys that are in files. Returns whether any were loaded.
    pub(super) fn reread_issuers(&mut self) -> bool {
        let mut loaded = false;
        for (name, source, file) in self.issuers.files() {
            self.look_at(&file);
            loaded |= self.offer(&name, &source, read_keys(&file)) == Offer::Loaded;
        }
        loaded
    }

    /// Handles the end of a fetch. Returns whether keys were loaded.
    pub(super) fn fetched(&mut self, fetched: Fetched) -> bool {
        let Fetched { name, source, result } = fetched;
        if !self.issuers.has(&name, &source) {
            // The fetch belongs to an older configuration, so its diagnostic would never be cleared.
            return false;
        }
        let offered = self.offer(&name, &source, result);
        let good = !matches!(offered, Offer::Rejected(_));
        self.issuers.fetched(&name, &source, good, self.clock.now().mono_us);
        offered == Offer::Loaded
    }

    fn offer(&mut self, name: &str, source: &KeySource, read: Result<Vec<u8>, String>) -> Offer {
        let offered = match read {
            Ok(text) => self.issuers.offer(name, source, text),
            Err(problem) => Offer::Rejected(problem),
        };
        let diagnostic = match &offered {
            Offer::Loaded => {
                tracing::info!(issuer = name, "keys loaded");
                None
            }
            Offer::Unchanged => None,
            Offer::Rejected(problem) => {
                self.status.count_failure();
                Some(issuers::diagnostic(name, source, problem))
            }
        };
        self.post(&issuer_key(name), diagnostic.into_iter().collect());
        offered
    }

    /// Waits for the first fetches, before the listeners are opened.
    pub(super) fn wait_for_keys(&mut self) {
        let wait_us = 1_000 * u64::from(limits::JWKS_START_MS_MAX);
        let until_us = self.clock.now().mono_us.saturating_add(wait_us);
        let asks_first = |follower: &Self| {
            follower.followed.iter().any(|(one, _)| one.next.is_first())
                || follower.control_plane.as_ref().is_some_and(ControlPlane::is_first)
                || follower.vault.is_first()
        };
        while self.issuers.is_fetching() || asks_first(self) {
            let left_us = until_us.saturating_sub(self.clock.now().mono_us);
            match self.receiver.recv_timeout(Duration::from_micros(left_us)) {
                Ok(Message::Fetched(fetched)) => drop(self.fetched(fetched)),
                Ok(Message::Revocations(asked)) => self.revoked(asked, |_| {}),
                Ok(Message::Vault(outcome)) => drop(self.on_vault(outcome)),
                Ok(Message::Applications(response)) => {
                    self.on_response(response, |_| {});
                    self.ask_control_plane();
                }
                Ok(
                    Message::UnknownKid(_)
                    | Message::File(_)
                    | Message::Saved(..)
                    | Message::Reload
                    | Message::Stop,
                ) => {}
                Err(_) => {
                    tracing::warn!(
                        "some keys, revocations, applications or secrets are still being fetched; starting without them"
                    );
                    return;
                }
            }
        }
    }

    /// Reads the configuration again. Returns whether a new snapshot must be published.
    pub(super) fn reread_settings(&mut self, work: &mut Work, publish: &mut Publish) -> bool {
        for file in upstream_tls_files(&self.settings) {
            self.look_at(&file);
        }
        let Some(file) = self.configuration.clone() else { return false };
        self.look_at(&file);
        let mut secrets = Secrets::new();
        let key = session_key::find_or_generate;
        let find = |wanted: &VaultField| self.vault.find(wanted);
        let texts = &self.settings.gateway.plans.texts;
        // Only until the file was readable once; from then on its removal is an ordinary change.
        let saved = |_: &Settings, file: &Path| {
            let of_file = texts.iter().find(|one| one.file == *file && one.is_restored);
            of_file.map(|one| one.text.clone())
        };
        let read = configuration::read_with_secrets(&file, &mut secrets, key, &find, &saved);
        self.secrets = secrets.iter().map(|(file, _)| file.clone()).collect();
        for (file, version) in secrets {
            let locations = self.tracked.look_with(&Arc::from(file), version, Node::Unknown);
            self.watch_folders(&locations);
        }
        let settings = match read {
            Ok((settings, warnings)) => {
                self.post(&file, warnings);
                settings
            }
            Err(error) => {
                self.status.count_failure();
                self.post(&file, error.diagnostics);
                return false;
            }
        };
        if settings == self.wanted {
            if work.republish {
                publish(Change::Settings(Arc::new(self.settings.clone())));
            }
            return false;
        }
        self.wanted = settings.clone();
        for key in restart_needed(&self.settings, &settings) {
            tracing::warn!(key, "this change of the configuration takes effect after a restart");
        }
        let settings = self.with_fixed(settings);
        let before = std::mem::replace(&mut self.settings, settings);
        self.file_plans = self.settings.plans.clone();
        self.merge_plans();
        if configuration::defaults(&before) != configuration::defaults(&self.settings) {
            work.walk = Some(Walk::Reload);
        } else if Roots::of(&before) != Roots::of(&self.settings) {
            work.walk = work.walk.max(Some(Walk::Folders));
        }
        work.certificates |= before.tls != self.settings.tls;
        if before.vault != self.settings.vault {
            self.configure_vault();
        }
        let issuers_changed = before.issuers != self.settings.issuers;
        if issuers_changed {
            self.configure_issuers();
        }
        if before.gateway.plans != self.settings.gateway.plans {
            self.save_later();
        }
        let plans_changed = before.plans != self.settings.plans;
        let lacks_some = before.plans.names().any(|name| self.settings.plans.get(name).is_none());
        if before.gateway.control_plane != self.settings.gateway.control_plane || lacks_some {
            self.configure_control_plane();
        } else if plans_changed {
            self.note_new_plans(&before.plans);
            if std::mem::take(&mut self.has_new_plans) {
                self.reread_rejected();
            }
            // If names of plans changed, the files are read anyway.
            self.reread_files = false;
        }
        let quotas_changed = plans_changed
            || before.gateway.control_plane != self.settings.gateway.control_plane
            || before.gateway.applications != self.settings.gateway.applications;
        tracing::info!(file = %file.display(), "configuration loaded");
        self.status.count_success(self.clock.now().unix_s);
        publish(Change::Settings(Arc::new(self.settings.clone())));
        issuers_changed || quotas_changed
    }

    /// The settings, with the previous values of everything that needs a restart.
    fn with_fixed(&self, mut settings: Settings) -> Settings {
        let (new, now) = (&mut settings.gateway, &self.settings.gateway);
        (new.http, new.https, new.workers) = (now.http, now.https, now.workers);
        new.data.clone_from(&now.data);
        new.nameservers.clone_from(&now.nameservers);
        let (new, now) = (&mut settings.integration, &self.settings.integration);
        (new.http, new.https) = (now.http, now.https);
        settings.tls.clients.clone_from(&self.settings.tls.clients);
        settings.admin = self.settings.admin.clone();
        settings.access_log = self.settings.access_log.clone();
        settings.log = self.settings.log.clone();
        settings.quotas.clone_from(&self.settings.quotas);
        settings.snapshot.clone_from(&self.settings.snapshot);
        settings
    }
}

/// Every watched file that walks do not find, except those that descriptions refer to.
pub(super) fn single_files(
    configuration: Option<&Path>,
    settings: &Settings,
    https: bool,
) -> Vec<PathBuf> {
    let keys = settings.issuers.iter().filter_map(|issuer| match &issuer.keys {
        KeySource::JwksFile(file) | KeySource::Pem(file) => Some(file.clone()),
        KeySource::JwksUrl(_)
        | KeySource::Discovery(_)
        | KeySource::Secret(_)
        | KeySource::Absent => None,
    });
    let mut single_files: Vec<PathBuf> = configuration.map(Path::to_owned).into_iter().collect();
    single_files.extend(keys);
    single_files.extend(certificate_files(settings, https));
    single_files.extend(upstream_tls_files(settings));
    single_files
}

/// The CAs, certificates and keys for connections to upstreams.
fn upstream_tls_files(settings: &Settings) -> Vec<PathBuf> {
    let tls = &settings.upstream_tls;
    let of_endpoints = tls.endpoints.iter().flat_map(|endpoint| {
        let pair = endpoint.identity.iter().flat_map(|pair| [pair.cert.clone(), pair.key.clone()]);
        pair.chain(endpoint.ca.iter().cloned())
    });
    tls.ca.iter().cloned().chain(of_endpoints).collect()
}

fn certificate_files(settings: &Settings, https: bool) -> Vec<PathBuf> {
    if https { certificates::files(&settings.tls, &settings.gateway.data) } else { Vec::new() }
}

/// The key of an issuer in the status. Not its file, which two issuers may share.
fn issuer_key(name: &str) -> PathBuf {
    Path::new("issuer").join(name)
}
