//! Whose tokens are accepted, with which keys, and when to ask for keys again.
//!
//! Architecture invariant: no file, no socket, no clock: bytes and times are arguments. Keys that were
//! good stay until better ones come.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limits;
use jose::{Algorithm, KeySet};
use model::{Diagnostic, Issuer, IssuerSettings, KeySource, Severity};

const SECOND_US: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Issuers {
    list: Vec<Known>,
    /// The last one given to any issuer.
    revision: u64,
}

#[derive(Debug)]
struct Known {
    settings: IssuerSettings,
    current: Arc<Issuer>,
    /// What the current keys were read from.
    text: Option<Vec<u8>>,
    fetching: Fetching,
}

/// When the keys of an URL are fetched. Times in microseconds.
#[derive(Debug, Default)]
struct Fetching {
    /// None: under way, or not fetched at all.
    due_us: Option<u64>,
    under_way: bool,
    failures: u32,
    /// When an unknown `kid` last made us fetch.
    early_us: Option<u64>,
}

/// What new keys came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Offered {
    Taken,
    /// The same as before, or of an issuer that is no more.
    #[default]
    Unchanged,
    /// The former keys stay.
    Refused(String),
}

impl Issuers {
    /// Follows the configuration. Keys of an issuer whose source stays are kept.
    pub(crate) fn configure(&mut self, settings: &[IssuerSettings], now_us: u64) {
        let mut before = std::mem::take(&mut self.list);
        for wanted in settings {
            let same = before.iter().position(|known| known.settings.name == wanted.name);
            let known = match same.map(|index| before.swap_remove(index)) {
                Some(known) if known.settings == *wanted => known,
                Some(known) if known.settings.keys == wanted.keys => {
                    let keys = known.text.as_deref().and_then(|text| keys(wanted, text).ok());
                    self.known(wanted, keys.unwrap_or_default(), known.text, known.fetching)
                }
                Some(_) | None => {
                    self.known(wanted, KeySet::default(), None, Fetching::from(wanted, now_us))
                }
            };
            self.list.push(known);
        }
    }

    /// Offers what the source of `name` gave just now: `source` guards against an answer to an older
    /// configuration.
    pub(crate) fn offer(&mut self, name: &str, source: &KeySource, text: Vec<u8>) -> Offered {
        let Some(index) = self.position(name, source) else { return Offered::Unchanged };
        let Some(known) = self.list.get_mut(index) else { return Offered::Unchanged };
        if known.text.as_deref() == Some(&text) {
            return Offered::Unchanged;
        }
        let keys = match keys(&known.settings, &text) {
            Ok(keys) => keys,
            Err(problem) => return Offered::Refused(problem),
        };
        self.revision += 1;
        known.current = Arc::new(issuer(&known.settings, keys, self.revision));
        known.text = Some(text);
        Offered::Taken
    }

    /// A fetch has ended at `now_us`: says when the next one is.
    pub(crate) fn fetched(&mut self, name: &str, source: &KeySource, good: bool, now_us: u64) {
        let Some(index) = self.position(name, source) else { return };
        let Some(Known { fetching, .. }) = self.list.get_mut(index) else { return };
        fetching.under_way = false;
        fetching.failures = if good { 0 } else { fetching.failures.saturating_add(1) };
        let doubled = fetching.failures.saturating_sub(1).min(16);
        let wait_s = match fetching.failures {
            0 => limits::JWKS_REFRESH_S,
            _ => (limits::JWKS_RETRY_S_MIN << doubled).min(limits::JWKS_REFRESH_S),
        };
        fetching.due_us = Some(now_us.saturating_add(wait_s * SECOND_US));
    }

    /// A token named a key that the issuer doesn't have: fetches early, but not too often, and not
    /// while fetching fails anyway.
    pub(crate) fn unknown_kid(&mut self, name: &str, now_us: u64) {
        let Some(known) = self.list.iter_mut().find(|known| known.settings.name == name) else {
            return;
        };
        let fetching = &mut known.fetching;
        let pause_us = limits::JWKS_UNKNOWN_KID_S_MIN * SECOND_US;
        let earliest_us = fetching.early_us.map_or(now_us, |early_us| early_us + pause_us);
        let at_us = earliest_us.max(now_us);
        if fetching.failures == 0 && fetching.due_us.is_some_and(|due_us| at_us < due_us) {
            fetching.due_us = Some(at_us);
            fetching.early_us = Some(at_us);
        }
    }

    /// Fetches everything now.
    pub(crate) fn hurry(&mut self, now_us: u64) {
        for known in &mut self.list {
            known.fetching.due_us = known.fetching.due_us.map(|_| now_us);
        }
    }

    /// Names and sources to fetch at `now_us`. They count as under way from here on.
    pub(crate) fn take_due(&mut self, now_us: u64) -> Vec<(String, KeySource)> {
        let due = self.list.iter_mut().filter_map(|known| {
            known.fetching.due_us.take_if(|due_us| *due_us <= now_us)?;
            known.fetching.under_way = true;
            Some((known.settings.name.clone(), known.settings.keys.clone()))
        });
        due.collect()
    }

    /// Whether an answer is still to come.
    pub(crate) fn is_fetching(&self) -> bool {
        self.list.iter().any(|known| known.fetching.under_way)
    }

    /// When [`Issuers::take_due`] has something next.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.list.iter().filter_map(|known| known.fetching.due_us).min()
    }

    /// In the order of the configuration.
    pub(crate) fn current(&self) -> Vec<Arc<Issuer>> {
        self.list.iter().map(|known| Arc::clone(&known.current)).collect()
    }

    /// Names, sources and files of the issuers whose keys stand in files.
    pub(crate) fn files(&self) -> Vec<(String, KeySource, PathBuf)> {
        let files = self.list.iter().filter_map(|known| match &known.settings.keys {
            source @ (KeySource::JwksFile(file) | KeySource::Pem(file)) => {
                Some((known.settings.name.clone(), source.clone(), file.clone()))
            }
            KeySource::JwksUrl(_) | KeySource::Secret(_) => None,
        });
        files.collect()
    }

    /// Names, sources and values of the issuers with a shared secret.
    pub(crate) fn secrets(&self) -> Vec<(String, KeySource, Vec<u8>)> {
        let secrets = self.list.iter().filter_map(|known| match &known.settings.keys {
            source @ KeySource::Secret(secret) => {
                Some((known.settings.name.clone(), source.clone(), secret.clone()))
            }
            KeySource::JwksFile(_) | KeySource::Pem(_) | KeySource::JwksUrl(_) => None,
        });
        secrets.collect()
    }

    fn position(&self, name: &str, source: &KeySource) -> Option<usize> {
        let meant = |known: &Known| known.settings.name == name && known.settings.keys == *source;
        self.list.iter().position(meant)
    }

    fn known(
        &mut self,
        settings: &IssuerSettings,
        keys: KeySet,
        text: Option<Vec<u8>>,
        fetching: Fetching,
    ) -> Known {
        self.revision += 1;
        let current = Arc::new(issuer(settings, keys, self.revision));
        Known { settings: settings.clone(), current, text, fetching }
    }
}

impl Fetching {
    fn from(settings: &IssuerSettings, now_us: u64) -> Self {
        let due_us = match settings.keys {
            KeySource::JwksUrl(_) => Some(now_us),
            KeySource::JwksFile(_) | KeySource::Pem(_) | KeySource::Secret(_) => None,
        };
        Self { due_us, ..Self::default() }
    }
}

/// What stands on the status and in the log when keys cannot be had.
pub(crate) fn finding(name: &str, source: &KeySource, problem: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: place(name, source),
        place: None,
        message: format!("keys of issuer `{name}`: {problem}"),
        help: Some(
            "the last good keys stay in use; without any, its tokens are refused".to_owned(),
        ),
    }
}

/// Under what the problems of an issuer's keys are listed.
pub(crate) fn place(name: &str, source: &KeySource) -> PathBuf {
    match source {
        KeySource::JwksFile(file) | KeySource::Pem(file) => file.clone(),
        KeySource::JwksUrl(url) => PathBuf::from(url),
        KeySource::Secret(_) => Path::new("issuer").join(name),
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
    }
}

/// What is wrong with `text` as the keys of an issuer.
pub(crate) fn problem(settings: &IssuerSettings, text: &[u8]) -> Option<String> {
    keys(settings, text).err()
}

/// The keys in `text` that this issuer may use: a shared secret never verifies by the public keys'
/// algorithms, nor the other way round.
fn keys(settings: &IssuerSettings, text: &[u8]) -> Result<KeySet, String> {
    let (read, symmetric) = match &settings.keys {
        KeySource::JwksFile(_) | KeySource::JwksUrl(_) => (KeySet::from_jwks(text), false),
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
        return Err("no key that its algorithms can use".to_owned());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
