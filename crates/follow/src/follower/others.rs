//! Everything followed that is no API description: the configuration, keys and certificates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::{Now, limits};
use model::{KeySource, Settings};
use wire::tls::{CertificateSet, ServerCertificates};

use super::{Change, Follower, Message, Publish, Walk, Work};
use crate::certificates;
use crate::configuration::{self, ConfigurationError, restart_needed};
use crate::documents::read_keys;
use crate::fetch::Fetched;
use crate::issuers::{self, Offered};
use crate::status::Status;
use crate::walk::{self, Stamp};

/// Where the problems of certificates are listed.
const CERTIFICATES: &str = "certificates";

/// The certificates to start with; none where nothing listens for TLS.
pub(super) fn first_certificates(
    settings: &Settings,
    status: &Status,
    now: Now,
) -> Result<Arc<ServerCertificates>, ConfigurationError> {
    let set = if settings.gateway.https.is_some() {
        let loaded = certificates::load(&settings.tls, &settings.gateway.data, now);
        let (set, warnings) =
            loaded.map_err(|problem| ConfigurationError { diagnostics: vec![problem] })?;
        super::log(&warnings);
        status.post(Path::new(CERTIFICATES), warnings);
        set
    } else {
        CertificateSet::load(None, Vec::new()).expect("no certificate cannot be a wrong one")
    };
    Ok(Arc::new(ServerCertificates::new(set)))
}

impl Follower {
    /// Adds what a file means besides being, or being part of, an API description.
    pub(super) fn meant_otherwise(&self, file: &Path, work: &mut Work) {
        work.settings |= self.configuration.as_deref() == Some(file);
        work.retell |= self.settings.upstream_tls.ca.iter().any(|pem| pem == file);
        work.issuers |= self.issuers.files().iter().any(|(_, _, of_issuer)| of_issuer == file);
        work.certificates |= self.certificate_files().iter().any(|pem| pem == file);
    }

    /// Files outside the folders of descriptions, references included, whose times have changed.
    pub(super) fn differing_singles(&self, walked: &BTreeMap<PathBuf, Stamp>) -> Vec<PathBuf> {
        let singles = self.singles().into_iter().chain(self.referrers.keys().cloned());
        let differing = singles.filter(|file| {
            let stamp = walked.get(file).copied().or_else(|| walk::stamp(file));
            self.tracked.differs(file, stamp.as_ref())
        });
        differing.collect()
    }

    /// Watches the folders of all files that no walk comes to. What changed since they were read is
    /// found by the next walk.
    pub(super) fn watch_singles(&mut self) {
        let references: Vec<PathBuf> = self.referrers.keys().cloned().collect();
        for file in self.singles().into_iter().chain(references) {
            let folders = self.tracked.folders(&file);
            self.watch_folders(&folders);
        }
    }

    fn singles(&self) -> Vec<PathBuf> {
        singles(self.configuration.as_deref(), &self.settings)
    }

    fn certificate_files(&self) -> Vec<PathBuf> {
        certificate_files(&self.settings)
    }

    fn look_at(&mut self, file: &Path) {
        let folders = self.tracked.look(file);
        self.watch_folders(&folders);
    }

    pub(super) fn reread_certificates(&mut self) {
        for file in self.certificate_files() {
            self.look_at(&file);
        }
        if self.settings.gateway.https.is_none() {
            return;
        }
        let data = &self.settings.gateway.data;
        match certificates::load(&self.settings.tls, data, self.clock.now()) {
            Ok((set, warnings)) => {
                self.certificates.replace(set);
                self.status.count_success(self.clock.now().unix_s);
                self.post(Path::new(CERTIFICATES), warnings);
                tracing::info!("certificates read");
            }
            Err(problem) => {
                self.status.count_failure();
                self.post(Path::new(CERTIFICATES), vec![problem]);
            }
        }
    }

    /// Takes over the issuers of the settings.
    pub(super) fn configure_issuers(&mut self) {
        for known in self.issuers.current() {
            self.post(&issuer_key(&known.name), Vec::new());
        }
        self.issuers.configure(&self.settings.issuers, self.clock.now().mono_us);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for (name, source, secret) in self.issuers.secrets() {
            self.offer(&name, &source, Ok(secret));
        }
        self.reread_issuers();
    }

    /// Reads the keys that stand in files. Answers whether any were taken.
    pub(super) fn reread_issuers(&mut self) -> bool {
        let mut taken = false;
        for (name, source, file) in self.issuers.files() {
            self.look_at(&file);
            taken |= self.offer(&name, &source, read_keys(&file)) == Offered::Taken;
        }
        taken
    }

    /// A fetch ended. Answers whether keys were taken.
    pub(super) fn fetched(&mut self, fetched: Fetched) -> bool {
        let Fetched { name, source, answer } = fetched;
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        let offered = self.offer(&name, &source, answer);
        let good = !matches!(offered, Offered::Refused(_));
        self.issuers.fetched(&name, &source, good, self.clock.now().mono_us);
        offered == Offered::Taken
    }

    fn offer(&mut self, name: &str, source: &KeySource, read: Result<Vec<u8>, String>) -> Offered {
        let offered = match read {
            Ok(text) => self.issuers.offer(name, source, text),
            Err(problem) => Offered::Refused(problem),
        };
        let finding = match &offered {
            Offered::Taken => {
                tracing::info!(issuer = name, "keys taken");
                None
            }
            Offered::Unchanged => None,
            Offered::Refused(problem) => {
                self.status.count_failure();
                Some(issuers::finding(name, source, problem))
            }
        };
        self.post(&issuer_key(name), finding.into_iter().collect());
        offered
    }

    /// At the start, before anyone listens: gives every URL a moment to answer.
    pub(super) fn wait_for_keys(&mut self) {
        let wait_us = 1_000 * u64::from(limits::JWKS_START_MS_MAX);
        let until_us = self.clock.now().mono_us.saturating_add(wait_us);
        while self.issuers.is_fetching() {
            let left_us = until_us.saturating_sub(self.clock.now().mono_us);
            match self.inbox.recv_timeout(Duration::from_micros(left_us)) {
                Ok(Message::Fetched(fetched)) => drop(self.fetched(fetched)),
                Ok(Message::UnknownKid(_) | Message::Seen(_) | Message::Reload | Message::Stop) => {
                }
                Err(_) => {
                    tracing::warn!("not every issuer's keys came in time; serving without them");
                    return;
                }
            }
        }
    }

    /// Reads the configuration again. Answers whether the snapshot has to be told anew.
    pub(super) fn reread_settings(&mut self, work: &mut Work, publish: &mut Publish) -> bool {
        for file in self.settings.upstream_tls.ca.clone() {
            self.look_at(&file);
        }
        let Some(file) = self.configuration.clone() else { return false };
        self.look_at(&file);
        let settings = match configuration::read_settings(&file) {
            Ok((settings, warnings)) => {
                self.post(&file, warnings);
                settings
            }
            Err(refused) => {
                self.status.count_failure();
                self.post(&file, refused.diagnostics);
                return false;
            }
        };
        if settings == self.wanted {
            if work.retell {
                publish(Change::Settings(Arc::new(self.settings.clone())));
            }
            return false;
        }
        self.wanted = settings.clone();
        for key in restart_needed(&self.settings, &settings) {
            tracing::warn!(key, "changed in the configuration: takes effect with a restart");
        }
        let settings = self.with_fixed(settings);
        let before = std::mem::replace(&mut self.settings, settings);
        if configuration::defaults(&before) != configuration::defaults(&self.settings) {
            work.walk = Some(Walk::Reload);
        } else if before.gateway.apis != self.settings.gateway.apis {
            work.walk = work.walk.max(Some(Walk::Moved));
        }
        work.certificates |= before.tls != self.settings.tls;
        let issuers_changed = before.issuers != self.settings.issuers;
        if issuers_changed {
            self.configure_issuers();
        }
        tracing::info!(file = %file.display(), "configuration taken");
        self.status.count_success(self.clock.now().unix_s);
        publish(Change::Settings(Arc::new(self.settings.clone())));
        issuers_changed
    }

    /// What was read, with the parts that a restart would be needed for as they are in force.
    fn with_fixed(&self, mut settings: Settings) -> Settings {
        let (new, now) = (&mut settings.gateway, &self.settings.gateway);
        (new.http, new.https, new.workers) = (now.http, now.https, now.workers);
        new.data.clone_from(&now.data);
        settings.admin = self.settings.admin.clone();
        settings.access_log = self.settings.access_log.clone();
        settings.log = self.settings.log.clone();
        settings
    }
}

/// Every file that is followed and that no walk comes to, but references.
pub(super) fn singles(configuration: Option<&Path>, settings: &Settings) -> Vec<PathBuf> {
    let keys = settings.issuers.iter().filter_map(|issuer| match &issuer.keys {
        KeySource::JwksFile(file) | KeySource::Pem(file) => Some(file.clone()),
        KeySource::JwksUrl(_) | KeySource::Secret(_) => None,
    });
    let mut singles: Vec<PathBuf> = configuration.map(Path::to_owned).into_iter().collect();
    singles.extend(keys);
    singles.extend(certificate_files(settings));
    singles.extend(settings.upstream_tls.ca.iter().cloned());
    singles
}

fn certificate_files(settings: &Settings) -> Vec<PathBuf> {
    match settings.gateway.https {
        Some(_) => certificates::files(&settings.tls, &settings.gateway.data),
        None => Vec::new(),
    }
}

/// Where the problems of an issuer's keys are listed: two issuers may share a file.
fn issuer_key(name: &str) -> PathBuf {
    Path::new("issuer").join(name)
}
