//! The issuers with their keys, and the schedule of fetching keys.
//!
//! Architecture invariant: no files, sockets or clock: bytes and times are arguments. Valid keys
//! stay in use until other valid ones replace them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use jose::{Algorithm, KeySet};
use model::{Diagnostic, Issuer, IssuerSettings, KeySource, Revoked, Severity};

use crate::fetch::is_fetched;
use crate::snapshots;

const SECOND_US: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Issuers {
    list: Vec<Entry>,
    /// The highest revision of any issuer.
    revision: u64,
}

#[derive(Debug)]
struct Entry {
    settings: IssuerSettings,
    current: Arc<Issuer>,
    /// The text of the current keys.
    text: Option<Vec<u8>>,
    fetching: Fetching,
}

/// The schedule of fetching the keys of a URL. Times are in microseconds.
#[derive(Debug, Default)]
struct Fetching {
    /// Time of the next fetch; `None` while one is in progress, or if keys are never fetched.
    due_us: Option<u64>,
    in_progress: bool,
    failures: u32,
    /// Time of the last fetch because of an unknown `kid`.
    early_us: Option<u64>,
}

/// The result of offering new keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Offer {
    Loaded,
    /// The keys are the same as before, or belong to an issuer that is no longer configured.
    #[default]
    Unchanged,
    /// The previous keys stay in use.
    Rejected(String),
}

impl Issuers {
    /// Applies the configuration. The keys of an issuer are kept if their source is the same.
    pub(crate) fn configure(&mut self, settings: &[IssuerSettings], now_us: u64) {
        let mut before = std::mem::take(&mut self.list);
        for wanted in settings {
            let same = before.iter().position(|entry| entry.settings.name == wanted.name);
            let entry = match same.map(|index| before.swap_remove(index)) {
                Some(entry) if entry.settings == *wanted => entry,
                Some(entry) if entry.settings.keys == wanted.keys => {
                    let keys = entry.text.as_deref().and_then(|text| keys(wanted, text).ok());
                    // Without a usable key the text is forgotten, so that the next offer reports why.
                    let text = entry.text.filter(|_| keys.is_some());
                    self.entry(wanted, keys.unwrap_or_default(), text, entry.fetching)
                }
                Some(_) | None => {
                    self.entry(wanted, KeySet::default(), None, Fetching::from(wanted, now_us))
                }
            };
            self.list.push(entry);
        }
    }

    /// Offers new keys for the issuer `name`. `source` detects results that belong to an older
    /// configuration.
    pub(crate) fn offer(&mut self, name: &str, source: &KeySource, text: Vec<u8>) -> Offer {
        let Some(index) = self.position(name, source) else { return Offer::Unchanged };
        let Some(entry) = self.list.get_mut(index) else { return Offer::Unchanged };
        if entry.text.as_deref() == Some(&text) {
            return Offer::Unchanged;
        }
        let keys = match keys(&entry.settings, &text) {
            Ok(keys) => keys,
            Err(problem) => return Offer::Rejected(problem),
        };
        self.revision += 1;
        let revoked = entry.current.revoked.clone();
        let current = issuer(&entry.settings, keys, self.revision);
        entry.current = Arc::new(Issuer { revoked, ..current });
        entry.text = Some(text);
        Offer::Loaded
    }

    /// Replaces the revoked tokens of the issuer `iss`. The revision stays the same, so that verified tokens need not
    /// be verified again; only revoked ones are rejected.
    pub(crate) fn revoke(&mut self, iss: &str, revoked: &Arc<Revoked>) {
        for entry in self.list.iter_mut().filter(|entry| entry.settings.iss == iss) {
            let revoked = Some(Arc::clone(revoked));
            entry.current = Arc::new(Issuer { revoked, ..Issuer::clone(&entry.current) });
        }
    }

    /// Schedules the next fetch after one that ended at `now_us`.
    pub(crate) fn fetched(&mut self, name: &str, source: &KeySource, succeeded: bool, now_us: u64) {
        let Some(index) = self.position(name, source) else { return };
        let Some(Entry { fetching, .. }) = self.list.get_mut(index) else { return };
        fetching.in_progress = false;
        fetching.failures = if succeeded { 0 } else { fetching.failures.saturating_add(1) };
        let doubled = fetching.failures.saturating_sub(1).min(16);
        let wait_s = match fetching.failures {
            0 => limits::JWKS_REFRESH_S,
            _ => (limits::JWKS_RETRY_S_MIN << doubled).min(limits::JWKS_REFRESH_S),
        };
        fetching.due_us = Some(now_us.saturating_add(wait_s * SECOND_US));
    }

    /// Schedules an early fetch because a token named an unknown key; not too often, and not while
    /// fetches fail. Returns whether one is due or in progress now.
    pub(crate) fn unknown_kid(&mut self, name: &str, now_us: u64) -> bool {
        let Some(entry) = self.list.iter_mut().find(|entry| entry.settings.name == name) else {
            return false;
        };
        let fetching = &mut entry.fetching;
        let pause_us = limits::JWKS_UNKNOWN_KID_S_MIN * SECOND_US;
        let earliest_us = fetching.early_us.map_or(now_us, |early_us| early_us + pause_us);
        let at_us = earliest_us.max(now_us);
        if fetching.failures == 0 && fetching.due_us.is_some_and(|due_us| at_us < due_us) {
            fetching.due_us = Some(at_us);
            fetching.early_us = Some(at_us);
        }
        fetching.in_progress || fetching.due_us.is_some_and(|due_us| due_us <= now_us)
    }

    /// Schedules all fetches for now.
    pub(crate) fn refresh_all(&mut self, now_us: u64) {
        for entry in &mut self.list {
            entry.fetching.due_us = entry.fetching.due_us.map(|_| now_us);
        }
    }

    /// Names and sources to fetch at `now_us`. From then on these fetches are in progress.
    pub(crate) fn pop_due(&mut self, now_us: u64) -> Vec<(String, KeySource)> {
        let due = self.list.iter_mut().filter_map(|entry| {
            entry.fetching.due_us.take_if(|due_us| *due_us <= now_us)?;
            entry.fetching.in_progress = true;
            Some((entry.settings.name.clone(), entry.settings.keys.clone()))
        });
        due.collect()
    }

    /// Whether a fetch is in progress.
    pub(crate) fn is_fetching(&self) -> bool {
        self.list.iter().any(|entry| entry.fetching.in_progress)
    }

    /// The time of the next fetch.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.list.iter().filter_map(|entry| entry.fetching.due_us).min()
    }

    /// The issuers in the order of the configuration.
    pub(crate) fn current(&self) -> Vec<Arc<Issuer>> {
        self.list.iter().map(|entry| Arc::clone(&entry.current)).collect()
    }

    /// Names, sources and files of the issuers whose keys are in files.
    pub(crate) fn files(&self) -> Vec<(String, KeySource, PathBuf)> {
        let files = self.list.iter().filter_map(|entry| match &entry.settings.keys {
            source @ (KeySource::JwksFile(file) | KeySource::Pem(file)) => {
                Some((entry.settings.name.clone(), source.clone(), file.clone()))
            }
            KeySource::JwksUrl(_)
            | KeySource::Discovery(_)
            | KeySource::Secret(_)
            | KeySource::Absent => None,
        });
        files.collect()
    }

    /// Names, sources and secrets of the issuers with a shared secret.
    pub(crate) fn secrets(&self) -> Vec<(String, KeySource, Vec<u8>)> {
        let secrets = self.list.iter().filter_map(|entry| match &entry.settings.keys {
            source @ KeySource::Secret(secret) => {
                Some((entry.settings.name.clone(), source.clone(), secret.clone()))
            }
            KeySource::JwksFile(_)
            | KeySource::Pem(_)
            | KeySource::JwksUrl(_)
            | KeySource::Discovery(_)
            | KeySource::Absent => None,
        });
        secrets.collect()
    }

    /// The names of issuers' keys in a snapshot, and their texts. Shared secrets are not included.
    pub(crate) fn texts(&self) -> Vec<(String, Vec<u8>)> {
        let entries = self.list.iter();
        let texts =
            entries.filter_map(|entry| Some((saved_as(&entry.settings)?, entry.text.clone()?)));
        texts.collect()
    }

    /// Names and sources of issuers whose keys were not read yet, and the names of the keys in a snapshot.
    pub(crate) fn keyless(&self) -> Vec<(String, KeySource, String)> {
        let entries = self.list.iter().filter(|entry| entry.text.is_none());
        let names = entries.filter_map(|Entry { settings, .. }| {
            Some((settings.name.clone(), settings.keys.clone(), saved_as(settings)?))
        });
        names.collect()
    }

    /// Whether there is an issuer of this name with this source.
    pub(crate) fn has(&self, name: &str, source: &KeySource) -> bool {
        self.position(name, source).is_some()
    }

    fn position(&self, name: &str, source: &KeySource) -> Option<usize> {
        let meant = |entry: &Entry| entry.settings.name == name && entry.settings.keys == *source;
        self.list.iter().position(meant)
    }

    fn entry(
        &mut self,
        settings: &IssuerSettings,
        keys: KeySet,
        text: Option<Vec<u8>>,
        fetching: Fetching,
    ) -> Entry {
        self.revision += 1;
        let current = Arc::new(issuer(settings, keys, self.revision));
        Entry { settings: settings.clone(), current, text, fetching }
    }
}

impl Fetching {
    fn from(settings: &IssuerSettings, now_us: u64) -> Self {
        let due_us = is_fetched(&settings.keys).then_some(now_us);
        Self { due_us, ..Self::default() }
    }
}

/// The diagnostic for keys that cannot be read.
pub(crate) fn diagnostic(name: &str, source: &KeySource, problem: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: place(name, source),
        place: None,
        message: format!("keys of issuer `{name}`: {problem}"),
        help: Some(
            "the last valid keys stay in use; without any, its tokens are rejected".to_owned(),
        ),
    }
}

/// The name of an issuer's keys in a snapshot, which depends on their source.
fn saved_as(settings: &IssuerSettings) -> Option<String> {
    let source = match &settings.keys {
        KeySource::Secret(_) | KeySource::Absent => return None,
        KeySource::JwksFile(file) | KeySource::Pem(file) => &snapshots::absolute(file),
        KeySource::JwksUrl(url) | KeySource::Discovery(url) => Path::new(url),
    };
    Some(format!("{}\n{}", settings.name, source.display()))
}

/// The file of the diagnostic.
pub(crate) fn place(name: &str, source: &KeySource) -> PathBuf {
    match source {
        KeySource::JwksFile(file) | KeySource::Pem(file) => file.clone(),
        KeySource::JwksUrl(url) | KeySource::Discovery(url) => PathBuf::from(url),
        KeySource::Secret(_) | KeySource::Absent => Path::new("issuer").join(name),
    }
}

fn issuer(settings: &IssuerSettings, keys: KeySet, revision: u64) -> Issuer {
    Issuer {
        name: settings.name.clone(),
        iss: settings.iss.clone(),
        revision,
        keys,
        audiences: settings.audiences.clone(),
        leeway_s: settings.leeway_s,
        padded_segments: settings.padded_segments,
        api_keys: settings.api_keys,
        internal_keys: settings.internal_keys,
        allow_unlimited: settings.allow_unlimited,
        introspection: settings.introspection.clone(),
        passwords: settings.passwords.clone(),
        revoked: None,
    }
}

/// The reason why `text` cannot be used as the keys of an issuer.
pub(crate) fn problem(settings: &IssuerSettings, text: &[u8]) -> Option<String> {
    keys(settings, text).err()
}

/// The keys in `text` that this issuer may use: a shared secret is never used with asymmetric
/// algorithms, nor a public key with symmetric ones.
fn keys(settings: &IssuerSettings, text: &[u8]) -> Result<KeySet, String> {
    let (read, symmetric) = match &settings.keys {
        KeySource::Absent => return Ok(KeySet::default()),
        KeySource::JwksFile(_) | KeySource::JwksUrl(_) | KeySource::Discovery(_) => {
            (KeySet::from_jwks(text), false)
        }
        KeySource::Pem(_) => (KeySet::from_pem(text), false),
        KeySource::Secret(_) => (KeySet::from_secret(text), true),
    };
    let keys = read.map_err(|error| error.to_string())?;
    let of_kind = |algorithm: &Algorithm| algorithm.is_symmetric() == symmetric;
    let wanted =
        if settings.algorithms.is_empty() { &Algorithm::ALL[..] } else { &settings.algorithms };
    let allowed: Vec<Algorithm> = wanted.iter().copied().filter(of_kind).collect();
    let keys = keys.restrict(&allowed);
    if keys.is_empty() {
        return Err("no key matches its algorithms".to_owned());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
